"""The models of a job: opened once in each worker process, and compared with those that the job was made with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.types import Encoder
from semclass.encoders.batching import CHUNK, warn_truncated
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.entailment import EntailmentClassifier
from semclass.heads.passages import PassageClassifier
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import HUB, TextModel, open_encoder

Values: TypeAlias = Mapping[str, Any]
"""A sequence of values, one for each text, by the name of the output."""

Model: TypeAlias = Callable[..., Values]
"""Takes a list of texts for each column that is read."""

_FOLDERS = {"questions": "questions", "passages": "passages", "pairs": "entailment"}


def models_root(models: str | None) -> Path:
    """Folder of the models, the shipped one if None."""
    return artifacts.default_models() if models is None else Path(models)


def identity_of(task: str, models: str | None, encoder: str | None) -> str:
    """SHA-256 over the manifests of the models that a task uses; these hold the hash of every file."""
    root = models_root(models)
    folders = [] if task == "encode" else [root if task == "texts" else root / _FOLDERS[task]]
    if encoder is not None:
        folders += [] if encoder.startswith(HUB) else [Path(encoder)]
    else:
        folders.append((models_root(None) if task == "texts" else root) / "encoder")
    return hashlib.sha256(b"".join(map(_manifest, folders))).hexdigest()


def _manifest(folder: Path) -> bytes:
    """A folder's manifest, as it is on disk."""
    try:
        return (folder / artifacts.MANIFEST).read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{folder / artifacts.MANIFEST} cannot be read ({error.strerror}); every machine that runs the job needs the "
            "models at the same path, or shipped to it"
        ) from error


# An engine that keeps its worker processes, as Spark does, runs partition after partition with the same sessions. The
# identity is part of the key: a folder that was written anew is opened anew.
@lru_cache(maxsize=4)
def open_model(
    task: str, models: str | None, encoder: str | None, threads: int, min_probability: float | None, identity: str
) -> Model:
    """Open the models of a task, once for each process."""
    least = min_probability or 0.0
    if task == "texts":
        return _of_texts(TextModel.load(models_root(models), encoder=encoder, threads=threads), min_probability)
    used = None if encoder is None else open_encoder(encoder, threads)
    if task == "questions":
        return _of_questions(QuestionClassifier.load(models, encoder=used, threads=threads), least)
    if task == "passages":
        return _of_passages(PassageClassifier.load(models, encoder=used, threads=threads))
    if task == "pairs":
        return _of_pairs(EntailmentClassifier.load(models, encoder=used, threads=threads))
    return _of_vectors(open_models(models, used, threads)[1])


def _of_questions(classifier: QuestionClassifier, least: float) -> Model:
    def run(texts: list[str]) -> Values:
        found = classifier.predict(texts, min_probability=least)
        return {
            "label": [item.label for item in found],
            "probability": [item.probability for item in found],
            "fine": [item.fine for item in found],
            "fine_probability": [item.fine_probability for item in found],
            "probabilities": [list(item.probabilities.items()) for item in found],
            "fine_probabilities": [list(item.fine_probabilities.items()) for item in found],
        }

    return run


def _of_passages(classifier: PassageClassifier) -> Model:
    def run(texts: list[str]) -> Values:
        found = classifier.predict(texts)
        return {
            "labels": [list(item.labels) for item in found],
            "probabilities": [list(item.probabilities.items()) for item in found],
        }

    return run


def _of_texts(model: TextModel, least: float | None) -> Model:
    def run(texts: list[str]) -> Values:
        found = model.predict(texts, min_probability=least)
        return {
            "label": [str(item.label) for item in found],
            "probability": [item.probability for item in found],
            "labels": [list(map(str, item.labels)) for item in found],
            "probabilities": [[(str(name), value) for name, value in item.probabilities.items()] for item in found],
        }

    return run


def _of_pairs(classifier: EntailmentClassifier) -> Model:
    def run(questions: list[str], sentences: list[str]) -> Values:
        found = classifier.predict(zip(questions, sentences, strict=True))
        return {"label": [item.label for item in found], "probability": [item.probability for item in found]}

    return run


def _of_vectors(encoder: Encoder) -> Model:
    def run(texts: list[str]) -> Values:
        parts, cut = [], []
        for start in range(0, len(texts), CHUNK):
            encoding = encoder.encode(texts[start : start + CHUNK])
            parts.append(encoding.rows("pooled"))
            cut += [start + row for row in encoding.truncated]
        warn_truncated(cut, len(texts))
        return {"vector": np.concatenate(parts)}

    return run
