"""The models of a job: opened once in each worker process, and compared with those that the job was made with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.types import Encoder
from semclass.encoders.batching import CHUNK, warn_truncated
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.entailment import EntailmentClassifier
from semclass.heads.passages import PassageClassifier
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import HUB, TextModel, classify_all, open_encoder, open_heads

Model: TypeAlias = Callable[..., Any]  # takes a list of texts for each column, gives a result for each row
Heads: TypeAlias = tuple[tuple[str, str], ...]  # names and folders of several heads; the results are given by name then

_FOLDERS = {"questions": "questions", "passages": "passages", "pairs": "entailment"}

_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "label": lambda item: str(item.label),
    "labels": lambda item: list(map(str, item.labels)),
    "probabilities": lambda item: [(str(name), value) for name, value in item.probabilities.items()],
    "fine_probabilities": lambda item: list(item.fine_probabilities.items()),
    "vector": lambda row: row,
    **{name: attrgetter(name) for name in ("probability", "fine", "fine_probability", "asked")},
}


def values_of(items: Iterable[Any], outputs: Sequence[str]) -> dict[str, list[Any]]:
    """Values of each output but ``truncated``, one for each result of a model."""
    found = list(items)
    return {name: list(map(_VALUES[name], found)) for name in outputs if name in _VALUES}


def identity_of(task: str, models: str | None, encoder: str | None, heads: Heads = ()) -> str:
    """SHA-256 over the manifests of the models that a task uses; these hold the hash of every file."""
    root = artifacts.models_folder(models)
    folders = [Path(folder) for _, folder in heads]
    if task != "encode" and not heads:
        folders.append(root if task == "texts" else root / _FOLDERS[task])
    if encoder is None:
        folders.append((artifacts.models_folder(None) if task == "texts" else root) / "encoder")
    elif not encoder.startswith(HUB):
        folders.append(Path(encoder))
    return hashlib.sha256(b"".join(map(_manifest, folders))).hexdigest()


def _manifest(folder: Path) -> bytes:
    try:
        return (folder / artifacts.MANIFEST).read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{folder / artifacts.MANIFEST} cannot be read ({error.strerror}); put the models at the same path on every "
            "machine that runs the job, or send them there"
        ) from error


# An engine that keeps its worker processes, as Spark does, runs partition after partition with the same sessions. The
# identity is part of the key: a folder that was written again is opened again.
@lru_cache(maxsize=4)
def open_model(
    task: str,
    models: str | None,
    encoder: str | None,
    threads: int,
    min_probability: float | None,
    identity: str,
    heads: Heads = (),
) -> Model:
    """Open the models of a task, once for each process."""
    if heads:
        return partial(
            classify_all, open_heads(dict(heads), open_encoder(encoder, threads)), min_probability=min_probability
        )
    if task == "texts":
        own = TextModel.load(artifacts.models_folder(models), encoder=encoder, threads=threads)
        return partial(own.classify, min_probability=min_probability)
    used = None if encoder is None else open_encoder(encoder, threads)
    if task == "questions":
        questions = QuestionClassifier.load(models, encoder=used, threads=threads)
        return partial(questions.classify, min_probability=min_probability or 0.0)
    if task == "passages":
        return PassageClassifier.load(models, encoder=used, threads=threads).classify
    if task == "pairs":
        pairs = EntailmentClassifier.load(models, encoder=used, threads=threads)
        return lambda questions, sentences: pairs.classify(zip(questions, sentences, strict=True))
    return partial(_vectors, open_models(models, used, threads)[1])


def _vectors(encoder: Encoder, texts: list[str]) -> list[Any]:
    vectors: list[Any] = []
    cut: list[int] = []
    for start in range(0, len(texts), CHUNK):
        encoding = encoder.encode(texts[start : start + CHUNK], views=("pooled",))
        vectors.extend(encoding.rows("pooled"))
        cut += [start + row for row in encoding.truncated]
    warn_truncated(cut, len(texts))
    return vectors
