"""An index that grows and changes: what is made is what a build makes, and what is measured changes nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import Counting, passage_encoder_of

from bench import growth, growth_changes, made_corpus
from semclass import Passage, PassageIndex
from semclass.core.types import Ragged, ragged

VOCABULARY = 20
EMPTY = np.zeros(0, np.int32)


def rows(*items: list[int]) -> Ragged:
    return ragged([np.array(item, np.int32) for item in items], EMPTY)


@pytest.fixture
def pool() -> made_corpus.Pool:
    rng = np.random.default_rng(0)
    terms = rows([1, 2, 2], [3], [1, 4, 5, 6], [7, 8])
    return made_corpus.Pool(
        texts=["first one.", "second one.", "third one.", "fourth one."],
        vectors=made_corpus.unit(rng.standard_normal((4, 8)).astype(np.float32)),
        words=np.full(4, 2, np.float32),
        probabilities=rng.random((4, 2)).astype(np.float32),
        provides=rng.integers(0, 256, (4, 8)).astype(np.uint8),
        tokens=Ragged(rng.integers(0, 256, (10, 3)).astype(np.uint8), terms.offsets),
        pieces=terms,
        terms=terms,
    )


def test_passages_have_three_to_five_sentences_and_the_same_seed_draws_the_same(pool):
    drawn = made_corpus.draw(pool, 200, seed=1)
    assert set(drawn.lengths()) == {3, 4, 5}
    assert set(drawn.values) == {0, 1, 2, 3}
    np.testing.assert_array_equal(drawn.values, made_corpus.draw(pool, 200, seed=1).values)


def test_a_passage_has_the_rows_of_its_sentences_one_after_another(pool):
    drawn = rows([1, 0], [3, 3, 2])
    terms = made_corpus.joined(pool.terms, drawn)
    assert [terms.row(place).tolist() for place in range(2)] == [[3, 1, 2, 2], [7, 8, 7, 8, 1, 4, 5, 6]]
    assert made_corpus.text(pool, drawn.row(0)) == "second one. first one."


def test_what_is_made_is_what_a_build_makes_but_for_what_is_said_to_be_not_encoded(tmp_path, models):
    passage_encoder = models.passage_encoder
    sentences = [
        "the tower was built between 1887 and 1889 by engineers.",
        "its height is about three hundred and thirty metres.",
        "millions of people climb it every single year.",
        "the paint on it weighs as much as ten elephants.",
    ]
    made_corpus.save_pool(made_corpus.read_pool(sentences, passage_encoder), tmp_path / "below" / "pool.npz")
    made_corpus.make(made_corpus.load_pool(tmp_path / "below" / "pool.npz"), 6, passage_encoder, tmp_path / "index")
    index = PassageIndex.load(tmp_path / "index", encoder=passage_encoder.encoder.fingerprint)
    built = PassageIndex.build([index.passage(row) for row in range(6)], passage_encoder=passage_encoder)
    (mine,), (real,) = index.segments, built.segments
    for name in ("pieces", "tokens", "provides", "sentences", "scales", "shares"):
        np.testing.assert_array_equal(getattr(mine, name).values, getattr(real, name).values)
        np.testing.assert_array_equal(getattr(mine, name).offsets, getattr(real, name).offsets)
    assert index.passage(5).id == "5"


TALL, BUILT = "The tower on the hill is very tall indeed.", "It was built of iron and of stone by many."
LAST = "Nobody in the town ever saw it fall down."
TEXTS = [f"{TALL} {BUILT}", "one sentence alone", f"{TALL} {LAST}"]


def passages(*texts):
    return [Passage(str(place), text) for place, text in enumerate(texts)]


SENTENCES = [TALL, BUILT, TEXTS[1], LAST]


@pytest.mark.parametrize(("form", "encoded"), [("standard", SENTENCES), ("lean", SENTENCES), ("pooled", TEXTS)])
def test_the_encoder_alone_is_given_what_the_form_is_made_of(form, encoded):
    """Each sentence once; each passage for the comparison with ``pooled``."""
    encoder = Counting()
    growth_changes.encode_all(passage_encoder_of(encoder), form, passages(*TEXTS), workers=1)
    assert encoder.seen == encoded


@pytest.fixture
def data(tmp_path):
    """The part of the data folder that is needed."""
    folder = tmp_path / "beir" / "squad4"
    folder.mkdir(parents=True)
    texts = [f"The tower was built in {year}. It is {year - 1700} metres tall." for year in range(1880, 1886)]
    rows = [json.dumps({"_id": f"p{place}", "title": "", "text": text}) for place, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    return str(tmp_path)


def test_changes_of_a_made_index(data, tmp_path, models):
    sentences = ["the tower is tall.", "it was built of iron.", "nobody saw it."]
    index = tmp_path / "made" / "20"
    made_corpus.make(made_corpus.read_pool(sentences, models.passage_encoder), 20, models.passage_encoder, index)
    found = growth_changes.changes(str(index), data, add=4, update=2, delete=3)
    counts = {row["what"]: row["passages"] for row in found["rows"]}
    assert (found["passages"], counts["add"], counts["update of texts"], counts["delete"]) == (20, 4, 2, 3)
    assert (counts["first statistics of BM25, after that"], counts["verify"], counts["compact"]) == (24, 21, 21)
    assert found["add_over_encoding"] > 0
    assert len(PassageIndex.load(index)) == 20


def row(passages: int, milliseconds: float) -> dict:
    names = ("plain_ms_p50", "plain_ms_p95", "learned_ms_p50", "learned_ms_p95", "open_s", "service_peak_mb")
    return {"passages": passages, "bytes": 4000 * passages, **dict.fromkeys(names, milliseconds), "recall@10": 0.9954}


def test_tables_show_what_was_measured_and_what_was_not():
    rates = {"build_per_second": 45.04, "needed_per_second": 48.0, "pooled_per_second": 110.0}
    results = {
        "sizes": [row(1000, 1.0), row(10_000, 2.0)],
        "variants": [{"what": growth.LEAN, **row(10_000, 2.0)}],
        "bm25": [{"passages": 10_000, "peer_ms_p50": 80.0, "semclass_ms_p50": 0.1, "ratio": 800.0}],
        "encoders": [{"skipped": "torch is needed for this"}],
        "builds": [{"form": "standard", "workers": 2, **rates, "share_of_needed": 0.938}],
        "changes": [{"what": "add", "passages": 1000, "seconds": 21.5}],
        "kills": {"kills": 704, "survived": 704},
    }
    text = growth.table({"growth": results})
    assert "| 10,000 | 40 MB | 2 MB | 2.00 s | 2.0 ms | 2.0 ms | 2.0 ms | 2.0 ms | 0.995 |" in text
    assert f"| 10,000, {growth.LEAN} | 40 MB |" in text
    assert "| BM25 scores of 10,000 passages, rank-bm25 | 80.00 ms | 0.10 ms | 800.0 x |" in text
    assert "torch is needed for this" in text
    assert "| kills of a writer survived | 704 of 704 | - |" in growth.table_of_changes({"growth": results})
    results["kills"] = {"skipped": "pytest is needed for this"}
    assert "kills" not in growth.table_of_changes({"growth": results})
