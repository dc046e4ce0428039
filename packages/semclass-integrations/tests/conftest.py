"""Fixtures of the tests of semclass, and nothing to collect where this package is not installed."""

from world import *  # noqa: F403 - fixtures
from world import ignored_without

collect_ignore_glob = ignored_without("semclass-integrations")
