"""How the encoder's upper layers are tuned: what is learnt from, and that the graph computes what was tuned."""

import numpy as np
import pytest
from made_models import random_weights

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

import answer_groups
import bert_graph
import tune_encoder
from kept_pieces import kept_pieces
from semclass.core.types import Ragged
from semclass.encoders.token_encoder import QUESTION, SENTENCE

CONFIG = bert_graph.BertConfig(
    hidden_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=40, layer_norm_eps=1e-12
)
RECIPE = tune_encoder.Recipe(dim=8, provided=4, expected=2)


def test_function_words_and_marks_are_passed_over_but_not_what_tells_a_question():
    pieces = ["[CLS]", "[SEP]", "[PAD]", "the", ",", "?", "who", "not", "bridge", "##s"]
    assert kept_pieces(pieces).tolist() == [True, True, True, False, False, True, True, True, True, True]


def test_contrast_has_three_answers_and_six_texts_that_only_resemble_one():
    groups = list(answer_groups.contrast())
    assert len({group.question for group in groups}) == len(groups) >= 2000
    assert {(len(group.passages), group.answers) for group in groups} == {(9, frozenset({0, 1, 2}))}


def test_a_passage_that_answers_does_not_count_as_wrong_where_it_stands_again():
    first = tune_encoder.Rows("squad", 0, ((1,), (2,)), frozenset({0}))
    second = tune_encoder.Rows("squad", 3, ((1,), (2,)), frozenset({1}))
    own, right, wrong = tune_encoder.tables([first, second])
    assert own.tolist() == [[True, True, False, False], [False, False, True, True]]
    assert right.tolist() == [[True, False, False, False], [False, False, False, True]]
    assert wrong.tolist() == [[False, True, False, True], [True, False, True, False]]


def test_what_was_tuned_and_its_graph_agree():
    torch = pytest.importorskip("torch")
    weights = random_weights(CONFIG, pieces=50)
    network = tune_encoder.Network(weights, CONFIG, range(1, 3), RECIPE, seed=0)
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for value in network.parameters.values():
            value.add_(torch.from_numpy(np.asarray(rng.normal(size=tuple(value.shape)) / 20, np.float32)))
    offsets = np.array([0, 9, 14, 26])
    states = Ragged(rng.normal(size=(26, 32)).astype(np.float16), offsets)
    kept = rng.random(26) < 0.6
    kept[[0, 8, 9, 13, 14, 25]] = True  # special pieces
    texts = tune_encoder.Texts(states, np.arange(26), kept, np.zeros((3, 32), np.float32), np.ones(50, np.float32))
    tuned = {name: value.detach().numpy() for name, value in network.parameters.items()}
    views = bert_graph.Views((1, 2, 3), (2,), tuned=tuned, shared=1)
    writer = bert_graph.BertWriter({**weights, **tuned}, CONFIG, None, 0.8)
    model, probes = writer.write(views)
    outputs = [item for item in model.graph.output if item.name not in probes]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    upper = bert_graph.open_model(bert_graph.split(model, 1)[1])
    for kind in (QUESTION, SENTENCE):
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            found = network.read(texts, np.arange(3), kind)
        for row in range(3):
            taken, _ = texts.take(np.array([row]), kind)
            feeds = {"states": taken.values[None].astype(np.float32), "kind": np.array(kind)}
            feeds["attention_mask"] = np.ones((1, len(taken.values)), np.int64)
            pooled, tokens, provides = upper.run(["pooled", "tokens", "provides"], feeds)
            # the tuning multiplies in bfloat16
            np.testing.assert_allclose(found["pooled"][row], pooled[0], atol=0.03)
            inner = found["tokens"][row, 1 : len(taken.values) - 1]
            np.testing.assert_allclose(inner, tokens[0, 1:-1], atol=0.06)
            both = found["both"][row].numpy()
            expected = tuned["provides.weight"] @ both + tuned["provides.bias"]
            np.testing.assert_allclose(provides[0], expected, atol=0.15)
