"""Views of texts for heads to read, and a cache of views and fitted heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from semclass import __version__
from semclass.core import artifacts
from semclass.core.checks import check_choice
from semclass.core.errors import InputTypeError, import_extra
from semclass.core.types import Encoder, FloatArray
from semclass.encoders.batching import CHUNK, warn_truncated
from semclass.encoders.onnx_encoder import STATES
from semclass.heads.inputs import PIECES, SURFACE, piece_matrix
from semclass.heads.surface import surface_features
from semclass.heads.texts import open_encoder

Result = TypeVar("Result")
Say: TypeAlias = Callable[[str], object]


@lru_cache(maxsize=4)
def _named_encoder(name: str | None) -> Encoder:
    """Load an encoder once; the clones of a grid search share it."""
    return open_encoder(name)


def shared_encoder(encoder: Encoder | str | Path | None) -> Encoder:
    """Give the encoder that a parameter means."""
    if encoder is None or isinstance(encoder, str):
        return _named_encoder(encoder)
    return _named_encoder(str(encoder)) if isinstance(encoder, Path) else encoder


def check_view_names(views: Sequence[str] | None, encoder: Encoder) -> tuple[str, ...]:
    """Give the views that the head will read."""
    if views is None:
        return (*(name for name in ("pooled", "layers") if name in encoder.views), PIECES)
    if isinstance(views, str):
        raise InputTypeError(f"views must be a sequence of names, not one string; write ({views!r},)")
    allowed = [name for name in encoder.views if name not in ("tokens", STATES)] + [SURFACE, PIECES]
    for name in views:
        check_choice(name, allowed, "view")
    return tuple(dict.fromkeys(views))


def encode(
    texts: Sequence[str], names: Sequence[str], encoder: Encoder, say: Say
) -> tuple[dict[str, FloatArray], list[int]]:
    """Views of texts, and which were longer than the encoder reads."""
    wanted = [name for name in names if name not in (SURFACE, PIECES)]
    parts: dict[str, list[FloatArray]] = {name: [] for name in names}
    cut: list[int] = []
    for start in range(0, len(texts), CHUNK):
        chunk = list(texts[start : start + CHUNK])
        encoding = encoder.encode(chunk, views=wanted)
        cut += [start + row for row in encoding.truncated]
        for name, part in parts.items():
            if name == SURFACE:
                part.append(surface_features(chunk))
            else:
                part.append(piece_matrix(encoding.terms) if name == PIECES else encoding.rows(name))
        say(f"encoded {start + len(chunk)} of {len(texts)} texts")
    return {name: np.concatenate(part) for name, part in parts.items()}, cut


def embed(texts: Sequence[str], names: Sequence[str], encoder: Encoder, memory: Any, say: Say) -> dict[str, FloatArray]:
    """Views of texts, from the cache if it has them; equal texts are encoded once."""
    unique = sorted(set(texts))
    place = {text: number for number, text in enumerate(unique)}
    rows = np.array([place[text] for text in texts], np.int64)
    say(f"encoding {len(unique)} texts")
    key = ("views", unique, tuple(names), encoder.fingerprint, __version__)
    views, cut = cached(memory, key, lambda: encode(unique, names, encoder, say))
    warn_truncated(cut, len(unique))
    return {name: values[rows] for name, values in views.items()}


def cached(memory: Any, key: object, job: Callable[[], Result]) -> Result:
    """What a job gives, from a ``joblib.Memory`` if it holds it under a hash of the key."""
    result: Result = memory.cache(_call, ignore=["job"])(import_extra("joblib", "train").hash(key), job)
    return result


def _call(key: str, job: Callable[[], Any]) -> Any:
    """What the cache keeps."""
    return job()


@lru_cache(maxsize=1)
def code_hashes() -> tuple[str, ...]:
    """Hashes of the code that fits heads: what another version fitted is not taken from the cache."""
    return tuple(artifacts.sha256_of(path) for path in sorted(Path(__file__).parent.glob("*.py")))
