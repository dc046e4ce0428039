"""Labels of texts, checked: one label a text, or several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import short
from semclass.core.errors import InputError, InputTypeError
from semclass.heads.texts import Label
from semclass.train.problem import check_classes


@dataclass(frozen=True)
class Targets:
    """Checked labels of n texts."""

    rows: Sequence[tuple[Label, ...]]  # each text's
    classes: tuple[Label, ...]  # all of them, sorted
    multi: bool  # whether a text may have several
    indicator: bool  # whether they were given as an array of 0 and 1

    @classmethod
    def of(cls, y: Any, *, multi_label: bool) -> Targets:
        """Check labels of either shape."""
        if y is None or isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
            raise InputTypeError(f"labels must be a sequence with a label for each text, not {short(y)}")
        if multi_label and isinstance(y, np.ndarray) and y.ndim == 2:
            if not np.isin(y, (0, 1)).all():
                raise InputError("labels in an array of two dimensions must be 0 or 1, a column for each class")
            rows = [tuple(np.flatnonzero(row).tolist()) for row in y]
            return cls(rows, tuple(range(y.shape[1])), multi=True, indicator=True)
        items = list(y.tolist() if hasattr(y, "tolist") else y)
        check = _several if multi_label else _single
        rows = [check(item, f"labels[{place}]") for place, item in enumerate(items)]
        found = {label for row in rows for label in row}
        if len({type(label) for label in found}) > 1:
            raise InputTypeError("labels mix strings and integers; make all of them strings")
        return cls(rows, tuple(sorted(found)), multi=multi_label, indicator=False)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Sequence[int]) -> Targets:
        """Some rows."""
        return replace(self, rows=[self.rows[place] for place in places])

    def matrix(self) -> npt.NDArray[np.bool_]:
        """Which text has which class, bool of shape (n, n_classes)."""
        column = {label: place for place, label in enumerate(self.classes)}
        found = np.zeros((len(self.rows), len(self.classes)), np.bool_)
        for place, row in enumerate(self.rows):
            found[place, [column[label] for label in row]] = True
        return found

    def for_head(self) -> Any:
        """Labels as `fit_head` takes them: names that sort like the classes, or 0 and 1."""
        if self.multi and not self.classes:
            raise InputError("no text has a label; at least one label with two examples is needed")
        if self.multi:
            return self.matrix().astype(np.int64)
        names = column_names(self.matrix().argmax(axis=1))
        check_classes(names)
        return names

    def check_other(self, label: Label) -> None:
        """Refuse a label for abstaining that is a class, or of another type than the classes."""
        if self.classes and (label in self.classes or type(label) is not type(self.classes[0])):
            raise InputError(
                f"abstain_label is {label!r}; with min_probability above 0 it must be none of the labels, and of their "
                f"type, {type(self.classes[0]).__name__}"
            )


def _label(item: Any, name: str, remedy: str = "") -> Label:
    """Check one label; numpy's scalars become Python's."""
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, bool) or not isinstance(item, (str, int)):
        raise InputTypeError(f"{name} must be a string or an integer, not {type(item).__name__}: {short(item)}{remedy}")
    return item


def _single(item: Any, name: str) -> tuple[Label, ...]:
    """Check the one label of a text."""
    return (_label(item, name, "; for several labels a text set multi_label=True"),)


def _several(item: Any, name: str) -> tuple[Label, ...]:
    """Check the labels of one text."""
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
        raise InputTypeError(
            f"{name} must be a collection of labels with multi_label=True, not {short(item)}; write ({short(item)},)"
        )
    return tuple(sorted({_label(label, name) for label in item}, key=str))


def column_names(places: Iterable[int]) -> list[str]:
    """Names that sort as the numbers do."""
    return [f"{int(place):09d}" for place in places]
