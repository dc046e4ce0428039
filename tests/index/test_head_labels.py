"""Heads of one's own label the passages of an index: what is found by the labels, and what keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from world import Counting, FakeEncoder, passage_encoder_of

from semclass import InputError, Passage, PassageIndex, TextClassifier, build_index, change_index
from semclass.heads.texts import TextModel, open_heads
from semclass.index.folder import describe
from semclass.index.verify import verify
from semclass.index.writer import find_changes, sync_index

ENCODER = FakeEncoder()
BOAT, CAKE = "the red boat on the lake", "a sweet cake with cream"
TEXTS = [f"{BOAT} {number}" for number in range(6)] + [f"{CAKE} {number}" for number in range(6)]


def fitted(folder, labels, **options):
    """A head over the made-up encoder."""
    TextClassifier(ENCODER, cv=2, **options).fit(TEXTS, labels).save(folder)
    return folder


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    return {
        "topic": fitted(folder / "topic", ["boat"] * 6 + ["cake"] * 6),
        "parity": fitted(folder / "parity", [0, 1] * 6),
    }


def reading(encoder=ENCODER, **heads):
    """A passage encoder with heads, and with no others."""
    return replace(passage_encoder_of(encoder), heads=open_heads(heads, encoder))


MIXED = [
    Passage("a", f"{BOAT} 7", {"page": 1}),
    Passage("b", f"{CAKE} 8"),
    Passage("c", f"{CAKE} 9", {"title": "boat"}),
]


@pytest.fixture
def folder(tmp_path, heads):
    build_index(tmp_path / "index", MIXED, passage_encoder=reading(**heads), workers=1)
    return tmp_path / "index"


def labels(folder, field="topic"):
    index = PassageIndex.load(folder)
    return {passage.id: passage.metadata.get(field) for passage in index.passages(index.rows)}


def test_passages_bear_what_the_heads_say_of_title_and_text(folder, heads):
    index = PassageIndex.load(folder)
    model = TextModel.load(heads["topic"], encoder=ENCODER)
    expected = model.classify([f"{BOAT} 7", f"{CAKE} 8", f"boat {CAKE} 9"])
    found = index.passages(index.rows)
    assert [passage.metadata["topic"] for passage in found] == [item.label for item in expected]
    assert [passage.metadata["topic_probability"] for passage in found] == pytest.approx(
        [item.probability for item in expected], abs=1e-4
    )
    assert {passage.metadata["parity"] for passage in found} <= {0, 1}
    assert found[0].metadata["page"] == 1
    assert [found.id for found in index.passages(index.mask({"topic": "boat"}).nonzero()[0])] == ["a"]
    assert describe(folder)["heads"] == {name: head.fingerprint for name, head in reading(**heads).heads.items()}
    assert verify(folder)["passages"] == 3


def test_a_head_of_several_labels_gives_a_list(tmp_path):
    both = [("boat",)] * 6 + [("cake", "sweet")] * 6
    head = fitted(tmp_path / "head", both, multi_label=True)
    index = PassageIndex.build(MIXED, passage_encoder=reading(tags=head))
    assert index.passages(index.rows)[1].metadata["tags"] == ["cake", "sweet"]
    assert index.mask({"tags": "sweet"}).tolist() == [False, True, True]


def test_new_metadata_and_new_ids_keep_the_labels(folder, heads):
    before, counting = labels(folder), Counting()
    new = [Passage("a", f"{BOAT} 7", {"page": 2})]
    change_index(folder, add=new, existing="replace", passage_encoder=reading(counting, **heads))
    assert labels(folder) == before
    moved = [Passage("z", f"{BOAT} 7", {"page": 2}), *MIXED[1:]]
    assert sync_index(folder, moved, passage_encoder=reading(counting, **heads))
    assert labels(folder) == {"b": before["b"], "c": before["c"], "z": before["a"]}
    assert find_changes(PassageIndex.load(folder), moved) == []
    assert counting.seen == []


def test_new_texts_are_labelled_by_the_same_heads(folder, heads):
    new = [Passage("d", f"{CAKE} 4"), Passage("a", f"{CAKE} 5")]
    change_index(folder, add=new, existing="replace", passage_encoder=reading(**heads))
    assert labels(folder) == dict.fromkeys("abcd", "cake")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'topic'.*the models have none.*--head parity=DIR --head topic=DIR"),
        ({"topic": "parity", "parity": "parity"}, "by the head 'topic' with the fingerprint"),
        ({"topic": "topic"}, "the models have 'topic'"),
    ],
)
def test_other_heads_than_those_of_the_index_are_refused(folder, heads, given, message):
    used = reading(**{name: heads[head] for name, head in given.items()})
    with pytest.raises(InputError, match=message):
        change_index(folder, add=[Passage("d", BOAT)], passage_encoder=used)
    assert len(labels(folder)) == 3


def test_a_field_of_that_name_is_refused(tmp_path, heads):
    with pytest.raises(InputError, match="the field 'topic_probability'"):
        build_index(tmp_path, [Passage("a", BOAT, {"topic_probability": 1})], passage_encoder=reading(**heads))
