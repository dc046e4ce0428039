"""Bytes of a passage in each form of index, beyond its text, and what they cost in ranking and in time."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import readme, timing
from bench.steps import Bench
from semclass import HybridRetriever, Models
from semclass.documents.readers import read_corpus
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.index.ingest import FORMS
from semclass.index.passage_encoder import PassageEncoder, PassageFeatures
from semclass.index.passage_index import PassageIndex
from semclass.index.store import describe
from semclass.ranking.methods import METHODS

TIMED = 300  # questions whose re-ranking is timed
TIMED_LEAN = 60  # the same for a lean index
TEXT = ("records.npy", "record_offsets.npy")  # files that hold the passages themselves


@dataclass(frozen=True)
class Remembering(PassageEncoder):
    """A reader that reads the same passages once, however many indices are made of them."""

    known: dict[tuple[str, ...], tuple[PassageFeatures, tuple[int, ...]]] = field(default_factory=dict)

    def read(self, texts: Any, *, sentences: bool = True) -> tuple[PassageFeatures, tuple[int, ...]]:
        """As :meth:`PassageEncoder.read`."""
        key = tuple(texts)  # of all forms, whatever a form leaves out
        if key not in self.known:
            self.known[key] = super().read(texts)
        return self.known[key]


def sizes(index: PassageIndex, folder: Path) -> dict[str, float]:
    """Bytes a passage by file, beyond the text."""
    index.save(folder)
    files = describe(folder)["bytes"]
    found = {name: size / len(index) for name, size in files.items() if name not in TEXT}
    found["offsets of the text"] = files["record_offsets.npy"] / len(index)
    return {name: round(value, 1) for name, value in found.items()}


def row(folder: Path, models: Models, passage_encoder: PassageEncoder, form: str, timed: int) -> dict[str, Any]:
    """One form on one BEIR folder; re-ranking is timed on its first questions."""
    index = PassageIndex.build(read_corpus(folder / "corpus.jsonl"), passage_encoder=passage_encoder, form=form)
    with tempfile.TemporaryDirectory() as out:
        parts = sizes(index, Path(out) / "index")
    # a lean index reads its candidates again: the time of that belongs to it, so nothing may be remembered here
    retriever = HybridRetriever(
        index, replace(models, passage_encoder=replace(models.passage_encoder, codebooks=passage_encoder.codebooks))
    )
    dataset = load_dataset(folder)
    # a lean index has the token and sentence vectors of an exact one, at a hundred times the time
    lean = form == "lean"
    result = None if lean else evaluate.evaluate(dataset, retriever, measures=())["learned"]
    queries = retriever.encode(list(dataset.questions.values())[:timed])
    pairs = [(query, retriever.candidates(query, 10, METHODS["hybrid"])) for query in queries]
    seconds = timing.each(pairs, lambda pair: timing.rerank(retriever, *pair, METHODS["learned"]))
    lengths = index.segments[0].postings.lengths
    return {
        "form": form,
        "passages": len(index),
        "terms_per_passage": round(float(lengths.mean()), 1),
        "bytes": round(sum(parts.values()), 1),
        "parts": parts,
        "error_removed": "as exact" if result is None else result.error_removed,
        "error_removed_ci": None if result is None else list(result.error_removed_ci),
        **timing.percentiles({"rerank_10_ms": seconds}, 1e3, 3),
    }


def table(results: Mapping[str, Any]) -> str:
    """The README's table: bytes of a passage in each form, and what they bring on the first set."""
    sets = dict(sorted(results["sets"].items(), reverse=True))  # squad4, which is always measured, first
    name, first = next(iter(sets.items()))
    head = (
        "form",
        *(f"bytes: {place}, {forms[0]['terms_per_passage']:.0f} terms" for place, forms in sets.items()),
        f"ms to re-rank 10, {name}",
        f"error removed, {name}",
    )
    rows = []
    for place, row in enumerate(first):
        sizes = (f"{forms[place]['bytes']:,.0f}" for forms in sets.values())
        removed = row["error_removed"]
        shown = removed if isinstance(removed, str) else f"{removed:.0%}"
        rows.append((f"`{row['form']}`", *sizes, f"{row['rerank_10_ms_p50']:,.2f}", shown))
    return readme.markdown(head, rows)


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set."""
    return {
        "sets": {
            name: bench.step(
                f"index_bytes/{name}",
                "bench.index_bytes:measure",
                folder=bench.beir(name),
                timed_lean=5 if bench.quick else TIMED_LEAN,
            )["forms"]
            for name in (("squad4",) if bench.quick else ("squad4", "pubmedqa"))
        },
        "head": "the shipped one, for all forms",
    }


def measure(folder: str, timed_lean: int) -> dict[str, Any]:
    """Every form of an index over one set."""
    models = Models.load()
    passage_encoder = models.passage_encoder
    remembering = Remembering(passage_encoder.classifier, passage_encoder.token_encoder, passage_encoder.codebooks)
    timed = {form: timed_lean if form == "lean" else TIMED for form in FORMS}
    return {"forms": [row(Path(folder), models, remembering, form, timed[form]) for form in FORMS]}
