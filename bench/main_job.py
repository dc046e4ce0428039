"""The main job in brief: figures of all sections, and what a search without options costs, in Python and over HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import measures, prices, readme
from bench.retrieval_systems import open_retriever
from bench.steps import Bench, StepError
from datasets_io import read_jsonl
from semclass import Passage, Reranker
from semclass.core import plugins
from semclass.core.artifacts import default_models
from semclass.evaluation.measure import BASELINE
from semclass.ranking.methods import DEFAULT
from semclass.ranking.reranker import TextCache

ASKED, DEPTH = 200, 10  # questions that are timed, and hits of each


def timed(folder: str, indices: str) -> dict[str, Any]:
    """Milliseconds of a question, one thread: a search without options, what it is without re-ranking, and a re-ranking.

    The last is of ten passages that no index holds, so that each is read, beside one run of the encoder over them. They
    take turns, and are also given as ratios to the search, which hold on a busy machine. The time of a class is told by
    section ``questions``.
    """
    retriever, asked = open_retriever(folder, indices), questions(folder)
    found = {text: [Passage(hit.id, hit.text, hit.metadata) for hit in retriever.search(text, DEPTH)] for text in asked}
    reranker = Reranker(retriever.models, TextCache(0))
    measured = measures.by_turns(
        asked,
        {
            "search_10": lambda text: retriever.search(text, DEPTH),
            "fusion_10": lambda text: retriever.search(text, DEPTH, method="convex"),
            "bm25_10": lambda text: retriever.search(text, DEPTH, method="bm25"),
            "rerank_10_unread": lambda text: reranker.rerank(text, found[text]),
            "encode_10": lambda text: retriever.models.encoder.encode([passage.text for passage in found[text]]),
        },
    )
    milliseconds = percentiles(measured)
    base = milliseconds["search_10_p50"]
    ratios = {name: round(milliseconds[f"{name}_p50"] / base, 2) for name in measured if name != "search_10"}
    return {"passages": len(retriever.index), "milliseconds": milliseconds, "over_search": ratios}


def percentiles(measured: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds, as ``NAME_p50`` and ``NAME_p95``."""
    return {
        f"{name}_p{percent}": round(float(np.percentile(values, percent)) * 1e3, 3)
        for name, values in measured.items()
        for percent in (50, 95)
    }


def questions(folder: str) -> list[str]:
    return [row["text"] for row in read_jsonl(Path(folder) / "queries.jsonl")[:ASKED]]


@contextmanager
def service(index: Path) -> Iterator[tuple[http.client.HTTPConnection, float]]:
    """A connection to ``semclass serve`` on this machine, and the seconds from the command until it is ready."""
    plugins.find(plugins.COMMANDS, "serve")  # without its package, an error names the command that installs it
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.perf_counter()
    command = [sys.executable, "-m", "semclass", "serve", str(index), "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while connection.sock is None and process.poll() is None:  # connections are refused until it is ready
            time.sleep(0.005)
            with suppress(ConnectionRefusedError):
                connection.connect()
        if connection.sock is None:
            raise StepError(f"`semclass serve {index}` stopped before it was ready")
        yield connection, time.perf_counter() - started
    finally:
        process.terminate()
        process.wait()


def served(folder: str, indices: str) -> dict[str, Any]:
    """Milliseconds of a search over HTTP and in Python, by turns, and the seconds until a service is ready."""
    retriever, asked = open_retriever(folder, indices), questions(folder)
    with service(retriever.index.folder) as (connection, ready):

        def post(text: str) -> None:
            body = json.dumps({"question": text, "k": DEPTH})
            connection.request("POST", "/api/search", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise StepError(said.decode())

        jobs = {"python_10": lambda text: retriever.search(text, DEPTH), "http_10": post}
        return {"ready_s": round(ready, 2), "milliseconds": percentiles(measures.by_turns(asked, jobs))}


SETS = {"squad4": "wikipedia", "pubmedqa": "pubmed"}
"""Sets of ours, and those of the reference that are nearest; the questions are others."""

BEST = "entail-integrated-hard"  # the best method of the reference, on both of its sets

OURS, TEN_LINES, CROSS, FLAN = "semclass", "ten lines: logistic", "cross-encoder", "flan-ul2, prompted"
READER = "cross-encoder MiniLM, int8"
"""Systems of the table, by their names in the sections; the last one is the cross-encoder in section entailment."""


COLUMNS = ("measured", "semclass", "ten lines of scikit-learn", "cross-encoder MiniLM", "flan-ul2, 20 B, prompted")


def table(found: Mapping[str, Any]) -> str:
    """The README's table: semclass beside its peers, and what is recorded, reported or assumed of flan-ul2."""
    of, here, second = partial(_figure, found), found["main_job"], prices.ASSUMED_SECONDS * 1e3
    passages = found.get("labels", {}).get("passages", {}).get("macro", {})
    searched = {row["name"]: row for row in _systems(found, "retrieval", "squad4")}
    crossed, default = searched.get(CROSS, {}), searched.get(DEFAULT, {})
    read = f"{crossed['rerank_p50_ms'] / default['p50_ms']:.1f} x" if crossed else readme.NONE
    megabytes = sum(path.stat().st_size for path in default_models().rglob("*") if path.is_file()) / 1e6
    ours, ten = ([of("questions", name, key, ".0f") for key in ("peak_mb", "disk_mb")] for name in (OURS, TEN_LINES))
    rows = [
        (
            "TREC test questions, 6 / 50 classes",
            *(" / ".join(of("questions", name, key, ".1%") for key in ("accuracy", "fine_accuracy"))
              for name in (OURS, TEN_LINES)),
            "-",
            f"{of('questions', FLAN, 'accuracy', '.1%')} / -",
        ),
        (
            "passage classes, macro F1, 5-fold; semclass: mean of 5 assignments",
            readme.cell(passages, "f1", ".3f"),
            of("passages", TEN_LINES, "macro_f1", ".3f"),
            "-",
            of("passages", FLAN, "macro_f1", ".3f"),
        ),
        (
            "does a sentence answer a question: QNLI",
            *(of("entailment", name, "accuracy", ".1%") for name in (OURS, TEN_LINES, READER, FLAN)),
        ),
        *(_ranked(theirs, _systems(found, "retrieval", name)) for name, theirs in SETS.items()),
        (
            f"milliseconds, question to class; to ten hits among {here['passages']:,} passages",
            f"{of('questions', OURS, 'p50_ms', '.2f')}; {here['milliseconds']['search_10_p50']:.1f}",
            of("questions", TEN_LINES, "p50_ms", ".2f"),
            f"-; {readme.cell(crossed, 'p50_ms', '.0f')}",
            f"{second:,.0f} (assumed); {DEPTH * second:,.0f} (assumed)",
        ),
        (
            "re-ranking 10 passages that no index holds, in times of such a search",
            f"{here['over_search']['rerank_10_unread']:.1f} x", "-", read, "-",
        ),
        (
            "MB of memory, question to class; cross-encoder: pair to answer",
            ours[0], ten[0], of("entailment", READER, "peak_mb", ".0f"), "-",
        ),
        (
            "MB of models, the same; of all in the package",
            f"{ours[1]}; {megabytes:.0f}", ten[1], of("entailment", READER, "disk_mb", ".0f"), "-",
        ),
    ]  # fmt: skip
    return readme.markdown(COLUMNS, rows)


def _systems(found: Mapping[str, Any], section: str, name: str | None = None) -> Sequence[Mapping[str, Any]]:
    """Rows of a section, or of one of its sets."""
    part = found.get(section, {}) if name is None else found.get(section, {}).get("sets", {}).get(name, {})
    rows: Sequence[Mapping[str, Any]] = part.get("systems", ())
    return rows


def _figure(found: Mapping[str, Any], section: str, name: str, key: str, form: str) -> str:
    """A figure of a system of another section, "-" where it was not measured."""
    return readme.cell(next((row for row in _systems(found, section) if row["name"] == name), {}), key, form)


def _ranked(theirs: str, systems: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The row of a search on a set: MRR before and after, and the share of the error that is removed."""
    known, rows = prices.thesis_methods(theirs), {row["name"]: row for row in systems}
    sampled = {name: row["sample"] for name, row in rows.items()}
    first, best, worst = known[prices.THESIS_BASELINE], known[BEST], min(known.values(), key=lambda row: row["mrr"])

    def both(found: Mapping[str, Mapping[str, Any]], after: str) -> str:
        if after not in found:
            return readme.NONE
        return (
            f"{found[BASELINE]['cond_mrr']:.3f} → {found[after]['cond_mrr']:.3f} ({found[after]['error_removed']:.0%})"
        )

    return (
        f"search, {prices.THESIS_SETS[theirs]}: MRR where the hybrid's first 10 hold the answer (error removed)",
        both(rows, DEFAULT),
        "-",
        both(sampled, CROSS),
        f"{first['mrr']:.3f} → {best['mrr']:.3f} ({best['error_removed']:.0%}); "
        f"worst method {worst['mrr']:.3f} ({worst['error_removed']:.0%})",
    )


def times(found: Mapping[str, Any]) -> str:
    """Milliseconds of each kind of call."""
    here = found["main_job"]["milliseconds"]
    rows = [(what, *(readme.number(here[f"{name}_p{part}"]) for part in (50, 95))) for name, what in CALLS.items()]
    said = f"`semclass serve` is ready {found['main_job']['ready_s']:.1f} s after the command."
    return f"{readme.markdown(('one call, one thread', 'ms', '95 %'), rows)}\n\n{said}"


CALLS = {
    "search_10": "a search, ten hits",
    "fusion_10": "`convex`, without re-ranking",
    "bm25_10": "`bm25`",
    "rerank_10_unread": "re-ranking ten passages that no index holds",
    "encode_10": "one run of the encoder over these ten",
    "python_10": "a search, in turns with a service",
    "http_10": "the same over HTTP",
}

TABLES = {"": table, "times": times}
READS = ("main_job", "questions", "passages", "entailment", "labels", "retrieval")


def run(bench: Bench) -> dict[str, Any]:
    """Measure times of a search without options, from a question to its hits."""
    where = {"folder": bench.beir("squad4"), "indices": bench.indices}
    alone = bench.step("main_job/times", "bench.main_job:timed", **where)
    over_http = bench.step("main_job/served", "bench.main_job:served", **where)
    return {**over_http, **alone, "milliseconds": {**alone["milliseconds"], **over_http["milliseconds"]}}
