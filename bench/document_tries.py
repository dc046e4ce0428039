"""What was tried so that the section that answers is first more often: its passages as evidence for one another.

Every try is measured on other questions first: on sections of a product's documentation, cut by paragraph, and on the
headings of the trees that are questions, which are then taken away from what is searched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import readme
from bench.documents import QUICK, Question, Source, is_right, questions_of, read, words
from bench.steps import Bench
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.core.errors import SemclassError
from semclass.documents.chunking import cut
from semclass.documents.readers import iter_passages
from semclass.evaluation.dataset import load_dataset
from semclass.index.build import build_index
from semclass.index.passage_encoder import title_of
from semclass.index.records import Query
from semclass.ranking.methods import METHODS
from semclass.scoring import bm25
from semclass.scoring.fusion import DEPTH, fused
from semclass.scoring.postings import count_terms

Array = npt.NDArray[Any]

CANDIDATES = 100  # in place of the default's
SHARES = {"sections": (0.3, 0.5), "documents": (0.0, 0.3)}  # of their mean vector score, and of their mean BM25
FIELD = 0.5  # weight of BM25 over headings alone
LEARNED = 0.05  # weight of the log-odds of ``learned``


@dataclass(frozen=True)
class Asked:
    """Passages, with their ``section`` and ``document`` in the metadata, and the sections that answer each question."""

    passages: list[Passage]
    questions: list[tuple[str, frozenset[str]]]


def of_docs(data: Path, _: Path) -> Asked:
    """Sections of a product's documentation, cut by paragraph."""
    folder = data / "beir" / "docs"
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    passages = [
        Passage(part.id, part.text, {"document": "docs", "section": row["_id"], "headings": [row["title"]]})
        for row in rows
        for part in cut(row["text"], row["_id"])
    ]
    dataset = load_dataset(folder)
    right = {
        name: frozenset(section for section, gain in found.items() if gain) for name, found in dataset.relevance.items()
    }
    return Asked(passages, [(text, right[name]) for name, text in dataset.questions.items()])


def of_tree(source: str, kind: str) -> Callable[[Path, Path], Asked]:
    """A documentation tree with the questions of a kind; headings that are asked are not searched."""

    def read_tree(_: Path, trees: Path) -> Asked:
        questions = [question for question in questions_of(source, quick=False) if question.kind == kind]
        hidden = {(one.document, tuple(words(one.heading))) for one in questions if kind == "faq"}
        passages, places = [], dict[str, list[Passage]]()
        for passage in iter_passages(trees / source):
            document, headings = passage.metadata["document"], passage.metadata.get("headings", [])
            section = json.dumps([document, headings])
            places.setdefault(section, []).append(passage)
            kept = [heading for heading in headings if (document, tuple(words(heading))) not in hidden]
            metadata = {"document": document, "section": section, "headings": kept}
            passages.append(Passage(passage.id, passage.text, metadata))

        def right(question: Question) -> frozenset[str]:
            return frozenset(section for section, held in places.items() if is_right(held[0], question))

        return Asked(passages, [(question.question, right(question)) for question in questions])

    return read_tree


SOURCES = [source.source for source in read(Source, "sources.tsv")]
SETS: Mapping[str, Mapping[str, Callable[[Path, Path], Asked]]] = {
    "docs, by paragraph": {"docs": of_docs},
    "headings asked, not searched": {f"faq {source}": of_tree(source, "faq") for source in SOURCES},
    "questions of the trees": {source: of_tree(source, "question") for source in SOURCES},
}


def tries(retriever: HybridRetriever, passages: list[Passage]) -> Iterator[tuple[str, Callable[[Query], Array]]]:
    """Ways to rank, by name: rows of the passages, best first, of a question."""
    models, default = retriever.models, METHODS["default"]
    alpha = retriever.weights["alpha"]

    def by(name: str, candidates: int | None = None) -> Callable[[Query], Array]:
        how = METHODS[name]

        def ranked(query: Query) -> Array:
            found = retriever.candidates(query, candidates or how.candidates, how)
            held = [passages[row] for row in found.rows.tolist()] if how.together else []
            found = models.order(query, found, how, weights=retriever.weights, passages=held)
            return found.rows[found.places]

        return ranked

    def changed(change: Callable[[Query, Array, Array], tuple[Array, Array]]) -> Callable[[Query], Array]:
        def ranked(query: Query) -> Array:
            found = retriever.candidates(query, CANDIDATES, default)
            score = fused(*change(query, *retriever.scores(query)), "convex", alpha=alpha, depth=DEPTH).score[
                found.rows
            ]
            return found.rows[np.argsort(-(score + models.signals(query, found)["evidence"]), kind="stable")]

        return ranked

    def pooled(name: str) -> Callable[[Query, Array, Array], tuple[Array, Array]]:
        keys = [passage.metadata[name.removesuffix("s")] for passage in passages]
        group = np.unique(keys, return_inverse=True)[1]
        counts = np.bincount(group)

        def change(_: Query, *scores: Array) -> tuple[Array, Array]:
            of_group = (np.bincount(group, score) / counts for score in scores)
            dense, lexical = (
                score + share * mean[group] for score, share, mean in zip(scores, SHARES[name], of_group, strict=True)
            )
            return dense, lexical

        return change

    titled = [Passage("", title_of(passage) or "-") for passage in passages]
    found, _ = models.passage_encoder.read(titled, vectors=False, tokens=False, classes=False)
    postings = [count_terms(found.terms, models.encoder.is_term)]
    known = bm25.statistics(postings)

    def with_field(query: Query, dense: Array, lexical: Array) -> tuple[Array, Array]:
        return dense, lexical + FIELD * bm25.scores(postings, known, query.terms)

    def with_learned(query: Query) -> Array:
        found = retriever.candidates(query, default.candidates, default)
        signals = models.signals(query, found)
        learned = np.log(signals["learned"] / (1 - signals["learned"]))
        score = found.score + signals["evidence"] + LEARNED * learned
        return found.rows[np.argsort(-score, kind="stable")]

    yield "`convex`", by("convex", default.candidates)
    yield "`default`", by("default")
    yield "`deep`", by("deep")
    yield f"{CANDIDATES} candidates", by("default", CANDIDATES)
    yield f"{CANDIDATES}, headings as a field of BM25", changed(with_field)
    for name in SHARES:
        yield f"{CANDIDATES}, with the mean of their {name}", changed(pooled(name))
    yield "with the log-odds of `learned`", with_learned


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set; the section ``documents`` unpacks the trees."""
    trees = bench.work / "trees"
    if not trees.is_dir():
        raise SemclassError(f"{trees} is not there; run the section documents with the same --work first")
    arguments = {"data": bench.data, "trees": trees, "cache": bench.work / "tries", "quick": bench.quick}
    sets = {
        column: {
            name: bench.step(f"document_tries/{name}", "bench.document_tries:measure", asked=name, **arguments)[
                "places"
            ]
            for name in names
        }
        for column, names in SETS.items()
    }
    return {"sets_tried": sets}


def measure(asked: str, data: str, trees: str, cache: str, *, quick: bool) -> dict[str, Any]:
    """Place of the first passage of a right section, question by question, by each try; 0 for none."""
    models = Models.load(threads=1)
    held = next(sets[asked] for sets in SETS.values() if asked in sets)(Path(data), Path(trees))
    place = Path(cache) / key_of(held.passages, models.encoder.fingerprint)
    if not place.exists():
        build_index(place, held.passages, passage_encoder=models.passage_encoder)
    retriever = HybridRetriever(PassageIndex.load(place), models)
    questions = held.questions[::QUICK] if quick else held.questions
    queries = retriever.encode([text for text, _ in questions])
    passages = retriever.index.passages(np.arange(len(retriever.index)))
    sections = [passage.metadata["section"] for passage in passages]
    found = {}
    for label, ranked in tries(retriever, passages):
        right = [
            np.flatnonzero([sections[row] in wanted for row in ranked(query).tolist()])
            for query, (_, wanted) in zip(queries, questions, strict=True)
        ]
        found[label] = [int(places[0]) + 1 if len(places) else 0 for places in right]
    return {"places": found}


def key_of(passages: list[Passage], encoder: str) -> str:
    return hashlib.sha256(repr((passages, encoder)).encode()).hexdigest()[:16]


def table(found: Mapping[str, Any]) -> str:
    """Right section first, and in the first three, by each try."""
    columns: dict[str, dict[str, list[int]]] = {}
    for column, sets in found["document_tries"]["sets_tried"].items():
        for tried in sets.values():
            for label, places in tried.items():
                columns.setdefault(label, {}).setdefault(column, []).extend(places)
    rows = [
        (label, *map(share, told.values()))
        for label, told in sorted(columns.items(), key=lambda row: "default" not in row[0])
    ]
    return readme.markdown(("right section first, in the first three", *SETS), rows)


def share(places: list[int]) -> str:
    return ", ".join(f"{np.mean([0 < place <= most for place in places]):.1%}" for most in (1, 3))


TABLES = {"": table}
