from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_models import export
from world import MODELS

from semclass import InputError, OnnxEncoder
from semclass.core.artifacts import fits
from semclass.encoders import onnx_encoder
from semclass.encoders.onnx_encoder import cut_windows

TEXTS = [
    "Who was Galileo?",
    "Tides arise because the pull of the moon is stronger on the near side.",
    "x",
    "The tower was designed by the engineer Ada Merriweather, who had built bridges before. " * 4,
]
VIEWS = ("pooled", "layers", "tokens")
PASSAGE_VIEWS = (*VIEWS, "entities")


def test_vectors_are_of_unit_length_and_mean_something(encoder):
    encoding = encoder.encode(["How tall is it?", "What is its height?", "Who wrote the book?"])
    np.testing.assert_allclose(np.linalg.norm(encoding.pooled, axis=1), 1, atol=1e-5)
    same, other = encoding.pooled[0] @ encoding.pooled[1], encoding.pooled[0] @ encoding.pooled[2]
    assert same > other + 0.3


def test_views_have_the_shapes_of_the_manifest(encoder):
    encoding = encoder.encode(TEXTS, views=(*VIEWS, "states"))
    assert encoding.pooled.shape == (4, encoder.views["pooled"])
    assert encoding.layers.shape == (4, encoder.views["layers"])
    assert encoding.tokens.values.shape == (len(encoding.terms.values), encoder.views["tokens"])
    assert encoding.states.lengths().tolist() == (encoding.terms.lengths() + 2).tolist()  # two special pieces
    assert {getattr(encoding, view).dtype for view in ("pooled", "layers")} == {np.dtype(np.float32)}
    np.testing.assert_allclose(np.linalg.norm(encoding.tokens.values, axis=1), 1, atol=1e-5)
    none = encoder.encode([], views=VIEWS)
    assert none.pooled.shape == (0, encoder.views["pooled"])
    assert len(none.tokens) == len(none.terms) == 0
    with pytest.raises(InputError, match="'entities' was not encoded"):
        encoding.rows("entities")


def test_batches_and_threads_change_nothing(encoder, monkeypatch):
    together = encoder.encode(TEXTS, views=VIEWS)
    with ThreadPoolExecutor(8) as pool:
        alone = list(pool.map(lambda text: encoder.encode([text], views=VIEWS), TEXTS * 3))
    monkeypatch.setattr(onnx_encoder, "BATCH", 2)
    other = OnnxEncoder.load(MODELS / "encoder", threads=2).encode(TEXTS, views=VIEWS)
    found = [(other, row, row) for row in range(4)] + [(one, 0, row % 4) for row, one in enumerate(alone)]
    for encoding, place, row in found:
        np.testing.assert_allclose(encoding.pooled[place], together.pooled[row], atol=1e-5)
        np.testing.assert_allclose(encoding.layers[place], together.layers[row], atol=1e-4)
        np.testing.assert_allclose(encoding.tokens.row(place), together.tokens.row(row), atol=1e-4)


@pytest.mark.parametrize("kind", ["questions", "passages"])
def test_no_bit_of_a_text_depends_on_the_text_beside_it(encoder, kind):
    read, words = (
        encoder if kind == "questions" else encoder.for_passages,
        ["which", "old", "bridge", "over", "the", "river", "fell"],
    )
    texts = [" ".join((words * 3)[:n]) for n in range(1, 20)]
    together = read.encode(texts, views=("pooled", "layers"))
    for row, text in enumerate(texts):
        alone = read.encode([text], views=("pooled", "layers"))
        for view in ("pooled", "layers"):
            np.testing.assert_array_equal(alone.rows(view)[0], together.rows(view)[row])


def test_long_texts_are_read_in_windows(encoder):
    # three windows of 200 pieces, each the same text
    window = "In 1921 the museum was moved to Dublin by Ada Merriweather. " * 17
    pieces = int(encoder.encode([window]).terms.lengths()[0])
    assert 170 < pieces < 254
    alone = encoder.encode([window], views=PASSAGE_VIEWS)
    long = encoder.encode(["short", window * 3, "Who?"], views=PASSAGE_VIEWS)
    assert long.tokens.lengths()[1] == long.terms.lengths()[1] == 3 * pieces
    for view in ("pooled", "layers", "entities"):
        np.testing.assert_allclose(long.rows(view)[1], alone.rows(view)[0], atol=2e-5)
    np.testing.assert_allclose(long.tokens.row(1)[pieces : 2 * pieces], alone.tokens.values, atol=2e-5)
    short = encoder.encode(["short"], views=PASSAGE_VIEWS)
    np.testing.assert_allclose(long.pooled[0], short.pooled[0], atol=1e-6)


def test_a_window_finds_what_the_others_lack(encoder):
    dull = "It is as it was and so it will be for all of them. " * 40
    without, within = encoder.encode([dull, f"{dull} Ada Merriweather came in 1921."], views=("entities",)).entities
    assert within[0] > without[0] + 2  # a person
    assert within[3] > without[3] + 2  # a date


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(1, 9), st.integers(1, 5))
def test_windows_hold_as_much_as_they_may(lengths, room, most):
    windows = cut_windows(np.array(lengths), room, most)
    assert windows.lengths.max() <= room
    for text, length in enumerate(lengths):
        own = windows.owners == text
        ends = windows.starts[own] + windows.lengths[own]
        assert 1 <= own.sum() <= most
        assert ends[-1] == min(length, room * most)
        assert windows.starts[own].tolist() == [0, *ends[:-1].tolist()]
        assert np.ptp(windows.lengths[own]) <= 1


def test_longer_texts_are_truncated_but_not_their_terms(encoder):
    long = "word " * 4100
    encoding = encoder.encode(["short", long], views=("tokens",))
    assert (encoding.limit, encoding.truncated) == (4064, [1])
    assert encoding.terms.lengths().tolist() == [1, 4100]
    assert encoding.tokens.lengths().tolist() == [1, 4064]
    encoding = encoder.encode(["word " * 254, "word " * 255], views=("states", "tokens"))
    assert (encoding.limit, encoding.truncated) == (254, [1])
    assert encoding.states.lengths().tolist() == [256, 256]


def test_heads_over_states_depend_on_the_lower_part_alone():
    lower, upper, tokenizer = "1" * 12, "2" * 12, "3" * 12
    whole, other_upper = f"{lower}-{upper}-{tokenizer}", f"{lower}-{'4' * 12}-{tokenizer}"
    assert fits(whole, whole, ("layers", "surface"))
    assert fits(whole, other_upper, ("states",))
    assert not fits(whole, other_upper, ("states", "layers"))
    assert not fits(whole, f"{'5' * 12}-{upper}-{tokenizer}", ("states",))
    assert not fits(whole, "", ("states",))


def test_a_prefix_stands_before_each_text_and_is_no_part_of_it(tmp_path):
    plain = OnnxEncoder.load(export(tmp_path / "plain"))
    prefixed = OnnxEncoder.load(export(tmp_path / "prefixed", prefixes=("question: ", "a text: ")))
    texts, views = ["Who built the bridge?", "x"], ("pooled", "tokens", "states")
    for encoder, prefix, pieces in ((prefixed, "question: ", 2), (prefixed.for_passages, "a text: ", 3)):
        found, spelt = encoder.encode(texts, views=views), plain.encode([prefix + text for text in texts], views=views)
        np.testing.assert_allclose(found.pooled, spelt.pooled, atol=1e-6)
        own = np.delete(spelt.states.row(0), slice(1, 1 + pieces), axis=0)
        np.testing.assert_allclose(found.states.row(0), own, atol=1e-6)
        assert found.terms.lengths().tolist() == found.tokens.lengths().tolist() == [5, 1]
        np.testing.assert_allclose(found.tokens.row(0), spelt.tokens.row(0)[pieces:], atol=1e-6)
        assert encoder.encode(texts).limit == plain.encode(texts).limit - 16 * pieces


@pytest.mark.parametrize(("passage", "read"), [(False, [1, 2, 3, 4]), (True, [2, 4])])
def test_tuned_layers_do_not_read_the_prefix(tmp_path, passage, read):
    encoder = OnnxEncoder.load(export(tmp_path, tuned=True, prefixes=("question", "bridge")))
    encoder = encoder.for_passages if passage else encoder
    found = encoder.encode(["the tower of Ada"], views=("states", "pooled", "tokens"))
    feeds = {
        "states": found.states.row(0)[None][:, [0, *read, 5]],
        "attention_mask": np.ones((1, len(read) + 2), np.int64),
        "kind": np.array(int(passage)),
    }
    pooled, tokens = encoder.upper.run(["pooled", "tokens"], feeds)
    np.testing.assert_allclose(found.pooled, pooled, atol=1e-6)
    np.testing.assert_allclose(found.tokens.row(0), tokens[0, 1:-1], atol=1e-6)


def test_unknown_views_and_numbers_out_of_range_are_refused(encoder):
    with pytest.raises(InputError, match="no view 'heads'; its views are"):
        encoder.encode(["x"], views=("heads",))
    with pytest.raises(InputError, match="threads is 0"):
        OnnxEncoder.load(MODELS / "encoder", threads=0)
