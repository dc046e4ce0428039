"""The service does what its OpenAPI document says, whatever it is sent: schemathesis asks, with every check it has.

``SEMCLASS_SCHEMA_EXAMPLES`` is the number of requests for each operation, ``SEMCLASS_SCHEMA_SEED`` their seed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from serving import KEY, KEYS, Served

from semclass import EntailmentClassifier, TextModel
from semclass_serve.engine import Engine
from semclass_serve.limits import Settings

pytest.importorskip("schemathesis")

pytestmark = pytest.mark.extras

EXAMPLES = os.environ.get("SEMCLASS_SCHEMA_EXAMPLES", "10")
SEED = os.environ.get("SEMCLASS_SCHEMA_SEED", "0")
SMALL = {"max_texts": 10, "max_characters": 300, "max_hits": 40}
"""Limits that generated requests reach, and that keep them short."""

CONFIG = """
[checks]
negative_data_rejection.expected-statuses = [400, 401, 404, 405, 413, 415, 422]
# no schema tells which filters, methods and passages there are, nor the limits of the settings
positive_data_acceptance.expected-statuses = [200, 400, 404, 413, 422, 429, 503]
"""


@pytest.mark.parametrize("keys", [(), KEYS], ids=["open", "keys"])
def test_the_service_does_what_its_schema_says(models, retriever, encoder, tmp_path, keys):
    heads = {
        "entailment": EntailmentClassifier.load(encoder=encoder),
        "scope": TextModel.load("in_scope", encoder=encoder),
    }
    engine = Engine(models, retriever, Settings(keys=keys, judgements=tmp_path / "judgements", **SMALL), **heads)
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with Served(engine) as service:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"]
        command += ["--checks", "all", "--continue-on-failure", "--max-examples", EXAMPLES, "--seed", SEED]
        command += ["--generation-database", "none", "--no-color", "--no-shrink"]
        command += ["-H", f"Authorization: Bearer {KEY}"] if keys else []
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    report = "\n".join(line[:600] for line in f"{done.stdout}{done.stderr}".splitlines() if line.strip())
    assert done.returncode == 0, report
