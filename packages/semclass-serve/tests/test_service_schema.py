"""Whether the service does what its OpenAPI document says, whatever it is sent: schemathesis asks, with every check it has.

``SEMCLASS_SCHEMA_EXAMPLES`` says how many requests to make up for each operation, ``SEMCLASS_SCHEMA_SEED`` from which seed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from served import Served

from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.heads.entailment import EntailmentClassifier
from semclass.heads.in_scope import ScopeClassifier
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

pytest.importorskip("schemathesis")

pytestmark = pytest.mark.extras

EXAMPLES = os.environ.get("SEMCLASS_SCHEMA_EXAMPLES", "10")
SEED = os.environ.get("SEMCLASS_SCHEMA_SEED", "0")

SMALL = Settings(max_texts=10, max_characters=300, max_hits=40)
"""Limits that made-up requests reach, and that keep them short."""

KEY = "a-key-that-is-long-enough"


@pytest.fixture(scope="module")
def parts(models: Models, encoder, corpus: list[Passage]) -> tuple[Models, HybridRetriever, dict[str, Any]]:
    """Models, an index, and the heads beside them."""
    index = PassageIndex.build(corpus, passage_encoder=models.passage_encoder)
    heads = {
        "entailment": EntailmentClassifier.load(encoder=encoder),
        "scope": ScopeClassifier.load(encoder=encoder),
    }
    return models, HybridRetriever(index, models), heads


CONFIG = """
[checks]
# that there is too much of something is told by 413
negative_data_rejection.expected-statuses = [400, 401, 404, 405, 413, 415, 422]

# what a condition means, and which passages there are, no schema tells
[[operations]]
include-path = ["/api/filter", "/api/feedback"]
checks.positive_data_acceptance.expected-statuses = [200, 404, 422, 429, 503]
"""


def check(engine: Engine, folder: Path, *options: str) -> None:
    """Fail with the report of schemathesis, if it finds anything."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    with Served(engine) as service:
        command = [Path(sys.executable).parent / "schemathesis", "run", f"{service.url}/openapi.json"]
        command += ["--checks", "all", "--continue-on-failure", "--max-examples", EXAMPLES, "--seed", SEED]
        command += ["--generation-database", "none", "--no-color", "--no-shrink", *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = "\n".join(line[:600] for line in f"{done.stdout}{done.stderr}".splitlines() if line.strip())
    sys.stdout.write(report)  # for pytest -s
    assert done.returncode == 0, report


def test_everything_that_may_be_asked(parts, tmp_path):
    models, retriever, heads = parts
    check(Engine(models, retriever, SMALL, **heads), tmp_path)


def test_everything_that_may_be_asked_with_a_key(parts, tmp_path):
    models, retriever, heads = parts
    settings = replace(SMALL, keys=(hashlib.sha256(KEY.encode()).digest(),))
    check(Engine(models, retriever, settings, **heads), tmp_path, "-H", f"Authorization: Bearer {KEY}")


def test_everything_that_may_be_asked_without_an_index(parts, tmp_path):
    models, _, heads = parts
    check(Engine(models, None, SMALL, **heads), tmp_path, "--include-path", "/api/search")
