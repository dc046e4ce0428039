from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from world import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_an_index_is_all_old_or_all_new_after_a_kill():
    # in a process of its own: models of other tests keep threads, which a fork loses
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "tests" / "index" / "crashing.py"), "6"]  # 1: every operation
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["one by one"] + found["at random"] >= 120
    assert found["opened"]
