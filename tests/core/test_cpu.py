"""How many processors a process may use is what its container allows, not what the machine has."""

import os

import pytest

from semclass.core.cpu import available_threads

ALLOWED = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def system(root, cgroup, files):
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, content in files.items():
        path = root / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_without_control_groups_all_processors_that_the_process_may_run_on_count(tmp_path):
    assert available_threads(tmp_path) == ALLOWED


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("100000 100000", 1), ("50000 100000", 1), ("max 100000", ALLOWED), ("900000 100000", ALLOWED), ("", ALLOWED)],
)
def test_the_quota_of_a_container_is_respected(tmp_path, quota, expected):
    assert available_threads(system(tmp_path, "0::/\n", {"cpu.max": quota})) == min(expected, ALLOWED)


def test_a_limit_of_a_group_above_holds_too(tmp_path):
    files = {"pods/pod1/cpu.max": "max 100000\n", "pods/cpu.max": "100000 100000\n"}
    assert available_threads(system(tmp_path, "0::/pods/pod1\n", files)) == 1


def test_the_first_version_of_control_groups_is_read(tmp_path):
    files = {"cpu/job/cpu.cfs_quota_us": "100000\n", "cpu/job/cpu.cfs_period_us": "100000\n"}
    assert available_threads(system(tmp_path, "4:cpu,cpuacct:/job\n3:memory:/job\n", files)) == 1


def test_no_limit_in_the_first_version_is_no_limit(tmp_path):
    files = {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert available_threads(system(tmp_path, "4:cpu:/\n", files)) == ALLOWED
