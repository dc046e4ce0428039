"""Fixtures and hooks of the tests; tests of packages take the same ones."""

from world import *  # noqa: F403 - fixtures and hooks
