"""How the layers that read a question and a passage together are tuned, and that the graph computes what was tuned."""

from collections import Counter

import numpy as np
import pytest
from made_models import random_weights

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

import bert_graph
import deep_network
import onnx_graphs
from semclass.core.types import Ragged
from tuning_texts import Rows

CONFIG = bert_graph.BertConfig(
    hidden_size=32, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=40, layer_norm_eps=1e-12
)


def test_a_step_has_what_its_recipe_says_of_each_domain_and_every_question_comes_before_one_comes_again():
    domains = ("squad", "contrast", "echoes", "code", "keywords")
    groups = [Rows(domain, place, ((0,),), frozenset({0})) for domain in domains for place in range(100)]
    recipe = deep_network.Recipe(steps=10)
    steps = list(deep_network.batches(groups, recipe, np.random.default_rng(0)))
    for step in steps:
        counts = Counter(group.domain for group in step)
        assert (counts["squad"], counts["contrast"], counts["echoes"]) == (recipe.squad, recipe.contrast, recipe.echoes)
        assert counts["code"] + counts["keywords"] == recipe.others
    asked = [group.question for step in steps for group in step if group.domain == "squad"]
    assert sorted(asked) == list(range(100))


def test_a_question_is_paired_with_its_passages_and_with_one_of_another_question():
    groups = [
        Rows("squad", 0, ((1,), (2,), (3, 4)), frozenset({2})),
        Rows("code", 5, ((6,),), frozenset({0})),
    ]
    pairs, owner, answers = deep_network.pairs_of(groups, deep_network.Recipe(most=2), np.random.default_rng(0))
    first = [pair for pair, number in zip(pairs, owner, strict=True) if number == 0]
    assert first[0] == (0, (3, 4))  # answers come first, and stay
    assert len(first) <= 2 + 1
    assert [pair for pair, right in zip(pairs, answers, strict=True) if right] == [(0, (3, 4)), (5, (6,))]


def test_what_was_tuned_and_its_graph_agree():
    torch = pytest.importorskip("torch")
    recipe, layers = deep_network.Recipe(), range(1, 4)
    network = deep_network.Network(random_weights(CONFIG, pieces=50), CONFIG, layers, recipe, seed=0)
    rng = np.random.default_rng(1)
    offsets = np.array([0, 9, 14, 26])
    states = Ragged(rng.normal(size=(26, 32)).astype(np.float16), offsets)
    idf = np.append(0, np.ones(49)).astype(np.float32)
    texts = deep_network.Lower(states, Ragged(rng.integers(0, 50, 26), offsets), idf)
    pairs = [(0, (1, 2)), (0, (2,)), (1, (0,))]
    with torch.no_grad():
        for value in network.parameters.values():
            value.add_(torch.from_numpy(np.asarray(rng.normal(size=tuple(value.shape)) / 20, np.float32)))
        found = network.logits(texts, pairs).numpy()
    tuned = {name: value.detach().numpy() for name, value in network.parameters.items()}
    again = deep_network.Network(random_weights(CONFIG, pieces=50), CONFIG, layers, recipe, seed=1, start=tuned)
    for name, value in again.parameters.items():
        np.testing.assert_array_equal(value.detach().numpy(), tuned[name])
    model, probes = deep_network.write_network(tuned, CONFIG, layers, (2.0, 1.0), None)
    outputs = [item for item in model.graph.output if item.name not in probes]
    run = onnx_graphs.open_model(onnx_graphs.with_outputs(model, outputs)).run
    longest = max(len(texts.pair(*pair)[0]) for pair in pairs)
    for pair, logit in zip(pairs, found, strict=True):
        places, marks = texts.pair(*pair)
        room = longest - len(places)
        feeds = {
            "states": np.pad(states.values[places].astype(np.float32), ((0, room), (0, 0)))[None],
            "marks": np.pad(marks, (0, room))[None],
        }
        # the tuning multiplies in bfloat16
        np.testing.assert_allclose(run(["logits"], feeds)[0][0, 0], 2 * logit + 1, atol=0.1)
