"""Words of context by kind of question, and the document of the first hit as context: what covers most at equal words.

A context is cut where its words end. A passage that is cut holds its answer with the chance that its share of words is;
so a context of any number of words covers each question by a number from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import context, measures
from bench.context import Asked
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.documents.readers import read_corpus
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.evaluate import cached_index

Array = npt.NDArray[Any]

SETS = ("squad4", "wikiqa", "docs", "codebase", "medquad", "policyqa")
KINDS = ("class", "certainty")  # of questions: by the question head, and by how sure the first place is
QUESTIONS, DEPTH = 300, 30  # of a set, drawn by chance; and hits
GRID = (*range(25, 525, 25), *range(550, 1050, 50))  # words of a context that are tried
MEANS = (150, 300, 600)  # words of a context on average
PLACES = (1, 3, 5, 10)
STRENGTH = np.geomspace(1e-5, 1e-1, 200)  # what a word costs, in coverage
NEAR, WORDS = 1, 300  # passages before and behind the first hit; words of the best of its document
BESIDE = {
    "document": "its whole document",
    "best of document": "hits of its document alone, first",
    "near": "its neighbours",
}
"""What may stand beside the first hit."""

FEW = 10  # questions of a kind without which nothing is said of it


def measure(which: str, data: str, folder: str | None, indices: str, limit: int) -> dict[str, Any]:
    """By question: its kinds, how much of the answer each number of words covers, and the document of the first hit."""
    models = Models.load(threads=1)
    if folder is None:
        passages, asked = context.SETS[which](Path(data))
        index = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    else:
        passages, asked = beir(Path(folder))
        index = cached_index(folder, indices, models.passage_encoder)
    retriever = HybridRetriever(index, models)
    rows = sorted(np.random.default_rng(0).permutation(len(asked))[:limit].tolist())
    classes = [label.label for label in models.questions.classify([asked[row][0] for row in rows])]
    store = Store(passages)
    found: dict[str, list[Any]] = {name: [] for name in ("covered", "places", "certainty", *BESIDE)}
    for row in rows:
        text, right, where = asked[row]
        ranked = retriever.search(text, DEPTH, where=where)
        hits = [hit.id for hit in ranked]
        found["certainty"].append(str(ranked[0].certainty))
        found["covered"].append([round(store.covered(hits, right, words), 4) for words in GRID])
        found["places"].append([float(any(name in right for name in hits[:place])) for place in PLACES])
        own, near = ([] if where else store.document(hits[0])), store.near(hits[0])  # within one there is no choice
        own_first = [*(name for name in hits if name in own), *(name for name in own if name not in hits)]
        for kind, ids, most in (("document", own, None), ("best of document", own_first, WORDS), ("near", near, None)):
            words = most or store.words(ids)
            both = (store.covered(ids, right, words), store.covered(hits, right, words))
            found[kind].append([words, *both] if len(ids) > 1 else None)
    return {"passages": len(passages), "questions": len(rows), "class": classes, **found}


def beir(folder: Path) -> tuple[list[Passage], list[Asked]]:
    """Passages and questions of a BEIR folder; of documents nothing is known."""
    dataset = load_dataset(folder)
    asked: list[Asked] = [(text, [*dataset.relevance[name]], None) for name, text in dataset.questions.items()]
    return list(read_corpus(folder / "corpus.jsonl")), asked


class Store:
    """Passages in their order, with their words and what is beside them."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.length = {item.id: len(item.text.split()) for item in passages}
        self.order = [item.id for item in passages]
        self.place = {name: place for place, name in enumerate(self.order)}
        self.documents: dict[str, list[str]] = {}
        self.of = {item.id: item.metadata.get("document") for item in passages}
        for name, document in self.of.items():
            if document is not None:
                self.documents.setdefault(document, []).append(name)

    def words(self, ids: Sequence[str]) -> int:
        """Words of some passages together."""
        return sum(self.length[name] for name in ids)

    def document(self, name: str) -> list[str]:
        """All passages of a passage's document."""
        return [name] if self.of[name] is None else self.documents[self.of[name]]

    def near(self, name: str) -> list[str]:
        """A passage and those beside it, of the same document where documents are known."""
        place = self.place[name]
        beside = self.order[max(place - NEAR, 0) : place + NEAR + 1]
        return [other for other in beside if self.of[other] == self.of[name]]

    def covered(self, ids: Sequence[str], right: Sequence[str], words: int) -> float:
        """How much of the best of the right passages stands in so many words of some passages, in order."""
        most, left = 0.0, words
        for name in ids:
            if left <= 0 or most == 1:
                break
            if name in right:
                most = max(most, min(left / self.length[name], 1.0))
            left -= self.length[name]
        return most


def compared(sets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Figures by kind, budgets by kind against one for all, and documents against next hits."""
    return {
        "by_kind": {
            by: {
                kind: places_of(sets, by, kind) for kind in sorted({kind for one in sets.values() for kind in one[by]})
            }
            for by in KINDS
        },
        "budgets": {
            by: {str(mean): {name: chosen(sets, name, by, mean) for name in sets} for mean in MEANS} for by in KINDS
        },
        "documents": {
            beside: {name: against_hits(one[beside]) for name, one in sets.items() if any(one[beside])}
            for beside in BESIDE
        },
    }


def places_of(sets: Mapping[str, Mapping[str, Any]], by: str, kind: str) -> dict[str, Any]:
    """Shares of a kind's questions whose answer is among the first passages: means over sets with enough of them."""
    masks = {name: np.array(one[by]) == kind for name, one in sets.items()}
    of_sets = [np.array(sets[name]["places"])[mine] for name, mine in masks.items() if mine.sum() >= FEW]
    means = np.mean([each.mean(axis=0) for each in of_sets], axis=0).round(4).tolist() if of_sets else []
    return {"questions": sum(map(len, of_sets)), "sets": len(of_sets), "shares": means}


def chosen(sets: Mapping[str, Mapping[str, Any]], name: str, by: str, mean: int) -> dict[str, Any]:
    """A set with budgets by kind that the other sets choose, and with its own choice, against one for all."""
    one, others = sets[name], {key: value for key, value in sets.items() if key != name}
    found: dict[str, Any] = {}
    for what, on in (("left out", others or sets), ("own", {name: one})):
        budgets = choose(on, by, mean)
        spent = np.array([budgets.get(kind, mean) for kind in one[by]], float)
        same, by_kind = at_words(one, np.full(len(spent), spent.mean())), at_words(one, spent)
        gain = measures.resamples(len(spent), 0) @ (by_kind - same) / len(spent)
        found[what] = {
            "budgets": budgets,
            "words": round(float(spent.mean()), 1),
            "one_for_all": round(float(same.mean()), 4),
            **measures.figure("gain", float((by_kind - same).mean()), gain),
        }
    return found


def choose(sets: Mapping[str, Mapping[str, Any]], by: str, mean: int) -> dict[str, int]:
    """Budgets that cover most at a mean number of words, each set counting the same; kinds that are rare have none."""
    curves: dict[str, Array] = {}
    shares: dict[str, float] = {}
    kinds = [kind for one in sets.values() for kind in one[by]]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) >= FEW}):
        masks = [np.array(one[by]) == kind for one in sets.values()]
        shares[kind] = float(np.mean([mine.mean() for mine in masks]))
        parts = zip(sets.values(), masks, strict=True)
        curves[kind] = np.mean([mine @ np.array(one["covered"]) / len(mine) for one, mine in parts], axis=0)
    best = dict.fromkeys(curves, mean)
    for cost in STRENGTH[::-1]:  # a word costs the same in every kind
        tried = {
            kind: GRID[int(np.argmax(curve - cost * shares[kind] * np.array(GRID)))] for kind, curve in curves.items()
        }
        if sum(shares[kind] * words for kind, words in tried.items()) > mean * sum(shares.values()):
            break
        best = tried
    return best


def at_words(one: Mapping[str, Any], words: Array) -> Array:
    """How much of each question's answer its own number of words covers."""
    return np.array([np.interp(some, GRID, row) for some, row in zip(words, one["covered"], strict=True)])


def against_hits(rows: Sequence[Sequence[float] | None]) -> dict[str, Any]:
    """Coverage by what stands beside the first hit, and by as many words of the hits."""
    words, beside, hits = np.array([row for row in rows if row is not None]).T
    gain = measures.resamples(len(words), 0) @ (beside - hits) / len(words)
    return {
        "questions": len(words),
        "words": round(float(words.mean()), 1),
        "beside": round(float(beside.mean()), 4),
        "hits": round(float(hits.mean()), 4),
        **measures.figure("gain", float((beside - hits).mean()), gain),
    }
