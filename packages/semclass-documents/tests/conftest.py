"""Fixtures of the tests of semclass, and nothing to collect where this package is not installed."""

from importlib.metadata import PackageNotFoundError, distribution

from cli.conftest import run as run
from world import *  # noqa: F403 - fixtures

try:
    distribution("semclass-documents")
except PackageNotFoundError:
    collect_ignore_glob = ["*.py"]
