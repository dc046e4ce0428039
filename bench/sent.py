"""Two steps of the section ``cascade`` that ask no model, but what was recorded of one, or a stand-in of known accuracy.

A search sends the questions in which it is unsure of its first hit. And of a stream of texts the unsure ones are sent, and
the head is trained on the replies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import labels, readme
from bench.retrieval_systems import drawn, open_retriever
from datasets_io import read_jsonl
from semclass import Cascade, Reranker, TextClassifier
from semclass.evaluation.dataset import load_dataset
from semclass_llm.endpoint.client import Endpoint
from semclass_llm.prompted import FIRST, lead

Array = npt.NDArray[Any]

SEARCHED, QUESTIONS = "squad4", 1500  # the set whose search asks a model, and how many of its questions
SENT = (0.0, 0.1, 0.2, 0.5, 1.0)  # shares of them
DRAWS = 100  # of what a stand-in says

EXAMPLES = "10"  # of each intent that the head begins with
BATCHES, HELD_OUT = 5, 300  # of the texts that come then; and texts that the threshold is found on
ACCURACY, WANTED = 0.95, 0.93  # of the stand-in; and what is asked for

Judged = Sequence[Sequence[bool]]  # by question and hit


def first(values: Array, share: float) -> Array:
    """1 for the items with the smallest values, a share of all, 0 for others."""
    chosen = np.zeros(len(values))
    chosen[np.argsort(values, kind="stable")[: round(share * len(values))]] = 1
    return chosen


def right(head: Array, model: Array, values: Array, share: float) -> float:
    chosen = first(values, share)
    return round(float((chosen * model + (1 - chosen) * head).mean()), 4)


# -- a search -------------------------------------------------------------------------------------------------------------


def reranking(data: str, folder: str, cache: str, limit: int | None) -> dict[str, Any]:
    """How often the first hit is right, by share of the questions whose first hits a model judges."""
    pairs = read_jsonl(Path(data) / "qnli" / "validation.jsonl.gz")
    said = Counter((pair["label"] == "entailment", pair["flan_ul2"] == "entailment") for pair in pairs)
    yes = {true: said[true, True] / (said[true, True] + said[true, False]) for true in (True, False)}
    by_question = defaultdict(list)
    for pair in pairs:
        by_question[pair["question"]].append(pair)
    twice = [
        some for some in by_question.values() if {one["label"] for one in some} == {"entailment", "not_entailment"}
    ]
    twice = twice[:limit]
    reranked = Reranker.load().rerank_many(
        [some[0]["question"] for some in twice], [[one["sentence"] for one in some] for some in twice]
    )

    def judged(key: str) -> Judged:
        found = zip(twice, reranked, strict=True)
        return [[some[hit.index][key] == "entailment" for hit in hits] for some, hits in found]

    dataset, retriever = drawn(load_dataset(folder), limit or QUESTIONS), open_retriever(folder, cache)
    searched = retriever.search_many(list(dataset.questions.values()), FIRST)
    relevant = [dataset.relevance[name] for name in dataset.questions]
    truth = [[known.get(hit.id, 0) > 0 for hit in hits] for known, hits in zip(relevant, searched, strict=True)]
    rng = np.random.default_rng(0)
    draws = [[[rng.random() < yes[one] for one in row] for row in truth] for _ in range(DRAWS)]
    stand_in = f"stand-in: yes to {yes[True]:.1%} of the passages that answer, and to {yes[False]:.1%} of others"
    recorded = by_share(list(map(lead, reranked)), judged("label"), [judged("flan_ul2")])
    drawn_ = by_share(list(map(lead, searched)), truth, draws)
    return {
        "shares": SENT,
        "sets": {
            "QNLI, the two sentences of a question": {"model": "flan-ul2, recorded", **recorded},
            f"{SEARCHED}, first {FIRST} passages": {"model": stand_in, **drawn_},
        },
    }


def by_share(leads: Sequence[float], truth: Judged, draws: Sequence[Judged]) -> dict[str, Any]:
    """What is right in the first place, mean over draws of what a model says: hits with a yes come first."""
    before = np.array([row[0] for row in truth], float)
    after = np.mean([[row[int(np.argmax(yes))] for row, yes in zip(truth, one, strict=True)] for one in draws], axis=0)
    return {
        "questions": len(truth),
        "unsure": [right(before, after, np.array(leads), share) for share in SENT],
        "random": [round(float(before.mean() + share * (after - before).mean()), 4) for share in SENT],
    }


def reranking_table(found: Mapping[str, Any]) -> str:
    results, rows = found["cascade"]["reranking"], []
    for name, one in results["sets"].items():
        for order, shown in (("unsure", "least sure first"), ("random", "random")):
            cells = [f"{value:.1%}" for value in one[order]]
            rows.append((f"{name}; {one['model']}" if order == "unsure" else "", shown, *cells))
    return readme.markdown(("set; model", "sent", *(f"{share:.0%}" for share in results["shares"])), rows)


# -- a stream of texts ----------------------------------------------------------------------------------------------------


def stream(data: str, limit: int | None) -> dict[str, Any]:
    """What is sent of each batch to hold an accuracy, if the head is trained on the replies, and if it is not."""
    texts, names = labels.read(Path(data), "banking77", "train", 7 if limit else None)
    classes, rng = sorted(set(names)), np.random.default_rng(0)
    start = labels.draw(names, EXAMPLES, 0)
    rest = rng.permutation(np.setdiff1d(np.arange(len(texts)), start))
    held, batches = rest[:HELD_OUT].tolist(), np.array_split(rest[HELD_OUT:], BATCHES)
    replies = list(names)
    for row in np.flatnonzero(rng.random(len(names)) >= ACCURACY):
        replies[row] = classes[(classes.index(names[row]) + int(rng.integers(1, len(classes)))) % len(classes)]
    encoder = labels.kept(sorted({*texts, *labels.readings(classes)}))
    nobody, never = Endpoint("http://localhost", "nobody"), None
    told, trained = [], {row: names[row] for row in start}
    for batch in batches:
        head = TextClassifier(encoder).fit([texts[row] for row in trained], list(trained.values()))
        never = never or head
        figures: dict[str, Any] = {"examples": len(trained)}
        for name, one in (("trained", head), ("never", never)):
            plain = Cascade(one, nobody, accuracy=WANTED)
            cascade, _ = plain.calibrate(
                [texts[row] for row in held], [names[row] for row in held], model_accuracy=ACCURACY
            )
            decided = cascade.decide([texts[row] for row in batch])
            sent = np.array([found.sent for found in decided])
            alone = np.array([found.labels[0] == names[row] for found, row in zip(decided, batch, strict=True)])
            model = np.array([replies[row] == names[row] for row in batch])
            shares = {"alone": alone.mean(), "sent": sent.mean(), "right": np.where(sent, model, alone).mean()}
            figures[name] = {key: round(float(value), 4) for key, value in shares.items()}
            if one is head:
                new = {int(row): replies[row] for row in batch[sent]}
        trained |= new
        told.append({"texts": len(batch), **figures})
    return {"batches": told, "accuracy": ACCURACY, "wanted": WANTED, "held_out": HELD_OUT}


def stream_table(found: Mapping[str, Any]) -> str:
    rows = [
        (
            str(number), readme.number(one["texts"]), readme.number(one["examples"]),
            *(f"{one[head][key]:.1%}" for head in ("trained", "never") for key in ("alone", "sent", "right")),
        )
        for number, one in enumerate(found["cascade"]["stream"]["batches"], 1)
    ]  # fmt: skip
    never = (f"{name}, replies not trained on" for name in ("head alone", "sent", "right"))
    return readme.markdown(("batch", "texts", "labels trained on", "head alone", "sent", "right", *never), rows)
