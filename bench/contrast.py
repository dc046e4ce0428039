"""An answer among passages that resemble one: echo, mention, "unknown", another kind of fact, another thing's fact.

The answer shares the fewest words with its question, so each is ranked among answers of other items, too: what puts the
least overlap first does not win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import readme
from bench.steps import Bench
from datasets_io import read_jsonl, read_tsv
from semclass import HybridRetriever, Models, Passage, Reranker
from semclass.ranking.methods import DEFAULT

KINDS = ("echo", "mention", "unknown", "wrong_type", "near")
"""Kinds of distractors."""

ANSWER = "answer"
OTHERS = (1, 19, 37, 55)  # how much further on the items are whose answers are ranked, too
DEPTH, QUICK = 10, 16  # passages that a search gives; items of a quick run
WORDS = 150  # words of other matter before a question, at least

PLAIN = {"bm25": {"alpha": 0.0}, "dense": {"alpha": 1.0}, "convex": {}}
"""Methods that re-rank nothing, by the alpha of convex fusion that they are."""

UNMOVED = {"method": "entail-integrated-hard", "fusion": "convex"}
"""How a re-ranker gives the convex scores of passages as they are: with weight 0."""

SETTINGS = {
    "strings": "ten strings, re-ranked",
    "index": "an index of the ten, searched",
    "preamble": f"ten strings, {WORDS} words of other matter before the question",
    "all": "an index of all passages, searched",
}


@dataclass(frozen=True)
class Item:
    """A question, its answer and what resembles one."""

    id: str
    domain: str
    question: str
    passages: Mapping[str, Passage]  #: by kind, the answer first


def run(bench: Bench) -> dict[str, Any]:
    """Every setting by the default, by ``deep`` and by the plain rankings."""
    found = bench.step("contrast", "bench.contrast:measure", data=bench.data, limit=QUICK if bench.quick else None)
    bench.say(table({"contrast": found}))
    return found


def read_items(data: Path) -> list[Item]:
    items = []
    for row in read_jsonl(data / "contrast" / "dev.jsonl"):
        texts = {ANSWER: row["answer"], **{kind: row["distractors"][kind] for kind in KINDS}}
        passages = {kind: Passage(f"{row['id']}/{kind}", text) for kind, text in texts.items()}
        items.append(Item(row["id"], row["domain"], row["question"], passages))
    return items


def tens(items: Sequence[Item]) -> Iterator[list[Passage]]:
    """What each item's question is ranked over: its passages and answers of four other items, shuffled."""
    rng = np.random.default_rng(0)
    for place, item in enumerate(items):
        others = [items[(place + step) % len(items)].passages[ANSWER] for step in OTHERS]
        passages = [*item.passages.values(), *others]
        yield [passages[row] for row in rng.permutation(len(passages))]


def preambles(items: Sequence[Item]) -> Iterator[str]:
    """A text for each item: answers of items of other domains that ask nothing, until there are so many words."""
    rng = np.random.default_rng(0)
    for item in items:
        texts = [other.passages[ANSWER].text for other in items if other.domain != item.domain]
        texts = [texts[row] for row in rng.permutation(len(texts)) if "?" not in texts[row]]
        ends = np.cumsum([len(text.split()) for text in texts])
        yield " ".join(texts[: 1 + int(np.searchsorted(ends, WORDS))])


def measure(data: str, limit: int | None) -> dict[str, Any]:
    """Figures of each setting, by method."""
    items, models = read_items(Path(data))[:limit], Models.load(threads=1)
    reranker, ten = Reranker(models), list(tens(items))
    questions = [item.question for item in items]
    long = [f"{before} {question}" for before, question in zip(preambles(items), questions, strict=True)]
    every = [passage for item in items for passage in item.passages.values()]
    whole, *small = (HybridRetriever.from_passages(passages, models=models) for passages in (every, *ten))
    settings = {}
    for name in (DEFAULT, "deep", *PLAIN):
        rankings = {
            "strings": [reranked(reranker, text, some, name) for text, some in zip(questions, ten, strict=True)],
            "index": [searched(one, text, name) for one, text in zip(small, questions, strict=True)],
            "preamble": [reranked(reranker, text, some, name) for text, some in zip(long, ten, strict=True)],
            "all": [searched(whole, text, name) for text in questions],
        }
        for setting, ranking in rankings.items():
            settings.setdefault(setting, {})[name] = figures(items, ranking)
    return {
        "task": {
            "what": "put the answer before passages that resemble one",
            "items": len(items),
            "passages": len(every),
            "method": DEFAULT,
        },
        "settings": settings,
    }


def reranked(reranker: Reranker, question: str, passages: Sequence[Passage], method: str) -> list[str]:
    """Ids of strings as a method re-ranks them, best first."""
    texts = [passage.text for passage in passages]
    if method in PLAIN:
        hits = reranker.rerank(question, texts, weights={"entailment_hard": 0.0, **PLAIN[method]}, **UNMOVED)
    else:
        hits = reranker.rerank(question, texts, method=method)
    return [passages[hit.index].id for hit in hits]


def searched(retriever: HybridRetriever, question: str, method: str) -> list[str]:
    """Ids of the first ten passages of an index, best first."""
    return [hit.id for hit in retriever.search(question, method=method)]


def figures(items: Sequence[Item], rankings: Sequence[Sequence[str]]) -> dict[str, float]:
    """Shares of items whose answer is first, and is before each kind of distractor; and MRR@10."""
    places = [{name: place for place, name in enumerate(ranking)} for ranking in rankings]
    rank = {
        kind: np.array(
            [own.get(item.passages[kind].id, np.inf) for item, own in zip(items, places, strict=True)], np.float64
        )
        for kind in (ANSWER, *KINDS)
    }
    answer = rank[ANSWER]
    found = {
        "first": answer == 0,
        **{kind: answer < rank[kind] for kind in KINDS},
        "mrr@10": np.where(answer < DEPTH, 1 / (1 + answer), 0),
    }
    return {key: round(float(values.mean()), 4) for key, values in found.items()}


def table(found: Mapping[str, Any]) -> str:
    """Shares of items of each setting and method."""
    rows = [
        (SETTINGS[setting], f"`{method}`", *(f"{row[key]:.1%}" for key in ("first", *KINDS)), f"{row['mrr@10']:.3f}")
        for setting, methods in found["contrast"]["settings"].items()
        for method, row in methods.items()
    ]
    before = (f"before {kind.replace('_', ' ')}" for kind in KINDS)
    return readme.markdown(("passages", "method", "answer first", *before, "MRR@10"), rows)


TABLES = {"": table}


# -- other questions with texts that may answer them ---------------------------------------------------------------------


CONTRAST = "contrast"
ASKED, AROUND = 600, 5  # questions of squad sentences, drawn by chance, and sentences before and behind the answer

Asked = tuple[str, list[str], list[bool]]  # a question, texts, and which of them answer


def contrast_strings(data: Path) -> list[Asked]:
    """The ten strings of each contrast item."""
    items = read_items(data)
    return [
        (item.question, [passage.text for passage in ten], [passage is item.passages[ANSWER] for passage in ten])
        for item, ten in zip(items, tens(items), strict=True)
    ]


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
    CONTRAST: contrast_strings,
    "squad sentences": squad_strings,
    "wikiqa": wikiqa_strings,
}
