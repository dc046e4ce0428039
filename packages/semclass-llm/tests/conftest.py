"""Fixtures of the tests of semclass, and nothing to collect where this package or a library of it is missing."""

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from cli.conftest import run as run
from world import *  # noqa: F403 - fixtures

try:
    distribution("semclass-llm")
    installed = find_spec("openai") is not None
except PackageNotFoundError:
    installed = False
if not installed:
    collect_ignore_glob = ["*.py"]
