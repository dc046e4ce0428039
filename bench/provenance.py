"""Of which models a figure is: a fingerprint of each that ships, and the line that marks what earlier ones gave.

Every file of results has ``models``: of each model that its figures depend on the fingerprint. One run writes a whole file.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from semclass.core.artifacts import MANIFEST, default_models, read_json

ROOT = Path(__file__).parent.parent
Results = Mapping[str, Mapping[str, Any]]  # by section, what its file holds

PAIRS = ("codebooks", "encoder", "pairs/entailment", "sparse")
RANKING = ("entailment", *PAIRS)  # of a search
CLASSES = ("passages", "questions")  # what the methods of the thesis read, too

DEPENDS: Mapping[str, tuple[str, ...]] = {
    "main_job": RANKING,
    "labels": ("encoder", "passages", "questions"),
    "questions": ("encoder", "questions"),
    "passages": ("encoder", "passages"),
    "entailment": ("encoder", "entailment", "deep"),
    "retrieval": RANKING,
    "carry": (*RANKING, "language"),
    "thesis": (*RANKING, *CLASSES),
    "abstain": RANKING,
    "small_folders": (*RANKING, "generic"),
    "documents": RANKING,
    "languages": (*RANKING, "language", *(f"multilingual/{name}" for name in (*PAIRS[:-1], "questions"))),
    "scale": (*RANKING, "passages"),
    "cascade": (*RANKING, "deep", "passages", "questions"),
}
"""Models on which the figures of a section depend: folders below ``models``, and below those of a package by its name."""

UNMEASURED = ("metrics", "training")  # fields of a manifest that say how a model came about, not what it does


def fingerprint(manifest: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits of what a model does: its files, classes, calibration and thresholds."""
    does = {key: value for key, value in manifest.items() if key not in UNMEASURED}
    return hashlib.sha256(json.dumps(does, sort_keys=True).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, str]:
    """Fingerprints of the models that ship, by folder."""
    roots = {
        "": default_models(),
        "multilingual/": ROOT / "packages/semclass-multilingual/semclass_multilingual/models",
    }
    return {
        before + path.parent.relative_to(root).as_posix(): fingerprint(read_json(path))
        for before, root in roots.items()
        for path in sorted(root.rglob(MANIFEST))
    }


def of(section: str) -> dict[str, str]:
    """Everything that a run of a section depends on at present."""
    return {name: shipped()[name] for name in sorted(DEPENDS[section])}


# -- earlier models ---------------------------------------------------------------------------------------------------


def with_line(make: Callable[[Results], str], found: Results, sections: Iterable[str]) -> str:
    """A table and, where earlier models gave some of its figures, the line that says so."""
    return "\n\n".join(part for part in (make(found), line(found, sections)) if part)


def earlier(section: str, found: Results) -> list[str]:
    """Models of a section's results that changed since."""
    measured = found[section]["models"]
    return [name for name in sorted(DEPENDS[section]) if name in measured and measured[name] != shipped().get(name)]


def line(found: Results, sections: Iterable[str]) -> str:
    """The line below a table that has figures of earlier models; "" below others."""
    said: dict[str, None] = {}
    for section in sorted({*sections} & {*found}):
        if models := earlier(section, found):
            # whatever reads an encoder changes with it
            names = "encoder and heads" if "encoder" in models and len(models) > 1 else ", ".join(models)
            said[f"{names} of {found[section]['date']}"] = None
    return f"*Measured with earlier models: {'; '.join(said)}.*" if said else ""


# -- looks at the sets that confirm --------------------------------------------------------------------------------------


LOOKS = Path(__file__).parent / "results" / "looks.jsonl"


def log(what: str, figures: Mapping[str, Any], file: Path = LOOKS) -> None:
    """Add a line with the date, the figures and the fingerprints of the models that gave them."""
    line = {"date": today(), "what": what, "figures": figures, "models": shipped()}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line, sort_keys=True) + "\n")


# -- machine, versions and commit ----------------------------------------------------------------------------------------


PACKAGES = ("numpy", "onnxruntime", "tokenizers")  # of the run time

PEERS = ("bm25s", "ir-measures", "rank-bm25", "scikit-learn", "scipy")


FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
"""Instructions for products of 8-bit numbers. They round differently: the third digit of a figure may differ."""


def of_run() -> dict[str, Any]:
    return {"machine": machine(), "versions": versions(), "date": today(), "commit": commit()}


def today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


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
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def commit() -> str:
    """Commit of the code that measures, with a plus sign if that code was changed since."""
    said = []
    for command in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "semclass", "models", "bench/*.py"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
        said.append(done.stdout.strip() if done.returncode == 0 else "unknown")
    return said[0] + ("+" if said[1] and said[0] != "unknown" else "")
