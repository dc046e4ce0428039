"""Of which models a figure is: a fingerprint of each that ships, and the line that marks what earlier ones gave.

Every run in a file of results has ``models``: of each model that its figures depend on the fingerprint, None where it is
not known any more. Beside the run that wrote a file, ``also`` lists others whose figures it holds, with the ``keys`` under
which these stand and, where the keys hold figures of several runs, the ``rows`` that are theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from semclass.core.artifacts import MANIFEST, default_models, read_json

ROOT = Path(__file__).parent.parent
Results = Mapping[str, Mapping[str, Any]]  # by section, what its file holds

PAIRS = ("codebooks", "encoder", "pairs/entailment", "pairs/evidence", "pairs/learned")
RANKING = ("entailment", *PAIRS)  # of a search
CLASSES = ("match", "passages", "questions")  # what the methods of the thesis read, too

DEPENDS: Mapping[str, tuple[str, ...]] = {
    "main_job": RANKING,
    "labels": ("encoder", "passages", "questions"),
    "questions": ("encoder", "questions", "questions-svm"),
    "passages": ("encoder", "passages"),
    "entailment": ("encoder", "entailment", "deep"),
    "retrieval": RANKING,
    "carry": (*RANKING, "deep", "language"),
    "thesis": (*RANKING, *CLASSES),
    "service": RANKING,
    "words": RANKING,
    "abstain": (*RANKING, "answerable", "deep"),
    "small_folders": (*RANKING, "answerable", "generic"),
    "languages": (*RANKING, "language", *(f"multilingual/{name}" for name in (*PAIRS, "deep", "questions"))),
    "cascade": (*RANKING, "deep", "passages", "questions", "questions-svm"),
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
    """What a run of a section, done now, depends on."""
    return {name: shipped()[name] for name in sorted(DEPENDS[section])}


def runs(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The run that wrote a file of results, and others whose figures were put into it."""
    return [results, *results.get("also", ())]


# -- what a table reads -----------------------------------------------------------------------------------------------


class _Noted(Mapping[str, Any]):
    """A mapping that calls `note` with each key that is read of it, and of all that it holds."""

    def __init__(self, held: Mapping[str, Any], note: Callable[[str], object]) -> None:
        self._held, self._note = held, note

    def __getitem__(self, key: str) -> Any:
        value = self._held[key]
        self._note(key)
        return self._wrapped(value)

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return _Noted(value, self._note)
        return [self._wrapped(item) for item in value] if isinstance(value, list) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def noting(found: Results, read: set[tuple[str, str]]) -> Results:
    """Results of all sections that put into `read` which keys, at any depth, are read of which section."""

    def section(name: str) -> Mapping[str, Any]:
        return _Noted(found[name], lambda key: read.add((name, key)))

    return {name: section(name) for name in found}


def with_line(make: Callable[[Results], str], found: Results) -> str:
    """A table and, where earlier models gave some of its figures, the line that says so."""
    read: set[tuple[str, str]] = set()
    table = make(noting(found, read))
    return "\n\n".join(part for part in (table, line(found, read)) if part)


# -- earlier models ---------------------------------------------------------------------------------------------------


def earlier(run: Mapping[str, Any]) -> dict[str, str | None]:
    """Models of a run that do not ship any more, and their fingerprints."""
    return {name: value for name, value in run["models"].items() if value is None or value != shipped().get(name)}


def line(found: Results, read: set[tuple[str, str]]) -> str:
    """What stands below a table that has figures of earlier models; "" below others."""
    said: dict[str, None] = {}
    sections = sorted({name for name, _ in read})
    for section in sections:
        keys = {key for name, key in read if name == section}
        for run in runs(found[section]):
            if _owned(found[section], run) & keys and (models := earlier(run)):
                said[_told(run, models, section if len(sections) > 1 else "")] = None
    return f"*Measured with earlier models: {'; '.join(said)}.*" if said else ""


def _owned(results: Mapping[str, Any], run: Mapping[str, Any]) -> set[str]:
    """Keys of a file that hold figures of a run: those it names, and for the run that wrote it those that no other has."""
    if "keys" in run:
        return set(run["keys"])
    return set(results).difference(*(one["keys"] for one in results.get("also", ()) if "rows" not in one))


def _told(run: Mapping[str, Any], models: Mapping[str, str | None], section: str) -> str:
    """Such as ``encoder, questions of 2026-11-22``; where not known which models these were, it says so."""
    names = ", ".join(name if known else f"{name} (which is not known)" for name, known in models.items())
    if "encoder" in models and len(models) > 1:  # whatever reads an encoder changes with it
        names = "encoder and heads"
    rows = ", ".join(f"`{row}`" for row in run.get("rows", ()))
    more = ": ".join(filter(None, [section and f"section {section}", rows]))
    return f"{names} of {run['date']}" + (f" ({more})" if more else "")


# -- rows of an earlier run -------------------------------------------------------------------------------------------

OF_RUN = ("commands", "commit", "date", "machine", "models", "seconds_of_section", "threads", "versions")


def kept(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a run, with rows of others that it had to skip as an earlier run measured them.

    A row of a peer in ``systems`` depends on no model of ours, nor does a network that was tuned with few labels; one in
    ``sets`` does, whose candidates it re-orders.
    """
    also: dict[str, dict[str, Any]] = {}

    def rows(part: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        measured = (row for row in old.get("systems", ()) if "skipped" not in row and row["kind"] != "semclass")
        known = {row["name"]: row for row in measured}
        lost = [row["name"] for row in new["systems"] if "skipped" in row and row["name"] in known]
        for name in lost:
            made = _run_of(before, part, name)
            if part == "systems":
                made["models"] = {}
            one = also.setdefault(json.dumps([part, made], sort_keys=True), {**made, "keys": [part], "rows": []})
            one["rows"] = list(dict.fromkeys([*one["rows"], name]))
        return [known[row["name"]] if row["name"] in lost else row for row in new["systems"]]

    result = dict(now)
    if "systems" in now:
        result["systems"] = rows("systems", before, now)
    if "sets" in now:
        old = before.get("sets", {})
        result["sets"] = {
            name: {**one, "systems": rows("sets", old.get(name, {}), one)} for name, one in now["sets"].items()
        }
    if "few_labels" in now:
        old = before.get("few_labels", {})
        result["few_labels"] = {
            name: {size: _with_tuned(old.get(name, {}).get(size, {}), one) for size, one in sizes.items()}
            for name, sizes in now["few_labels"].items()
        }
        if result["few_labels"] != now["few_labels"]:
            made = _run_of(before, "few_labels", TUNED)
            also["few_labels"] = {**made, "models": {}, "keys": ["few_labels"], "rows": [TUNED]}
    return {**result, "also": list(also.values())} if also else result


TUNED = "tuned"  # name of a network among the systems of few labels


def _with_tuned(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    known = {name: row for name, row in old.get("systems", {}).items() if name == TUNED}
    return {**new, "systems": {**known, **new["systems"]}}


def _run_of(before: Mapping[str, Any], part: str, row: str) -> dict[str, Any]:
    """The run that made a row of an earlier file."""
    others = (one for one in before.get("also", ()) if part in one["keys"] and row in one.get("rows", ()))
    run = next(others, before)
    return {key: run[key] for key in OF_RUN if key in run}


# -- looks at the sets that confirm --------------------------------------------------------------------------------------


LOOKS = Path(__file__).parent / "results" / "looks.jsonl"


def log(what: str, figures: Mapping[str, Any], file: Path = LOOKS) -> None:
    """Add a line with the date, the figures and the fingerprints of the models that gave them."""
    date = datetime.now(timezone.utc).date().isoformat()
    line = {"date": date, "what": what, "figures": figures, "models": shipped()}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line, sort_keys=True) + "\n")


# -- machine, versions and commit ----------------------------------------------------------------------------------------


PACKAGES = ("numpy", "onnxruntime", "tokenizers")  # of the run time

PEERS = (
    "bm25s", "ir-measures", "joblib", "model2vec", "openai", "scikit-learn", "scipy",
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
