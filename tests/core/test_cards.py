"""A model folder is a repository as model hubs have it: a card with front matter, and files that a hub's do not break."""

from __future__ import annotations

import pytest
from huggingface_hub import ModelCard
from world import MODELS

CARDS = sorted(path.relative_to(MODELS).as_posix() for path in MODELS.rglob("README.md"))


@pytest.mark.parametrize("name", CARDS)
def test_cards_have_the_front_matter_that_hubs_read(name):
    data = ModelCard.load(MODELS / name).data
    assert (data.library_name, data.license, data.language) == ("semclass", "apache-2.0", "en")
    assert "semclass" in data.tags
