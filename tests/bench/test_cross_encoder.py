"""The cross-encoder that benchmarks compare with: its graph, what it reads of a pair, how its scores order candidates."""

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

from made_models import random_weights

import bert_graph
import onnx_graphs
from bench.peers import train_cross_encoder

CONFIG = bert_graph.BertConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=40, layer_norm_eps=1e-12
)


@pytest.fixture(scope="module")
def weights():
    return random_weights(CONFIG, pieces=50) | {
        "score.weight": np.full((1, CONFIG.hidden_size), 0.2, np.float32),
        "score.bias": np.zeros(1, np.float32),
    }


@pytest.fixture(scope="module")
def inputs():
    """Six pairs of 8 to 18 word pieces, padded."""
    rng = np.random.default_rng(1)
    lengths = np.arange(8, 20, 2)
    places = np.arange(lengths.max())
    inside = (places < lengths[:, None]).astype(np.int64)
    return {
        "input_ids": rng.integers(1, 50, inside.shape) * inside,
        "token_type_ids": (places >= 5).astype(np.int64) * inside,
        "attention_mask": inside,
    }


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def exact(weights):
    """The float32 graph."""
    return train_cross_encoder.write_graph(weights, CONFIG, None)


@pytest.fixture(scope="module")
def rounded(weights, inputs, exact):
    """The int8 graph, its scales found on the same pairs."""
    ranges = onnx_graphs.calibrate(*exact, [inputs])
    return session(train_cross_encoder.write_graph(weights, CONFIG, ranges)[0])


def test_the_network_in_torch_and_its_graph_agree(weights, inputs, exact):
    torch = pytest.importorskip("torch")
    network = train_cross_encoder.Network(weights, CONFIG)
    with torch.no_grad():
        for name in ("score.weight", "score.bias"):
            network.parameters[name].copy_(torch.from_numpy(weights[name]))
        found = network.run(inputs).numpy()
    np.testing.assert_allclose(session(exact[0]).run(["logits"], inputs)[0], found, atol=1e-4)


def test_int8_keeps_scores(inputs, exact, rounded):
    (expected,), (found,) = (used.run(["logits"], inputs) for used in (session(exact[0]), rounded))
    assert found.shape == (6,)
    assert np.abs(found - expected).max() < 0.1 * expected.std()
