"""What every file of results says of how it came about: machine, versions, date and commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

PACKAGES = ("numpy", "onnxruntime", "tokenizers")  # of the run time

PEERS = (
    "bm25s", "ir-measures", "joblib", "model2vec", "openai", "rank-bm25", "scikit-learn", "scipy",
    "sentence-transformers", "skeletoken", "torch", "transformers",
)  # fmt: skip


FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
"""What processors have for products of 8-bit numbers, which round otherwise: the third digit of a figure may differ."""


def of_run() -> dict[str, Any]:
    return {
        "machine": machine(),
        "versions": versions(),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": commit(),
    }


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Processor and what it has of `FLAGS`, cores, memory in GB, operating system and Python."""
    info = Path("/proc/cpuinfo")  # Linux names the processor nowhere else
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    told = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "flags": [flag for flag in FLAGS if flag in told],
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions(packages: tuple[str, ...] = (*PACKAGES, *PEERS)) -> dict[str, str]:
    return {name: found for name in packages if (found := _version(name)) is not None}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """Commit of the code that measures, with a plus sign if that code was changed since."""
    said = []
    for command in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "semclass", "models", "bench/*.py"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
        said.append(done.stdout.strip() if done.returncode == 0 else "unknown")
    return said[0] + ("+" if said[1] and said[0] != "unknown" else "")
