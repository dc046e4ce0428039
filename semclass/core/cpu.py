"""Processors that this process may use: its affinity, and the quota of its container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path


def available_threads(root: Path = Path("/")) -> int:
    """Processors that this process may keep busy, at least 1; `root` holds ``proc`` and ``sys``.

    A container with a quota (``docker run --cpus 2``) still sees all processors of the machine, and threads beyond the
    quota would only be stopped by the system. Quotas are rounded up; see "CPU" in the kernel's ``cgroup-v2.rst`` and
    ``sched-bwc.rst``.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min([allowed, *(ceil(quota) for quota in _quotas(root))]), 1)


def _quotas(root: Path) -> Iterator[float]:
    """The limits of this process's control groups, in processors."""
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            base, names = root / "sys" / "fs" / "cgroup", ["cpu.max"]
        elif "cpu" in controllers.split(","):
            base, names = root / "sys" / "fs" / "cgroup" / "cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        # a limit of any group above holds, too; in a container the path may be of the machine, with the root its own
        place = base / group.strip("/")
        for folder in {base, *(parent for parent in (place, *place.parents) if base in parent.parents)}:
            numbers = " ".join(_read(folder / name) for name in names).split()
            if len(numbers) == 2 and all(number.isdigit() and int(number) > 0 for number in numbers):
                yield int(numbers[0]) / int(numbers[1])


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""
