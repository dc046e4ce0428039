"""A model folder is a repository as model hubs have it: a card with front matter, and files that a hub's do not break."""

from __future__ import annotations

import pytest
from huggingface_hub import ModelCard
from world import MODELS

from semclass import TextClassifier

CARDS = sorted(path.relative_to(MODELS).as_posix() for path in MODELS.rglob("README.md"))
TEXTS = ["Can I renew my card?", "When do you open?", "Where can I print?", "Hello!", "Good night.", "How are you?"]


@pytest.mark.parametrize("name", CARDS)
def test_cards_have_the_front_matter_that_hubs_read(name):
    data = ModelCard.load(MODELS / name).data
    assert (data.library_name, data.license, data.language) == ("semclass", "apache-2.0", "en")
    assert "semclass" in data.tags


def test_the_card_of_a_classifier_brings_its_figures(tmp_path):
    labels = ["in scope"] * 3 + ["chit-chat"] * 3
    TextClassifier().fit(TEXTS, labels).save(
        tmp_path / "head", title="Library: in scope?", language="en", license="mit"
    )
    data = ModelCard.load(tmp_path / "head" / "README.md").data
    assert (data.library_name, data.license, data.pipeline_tag) == ("semclass", "mit", "text-classification")
    assert data.model_name == "Library: in scope?"
    figures = {result.metric_type: result.metric_value for result in data.eval_results}
    assert set(figures) == {"accuracy", "f1", "expected_calibration_error"}
    assert all(0 <= value <= 1 for value in figures.values())
