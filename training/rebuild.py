"""Make every head that ships again, in the order in which they need each other.

    python training/rebuild.py --data DATA --models models

DATA is a folder with the public originals, laid out as the scripts' help says; the labels made for this project are in
``training/labels/``. The encoder stays as it is, and the entailment head, which was tuned beside it, is calibrated again.
With ``--tuned``, the weights that ``tune_encoder.py`` wrote, both are exported again before all else, and heads that would
not fit are taken away; with ``--deep``, those of ``tune_deep.py``, so is the deep head.

The question head learns from labels and from a teacher: a head of four tuned layers in place of two, which is made first,
in a temporary folder, and used for nothing else. The same encoder and data give the same scores again, byte for byte on the
same kind of processor. The teacher of the shipped head was tuned above an earlier encoder, though: the question heads, and
what reads their classes, come out a little different. Takes some hours on two cores, and needs the extra ``tune``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from command import make_parser, run
from semclass.core.errors import SemclassError

HERE = Path(__file__).parent


def steps(
    data: Path, models: Path, teacher: Path, tuned: Sequence[Path], deep: Sequence[Path], source: str, threads: int
) -> list[list[str]]:
    """The scripts with their options; `teacher` is a folder for the head that the question head learns from."""
    encoder = ["--encoder", str(models / "encoder")]
    weights = ["--source", source, "--threads", str(threads)]
    both = ["--data", str(data), *(["--tuned", *map(str, tuned)] if tuned else []), "--out"]
    joint = ["export_deep.py", *encoder, "--data", str(data), "--out", str(models / "deep")]
    if deep:
        joint += ["--source", source, "--tuned", *map(str, deep)]
    questions = ["--data", str(data / "trec"), "--originals", str(data), *encoder, "--out"]
    learnt = ["--teacher", str(teacher)]
    return [
        *([["export_encoder.py", *both, str(models / "encoder"), "--source", source]] if tuned else []),
        ["export_entailment.py", *both, str(models / "entailment"), *encoder],
        *([joint] if deep or not tuned else []),
        ["tune_questions.py", *questions, str(teacher / "questions"), *weights, "--top", "6"],
        ["tune_questions.py", *questions, str(models / "questions"), *weights, *learnt],
        ["train_passages.py", "--data", str(data), *encoder, "--out", str(models / "passages"), "--repeats", "5"],
        ["train_one_class.py", "in_scope", "--data", str(data), *encoder, "--out", str(models / "in_scope")],
        ["train_one_class.py", "generic", "--data", str(data), *encoder, "--out", str(models / "generic")],
        ["train_language.py", "--data", str(data), *encoder, "--out", str(models / "language")],
        ["train_codebooks.py", "--data", str(data), "--models", str(models), "--out", str(models / "codebooks")],
        ["export_sparse.py", "--data", str(data), *encoder, "--out", str(models / "sparse")],
        ["train_pairs.py", "--data", str(data), *encoder, "--out", str(models / "pairs")],
    ]


OPTIONAL = ("deep", "generic", "language", "sparse")
"""Heads that models load without, and refuse to load with if they were trained for another encoder."""


def rebuild(arguments: argparse.Namespace) -> None:
    if arguments.tuned:
        for name in OPTIONAL:
            shutil.rmtree(arguments.models / name, ignore_errors=True)
    with tempfile.TemporaryDirectory() as teacher:
        given = arguments.tuned, arguments.deep, arguments.source, arguments.threads
        for script, *options in steps(arguments.data, arguments.models, Path(teacher), *given):
            print(f"\n== {script} {' '.join(options)}", flush=True)
            started = time.monotonic()
            command = [sys.executable, str(HERE / script), *options]
            if subprocess.run(command, check=False).returncode:  # noqa: S603 - the scripts beside this one
                raise SemclassError(f"{script} failed; the models made before it are in {arguments.models}")
            print(f"== {script}: {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    parser = make_parser(__doc__, "data", "models", "source", "threads")
    for name, what in (
        ("tuned", "weights of tune_encoder.py: encoder, entailment"),
        ("deep", "weights of tune_deep.py"),
    ):
        parser.add_argument(f"--{name}", type=Path, nargs="+", default=(), help=f"{what}; exported before all else")
    run(parser, rebuild)


if __name__ == "__main__":
    main()
