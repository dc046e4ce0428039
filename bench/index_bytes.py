"""What an index takes for each passage and what that costs in ranking; writes ``results/index_bytes.json``.

    python bench/index_bytes.py --data DATA [--codebooks FOLDER ...]

Every form of an index is built over BEIR folders, saved and measured: bytes a passage beyond its text, by part; the share
of the conditional MRR error that ``learned`` removes, always with the shipped head; and the median time of re-ranking 10
candidates on one thread, decoding included. Each of --codebooks, a folder of ``training/train_codebooks.py`` with another
number of bytes a vector, is one more row of the form ``standard``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import facts
from bench import timing
from semclass import HybridRetriever, Ranker, artifacts, evaluation
from semclass.documents import read_corpus
from semclass.evidence import Evidence, PassageReader
from semclass.index import FORMS, PassageIndex
from semclass.quantise import Codebooks

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "index_bytes.json"

TIMED = 300
"""Questions whose re-ranking is timed."""

TIMED_LEAN = 60
"""The same for a lean index."""

TEXT = ("records.npy", "record_offsets.npy")
"""Files that hold the passages themselves."""


@dataclass(frozen=True)
class Remembering(PassageReader):
    """A reader that reads the same passages once, however many indices are made of them."""

    known: dict[tuple[str, ...], tuple[Evidence, tuple[int, ...]]] = field(default_factory=dict)

    def read(self, texts: Any) -> tuple[Evidence, tuple[int, ...]]:
        """As :meth:`PassageReader.read`."""
        key = tuple(texts)
        if key not in self.known:
            self.known[key] = super().read(texts)
        return self.known[key]


def sizes(index: PassageIndex, folder: Path) -> dict[str, float]:
    """Bytes a passage by file, beyond the text."""
    index.save(folder)
    files = artifacts.read_json(folder / artifacts.MANIFEST)["files"]
    found = {name: record["bytes"] / len(index) for name, record in files.items() if name not in TEXT}
    found["offsets of the text"] = files["record_offsets.npy"]["bytes"] / len(index)
    return {name: round(value, 1) for name, value in found.items()}


def row(name: str, corpus: Path, ranker: Ranker, reader: PassageReader, form: str, limit: int) -> dict[str, Any]:
    """One form on one BEIR folder."""
    index = PassageIndex.build(read_corpus(corpus / "corpus.jsonl"), reader=reader, form=form)
    with tempfile.TemporaryDirectory() as folder:
        parts = sizes(index, Path(folder) / "index")
    # a lean index reads its candidates again: the time of that belongs to it, so nothing may be remembered here
    retriever = HybridRetriever(index, replace(ranker, reader=replace(ranker.reader, codebooks=reader.codebooks)))
    dataset = evaluation.load_dataset(corpus, limit=limit)
    # a lean index has the token and sentence vectors of an exact one, at a hundred times the time
    lean = form == "lean"
    result = None if lean else evaluation.evaluate(dataset, retriever, measures=())["learned"]
    queries = retriever.encode(list(dataset.questions.values())[: TIMED_LEAN if lean else TIMED])
    pairs = [(query, retriever.candidates(query, 10)) for query in queries]
    seconds = timing.each(pairs, timing.reranking(retriever))
    lengths = index.postings.lengths
    return {
        "form": name,
        "passages": len(index),
        "terms_per_passage": round(float(lengths.mean()), 1),
        "bytes": round(sum(parts.values()), 1),
        "parts": parts,
        "error_removed": "as exact" if result is None else result.error_removed,
        "error_removed_ci": None if result is None else list(result.error_removed_ci),
        **timing.percentiles({"rerank_10_ms": seconds}, 1e3, 3),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["squad4", "pubmedqa"], help="folders under DATA/beir")
    parser.add_argument("--codebooks", nargs="*", type=Path, default=[])
    parser.add_argument("--limit", type=int, default=3000, help="questions of a set")
    arguments = parser.parse_args()
    ranker = Ranker.load()
    reader = ranker.reader
    readers = [(form, reader, form) for form in FORMS]
    for folder in arguments.codebooks:
        books = Codebooks.load(folder, encoder=reader.encoder.fingerprint, interaction=reader.interaction)
        name = f"standard, {books.tokens.parts} bytes a token and {books.sentences.parts} a sentence"
        readers.append((name, replace(reader, codebooks=books), "standard"))
    results: dict[str, Any] = {}
    for name in arguments.sets:
        known: dict[tuple[str, ...], tuple[Evidence, tuple[int, ...]]] = {}
        results[name] = []
        for label, used, form in readers:
            remembering = Remembering(used.classifier, used.branch, used.codebooks, known)
            found = row(label, arguments.data / "beir" / name, ranker, remembering, form, arguments.limit)
            results[name].append(found)
            print(name, json.dumps({key: value for key, value in found.items() if key != "parts"}), flush=True)
    record = {
        "sets": results,
        "head": "the shipped one, for all forms",
        **facts.of_run("python bench/index_bytes.py --data DATA"),
    }
    artifacts.write_atomic(RESULTS, artifacts.dump_json(record))


if __name__ == "__main__":
    main()
