"""What running costs over time: memory over 100,000 mixed calls, the start of a process, and sizes of what is installed.

No text comes twice, so that whatever is kept of texts shows. Lengths are from 3 to 2,000 words, short ones being frequent.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench import readme
from bench.steps import ROOT, Bench
from datasets_io import read_jsonl

LOOKS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)  # calls after which memory is read
PASSAGES = 500  # of the index that is searched
TURNS = (*["questions"] * 27, *["texts"] * 6, *["passages"] * 4, *["search"] * 2, "rerank")
STARTS = 5

PROGRAMS = {
    "import semclass": "import semclass",
    "question to class": "from semclass import QuestionClassifier as C; C.load().predict(['Who built it?'])",
    "search": "from semclass import HybridRetriever as R; R.load({index!r}).search('Who built it?')",
}


def run(bench: Bench) -> dict[str, Any]:
    corpus = str(bench.data / "beir" / "hobby" / "corpus.jsonl")
    index = str(bench.work / "over_time" / "index")
    passages, calls, times = (50, LOOKS[0], 1) if bench.quick else (PASSAGES, LOOKS[-1], STARTS)
    some = {"corpus": corpus, "passages": passages}
    memory = bench.step("over_time/memory", "bench.over_time:memory", **some, calls=calls)
    starts = bench.step("over_time/starts", "bench.over_time:starts", **some, index=index, times=times)
    found = {"memory": memory, "starts": starts}
    # a quick run installs nothing
    return found if bench.quick else {**found, "sizes": bench.step("over_time/sizes", "bench.over_time:sizes")}


def resident() -> float:
    """Memory of this process, MB of 10^6 bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def made_texts(words: list[str], longest: int) -> Iterator[str]:
    """Texts of 3 to `longest` words, most of them short."""
    rng = np.random.default_rng(0)
    for number in itertools.count(1):
        # the longest comes first: what a process once needed for it stays with it, and is no growth
        length = longest if number == 1 else min(int(3 + rng.pareto(1.2) * 8), longest)
        start = int(rng.integers(len(words) - length))
        yield f"{' '.join(words[start : start + length])} {number}"


def memory(corpus: str, passages: int, calls: int) -> dict[str, Any]:
    """Memory after so many calls."""
    from semclass import HybridRetriever, Models, PassageClassifier, Reranker, TextClassifier

    texts = [row["text"] for row in read_jsonl(Path(corpus))]
    models = Models.load()
    retriever, reranker = HybridRetriever.from_passages(texts[:passages], models=models), Reranker(models)
    head = TextClassifier(models.encoder, kind="logistic").fit(texts[:20], ["first", "second"] * 10)
    classifier = PassageClassifier.load(encoder=models.encoder)
    words = " ".join(texts).split()
    long, short = made_texts(words, 2_000), made_texts(words[::-1], 40)
    jobs: Mapping[str, Callable[[], object]] = {
        "questions": lambda: models.questions.classify([next(short)]),
        "texts": lambda: head.predict([next(short)]),
        "passages": lambda: classifier.classify([next(long)]),
        "search": lambda: retriever.search(next(short)),
        "rerank": lambda: reranker.rerank(next(short), [next(short) for _ in range(3)]),
    }
    found: dict[str, float] = {}
    for call in range(1, calls + 1):
        jobs[TURNS[call % len(TURNS)]]()
        if call in LOOKS:
            found[str(call)] = resident()
    return {"after": found}


def starts(corpus: str, passages: int, index: str, times: int) -> dict[str, Any]:
    """Milliseconds of whole processes, the median of some, with files that the operating system holds already."""
    from semclass import Passage, build_index

    some = [Passage(row["_id"], row["text"]) for row in read_jsonl(Path(corpus))[:passages]]
    build_index(index, some, replace=True)

    def seconds(program: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
        return time.perf_counter() - started

    programs = {"python alone": "pass", **{name: text.format(index=index) for name, text in PROGRAMS.items()}}
    return {
        "ms": {
            name: round(float(np.median([seconds(text) for _ in range(times)])) * 1e3)
            for name, text in programs.items()
        }
    }


def sizes() -> dict[str, Any]:
    """MB of the wheel and, without pip, of the base install and of what docs/container/Containerfile copies."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        _pip("wheel", "--no-deps", "--wheel-dir", where, ROOT)
        (wheel,) = where.glob("semclass-*.whl")
        found = {"wheel": wheel.stat().st_size}
        for name, extra in (("base install", ""), ("layer of the container", "[serve]")):
            venv.create(where / name)
            _pip("--python", where / name / "bin" / "python", "install", "--no-cache-dir", f"{wheel}{extra}")
            found[name] = sum(path.lstat().st_size for path in (where / name).rglob("*") if path.is_file())
    return {"mb": {name: round(size / 1e6, 1) for name, size in found.items()}}


def encode(models: str | None) -> dict[str, Any]:
    """Encode a question; the step tells the memory that a process takes for it. Gives MB of the encoder's networks."""
    from semclass.core.artifacts import models_folder
    from semclass.heads.texts import open_encoder

    open_encoder(models).encode(["Who was the first to cross it?"])
    return {"mb": sum(path.stat().st_size for path in (models_folder(models) / "encoder").glob("*.onnx")) / 1e6}


def _pip(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *map(str, words)], check=True)


def table(found: Mapping[str, Any]) -> str:
    results = found["over_time"]
    after = {int(call): value for call, value in results["memory"]["after"].items()}
    first, last = min(after), max(after)
    rows = [(f"memory after {call:,} calls", f"{value:,.0f} MB") for call, value in sorted(after.items())]
    rows.append((f"after {last:,} calls against {first:,}", f"{after[last] / after[first] - 1:+.1%}"))
    rows += [(f"a whole process: {name}", f"{value:,} ms") for name, value in results["starts"]["ms"].items()]
    rows += [(f"size: {name}", f"{value:,.1f} MB") for name, value in results.get("sizes", {"mb": {}})["mb"].items()]
    return readme.markdown(("what", "measured"), rows)


TABLES = {"": table}
