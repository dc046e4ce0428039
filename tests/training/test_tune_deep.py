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
