"""Heads of one's own at work: what they cost an index and a service, and what their labels bring a search.

MedQuAD's documents are on a disease each, and their sections are of a kind each: treatment, causes, outlook ... A head
learns the kinds of sections and questions of some documents. On others, a search is asked for a section: without the
head, with its label of the question as a boost of passages of that label, and as a filter. The weight of the boost is
chosen on documents of their own. The default's re-ranker was trained on this set, which favours it.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import labels, readme
from bench.steps import Bench
from datasets_io import read_jsonl
from semclass import (
    Encoding,
    Hit,
    HybridRetriever,
    Models,
    OnnxEncoder,
    Passage,
    TextClassifier,
    TextLabels,
    TextModel,
    build_index,
)
from semclass.core.types import DoubleArray
from semclass.encoders.onnx_encoder import for_passages
from semclass.encoders.sentences import Sentences
from semclass.heads.inputs import run_head
from semclass.heads.texts import classify_all
from semclass.index.ingest import IndexConfig, chunks
from semclass.index.labels import PROBABILITY
from semclass.index.passage_encoder import PassageEncoder, searchable

WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0)
DOCUMENTS = (100, 40, 80)  # to learn from, to choose the weight on, and to measure on
FEWEST = 5  # sections of a kind among those that are learnt from; rarer kinds are left out
DRAWS, DEPTH, FIRST = 2000, 10, 50  # FIRST: as many as the default re-ranks
READS = {"chosen": None, "pooled": ("pooled",)}  # views that a head reads: None lets cross-validation choose
HEADS = ("both", "sections")  # learnt from sections and their questions, and from sections alone


def run(bench: Bench) -> dict[str, Any]:
    """A step for what heads bring, one for how they read, and one for what they cost."""
    counts = (30, 5, 10) if bench.quick else DOCUMENTS
    kinds = bench.step("heads/kinds", "bench.heads:kinds", data=bench.data, documents=counts)
    read = bench.step("heads/readings", "bench.heads:readings", data=bench.data, documents=counts)
    read = {name: read[name] for name in READS}
    cost = bench.step("heads/cost", "bench.heads:cost", data=bench.data, limit=40 if bench.quick else 120)
    return {"kinds": kinds, "readings": read, "cost": cost}


@dataclass(frozen=True)
class Sections:
    """The sections of some documents."""

    passages: list[Passage]
    kinds: list[str]
    questions: list[str]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]], kinds: frozenset[str] | None = None) -> Sections:
        """Those of some kinds; all for None. Their headings would tell the kind, and are not there."""
        rows = [
            (Passage(f"{document['focus']}#{place}", section["answer"], {"title": document["focus"]}), section)
            for document in documents
            for place, section in enumerate(document["sections"])
            if section["answer"].strip() and (kinds is None or section["type"] in kinds)
        ]
        return cls([row[0] for row in rows], [row[1]["type"] for row in rows], [row[1]["question"] for row in rows])

    @property
    def texts(self) -> list[str]:
        """What a head reads of them."""
        return [searchable(passage) for passage in self.passages]

    def answering(self) -> list[frozenset[str]]:
        """Of each question the sections that answer it: those of its document and its kind."""
        keys = [(passage.metadata["title"], kind) for passage, kind in zip(self.passages, self.kinds, strict=True)]
        return [
            frozenset(passage.id for passage, other in zip(self.passages, keys, strict=True) if other == key)
            for key in keys
        ]


def split(data: str, documents: Sequence[int]) -> list[Sections]:
    """Sections to learn from, to choose the weight on, and to measure on, of kinds that the first have enough of."""
    rows = {row["focus"]: row for row in read_jsonl(Path(data) / "medquad" / "documents.jsonl.gz")}
    order = np.random.default_rng(0).permutation(sorted(rows))
    ends = np.cumsum(documents)
    parts = [[rows[name] for name in some] for some in np.split(order[: ends[-1]], ends[:-1])]
    counts = Counter(Sections.of(parts[0]).kinds)
    common = frozenset(kind for kind, count in counts.items() if count >= FEWEST)
    return [Sections.of(part, common) for part in parts]


def readings(data: str, documents: Sequence[int]) -> dict[str, dict[str, float]]:
    """Shares of right labels of sections that are read whole, as heads were trained, and as an index reads them."""
    learnt, _, tried = split(data, documents)
    encoder = OnnxEncoder.load()
    whole = labels.kept(sorted({*learnt.texts, *tried.texts}))
    items = Sentences.of([each.text for each in tried.passages], [each.metadata["title"] for each in tried.passages])
    read = for_passages(encoder).encode(items.texts, views=("pooled", "layers"))
    given = {name: items.view(name, read.rows(name)) for name in ("pooled", "layers")}
    encoding = Encoding(items.joined(read.terms, items.title_lengths(encoder)[0]), **given)
    found = {}
    for name, views in READS.items():
        with tempfile.TemporaryDirectory() as place:
            TextClassifier(whole, views=views).fit(learnt.texts, learnt.kinds).save(place)
            model = TextModel.load(place, encoder=whole)
        values = {
            "whole": model.predict_proba(tried.texts),
            "sentences": run_head(model.head, tried.texts, encoding),
        }
        found[name] = {key: accuracy(model, value, tried) for key, value in values.items()}
    return found


def accuracy(model: TextModel, probabilities: DoubleArray, tried: Sections) -> float:
    right = np.array(model.classes)[probabilities.argmax(axis=1)] == np.array(tried.kinds)
    return round(float(right.mean()), 4)


def kinds(data: str, documents: Sequence[int]) -> dict[str, Any]:
    """How often heads are right, and the rankings without them, boosted and filtered by them."""
    learnt, chosen, tried = split(data, documents)
    encoder = OnnxEncoder.load()
    read = labels.kept(sorted({text for part in (learnt, chosen, tried) for text in (*part.texts, *part.questions)}))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        TextClassifier(read).fit([*learnt.texts, *learnt.questions], learnt.kinds * 2).save(folder / "both")
        TextClassifier(read).fit(learnt.texts, learnt.kinds).save(folder / "sections")
        models = Models.load(encoder=encoder, heads={name: folder / name for name in HEADS})
        heads = {name: replace(model, encoder=read) for name, model in models.heads.items()}
        retrievers = {}
        for name, part in (("chosen", chosen), ("tried", tried)):
            built = build_index(folder / name, part.passages, passage_encoder=models.passage_encoder, workers=1)
            retrievers[name] = HybridRetriever(built, models)
        return {
            "documents": list(documents),
            "sections": [len(part.passages) for part in (learnt, chosen, tried)],
            "kinds": sorted({*tried.kinds}),
            "heads": {
                name: {
                    "sections": accuracy(model, model.predict_proba(tried.texts), tried),
                    "questions": accuracy(model, model.predict_proba(tried.questions), tried),
                }
                for name, model in heads.items()
            },
            "rankings": rankings(retrievers, heads, chosen, tried),
        }


def rankings(
    retrievers: Mapping[str, HybridRetriever], heads: Mapping[str, TextModel], chosen: Sections, tried: Sections
) -> list[dict[str, Any]]:
    """Figures of each way to search, with the interval of its difference from the default."""
    candidates = {name: retrievers[name].search_many(part.questions, FIRST) for name, part in _named(chosen, tried)}
    base = values(tried, candidates["tried"])
    found = [figures("default", base, base, tried)]
    for name, model in heads.items():
        asked = {part: model.classify(some.questions) for part, some in _named(chosen, tried)}
        means = [
            values(chosen, boosted(candidates["chosen"], asked["chosen"], name, weight))[:, 0].mean()
            for weight in WEIGHTS
        ]
        weight = WEIGHTS[int(np.argmax(means))]
        ways = {
            "boost": boosted(candidates["tried"], asked["tried"], name, weight),
            "filter": filtered(retrievers["tried"], tried, asked["tried"], name),
        }
        for way, hits in ways.items():
            row = figures(way, values(tried, hits), base, tried)
            found.append({**row, "head": name, **({"weight": weight} if way == "boost" else {})})
    return found


def _named(chosen: Sections, tried: Sections) -> tuple[tuple[str, Sections], ...]:
    return ("chosen", chosen), ("tried", tried)


def boosted(found: Sequence[Sequence[Hit]], asked: Sequence[TextLabels], name: str, weight: float) -> list[list[Hit]]:
    """What a search with this boost gives, from all of its candidates (``semclass.ranking.boost``)."""

    def gain(hit: Hit, labels_of: TextLabels) -> float:
        return labels_of.probabilities.get(hit.metadata[name], 0.0) * float(hit.metadata[name + PROBABILITY])

    return [
        sorted(hits, key=lambda hit, one=one: -(hit.score + weight * gain(hit, one)))
        for hits, one in zip(found, asked, strict=True)
    ]


def filtered(retriever: HybridRetriever, part: Sections, asked: Sequence[TextLabels], name: str) -> list[Sequence[Hit]]:
    """What a search among the passages of the question's label gives."""
    found: list[Sequence[Hit]] = [()] * len(asked)
    for label in {one.label for one in asked}:
        rows = [row for row, one in enumerate(asked) if one.label == label]
        some = retriever.search_many([part.questions[row] for row in rows], DEPTH, where={name: label})
        for row, hits in zip(rows, some, strict=True):
            found[row] = hits
    return found


def values(part: Sections, found: Sequence[Sequence[Hit]]) -> np.ndarray:
    """nDCG@10 and whether the first hit answers, of each question: (n, 2)."""
    rows = []
    for hits, right in zip(found, part.answering(), strict=True):
        ids = [hit.id for hit in hits[:DEPTH]]
        rows.append((ndcg(ids, right), float(bool(ids) and ids[0] in right)))
    return np.array(rows)


def ndcg(ids: Sequence[str], right: frozenset[str]) -> float:
    gains = 1 / np.log2(np.arange(2, DEPTH + 2))
    return float(gains[[place for place, name in enumerate(ids) if name in right]].sum() / gains[: len(right)].sum())


def figures(way: str, found: np.ndarray, base: np.ndarray, part: Sections) -> dict[str, Any]:
    """Means, and the difference from the default with its 95 % interval over documents, drawn with replacement."""
    names = [passage.metadata["title"] for passage in part.passages]
    groups = [np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)]
    sums = np.array([(found - base)[rows, 0].sum() for rows in groups])
    sizes = np.array(list(map(len, groups)))
    draws = np.random.default_rng(0).integers(0, len(groups), (DRAWS, len(groups)))
    ends = np.percentile(sums[draws].sum(axis=1) / sizes[draws].sum(axis=1), [2.5, 97.5])
    return {
        "way": way,
        "ndcg@10": round(float(found[:, 0].mean()), 4),
        "first": round(float(found[:, 1].mean()), 4),
        "difference": round(float((found - base)[:, 0].mean()), 4),
        "difference_ci": np.round(ends, 4).tolist(),
    }


def cost(data: str, limit: int) -> dict[str, float]:
    """Milliseconds of the processor on one thread: of a passage that is indexed, and of a message that is classified."""
    texts, intents = labels.read(Path(data), "clinc150", "train", 20)
    tones = ["long" if len(text) > 40 else "short" for text in texts]  # any second head will do
    passages = [
        Passage(row["_id"], row["text"]) for row in read_jsonl(Path(data) / "beir" / "squad4" / "corpus.jsonl")
    ][:limit]
    encoder = OnnxEncoder.load()
    with tempfile.TemporaryDirectory() as place:
        for name, given in (("intent", intents), ("tone", tones)):
            TextClassifier(encoder).fit(texts[:600], given[:600]).save(Path(place) / name)
        heads = {name: TextModel.load(Path(place) / name, encoder=encoder) for name in ("intent", "tone")}
    one = {"intent": heads["intent"]}
    messages = texts[600 : 600 + limit]
    found = {}
    for name, some in (("none", {}), ("one", one), ("two", heads)):
        config = IndexConfig.of(PassageEncoder.load(encoder=encoder, heads=some), "cosine", None)
        found[f"passage_{name}"] = processor(lambda config=config: [config.read(part)[0] for part in chunks(passages)])
    ways: dict[str, Callable[[str], object]] = {
        "message_one": lambda text: classify_all(one, [text]),
        "message_two": lambda text: classify_all(heads, [text]),
        "message_two_apart": lambda text: [model.classify([text]) for model in heads.values()],
    }
    for name, call in ways.items():
        found[name] = processor(lambda call=call: [call(text) for text in messages])
    return {name: round(seconds * 1000 / limit, 2) for name, seconds in found.items()}


def processor(job: Callable[[], object]) -> float:
    """Seconds of the processor that a job takes: the better of two times."""
    took = []
    for _ in range(2):
        begun = time.process_time()
        job()
        took.append(time.process_time() - begun)
    return min(took)


def table(found: Mapping[str, Any]) -> str:
    """What labels bring a search."""
    rows = []
    for row in found["heads"]["kinds"]["rankings"]:
        low, high = row["difference_ci"]
        name = row["way"] if "head" not in row else f"{row['way']}, head learnt from {_LEARNT[row['head']]}"
        name += f", weight {row['weight']:g}" if "weight" in row else ""
        effect = "" if row["way"] == "default" else f"{row['difference']:+.3f} ({low:+.3f} to {high:+.3f})"
        rows.append((name, f"{row['ndcg@10']:.3f}", f"{row['first']:.1%}", effect))
    return readme.markdown(("search", "nDCG@10", "first hit answers", "against the default"), rows)


_LEARNT = {"both": "sections and questions", "sections": "sections"}


def table_of_heads(found: Mapping[str, Any]) -> str:
    """How often the heads are right."""
    heads = found["heads"]["kinds"]["heads"]
    rows = [(_LEARNT[name], *(f"{row[key]:.1%}" for key in ("sections", "questions"))) for name, row in heads.items()]
    return readme.markdown(("head learnt from", "sections", "questions"), rows)


def table_of_readings(found: Mapping[str, Any]) -> str:
    """Heads on sections that are read whole, and as an index reads them."""
    shown = {"chosen": "what cross-validation chose", "pooled": "`pooled` alone, as with few labels"}
    rows = [
        (shown[name], f"{row['whole']:.1%}", f"{row['sentences']:.1%}")
        for name, row in found["heads"]["readings"].items()
    ]
    return readme.markdown(("the head reads", "sections, read whole", "the mean of their sentences"), rows)


def table_of_cost(found: Mapping[str, Any]) -> str:
    """Processor time on one thread."""
    cost = found["heads"]["cost"]
    rows = [
        ("index a passage", *(f"{cost[f'passage_{name}']:.1f}" for name in ("none", "one", "two")), "-"),
        ("classify a message", "-", *(f"{cost[f'message_{name}']:.1f}" for name in ("one", "two", "two_apart"))),
    ]
    return readme.markdown(("ms", "no head", "one head", "two heads", "two heads, two requests"), rows)


TABLES = {"": table, "heads": table_of_heads, "readings": table_of_readings, "cost": table_of_cost}
