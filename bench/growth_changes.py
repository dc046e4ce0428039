"""Steps of section ``growth``: the forms of an index, and one that is built, changed and killed.

A build is compared with the encoder alone on the same texts: on all that the form of index needs (``needed``: sentences,
with more views where vectors of tokens are kept), and on each passage once (``pooled``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import timing
from bench.growth_sizes import real
from bench.steps import ROOT, StepError
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.core.cpu import available_threads
from semclass.core.errors import import_extra
from semclass.documents.readers import read_corpus
from semclass.encoders.onnx_encoder import for_passages
from semclass.encoders.sentences import Sentences
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.evaluate import evaluate
from semclass.index.build import build_index
from semclass.index.commit import describe
from semclass.index.ingest import FORMS, chunks, in_order
from semclass.index.passage_encoder import PassageEncoder, searchable, title_of
from semclass.index.verify import verify
from semclass.index.writer import IndexWriter, compact
from semclass.ranking.methods import METHODS

BUILT = ("standard", "lean")  # forms whose build is compared with encoding


def encode_all(passage_encoder: PassageEncoder, form: str, passages: Sequence[Passage], workers: int) -> None:
    """Encode what an index of this form is made of by so many workers, in the stretches of a build."""
    views = ["pooled", *(() if form == "pooled" else passage_encoder.classifier.encoder_views)]
    if form not in ("pooled", "lean"):
        views += [name for name in ("tokens", "provides") if name in passage_encoder.encoder.views]
    encoder = for_passages(passage_encoder.encoder)

    def encode(passages: Sequence[Passage]) -> None:
        texts = [searchable(passage) for passage in passages]
        if form != "pooled":
            texts = Sentences.of(
                [passage.text for passage in passages], [title_of(passage) for passage in passages]
            ).texts
        for chunk in chunks(texts):
            encoder.encode(chunk, views=tuple(dict.fromkeys(views)))

    for _ in in_order(encode, chunks(passages), workers):
        pass


def seconds_of(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def builds(data: str, n: int, workers: int) -> dict[str, Any]:
    """Builds of each form against the encoder alone."""
    passage_encoder, passages = PassageEncoder.load(), list(real(data, n))
    passage_encoder.read(passages[:8])
    with tempfile.TemporaryDirectory() as place:

        def build_one(form: str) -> None:
            folder = Path(place) / form
            build_index(folder, real(data, n), passage_encoder=passage_encoder, form=form, workers=workers)
            shutil.rmtree(folder)

        jobs: dict[str, Callable[[], object]] = {}
        for form in BUILT:
            jobs[f"build {form}"] = lambda form=form: build_one(form)
            jobs[f"encode {form}"] = lambda form=form: encode_all(passage_encoder, form, passages, workers)
        jobs["pooled"] = lambda: encode_all(passage_encoder, "pooled", passages, workers)
        seconds = {name: seconds_of(job) for name, job in jobs.items()}
    rows = [
        {
            "form": form,
            "workers": workers,
            "passages": n,
            "build_per_second": round(n / seconds[f"build {form}"], 1),
            "needed_per_second": round(n / seconds[f"encode {form}"], 1),
            "pooled_per_second": round(n / seconds["pooled"], 1),
            "share_of_needed": round(seconds[f"encode {form}"] / seconds[f"build {form}"], 3),
            "share_of_pooled": round(seconds["pooled"] / seconds[f"build {form}"], 3),
        }
        for form in BUILT
    ]
    return {"rows": rows}


def changes(index: str, data: str, add: int, update: int, delete: int) -> dict[str, Any]:
    """Seconds of each change, committed and flushed to the disk."""
    passage_encoder, workers = PassageEncoder.load(), available_threads()
    new = [replace(passage, id=f"new {number}") for number, passage in enumerate(real(data, add))]
    passage_encoder.read(new[:8])
    taken: dict[str, tuple[int, float]] = {}

    def take(name: str, count: int, job: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        found = job()
        taken[name] = (count, time.perf_counter() - started)
        return found

    with tempfile.TemporaryDirectory(dir=Path(index).parent) as place:
        folder = Path(place) / "linked"  # nothing is copied, and what is changed there does not change the index
        shutil.copytree(index, folder, copy_function=os.link)
        take("encoding what is added, alone", add, lambda: encode_all(passage_encoder, "standard", new, workers))
        take("add", add, lambda: _change(folder, passage_encoder, lambda writer: writer.add(new)))
        before = PassageIndex.load(index, verify=False)
        # a reader that has the index open as it was, in the folder that changes
        opened = replace(before, source=replace(before.source, folder=folder))
        opened = take("refresh of a reader, after that", add, opened.refresh)
        take("first statistics of BM25, after that", len(opened), lambda: opened.statistics)
        others = [replace(passage, id=str(number)) for number, passage in enumerate(new[:update])]
        take("update of texts", update, lambda: _change(folder, passage_encoder, lambda writer: writer.update(others)))
        marked = [replace(passage, metadata={"seen": True}) for passage in others]
        take(
            "update of metadata", update, lambda: _change(folder, passage_encoder, lambda writer: writer.update(marked))
        )
        ids = [str(number) for number in range(update, update + delete)]
        take("delete", delete, lambda: _change(folder, None, lambda writer: writer.delete(ids)))
        opened = take("refresh of a reader, after all", delete, opened.refresh)
        take("verify", len(opened), lambda: verify(folder))
        take("compact", len(opened), lambda: compact(folder))
    rows = [{"what": name, "passages": count, "seconds": round(value, 3)} for name, (count, value) in taken.items()]
    ratio = round(taken["add"][1] / taken["encoding what is added, alone"][1], 3)
    return {"passages": len(before), "workers": workers, "rows": rows, "add_over_encoding": ratio}


def _change(folder: Path, passage_encoder: PassageEncoder | None, job: Callable[[IndexWriter], object]) -> None:
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as writer:
        job(writer)


def kills(script: str, hashed: str, stride: int) -> dict[str, Any]:
    """Kill writers as the tests do."""
    import_extra("pytest", "test")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run(
        [sys.executable, script, str(stride)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StepError(f"an index did not survive, or {script} ({hashed[:12]}) failed:\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout)
    number = found["one by one"] + found["at random"]
    return {
        "kills": number,
        "survived": number,
        "before_an_operation_on_files": found["one by one"],
        "at_random_moments": found["at random"],
        "opened_while_it_was_changed": found["opened"],
    }


TEXT = ("records.npy", "record_offsets.npy")  # files that hold the passages themselves
TIMED = 300  # questions whose re-ranking is timed


def _rerank(retriever: HybridRetriever, pair: tuple[Any, Any]) -> None:
    timing.rerank(retriever, *pair, METHODS["learned"])


def forms(folder: str, timed_lean: int) -> dict[str, Any]:
    """Bytes of a passage beyond its text in each form of index, and what they bring in ranking and time."""
    models, rows = Models.load(), []
    dataset, corpus = load_dataset(folder), list(read_corpus(Path(folder) / "corpus.jsonl"))
    for form in FORMS:
        index = PassageIndex.build(corpus, passage_encoder=models.passage_encoder, form=form)
        with tempfile.TemporaryDirectory() as out:
            index.save(Path(out) / "index")
            files = describe(Path(out) / "index")["bytes"]
        parts = {name: round(size / len(index), 1) for name, size in files.items() if name not in TEXT}
        parts["offsets of the text"] = round(files["record_offsets.npy"] / len(index), 1)
        retriever = HybridRetriever(index, models)
        # a lean index has the token and sentence vectors of an exact one, at a hundred times the time
        lean = form == "lean"
        result = None if lean else evaluate(dataset, retriever, measures=())["learned"]
        queries = retriever.encode(list(dataset.questions.values())[: timed_lean if lean else TIMED])
        pairs = [(query, retriever.candidates(query, 10, METHODS["hybrid"])) for query in queries]
        seconds = timing.each(pairs, partial(_rerank, retriever))
        rows.append(
            {
                "form": form,
                "passages": len(index),
                "terms_per_passage": round(float(index.segments[0].postings.lengths.mean()), 1),
                "bytes": round(sum(parts.values()), 1),
                "parts": parts,
                "error_removed": "as exact" if result is None else result.error_removed,
                "error_removed_ci": None if result is None else list(result.error_removed_ci),
                **timing.percentiles({"rerank_10_ms": seconds}, 1e3, 3),
            }
        )
    return {"forms": rows}
