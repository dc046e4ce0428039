"""Words for people: how often a first hit is right that is called strong, likely or weak, on text of other domains.

The bounds of the words are chosen on sets of many domains, each left out in turn. Questions of the other sets, which a
corpus cannot answer, count as well: their first hits ought to be called weak.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import readme
from bench.retrieval import DEFAULTS
from bench.retrieval_systems import drawn, open_retriever
from bench.steps import Bench
from datasets_io import read_jsonl, read_tsv
from semclass import HybridRetriever, Models, Reranker
from semclass.evaluation.dataset import load_dataset
from semclass.index.candidates import Candidates
from semclass.ranking.certainty import BOUNDS, CERTAINTIES, MAX_BEHIND, standing
from semclass.ranking.methods import DEFAULT, METHODS
from semclass.ranking.reranker import check_passages

Array = npt.NDArray[Any]

STRONG, LIKELY, MISSED = 0.85, 0.5, 0.15
"""Least precision of the first two words; and the most of the right first hits, and of what is not weak of foreign ones."""

UNJUDGED = "cranfield"
"""Its surest first hits look like the papers that its questions came from, which are not judged."""

TOGETHER = {"squad4": "squad sentences", "squad sentences": "squad4"}  # of the same articles
GRID = {
    "strong": np.arange(0.3, 1.01, 0.05).round(2).tolist(),
    "likely": [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1],
    "near": [0.35, 0.4, 0.45, 0.5],
    "relevance": [0.01, 0.02, 0.04, 0.08],
}
USE = 0.01  # what the share that is called strong counts, beside the shortfalls
FOREIGN = 25  # questions of each other set


def run(bench: Bench) -> dict[str, Any]:
    """Where the first hits of every set stand, and the words that the bounds of the others give them."""
    sets = ["contrast", "docs"] if bench.quick else [*DEFAULTS, *STRINGS]
    jobs = {
        name: partial(
            bench.step, f"words, {name}", "bench.words:measure", source=name, data=bench.data, cache=bench.indices,
            folder=None if name in STRINGS else bench.beir(name),
        )
        for name in sets
    }  # fmt: skip
    first = {
        name: {key: np.array(values) for key, values in one.items() if key != "peak_mb"}
        for name, one in bench.side_by_side(jobs).items()
    }
    counted = [name for name in sets if name != UNJUDGED]
    tried = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    missed = {name: np.array([shortfall(figures(first[name], bounds)) for bounds in tried]) for name in counted}
    chosen = {
        left: tried[sum(missed[name] for name in counted if name not in (left, TOGETHER.get(left))).argmin()]
        for left in ("none", *counted)
    }
    return {
        "task": {"what": "how sure is the first place, in a word?", "targets": [STRONG, LIKELY, MISSED]},
        "chosen": chosen,
        "shipped": {name: figures(one, BOUNDS) for name, one in first.items()},
        "left_out": {name: figures(first[name], chosen[name]) for name in counted},
    }


# -- where first hits stand -----------------------------------------------------------------------------------------------


def measure(source: str, data: str, cache: str, folder: str | None) -> dict[str, Any]:
    """Where each first hit stands, and whether it is right; those of foreign questions as ``foreign_...``."""
    models = Models.load(threads=1)
    if folder is None:
        return told(_strings(source, Path(data), models))
    retriever = open_retriever(folder, cache, models)
    dataset = load_dataset(folder)
    own = told(_searched(retriever, list(dataset.questions.values()), list(dataset.relevance.values())))
    others = (drawn(load_dataset(Path(data) / "beir" / name), FOREIGN) for name in DEFAULTS if name != source)
    strangers = [text for other in others for text in other.questions.values()]
    foreign = told(_searched(retriever, strangers, [{}] * len(strangers)))
    return {**own, **{f"foreign_{key}": values for key, values in foreign.items()}}


def told(ranked: Iterator[tuple[Candidates, Array, bool]]) -> dict[str, list[Any]]:
    """What the words go by, of each ranking that has two places."""
    rows: dict[str, list[Any]] = {"lead": [], "behind": [], "near": [], "relevance": [], "right": []}
    for candidates, features, right in ranked:
        if len(candidates) > 1:
            relevance = candidates.components["relevance"]
            first = standing(candidates.places, candidates.score, candidates.dense, relevance, features)
            for key, value in {**first, "right": right}.items():
                rows[key].append(value)
    return rows


def _searched(
    retriever: HybridRetriever, questions: Sequence[str], relevance: Sequence[Mapping[str, int]]
) -> Iterator[tuple[Candidates, Array, bool]]:
    how, models = METHODS[DEFAULT], retriever.models
    for query, relevant in zip(retriever.encode(questions), relevance, strict=True):
        found = retriever.candidates(query, how.candidates, how)
        ranked = how.order(models, query, found, models.weights)
        (passage,) = retriever.index.passages(found.rows[ranked.places[:1]])
        yield ranked, models.pairs.judge(query, found)[0], relevant.get(passage.id, 0) > 0


def _strings(name: str, data: Path, models: Models) -> Iterator[tuple[Candidates, Array, bool]]:
    reranker, how = Reranker(models), METHODS[DEFAULT]
    needed = {"classes": False, "tokens": True}
    for question, texts, right in STRINGS[name](data):
        (query,) = models.encode([question], **needed)
        items = [check_passages(texts, "passages")]
        ((found,), _) = reranker.candidates([query], items, how, models.weights, needed)
        ranked = how.order(models, query, found, models.weights)
        yield ranked, models.pairs.judge(query, found)[0], right[ranked.places[0]]


# -- bounds ---------------------------------------------------------------------------------------------------------------


def masks(first: Mapping[str, Array], bounds: Mapping[str, float], prefix: str = "") -> dict[str, Array]:
    """Which first hits each word is said of: :func:`semclass.ranking.certainty.certainty`, of all at once."""
    lead, behind, near, relevance = (first[prefix + key] for key in ("lead", "behind", "near", "relevance"))
    weak = (lead < bounds["likely"]) | ((near < bounds["near"]) & (relevance < bounds["relevance"]))
    strong = ~weak & (lead >= bounds["strong"]) & (behind <= MAX_BEHIND)
    return dict(zip(CERTAINTIES, (strong, ~weak & ~strong, weak), strict=True))


def figures(first: Mapping[str, Array], bounds: Mapping[str, float]) -> dict[str, Any]:
    """How often each word is said and right, and what of the right first hits is called weak."""
    right, said = first["right"], masks(first, bounds)
    words = {word: {"said": int(some.sum()), "right": int((some & right).sum())} for word, some in said.items()}
    foreign = len(first.get("foreign_lead", ()))
    return {
        "questions": len(right),
        "words": words,
        "missed": round(words["weak"]["right"] / max(int(right.sum()), 1), 4),
        "foreign": round(1 - float(masks(first, bounds, "foreign_")["weak"].mean()), 4) if foreign else None,
    }


def shortfall(found: Mapping[str, Any]) -> float:
    """By how much a set misses the targets, in shares of its questions, less a little for what is called strong."""
    words, count = found["words"], found["questions"]
    lacking = (
        max(0.0, least * words[word]["said"] - words[word]["right"]) / count
        for word, least in zip(CERTAINTIES, (STRONG, LIKELY), strict=False)
    )
    over = (max(0.0, share - MISSED) for share in (found["missed"], found["foreign"] or 0.0))
    return sum(lacking) + sum(over) - USE * words["strong"]["said"] / count


# -- showing --------------------------------------------------------------------------------------------------------------


def table(found: Mapping[str, Any]) -> str:
    """Each set by the bounds that the other sets choose; what chooses nothing by those that ship."""
    results, rows = found["words"], []
    for name, shipped in results["shipped"].items():
        one = results["left_out"].get(name, shipped)
        right = sum(word["right"] for word in one["words"].values())
        said = (one["words"][word] for word in CERTAINTIES[:2])
        precise = (f"{word['right'] / max(word['said'], 1):.0%} of {word['said']:,}" for word in said)
        foreign = readme.NONE if one["foreign"] is None else f"{one['foreign']:.0%}"
        rows.append((name, f"{right / one['questions']:.0%}", *precise, f"{one['missed']:.0%}", foreign))
    head = ("strong: right", "likely: right", "right ones called weak", "no answer, yet not weak")
    return readme.markdown(("set", "first hits right", *head), rows)


TABLES = {"": table}


# -- questions, each with texts of which some answer ---------------------------------------------------------------------


KINDS = ("echo", "mention", "unknown", "wrong_type", "near")  # of what resembles an answer, and is none
OTHERS = (1, 19, 37, 55)  # how much further on the items are whose answers are ranked, too
ASKED, AROUND = 600, 5  # questions of squad sentences, drawn by chance, and sentences before and behind the answer

Asked = tuple[str, list[str], list[bool]]  # a question, texts, and which of them answer


def contrast_strings(data: Path) -> list[Asked]:
    """What is written to resemble each answer, the answer, and answers of four other items, shuffled."""
    rows, rng, found = read_jsonl(data / "contrast" / "dev.jsonl"), np.random.default_rng(0), []
    for place, row in enumerate(rows):
        others = (rows[(place + step) % len(rows)]["answer"] for step in OTHERS)
        texts = [row["answer"], *(row["distractors"][kind] for kind in KINDS), *others]
        order = rng.permutation(len(texts)).tolist()
        found.append((row["question"], [texts[at] for at in order], [at == 0 for at in order]))
    return found


def squad_strings(data: Path) -> list[Asked]:
    """Some questions with the sentences around the one that answers, in document order."""
    folder = data / "squad_sentences"
    texts = {row["_id"]: row["text"] for row in read_jsonl(folder / "dev.corpus.jsonl.gz")}
    asked, ids = read_jsonl(folder / "dev.queries.jsonl.gz"), list(texts)
    places = {name: place for place, name in enumerate(ids)}
    found = []
    for row in np.random.default_rng(1).permutation(len(asked))[:ASKED].tolist():
        answer = places[asked[row]["relevant"]]
        near = range(max(answer - AROUND, 0), min(answer + AROUND, len(ids)))
        found.append((asked[row]["text"], [texts[ids[place]] for place in near], [place == answer for place in near]))
    return found


def wikiqa_strings(data: Path) -> list[Asked]:
    """Questions with the sentences of an article, of which some answer and some do not."""
    rows: dict[str, list[tuple[str, bool]]] = {}
    for row in read_tsv(data / "wikiqa" / "dev.tsv.gz"):
        rows.setdefault(row["question"], []).append((row["sentence"], row["label"] == "1"))
    found = [(question, [text for text, _ in some], [right for _, right in some]) for question, some in rows.items()]
    return [item for item in found if len(set(item[2])) == 2]


STRINGS: Mapping[str, Callable[[Path], list[Asked]]] = {
    "contrast": contrast_strings,
    "squad sentences": squad_strings,
    "wikiqa": wikiqa_strings,
}
