"""Classes by name and description, without examples."""

from __future__ import annotations

import pytest
from world import MODELS

from semclass import (
    InputError,
    InputTypeError,
    OnnxEncoder,
    ZeroShotClassifier,
    read_descriptions,
)

TOPICS = {
    "refund": "Somebody wants money back for something that was bought.",
    "opening_hours": "",
    "parking": "Where to leave the car.",
}
ASKED = {"I want my money back": "refund", "When do you open?": "opening_hours", "Can I leave my van here?": "parking"}


@pytest.fixture(scope="module")
def model():
    return ZeroShotClassifier.from_descriptions(TOPICS)


def test_texts_get_the_class_that_describes_them(model):
    found = model.classify(ASKED)
    assert [one.label for one in found] == list(ASKED.values())
    assert list(found[0].probabilities) == list(TOPICS)


def test_with_another_encoder_the_vectors_decide_alone():
    model = ZeroShotClassifier.from_descriptions(TOPICS, encoder=OnnxEncoder.load(MODELS / "encoder"))
    assert model.entailment is None
    assert model.predict(ASKED) == list(ASKED.values())


def test_of_many_classes_the_nearest_are_read_closely():
    model = ZeroShotClassifier.from_descriptions({f"topic {number}": "" for number in range(12)} | TOPICS)
    assert model.predict(ASKED) == list(ASKED.values())


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"a": ""}, InputError), (["a", "b"], InputTypeError),
     ({"a": 1, "b": ""}, InputTypeError), ({" ": "", "b": ""}, InputError)],
)  # fmt: skip
def test_wrong_descriptions_are_refused(wrong, error):
    with pytest.raises(error):
        ZeroShotClassifier.from_descriptions(wrong)


def test_labels_are_read_from_json(tmp_path):
    (tmp_path / "a.json").write_text('["b", "a"]')
    assert read_descriptions(tmp_path / "a.json") == {"b": "", "a": ""}
    for wrong in ('["a", "a"]', "[]", "{", '{"a": 1}', "3"):
        (tmp_path / "a.json").write_text(wrong)
        with pytest.raises(InputError, match=r"a\.json"):
            read_descriptions(tmp_path / "a.json")
