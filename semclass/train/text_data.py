"""Texts and labels to train on: labels are checked, texts become views for heads to read."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass import __version__
from semclass.core.artifacts import STATES
from semclass.core.checks import check_choice, short
from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.core.types import Encoder, FloatArray, IntArray
from semclass.encoders.batching import CHUNK, warn_truncated
from semclass.heads.inputs import PIECES, SURFACE, piece_matrix
from semclass.heads.surface import surface_features
from semclass.heads.texts import Label, open_encoder
from semclass.train.data import Further, check_classes
from semclass.train.solvers import few_texts

PHRASES = ("{}", "a question about {}", "I want to talk about {}", "help with {}")
"""In what a class's name is read; the mean vector is nearer to messages than that of the name."""

Say: TypeAlias = Callable[[str], object]
Progress: TypeAlias = Say | bool
Views: TypeAlias = dict[str, FloatArray]


@dataclass(frozen=True)
class Targets:
    """Checked labels of n texts."""

    rows: Sequence[tuple[Label, ...]]  # each text's
    classes: tuple[Label, ...]  # all of them, sorted
    multi_label: bool  # whether a text may have several
    indicator: bool  # whether they were given as an array of 0 and 1

    @classmethod
    def of(cls, y: Any, *, multi_label: bool) -> Targets:
        """Check labels of either shape."""
        if y is None or isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
            raise InputTypeError(f"labels must be a sequence with one label per text, not {short(y)}")
        if multi_label and isinstance(y, np.ndarray) and y.ndim == 2:
            if not np.isin(y, (0, 1)).all():
                raise InputError("labels in an array of two dimensions must be 0 or 1, one column per class")
            rows = [tuple(np.flatnonzero(row).tolist()) for row in y]
            return cls(rows, tuple(range(y.shape[1])), multi_label=True, indicator=True)
        check = _several if multi_label else _single
        rows = [check(item, f"labels[{place}]") for place, item in enumerate(y)]
        classes = {label for row in rows for label in row}
        if len({type(label) for label in classes}) > 1:
            raise InputTypeError("labels mix strings and integers; make all of them strings")
        return cls(rows, tuple(sorted(classes)), multi_label=multi_label, indicator=False)

    def without(self, ood_label: Label | None) -> tuple[Targets, IntArray]:
        """The labels of texts that have a class, and the rows of these."""
        if ood_label is None:
            return self, np.arange(len(self.rows))
        if (ood_label,) not in self.rows:
            raise InputError(f"ood_label is {short(ood_label)}, but no text has this label; give such texts")
        kept = [place for place, row in enumerate(self.rows) if row != (ood_label,)]
        classes = tuple(label for label in self.classes if label != ood_label)
        return replace(self, rows=[self.rows[place] for place in kept], classes=classes), np.array(kept, np.int64)

    def matrix(self) -> npt.NDArray[np.bool_]:
        """Which text has which class, bool of shape (n, n_classes)."""
        binarizer = import_extra("sklearn.preprocessing", "train").MultiLabelBinarizer(classes=self.classes)
        found: npt.NDArray[np.bool_] = binarizer.fit_transform(self.rows).astype(np.bool_)
        return found

    def for_head(self, least: int = 2) -> Any:
        """Labels as `fit_head` takes them: names that sort like the classes, or 0 and 1; see `check_classes`."""
        if self.multi_label and not self.classes:
            raise InputError("no text has a label; give at least one label with two examples")
        if self.multi_label:
            return self.matrix().astype(np.int64)
        names = column_names(self.matrix().argmax(axis=1))
        check_classes(names, least)
        return names


def _label(item: Any, name: str, remedy: str = "") -> Label:
    """Check one label; numpy's scalars become Python's."""
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, bool) or not isinstance(item, (str, int)):
        raise InputTypeError(f"{name} must be a string or an integer, not {type(item).__name__}: {short(item)}{remedy}")
    return item


def _single(item: Any, name: str) -> tuple[Label, ...]:
    return (_label(item, name, "; for several labels per text set multi_label=True"),)


def _several(item: Any, name: str) -> tuple[Label, ...]:
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
        raise InputTypeError(
            f"{name} must be a collection of labels with multi_label=True, not {short(item)}; write ({short(item)},)"
        )
    return tuple(sorted({_label(label, name) for label in item}, key=str))


def words_of(label: Label) -> str:
    """The words of a label that is a name, or nothing."""
    return " ".join(re.findall(r"[^\W_]+", label)) if isinstance(label, str) else ""


def column_names(places: Iterable[int]) -> list[str]:
    """Names that sort as the numbers do."""
    return [f"{int(place):09d}" for place in places]


@lru_cache(maxsize=4)
def _named_encoder(name: str | None) -> Encoder:
    """Load an encoder once; the clones of a grid search share it."""
    return open_encoder(name)


def shared_encoder(encoder: Encoder | str | Path | None) -> Encoder:
    """Give the encoder that a parameter means."""
    if encoder is None or isinstance(encoder, (str, Path)):
        return _named_encoder(None if encoder is None else str(encoder))
    return encoder


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


def encode(texts: Sequence[str], names: Iterable[str], encoder: Encoder, say: Say) -> tuple[Views, list[int]]:
    """Views of texts, and which texts were longer than the encoder reads."""
    parts: dict[str, list[FloatArray]] = {name: [] for name in names}
    wanted = [name for name in parts if name not in (SURFACE, PIECES)]
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


def encode_cached(texts: Sequence[str], names: Sequence[str], encoder: Encoder, memory: Any, say: Say) -> Views:
    """Views of texts, from a ``joblib.Memory`` if it has them; equal texts are encoded once."""
    unique, rows = np.unique(np.array(texts, dtype=object), return_inverse=True)
    unique = unique.tolist()
    say(f"encoding {len(unique)} texts")
    key = import_extra("joblib", "train").hash((unique, tuple(names), encoder.fingerprint, __version__))
    views, cut = memory.cache(_call, ignore=["job"])(key, lambda: encode(unique, names, encoder, say))
    warn_truncated(cut, len(unique))
    return {name: values[rows] for name, values in views.items()}


def _call(key: str, job: Callable[[], Any]) -> Any:
    """What the cache keeps under a key."""
    return job()


def say_to(progress: Progress) -> Say:
    """The caller's function, or one line of standard error if that is a terminal, or nothing."""
    if callable(progress):
        return progress
    if progress and sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1  # a longer line would wrap
        # back to the line's beginning, and blank to its end
        return lambda line: sys.stderr.write(f"\r{line[:width]}\x1b[K")
    return lambda line: None


def names_of(classes: Sequence[Label], views: Sequence[str], encoder: Encoder, examples: int) -> Further | None:
    """The names of classes, encoded, also in sentences unless `few_texts`; None where fewer than two can be read."""
    places = [place for place, label in enumerate(classes) if words_of(label)]
    if len(places) < 2:
        return None
    phrases = PHRASES[: 1 if few_texts(examples, len(classes)) else None]
    texts = [phrase.format(words_of(classes[place])) for place in places for phrase in phrases]
    found, _ = encode(texts, views, encoder, lambda line: None)
    bare = found[PIECES][:: len(phrases)] if PIECES in found else None
    means = {view: rows.reshape(len(places), len(phrases), -1).mean(axis=1) for view, rows in found.items()}
    return Further(np.array(places), means if bare is None else {**means, PIECES: bare})


def ood_of(views: Views, inside: IntArray) -> Further | None:
    """Views of the texts that have none of the classes; None if all have one."""
    beyond = np.setdiff1d(np.arange(len(next(iter(views.values())))), inside)
    return Further(beyond * 0 - 1, {name: rows[beyond] for name, rows in views.items()}) if len(beyond) else None
