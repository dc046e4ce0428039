from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_an_index_is_all_of_the_old_or_all_of_the_new_whenever_its_writer_is_killed():
    # a process of its own: models of other tests keep threads, and those do not live on in a fork
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "tests" / "index" / "crashing.py"), "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["one by one"] + found["at random"] >= 200
    assert all(found["seen"]), "readers saw each of the three states"
    assert found["within a commit"], "a writer was killed between the first file of a commit and the last"
