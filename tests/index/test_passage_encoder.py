from __future__ import annotations

import numpy as np
import pytest
from world import FAKE, Counting, passage_encoder_of

from semclass import InputError, Passage, PassageIndex
from semclass.encoders import excerpts
from semclass.index.passage_encoder import parts_of, searchable, title_of

FIRST, SECOND = "The keeper lit the lamp of the lighthouse at dusk.", "His boat was painted green by the boys."


def read(passage_encoder, *texts, title=None, **wanted):
    metadata = {} if title is None else {"title": title}
    return passage_encoder.read([Passage(str(place), text, metadata) for place, text in enumerate(texts)], **wanted)


@pytest.fixture
def short_excerpts(monkeypatch):
    """Each of the sentences above is an excerpt."""
    monkeypatch.setattr(excerpts, "MEAN_SIZE", 10)


@pytest.mark.usefixtures("short_excerpts")
def test_every_excerpt_is_read_by_itself(models):
    evidence, cut = read(models.passage_encoder, f"{FIRST} {SECOND}", SECOND)
    assert cut == ()
    assert evidence.excerpts.lengths().tolist() == [2, 1]
    assert evidence.words.values.tolist() == [10, 8, 8]
    np.testing.assert_allclose(evidence.excerpts.row(0)[1], evidence.excerpts.row(1)[0], atol=1e-5)
    own = evidence.tokens.row(1)
    np.testing.assert_allclose(evidence.tokens.row(0)[-len(own) :], own, atol=1e-5)


@pytest.mark.usefixtures("short_excerpts")
def test_the_title_is_read_before_each_excerpt(models):
    title = "Lighthouses of the north-east (a list)"
    evidence, _ = read(models.passage_encoder, f"{FIRST} {SECOND}", "", title=title)
    whole, alone = (read(models.passage_encoder, text)[0] for text in (f"{title} {FIRST}", title))
    np.testing.assert_allclose(evidence.excerpts.row(0)[0], whole.excerpts.row(0)[0], atol=1e-5)
    np.testing.assert_allclose(evidence.excerpts.row(1), alone.excerpts.row(0), atol=1e-5)
    assert evidence.words.values.tolist() == [10, 8, 6]
    assert evidence.tokens.lengths().tolist() == evidence.pieces.lengths().tolist()
    np.testing.assert_allclose(evidence.tokens.row(0)[: len(whole.tokens.row(0))], whole.tokens.row(0), atol=1e-5)


@pytest.mark.usefixtures("short_excerpts")
def test_each_excerpt_is_encoded_once():
    encoder = Counting()
    passage_encoder = passage_encoder_of(encoder)
    texts = ["a red boat", f"{FIRST} {SECOND}", "a green hill", f"{SECOND} {FIRST}"]
    found, _ = read(passage_encoder, *texts)
    assert sorted(encoder.seen) == sorted(set(encoder.seen))
    assert len(encoder.seen) == 4
    for row, text in enumerate(texts):
        alone, _ = read(passage_encoder, text)
        for name in ("tokens", "excerpts", "pieces"):
            np.testing.assert_array_equal(getattr(found, name).row(row), getattr(alone, name).row(0))


def test_a_title_alone_is_a_passage():
    passage = Passage("a", " ", {"title": "the red boat"})
    assert searchable(passage) == "the red boat"
    assert PassageIndex.build([passage], passage_encoder=FAKE).segments[0].pieces.lengths().tolist() == [3]
    with pytest.raises(InputError, match="text of passage 'b' is empty"):
        searchable(Passage("b", " ", {"title": " "}))


def test_a_heading_that_opens_the_text_is_read_once():
    path = {"headings": ["Manual", "Who uses it?"]}
    whole = searchable(Passage("a", "## Who uses it?\n\nMany do.", path))
    assert whole.split() == ["Manual.", "Who", "uses", "it?", "Many", "do."]
    named = {**path, "heading": "Who uses it?"}
    assert parts_of(Passage("a", "Who uses it?\n\nMany do.", named))[1].strip() == "Many do."
    assert parts_of(Passage("a", "## Who uses it?", path))[1] == "## Who uses it?"
    assert parts_of(Passage("a", "## Others\n\nMany do.", path))[1] == "## Others\n\nMany do."
    assert parts_of(Passage("a", "# Who uses it?\n\nMany do."))[1] == "# Who uses it?\n\nMany do."


def test_headings_are_read_as_a_title_unless_there_is_one():
    path = {"headings": ["Manual", " The  boiler? ", "Warranty"]}
    assert searchable(Passage("a", "Two years.", path)) == "Manual. The boiler? Warranty. Two years."
    assert searchable(Passage("a", "Two years.", {"title": "Heat", **path})) == "Heat Two years."
    long = {"headings": ["Outermost", "word " * 20, "a b c d"]}
    assert title_of(Passage("a", "x", long)) == "word " * 19 + "word. a b c d."
    assert title_of(Passage("a", "x", {"headings": "Tea"})) == ""
