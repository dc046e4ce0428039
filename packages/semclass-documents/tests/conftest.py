"""Fixtures of the tests of semclass, and nothing to collect where this package is not installed."""

import pytest
from cli.conftest import run as run
from world import *  # noqa: F403 - fixtures
from world import ignored_without

from semclass.plugins import cut_document

collect_ignore_glob = ignored_without("semclass-documents")

OWN_PROCESS = {"test_command_line.py", "test_limits.py", "test_reading.py"}
"""Tests of the process that reads documents."""


@pytest.fixture(autouse=True)
def in_this_process(request, monkeypatch):
    """Read and cut documents here: a process for each of hundreds of small ones takes longer than they do."""
    if request.path.name not in OWN_PROCESS:
        from semclass_documents.reader import convert
        from semclass_documents.worker import Worker

        monkeypatch.setattr(Worker, "read", lambda _, path, chunking: convert(path, chunking))
        monkeypatch.setattr(Worker, "cut", lambda _, *document: list(cut_document(*document)))
