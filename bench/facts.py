"""What every file of results says of how it came about."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

RUN_TIME = ("numpy", "onnxruntime", "tokenizers", "bm25s")
"""Packages whose versions a measurement of the library depends on."""


def of_run(*commands: str, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Commands, machine, versions (of the run time's packages and of others), threads and date."""
    return {
        "commands": list(commands),
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "versions": {name: version(name) for name in (*RUN_TIME, *packages)},
        "threads": 1,
        "date": datetime.now(timezone.utc).date().isoformat(),
    }
