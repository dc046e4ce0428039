"""The readers of semclass alone, whatever packages are installed."""

import pytest


@pytest.fixture(autouse=True)
def readers_of_semclass(no_packages):
    """Read without packages."""
