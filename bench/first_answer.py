"""The first five minutes: from a folder of mixed documents to a first answer, by the commands of the README."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import readme
from bench.steps import Bench
from datasets_io import read_jsonl
from semclass.core.errors import InputError
from semclass.evaluation.dataset import load_dataset

PARAGRAPHS, QUESTIONS, RUNS = 200, 20, 5

FORMS = {
    "md": ("# {0}\n\n{1}\n", "\n"),
    "html": ("<h2>{0}</h2><p>{1}</p>", "\n"),
    "txt": ("{1}", "\n\n"),
    "py": ('def part_{0}():\n    """{1}"""\n', "\n\n"),
    "csv": ('{0},"{1}"', "\n"),
}
"""How a paragraph with its number is written, and what stands between two, by ending."""


def run(bench: Bench) -> dict[str, Any]:
    sizes = {"questions": 4, "runs": 1} if bench.quick else {"questions": QUESTIONS, "runs": RUNS}
    return bench.step("first_answer", "bench.first_answer:measure", folder=bench.beir("squad4"), **sizes)


def write_folder(paragraphs: Sequence[str], folder: Path) -> list[str]:
    """Write ten paragraphs a file, of each form in turn; give the file that each is in."""
    names = [f"part{place // 10}.{list(FORMS)[place // 10 % len(FORMS)]}" for place in range(len(paragraphs))]
    for name in dict.fromkeys(names):
        form, between = FORMS[name.partition(".")[2]]
        parts = [
            form.format(place, " ".join(text.replace('"', "'").replace("\\", "/").split()))
            for place, (text, file) in enumerate(zip(paragraphs, names, strict=True))
            if file == name
        ]
        (folder / name).write_text(between.join((["number,text"] if name.endswith("csv") else []) + parts))
    return names


def measure(folder: str, questions: int, runs: int) -> dict[str, Any]:
    """Seconds of both commands, each in a new process; and how often the first hit is of the right file."""
    data = load_dataset(Path(folder))
    rows = read_jsonl(Path(folder) / "corpus.jsonl")[:PARAGRAPHS]
    with tempfile.TemporaryDirectory() as docs, tempfile.TemporaryDirectory() as place:
        index = Path(place) / "index"
        file_of = dict(
            zip((row["_id"] for row in rows), write_folder([row["text"] for row in rows], Path(docs)), strict=True)
        )
        asked = [
            (text, files)
            for query, text in data.questions.items()
            if (files := {file_of[one] for one in data.relevance[query] if one in file_of})
        ][:questions]
        build = [_timed("index", "build", docs, "--out", index, "--replace", "--json") for _ in range(runs)]
        passages = json.loads(build[-1][1].splitlines()[-1])["passages"]
        found = [_timed("search", index, text, "-k", "1", "--json") for text, _ in asked]
    right = [
        json.loads(out)["hits"][0]["metadata"]["document"] in files
        for (_, out), (_, files) in zip(found, asked, strict=True)
    ]
    seconds = [statistics.median(took for took, _ in runs) for runs in (build, found)]
    return {
        "files": len(set(file_of.values())),
        "passages": passages,
        "build_s": round(seconds[0], 2),
        "search_s": round(seconds[1], 2),
        "both_s": round(sum(seconds), 2),
        "questions": len(asked),
        "right_first": sum(right),
    }


def _timed(*arguments: object) -> tuple[float, str]:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "semclass", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise InputError(f"semclass {arguments[0]} failed: {done.stderr[-500:]}")
    return time.perf_counter() - started, done.stdout


def table(found: Mapping[str, Any]) -> str:
    row = found["first_answer"]
    what = f"{row['passages']} passages of {row['files']} files: {', '.join(FORMS)}"
    return readme.markdown(
        ("from a folder to a first answer, seconds of new processes", "one thread"),
        [
            (f"`semclass index build`, {what}", f"{row['build_s']:.1f}"),
            ("`semclass search`", f"{row['search_s']:.1f}"),
            ("both", f"{row['both_s']:.1f}"),
            ("first hit is of the file that holds the answer", f"{row['right_first']} of {row['questions']}"),
        ],
    )


TABLES = {"": table}
