"""How many processors a process may use is what its container allows, not what the machine has."""

import os

import pytest

from semclass.core.cpu import available_threads

ALLOWED = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "100000 100000"}, 1),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/\n", {"cpu.max": "max 100000"}, ALLOWED),
        ("0::/\n", {"cpu.max": "90000000 100000"}, ALLOWED),
        ("0::/\n", {"cpu.max": ""}, ALLOWED),
        ("0::/pods/pod1\n", {"pods/pod1/cpu.max": "max 100000\n", "pods/cpu.max": "100000 100000\n"}, 1),
        ("4:cpu,cpuacct:/job\n", {"cpu/job/cpu.cfs_quota_us": "100000", "cpu/job/cpu.cfs_period_us": "100000"}, 1),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, ALLOWED),
        ("", {}, ALLOWED),
    ],
)
def test_the_quota_of_a_container_is_respected(tmp_path, cgroup, files, expected):
    for name, content in {
        "proc/self/cgroup": cgroup,
        **{f"sys/fs/cgroup/{name}": files[name] for name in files},
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert available_threads(tmp_path) == expected
