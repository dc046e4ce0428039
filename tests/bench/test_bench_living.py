"""How an index that lives is measured: what is compared, and that what is measured changes nothing else."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest
from conftest import FakeEncoder

from bench import living, made_corpus
from semclass import Passage, PassageClassifier, PassageIndex
from semclass.index.passage_encoder import PassageEncoder

TALL, BUILT = "The tower on the hill is very tall indeed.", "It was built of iron and of stone by many."
TEXTS = [f"{TALL} {BUILT}", "one sentence alone", f"{TALL} Nobody in the town ever saw it fall down."]


class Listening(FakeEncoder):
    """Remembers what it was asked to encode."""

    asked: ClassVar[list] = []

    def encode(self, texts, *, views=("pooled",)):
        self.asked.append((list(texts), tuple(views)))
        return super().encode(texts, views=views)


@pytest.fixture
def passage_encoder():
    Listening.asked = []
    return PassageEncoder(PassageClassifier(Listening(), None), None, None)


def passages(*texts):
    return [Passage(str(place), text) for place, text in enumerate(texts)]


def test_the_encoder_alone_is_given_what_the_form_is_made_of(passage_encoder):
    for form, times in (("standard", 2), ("lean", 1), ("pooled", 1)):
        Listening.asked.clear()
        living.encode_all(passage_encoder, form, passages(*TEXTS), workers=1)
        assert [texts for texts, _ in Listening.asked][:1] == [TEXTS]
        assert len(Listening.asked) == times
    living.encode_all(passage_encoder, "standard", passages(*TEXTS), workers=1)
    # each sentence once, and none that is a whole passage
    assert Listening.asked[-1] == ([TALL, BUILT, "Nobody in the town ever saw it fall down."], ("pooled", "tokens"))


def test_every_other_round_goes_backwards():
    order = []
    found = living.by_turns({name: lambda name=name: order.append(name) for name in "abc"}, 3)
    assert "".join(order) == "abccbaabc"
    assert found.keys() == set("abc")


def test_an_index_is_linked_without_a_copy(passage_encoder, tmp_path):
    whole = PassageIndex.build(
        passages(*(f"the boat {number}" for number in range(10))), passage_encoder=passage_encoder
    )
    whole.save(tmp_path / "whole")
    linked = living.linked(str(tmp_path / "whole"), tmp_path / "linked")
    with living.IndexWriter.open(linked) as writer:
        writer.delete(["3"])
    assert len(PassageIndex.load(linked)) == 9
    assert len(PassageIndex.load(tmp_path / "whole")) == 10


@pytest.fixture
def data(tmp_path):
    """The part of the data folder that is needed."""
    folder = tmp_path / "beir" / "squad4"
    folder.mkdir(parents=True)
    texts = [f"The tower was built in {year}. It is {year - 1700} metres tall." for year in range(1880, 1886)]
    rows = [json.dumps({"_id": f"p{place}", "title": "", "text": text}) for place, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    asked = [json.dumps({"_id": f"q{year}", "text": f"What was built in {year}?"}) for year in range(1880, 1884)]
    (folder / "queries.jsonl").write_text("\n".join(asked) + "\n")
    return str(tmp_path)


def test_changes_of_a_made_index(data, tmp_path, models):
    if models.passage_encoder.codebooks is None:
        pytest.skip("models/codebooks is not here")
    pool = made_corpus.read_pool(
        ["the tower is tall.", "it was built of iron.", "nobody saw it."], models.passage_encoder
    )
    index = tmp_path / "made" / "20"
    made_corpus.make(pool, 20, models.passage_encoder, index)
    found = living.changes(str(index), data, rounds=2, add=4, update=2, delete=3)
    counts = {row["what"]: row["passages"] for row in found["rows"]}
    assert (found["passages"], counts["add"], counts["update of texts"], counts["delete"]) == (20, 4, 2, 3)
    assert (counts["first statistics of BM25, after that"], counts["verify"], counts["compact"]) == (24, 21, 21)
    assert found["add_over_encoding"] > 0
    assert [path.name for path in index.parent.iterdir()] == ["20"]


def test_tables_tell_builds_changes_and_kills():
    rates = {"build_per_second": 45.04, "needed_per_second": 48.0, "pooled_per_second": 110.0}
    results = {
        "builds": [{"form": "standard", "workers": 2, **rates, "share_of_needed": 0.938}],
        "changes": [{"what": "add", "passages": 1000, "seconds": 21.5}],
        "kills": {"kills": 704, "survived": 704},
    }
    text = living.table(results)
    assert "| standard, 2 workers | 45.0 | 48.0 | 110.0 | 94 % |" in text
    assert "| add | 1,000 | 21.50 s |" in text
    assert "| kills of a writer survived | 704 of 704 | - |" in text
    assert "kills" not in living.table({**results, "kills": {"skipped": "pytest is needed for this"}})
