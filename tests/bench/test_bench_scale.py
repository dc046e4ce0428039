from __future__ import annotations

import numpy as np
import pytest

from bench import made_corpus, scale
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
        pooled=made_corpus.unit(rng.standard_normal((4, 8)).astype(np.float32)),
        probabilities=rng.random((4, 2)).astype(np.float32),
        tokens=Ragged(rng.integers(0, 256, (10, 3)).astype(np.uint8), terms.offsets),
        terms=terms,
        codes=rng.integers(0, 256, (4, 5)).astype(np.uint8),
        seconds=1.5,
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


def test_vectors_of_passages_have_length_1_and_are_near_the_mean_of_their_sentences(pool):
    drawn = rows([1, 0], [3, 3, 2])
    found = made_corpus.pooled(pool, drawn, np.random.default_rng(0))
    means = made_corpus.unit(np.stack([pool.pooled[[1, 0]].mean(0), pool.pooled[[3, 3, 2]].mean(0)]))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    assert (np.einsum("nd,nd->n", found, means) > 0.9).all()


def test_a_pool_comes_back_as_it_was_written(pool, tmp_path):
    made_corpus.save_pool(pool, tmp_path / "below" / "pool.npz")
    found = made_corpus.load_pool(tmp_path / "below" / "pool.npz")
    assert (found.texts, found.seconds) == (pool.texts, pool.seconds)
    np.testing.assert_array_equal(found.tokens.row(2), pool.tokens.row(2))
    np.testing.assert_array_equal(found.terms.row(2), pool.terms.row(2))


def test_what_is_made_is_what_a_build_makes_but_for_what_is_said_to_be_not_encoded(tmp_path, models):
    passage_encoder = models.passage_encoder
    if passage_encoder.codebooks is None:
        pytest.skip("models/codebooks is not here")
    sentences = [
        "the tower was built between 1887 and 1889 by engineers.",
        "its height is about three hundred and thirty metres.",
        "millions of people climb it every single year.",
        "the paint on it weighs as much as ten elephants.",
    ]
    pool = made_corpus.read_pool(sentences, passage_encoder)
    made_corpus.make(pool, 6, passage_encoder, tmp_path / "index")
    index = made_corpus.PassageIndex.load(tmp_path / "index", encoder=passage_encoder.encoder.fingerprint)
    found = made_corpus.agreement(pool, index, passage_encoder, range(6))
    assert (found["terms"], found["tokens"], found["sentences"]) == (1, 1, 1)
    assert found["pooled_cosine"] > 0.7
    assert index.passage(5).id == "5"
    assert sum(made_corpus.bytes_of(tmp_path / "index").values()) > 0


def row(passages: int, milliseconds: float) -> dict:
    names = ("plain_ms_p50", "plain_ms_p95", "learned_ms_p50", "learned_ms_p95", "open_s", "service_peak_mb", "make_s")
    return {
        "passages": passages,
        "bytes": 4000 * passages,
        **dict.fromkeys(names, milliseconds),
        "parts_ms": dict.fromkeys(("encode", "find"), milliseconds),
        "recall@10": 0.9954,
        "memory_mb": {"searched": {"own": 100.0}},
    }


def test_what_aims_are_set_for_is_that_of_a_million_or_nothing():
    lean = {"what": scale.LEAN, **row(scale.MILLION, 1400.0)}
    every = {"what": scale.ALL, **row(scale.MILLION, 99.0)}
    assert scale.million([row(1000, 1.0)], [{"what": scale.LEAN, **row(1000, 3.0)}]) == {}
    found = scale.million([row(1000, 1.0), row(scale.MILLION, 9.0)], [lean, every])
    assert (found["plain_ms_p50"], found["recall@10"], found["lean_peak_mb"]) == (9.0, 0.9954, 1400.0)


def results() -> dict:
    return {
        "sizes": [row(1000, 1.0), row(10_000, 2.0)],
        "variants": [{"what": scale.LEAN, **row(10_000, 2.0)}],
        "bm25": [{"passages": 10_000, "peer_ms_p50": 80.0, "semclass_ms_p50": 0.1, "ratio": 800.0}],
        "encoders": [{"skipped": "torch is needed for this"}],
    }


def test_tables_show_what_was_not_measured():
    text = scale.table(results())
    assert "| 10,000 | 40 MB | 2 MB | 2.00 s | 2.0 ms | 2.0 ms | 2.0 ms | 2.0 ms | 0.995 |" in text
    assert f"| 10,000, {scale.LEAN} | 40 MB |" in text
    assert "| BM25 scores of 10,000 passages, rank-bm25 | 80.00 ms | 0.10 ms | 800.0 x |" in text
    assert "torch is needed for this" in text


def test_pictures_are_drawn_from_results():
    pytest.importorskip("matplotlib")
    assert {name: found[:4] for name, found in scale.pictures(results()).items()} == {
        "scale_search.png": b"\x89PNG",
    }
