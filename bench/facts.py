"""What every file of results says of how it came about."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

PACKAGES = ("numpy", "onnxruntime", "tokenizers")
"""Packages of the run time; whichever of `PEERS` are installed are named beside them."""

PEERS = (
    "bm25s", "ir-measures", "joblib", "model2vec", "openai", "pyarrow", "pyspark", "qdrant-client",
    "qdrant-edge-py", "rank-bm25", "scikit-learn", "scipy", "sentence-transformers", "skeletoken", "torch", "transformers",
)  # fmt: skip


def of_run(*commands: str, threads: int | Sequence[int] = 1) -> dict[str, Any]:
    """Commands, machine, versions, threads, date and commit."""
    return {
        "commands": list(commands),
        "machine": machine(),
        "versions": versions(),
        "threads": threads if isinstance(threads, int) else list(threads),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": commit(),
    }


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Processor, cores, memory in GB, operating system and Python."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    """The processor's name; Linux tells it nowhere else."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of the packages that are installed, of those whose work is measured."""
    return {name: found for name in (*PACKAGES, *PEERS) if (found := installed(name)) is not None}


def installed(package: str) -> str | None:
    """Version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """Commit of the code that measures, with a plus sign if the code that counts was changed since."""
    said = []
    for command in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "semclass", "models", "bench/*.py"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
        said.append(done.stdout.strip() if done.returncode == 0 else "unknown")
    return said[0] + ("+" if said[1] and said[0] != "unknown" else "")
