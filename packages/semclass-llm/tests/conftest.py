"""Fixtures of the tests of semclass, and nothing to collect where this package or a library of it is missing."""

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

import pytest
from cli.running import running
from world import *  # noqa: F403 - fixtures

run = pytest.fixture(running)

try:
    distribution("semclass-llm")
    installed = all(map(find_spec, ("openai", "cleanlab")))
except PackageNotFoundError:
    installed = False
if not installed:
    collect_ignore_glob = ["*.py"]
