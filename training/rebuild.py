"""Make every head that ships again, in the order in which they need each other.

    python training/rebuild.py --data DATA --models models

DATA is a folder with the public originals, laid out as the scripts' help says; the labels made for this project are in
``training/labels/``. The encoder stays as it is: heads made for it give the same scores again, byte for byte on the same
kind of processor. Takes about an hour on two cores, and needs the extra ``tune``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from command import make_parser, run
from semclass.core.errors import SemclassError

HERE = Path(__file__).parent


def steps(data: Path, models: Path, source: str, threads: int) -> list[list[str]]:
    encoder = ["--encoder", str(models / "encoder")]
    weights = ["--source", source, "--threads", str(threads)]
    questions = ["--data", str(data / "trec"), "--originals", str(data), *encoder, "--out"]
    return [
        ["tune_questions.py", *questions, str(models / "questions"), *weights],
        ["train_questions.py", *questions, str(models / "questions-svm"), "--kind", "svm", "--teacher", str(models)],
        ["train_passages.py", "--data", str(data), *encoder, "--out", str(models / "passages"), "--repeats", "5"],
        ["tune_entailment.py", "--data", str(data), *encoder, *weights, "--out", str(models / "entailment")],
        ["train_codebooks.py", "--data", str(data), "--models", str(models), "--out", str(models / "codebooks")],
        ["train_pairs.py", "--data", str(data), *encoder, "--out", str(models / "pairs")],
        ["train_match.py", "--data", str(data), *encoder, "--out", str(models / "match")],
    ]


def rebuild(arguments: argparse.Namespace) -> None:
    for script, *options in steps(arguments.data, arguments.models, arguments.source, arguments.threads):
        print(f"\n== {script} {' '.join(options)}", flush=True)
        started = time.monotonic()
        command = [sys.executable, str(HERE / script), *options]
        if subprocess.run(command, check=False).returncode:  # noqa: S603 - the scripts beside this one
            raise SemclassError(f"{script} failed; the heads made before it are in {arguments.models}")
        print(f"== {script}: {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    parser = make_parser(__doc__, "source", "threads")
    parser.add_argument("--data", type=Path, required=True, help="folder with the public originals")
    parser.add_argument("--models", type=Path, default=Path("models"))
    run(parser, rebuild)


if __name__ == "__main__":
    main()
