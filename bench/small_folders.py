"""Whether a search of few passages puts the right one first, and says how certain it is.

    python -m bench small_folders --data DATA    # the folders for choosing, and descriptions of problems
    python -m bench.small_folders --data DATA    # the folders that confirm; every look is written down

Ten folders of 15 passages, written for this project, each with 28 questions that they answer; five are for choosing and
five for confirming. They are asked as they are, together (75 passages), and among passages of ``beir/handbook`` (1,000).
Beside them stand 20 descriptions of a problem, alone and behind each of 12 endings without content words, in an index of
the passages that help and 20 others.

``contrast`` of the data holds questions with an answer and five passages that only resemble one. They are re-ranked with
the answers of four other questions, as the answer shares the fewest words with its own.

``small`` of the data holds folders of 1 to 10 entries and, in each of four sentences, codes that are permutations. A folder
is asked alone, and all as one index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import provenance, readme
from bench.steps import Bench
from datasets_io import read_jsonl
from semclass import Hit, HybridRetriever, Models, Passage, Reranker
from semclass.documents.readers import read_passages
from semclass.ranking.methods import CERTAINTIES, DEFAULT

QUESTIONS = Path(__file__).parent / "questions"
LARGEST = 1000  # passages of the largest index
METHODS = (DEFAULT, "convex", "bm25")
FURTHER = (1, 19, 37, 55)  # distances of the items of `contrast` whose answers are ranked, too
BY_WEIGHTS = {DEFAULT: None, "convex": {"evidence": 0.0}, "bm25": {"evidence": 0.0, "alpha": 0.0, "sparse": 0.0}}
START = 40  # characters of an entry that its passage holds

ENDINGS = (
    "What is the best way?", "What is wrong here?", "What is the reason?", "What is the cause and the cure?",
    "What should I do?", "Any ideas?", "How can I fix this?", "What would be a good solution?", "Why does this happen?",
    "What can be done about it?", "Is there an easy remedy?", "Can somebody tell me what the problem might be?",
)  # fmt: skip


def run(bench: Bench) -> dict[str, Any]:
    most = 100 if bench.quick else LARGEST
    sizes = bench.step("small_folders/dev", "bench.small_folders:folders", data=bench.data, split="dev", largest=most)
    problems = bench.step("small_folders/problems", "bench.small_folders:problems")
    entries = bench.step("small_folders/entries", "bench.small_folders:entries", data=bench.data)
    what = {"what": "search few passages, written for this project"}
    return {"task": what, "sizes": sizes["sizes"], **problems, **entries}


def passages_of(folder: Mapping[str, Any]) -> list[Passage]:
    return [
        Passage(f"{folder['name']}/{one['id']}", one["text"], {"title": one["title"]} if one["title"] else {})
        for one in folder["passages"]
    ]


def measure(retriever: HybridRetriever, folders: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Which questions of some folders find their passage first, and how certain the search says it is."""
    rows = [(folder["name"], row) for folder in folders for row in folder["questions"]]
    asked = [row["question"] for _, row in rows]
    found: dict[str, list[Any]] = {"certainty": [one.certainty for one in retriever.search_many(asked, 1)]}
    for method in METHODS:
        found[method] = [
            bool({hit.id for hit in hits} & {f"{name}/{answer}" for answer in row["answers"]})
            for hits, (name, row) in zip(retriever.search_many(asked, 1, method=method), rows, strict=True)
        ]
    return found


def folders(data: str, split: str, largest: int) -> dict[str, Any]:
    """By number of passages: shares that are right first, and right by word of certainty."""
    models, every = Models.load(threads=1), list(read_jsonl(QUESTIONS / "small_folders.jsonl"))
    chosen = [folder for folder in every if folder["split"] == split]
    together = [passage for folder in chosen for passage in passages_of(folder)]
    corpus = read_jsonl(Path(data) / "beir" / "handbook" / "corpus.jsonl")
    filling = [Passage(row["_id"], row["text"], {"title": row["title"]} if row.get("title") else {}) for row in corpus]
    opened = partial(HybridRetriever.from_passages, models=models)
    alone = [measure(opened(passages_of(one)), [one]) for one in chosen]
    found = {
        len(together) // len(chosen): {key: [value for one in alone for value in one[key]] for key in alone[0]},
        **{
            len(passages): measure(opened(passages), chosen)
            for passages in (together, [*together, *filling[: largest - len(together)]])
        },
    }
    return {"sizes": {str(size): shares(one) for size, one in found.items()}}


def shares(found: Mapping[str, list[Any]]) -> dict[str, Any]:
    right, words = np.array(found[DEFAULT]), np.array(found["certainty"])
    return {
        "right": {method: float(np.mean(found[method])) for method in METHODS},
        "words": {word: [int(right[words == word].sum()), int((words == word).sum())] for word in CERTAINTIES},
    }


def problems() -> dict[str, dict[str, int]]:
    """How many problems find their passage first, by ending."""
    asked, general = (list(read_jsonl(QUESTIONS / f"{name}.jsonl")) for name in ("problems", "general"))
    texts = [*(row["answer"] for row in asked), *(row["text"] for row in general)]
    retriever = HybridRetriever.from_passages(texts, models=Models.load(threads=1))
    found = {}
    for ending in ("", *ENDINGS):
        results = retriever.search_many([f"{row['problem']} {ending}".strip() for row in asked], k=1)
        found[ending or "alone"] = sum(hits[0].id == str(number) for number, hits in enumerate(results))
    return {"problems": found}


def entries(data: str) -> dict[str, dict[str, Any]]:
    """How many questions find their entry first, by method: in each folder, in all as one, and among codes."""
    folder, models = Path(data) / "small", Models.load(threads=1)
    files = [path for path in sorted(folder.glob("*.json")) if path.stem != "codes"]
    asked = [[(one["question"], one["right"]) for one in json.loads(path.read_text("utf-8"))] for path in files]
    texts = [read_passages(folder / path.stem) for path in files]
    together = [replace(one, id=str(place)) for place, one in enumerate(chain.from_iterable(texts))]
    forms = json.loads((folder / "codes.json").read_text("utf-8"))
    codes = [[(form["ask"].format(code), ["", form["form"].format(code)]) for code in form["codes"]] for form in forms]
    sentences = [[Passage(text, text) for _, (_, text) in some] for some in codes]
    kinds = {
        "each folder": (texts, asked),
        "all as one": ([together], [[*chain.from_iterable(asked)]]),
        "codes": (sentences, codes),
    }
    found: dict[str, dict[str, int]] = {}
    for kind, (passages, questions) in kinds.items():
        found[kind] = {"questions": sum(map(len, questions)), **dict.fromkeys(METHODS, 0)}
        for some, rows in zip(passages, questions, strict=True):
            retriever = HybridRetriever.from_passages(some, models=models)
            for method in METHODS:
                results = retriever.search_many([text for text, _ in rows], 1, method=method)
                right = [any(holds(hit, row) for hit in hits) for hits, (_, row) in zip(results, rows, strict=True)]
                found[kind][method] += sum(right)
    return {"entries": {**found, "answers among what resembles one": resembling(data)}}


def resembling(data: str) -> dict[str, int]:
    """How many questions of ``contrast`` have their answer first, re-ranked by each method."""
    items = list(read_jsonl(Path(data) / "contrast" / "dev.jsonl"))
    answers, reranker = [item["answer"] for item in items], Reranker(Models.load(threads=1))
    given = [
        [answers[place], *item["distractors"].values(), *(answers[(place + step) % len(items)] for step in FURTHER)]
        for place, item in enumerate(items)
    ]
    found = {"questions": len(items)}
    for method, weights in BY_WEIGHTS.items():
        results = reranker.rerank_many([item["question"] for item in items], given, k=1, weights=weights)
        found[method] = sum(hits[0].id == "0" for hits in results)
    return found


def holds(hit: Hit, right: Sequence[str]) -> bool:
    """Whether a passage holds the beginning of an entry's text or, for a table, is below its heading."""
    heading, body = right
    beginning = " ".join(body.split())[:START]
    return hit.metadata.get("heading") == heading if body.startswith("|") else beginning in " ".join(hit.text.split())


def entries_table(found: Mapping[str, Any]) -> str:
    rows = [
        (kind, str(row["questions"]), *(readme.number(row.get(name)) for name in METHODS))
        for kind, row in found["small_folders"]["entries"].items()
    ]
    return readme.markdown(("right first", "questions", *METHODS), rows)


def table(found: Mapping[str, Any]) -> str:
    rows = [
        (
            size,
            *(f"{one['right'][method]:.0%}" for method in METHODS),
            *("{} of {}".format(*one["words"][word]) for word in CERTAINTIES),
        )
        for size, one in sorted(found["small_folders"]["sizes"].items(), key=lambda item: int(item[0]))
    ]
    first = (f"right first, `{method}`" for method in METHODS)
    return readme.markdown(("passages", *first, *(f"{word}: right" for word in CERTAINTIES)), rows)


def problems_table(found: Mapping[str, Any]) -> str:
    rows = [(ending, str(count)) for ending, count in found["small_folders"]["problems"].items()]
    return readme.markdown(("20 problems, and what is asked in the end", "own passage first"), rows)


TABLES = {"": table, "problems": problems_table, "entries": entries_table}


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
def main(data: Path) -> None:
    """Print what the confirming folders give, and write the look down."""
    found = folders(str(data), "confirm", LARGEST)
    click.echo(table({"small_folders": found}))
    provenance.log("small_folders", found["sizes"])


if __name__ == "__main__":
    main(prog_name="python -m bench.small_folders")
