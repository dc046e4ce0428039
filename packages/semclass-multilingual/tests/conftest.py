"""Fixtures of the tests of semclass."""

from world import *  # noqa: F403 - fixtures
