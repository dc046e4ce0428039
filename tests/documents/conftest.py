"""The readers of semclass alone, whatever packages are installed."""

import pytest

from semclass.core import plugins


@pytest.fixture(autouse=True)
def no_packages(monkeypatch):
    monkeypatch.setattr(plugins, "installed", lambda group: {})
