"""How the encoder's upper layers are tuned: what is learnt from, and that the graph computes what was tuned."""

from dataclasses import replace

import numpy as np
import pytest
from made_models import random_weights

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

import answer_groups
import bert_graph
import encoder_network
import export_entailment
import onnx_graphs
import pair_head
import tuning_texts
from bert_graph import kept_pieces
from export_encoder import lower_of, upper_of
from semclass.core.types import Ragged, offsets_of
from semclass.encoders.onnx_encoder import PASSAGE, QUESTION

CONFIG = bert_graph.BertConfig(
    hidden_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=40, layer_norm_eps=1e-12
)
RECIPE = encoder_network.Recipe(dim=8, provided=4, expected=2)


def test_articles_and_marks_are_not_kept():
    pieces = ["[CLS]", "[SEP]", "[PAD]", "the", ",", "?", "who", "not", "bridge", "##s"]
    assert kept_pieces(pieces).tolist() == [True, True, True, False, False, True, True, True, True, True]
    assert kept_pieces(["in", "at", "and", "of", "with"]).tolist() == [True, True, False, False, True]
    many = ["<s>", "</s>", "\u2581", "\u2581and", "and", "\u2581?", "\u3002", "\u6a4b"]  # "and" is a duck elsewhere
    assert kept_pieces(many).tolist() == [True, True, False, True, True, True, False, True]


def test_what_was_tuned_and_its_graph_agree():
    torch = pytest.importorskip("torch")
    weights = random_weights(CONFIG, pieces=50)
    network = encoder_network.Network(weights, CONFIG, range(1, 3), RECIPE, seed=0)
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for value in network.parameters.values():
            value.add_(torch.from_numpy(np.asarray(rng.normal(size=tuple(value.shape)) / 20, np.float32)))
    states = rng.normal(size=(26, 32)).astype(np.float16)
    kept = rng.random(26) < 0.6
    kept[[0, 8, 9, 13, 14, 25]] = True  # special pieces
    nothing = torch.zeros(3, 32)  # of the original encoder, which only the loss looks at
    ids = Ragged(np.arange(26), np.array([0, 9, 14, 26]))
    texts = tuning_texts.Texts(ids, kept, torch.from_numpy(states), nothing, nothing, np.ones(26, np.float32))
    tuned = {name: value.detach().numpy() for name, value in network.parameters.items()}
    views = bert_graph.Views((1, 2, 3), (2,), tuned=tuned, shared=1)
    model, _ = bert_graph.BertWriter({**weights, **tuned}, CONFIG, None, 0.8).write_upper(views)
    upper = onnx_graphs.open_model(model)
    for kind in (QUESTION, PASSAGE):
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            found = network.read(texts, np.arange(3), kind)
        for row in range(3):
            taken, _ = texts.take(np.array([row]), kind)
            feeds = {"states": states[taken.values][None].astype(np.float32), "kind": np.array(kind)}
            feeds["attention_mask"] = np.ones((1, len(taken.values)), np.int64)
            pooled, tokens, provides, layers = upper.run(["pooled", "tokens", "provides", "layers"], feeds)
            # the tuning multiplies in bfloat16
            np.testing.assert_allclose(found["pooled"][row], pooled[0], atol=0.03)
            # means of layers 2 and 3 and the first state of layer 2; the graph's begin with the mean of layer 1
            np.testing.assert_allclose(found["layers"][row, :96], layers[0, 32:], atol=0.1)
            inner = found["tokens"][row, 1 : len(taken.values) - 1]
            np.testing.assert_allclose(inner, tokens[0, 1:-1], atol=0.06)
            both = found["both"][row].numpy()
            expected = tuned["provides.weight"] @ both + tuned["provides.bias"]
            np.testing.assert_allclose(provides[0], expected, atol=0.15)


def made_material():
    encoder = FakeEncoder()
    groups = [
        answer_groups.Group(
            "squad", "Who built it?", (("Ada built it.",), ("It is red.", "It is old.")), frozenset({0})
        ),
        answer_groups.Group("qa tatqa", "Who?", (("Ada built it.",),), frozenset({0})),
    ]
    return tuning_texts.Material.of(groups, ["Alone."], encoder), encoder


class FakeEncoder:
    """Tokenises words by their place in a list."""

    vocabulary = ("[CLS]", "[SEP]", "Who", "built", "it?", "Ada", "it.", "It", "is", "red.", "old.", "Who?", "Alone.")
    special = (0, 1)
    prefixes = ((), ())
    is_term = np.arange(len(vocabulary)) > 1

    def tokenize(self, texts):
        rows = [np.array([self.vocabulary.index(word) for word in text.split()], np.int32) for text in texts]
        return Ragged(np.concatenate(rows), offsets_of(np.array(list(map(len, rows)))))


def test_what_is_learnt_from_comes_back_from_its_file(tmp_path):
    material, encoder = made_material()
    material.save(tmp_path / "groups.npz")
    found = tuning_texts.Material.load(tmp_path / "groups.npz")
    assert found.groups == material.groups
    assert found.groups[0] == tuning_texts.Rows("squad", 0, ((1,), (2, 3)), frozenset({0}))
    assert found.held.tolist() == [True, True]  # the first stretch; and a file of which nothing is learnt
    assert found.special == encoder.special
    texts = found.texts()
    assert [encoder.vocabulary[piece] for piece in texts.row(1)] == ["[CLS]", "Ada", "built", "it.", "[SEP]"]
    np.testing.assert_array_equal(found.idf, material.idf)


def test_texts_are_read_behind_the_prefix_of_their_kind():
    pytest.importorskip("torch")
    weights = random_weights(CONFIG, pieces=len(FakeEncoder.vocabulary))
    material = replace(made_material()[0], prefixes=((12,), (10, 9)))
    plain = replace(material, prefixes=((), ()))
    found = tuning_texts.Texts.read(material, weights, CONFIG, 1, "cpu")
    # two questions, and a text that stands alone
    assert found.asked.tolist() == [True, False, False, False, True, True]
    views = bert_graph.Views.of_depth(3, prefixed=True)
    lower, upper = (onnx_graphs.open_model(part(weights, CONFIG, views, None)[0]) for part in (lower_of, upper_of))
    prefixes = ([12] if asked else [10, 9] for asked in found.asked.tolist())
    for row, prefix in enumerate(prefixes):
        ids = plain.texts().row(row)
        np.testing.assert_array_equal(found.ids.row(row), ids)
        feed = onnx_graphs.text_feed([ids[0], *prefix, *ids[1:]])
        (state,) = lower.run(["states"], feed)
        (pooled,) = upper.run(["pooled"], {"states": state, "attention_mask": feed["attention_mask"]})
        np.testing.assert_allclose(found.original[row], pooled[0], atol=1e-5)
        own = np.delete(state[0], slice(1, 1 + len(prefix)), axis=0)
        np.testing.assert_allclose(found.states[found.ids.places(np.array([row]))].float(), own, atol=5e-3)


def test_the_pair_head_and_its_graph_agree():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    weights = pair_head.start(8)
    rng = np.random.default_rng(0)
    asked, given = np.array([3, 5]), np.array([6, 4])

    def texts(lengths):
        inside = np.arange(lengths.max()) < lengths[:, None]
        tokens = rng.normal(size=(*inside.shape, 8)).astype(np.float32)
        tokens /= np.linalg.norm(tokens, axis=2, keepdims=True)
        return tokens * inside[..., None], inside

    (question, in_question), (sentence, in_sentence) = texts(asked), texts(given)
    logs = rng.normal(size=in_question.shape).astype(np.float32)
    expects = rng.normal(size=(2, 2, 8)).astype(np.float32)
    idf = (rng.random(in_question.shape) * 8 * in_question).astype(np.float32)
    exact = (rng.random((2, 5, 6)) < 0.3) & in_question[:, :, None] & in_sentence[:, None, :]
    exact = exact.astype(np.float32)
    shares = torch.from_numpy(logs).masked_fill(~torch.from_numpy(in_question), -1e4).softmax(1)
    tensors = (
        {"tokens": question, "inside": in_question, "expects": expects},
        {"tokens": sentence, "inside": in_sentence},
    )
    first, second = ({name: torch.from_numpy(value) for name, value in side.items()} for side in tensors)
    wanted = pair_head.logits(
        weights,
        {**first, "weights": shares},
        second,
        torch.from_numpy(exact),
        torch.from_numpy(idf),
        lambda values: values,
    )
    arrays = {name: value.numpy() for name, value in weights.items()} | {"tokens.bias": np.zeros(8)}
    head = export_entailment.calibrated(pair_head.write_head(arrays), 2.0, -1.0)
    session = onnx_graphs.open_model(head)
    feeds = {"question": question, "weights": logs, "expects": expects.reshape(2, -1), "sentence": sentence}
    (found,) = session.run(None, {**feeds, "exact": exact, "idf": idf})
    np.testing.assert_allclose(found[:, 0], torch.sigmoid(2 * wanted - 1), atol=1e-5)
    again = export_entailment.calibrated(head, 0.5, 1.0)
    (found,) = onnx_graphs.open_model(again).run(None, {**feeds, "exact": exact, "idf": idf})
    np.testing.assert_allclose(found[:, 0], torch.sigmoid(0.5 * wanted + 1), atol=1e-5)
