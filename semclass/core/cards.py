"""Heads on disk: what their manifest says, and the model card that hubs read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semclass.core.artifacts import save


def model_card(title: str, facts: Mapping[str, Any], sections: Sequence[tuple[str, str]], tags: Sequence[str]) -> str:
    """Markdown of a model card; `facts` are front matter fields, `sections` pairs of heading and text."""
    lines = ["---", "library_name: semclass"]
    for key, value in facts.items():  # front matter is YAML, of which JSON is a part
        lines.append(f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    lines += ["tags:", *(f"- {tag}" for tag in tags), "---", "", f"# {title}", ""]
    for heading, text in sections:
        lines += [f"## {heading}", "", text.strip(), ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class HeadCard:
    """What a head's manifest and model card say, beyond the network itself."""

    task: str  # such as "question-type" or "passage-provides"
    classes: tuple[str, ...]  # names of the output columns
    link: str  # "softmax": rows sum to 1; "sigmoid": each column is a probability of its own
    inputs: Mapping[str, int]  # name and dimension of each input view
    encoder: str | None  # its fingerprint; None for a head that reads no vectors
    calibration: Mapping[str, Any]  # how probabilities were calibrated, and on what
    training: Mapping[str, Any]  # data, sizes, seed and settings
    metrics: Mapping[str, Any]  # measured figures by name
    # probability from which a sigmoid head says yes; one for each class, or one
    threshold: float | Sequence[float] | None = None
    extra: Mapping[str, Any] | None = None  # further manifest fields


def save_head(
    folder: str | Path,
    onnx: bytes,
    card: HeadCard,
    *,
    title: str,
    sections: Sequence[tuple[str, str]],
    files: Mapping[str, bytes] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Path:
    """Write a head: ``model.onnx``, any further files, the model card and the manifest."""
    fields = {**vars(card), **(card.extra or {})}
    del fields["extra"]
    shipped = {"license": "apache-2.0", "language": "en", "pipeline_tag": "text-classification"}
    text = model_card(title, shipped if facts is None else facts, sections, ["semclass", card.task, "onnx"])
    return save(folder, "head", {"model.onnx": onnx, **(files or {})}, fields, text)
