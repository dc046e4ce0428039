"""Fixtures of the tests of semclass, and nothing to collect where this package or a library of it is missing."""

from cli.conftest import run as run
from world import *  # noqa: F403 - fixtures
from world import ignored_without

collect_ignore_glob = ignored_without("semclass-llm") + ignored_without("openai")
