"""The errors that semclass raises.

Each error is also an instance of the built-in error that you would expect to catch.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class SemclassError(Exception):
    """Base class of all errors that semclass raises on purpose."""


class InputError(SemclassError, ValueError):
    """A given value is not allowed. The message names the value, the allowed values and what to do."""


class InputTypeError(SemclassError, TypeError):
    """A given value has the wrong type, such as one string in place of a list of strings."""


class ArtifactError(SemclassError, ValueError):
    """A model or an index on disk is missing, truncated, edited or of another format, or cannot be written."""


class ChangedFileError(ArtifactError):
    """A file of an open index was overwritten or truncated, so its content is unknown."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was overwritten or truncated while it was open; restore the index, and open it again")
        self.path = path


class EncoderMismatchError(ArtifactError):
    """A head or an index was made with another encoder than the encoder in use."""


class MissingExtraError(SemclassError, ImportError):
    """An optional dependency is not installed. The message holds the pip command that installs it."""


class SkippedWarning(UserWarning):
    """Files or passages were skipped, or read in part. The message names the first and the reason."""


class TruncationWarning(UserWarning):
    """Some texts are longer than the encoder reads. Only the beginning of these texts was encoded."""

    def __init__(self, message: str, *, rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows: tuple[int, ...] = tuple(rows)  #: places, from 0, of the truncated texts


def warn(warning: Warning) -> None:
    """Show a warning for the line outside semclass that called semclass."""
    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("semclass"):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def import_extra(module: str, extra: str, package: str = "semclass") -> ModuleType:
    """Import an optional dependency. `extra` is the extra of the package that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingExtraError(
            f'this needs {name}, which is not installed; run: pip install "{package}[{extra}]"'
        ) from error
