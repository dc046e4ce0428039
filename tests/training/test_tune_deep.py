"""How the layers that read a question and a passage together are tuned, and that the graph computes what was tuned."""

import numpy as np
import pytest
from made_models import random_weights

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

import bert_graph
import deep_network
import onnx_graphs
from semclass.core.types import Ragged
from semclass.heads.entailment import marks_of
from tuning_texts import Texts

CONFIG = bert_graph.BertConfig(
    hidden_size=32, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=40, layer_norm_eps=1e-12
)


def test_what_was_tuned_and_its_graph_agree():
    torch = pytest.importorskip("torch")
    recipe, layers = deep_network.Recipe(), range(1, 4)
    network = deep_network.Network(random_weights(CONFIG, pieces=50), CONFIG, layers, recipe, seed=0)
    rng = np.random.default_rng(1)
    states = rng.normal(size=(26, 32)).astype(np.float16)
    idf = np.append(0, np.ones(49)).astype(np.float32)
    ids, nothing = Ragged(rng.integers(0, 50, 26), np.array([0, 9, 14, 26])), torch.zeros(3, 32)
    texts = Texts(ids, np.ones(26, np.bool_), torch.from_numpy(states), nothing, nothing, idf)
    read = deep_network.read_pairs(ids, idf, [(0, (1, 2)), (0, (2,)), (1, (0,))])
    with torch.no_grad():
        for value in network.parameters.values():
            value.add_(torch.from_numpy(np.asarray(rng.normal(size=tuple(value.shape)) / 20, np.float32)))
        found = network.logits(texts, read).numpy()
    tuned = {name: value.detach().numpy() for name, value in network.parameters.items()}
    again = deep_network.Network(random_weights(CONFIG, pieces=50), CONFIG, layers, recipe, seed=1, start=tuned)
    for name, value in again.parameters.items():
        np.testing.assert_array_equal(value.detach().numpy(), tuned[name])
    model, _ = deep_network.write_network(tuned, CONFIG, layers, (2.0, 1.0), None)
    run = onnx_graphs.open_model(model).run
    longest = read.places.lengths().max()
    for row, logit in enumerate(found):
        places, marks = read.places.row(row), read.marks[read.places.offsets[row] : read.places.offsets[row + 1]]
        room = longest - len(places)
        feeds = {
            "states": np.pad(states[places].astype(np.float32), ((0, room), (0, 0)))[None],
            "marks": np.pad(marks, (0, room))[None],
        }
        # the tuning multiplies in bfloat16
        np.testing.assert_allclose(run(["logits"], feeds)[0][0, 0], 2 * logit + 1, atol=0.1)


def test_pairs_are_read_with_the_marks_of_the_library(monkeypatch):
    monkeypatch.setattr(deep_network, "MAX_PIECES", 6)
    rng = np.random.default_rng(0)
    ids = Ragged(rng.integers(0, 12, 40), np.array([0, 5, 13, 20, 31, 40]))
    idf = np.append(0, np.ones(11)).astype(np.float32)
    pairs = [(0, (1, 2)), (3, (4,)), (1, (0, 3, 4))]
    found = deep_network.read_pairs(ids, idf, pairs)
    for row, (question, sentences) in enumerate(pairs):
        asked = np.arange(ids.offsets[question], ids.offsets[question + 1])[:6]
        given = np.concatenate([np.arange(ids.offsets[one] + 1, ids.offsets[one + 1]) for one in sentences])[:6]
        assert found.places.row(row).tolist() == [*asked, *given]
        marks = found.marks[found.places.offsets[row] : found.places.offsets[row + 1]]
        np.testing.assert_array_equal(marks, marks_of(ids.values[asked], ids.values[given], idf > 0))
        held = np.isin(ids.values[asked], ids.values[given])
        assert found.overlap[row] == pytest.approx(idf[ids.values[asked]][held].sum() / idf[ids.values[asked]].sum())
