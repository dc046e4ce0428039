"""Fit the encoder's view ``entities``: linear probes over token states for what questions ask for.

Two kinds of probe read the state of a word piece in one layer; the view is the largest value of each over the word pieces
of a text, its strongest evidence that a "Who ...", "Where ...", "How many ..." question has an answer in it.

Entities
    One logistic regression per type of named entity tells whether a word piece belongs to one. Trained on ``entities/``,
    newswire in which people marked the entities.
Answers
    One probe per coarse class of questions, trained on ``squad_sentences/train``, where it is known which sentence answers
    a question, but not which words. The sentence is a bag of word pieces of which at least one is what a question of the
    class asks for; its log-odds are the logarithm of the sum of exponentials over its word pieces (multiple-instance
    learning). Questions are classified by a logistic regression fitted on ``trec/`` and ``questions/``.

The same encoder, data and settings give the same bytes on the same machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import tokenizers
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from datasets_io import read_jsonl, read_tsv
from semclass.core.taxonomy import COARSE

Array = npt.NDArray[Any]

TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "DATE", "NUMBER")
"""The types, in the order of the view's columns."""

TYPE_OF_LABEL = {
    "PERSON": "PERSON",
    "ORGANIZATION": "ORGANIZATION",
    "LOCATION": "LOCATION",
    "DATE": "DATE",
    "TIME": "DATE",
    "DURATION": "DATE",
    "CARDINAL": "NUMBER",
    "MEASURE": "NUMBER",
    "MONEY": "NUMBER",
    "PERCENT": "NUMBER",
}
"""Which type each label of the data counts as. Finer numbers gained nothing for passage classes (macro F1 0.879 with eight
types, 0.884 with these five, cross-validated, five seeds)."""

LAYER = 4
"""Layer whose token states the probe reads. Passage classes, macro F1 as above: layer 3 0.885, 4 0.884, 5 0.885, 2 + 4 + 6
0.884, all within one standard deviation (0.005); finding entities in held-out documents is best at 4 of the single ones."""

STRENGTH = 0.01
"""Inverse of the L2 penalty on standardised states. Of 0.001, 0.003, 0.01, 0.03 and 0.1 the smallest whose average
precision on held-out documents is within 0.005 of the best for every type."""

DIRECTIONS = 128
"""Principal directions of token states that the answer probes read: with 96 passage classes have the same macro AUC within
0.002, with 384 one that is 0.003 to 0.005 lower."""

ANSWER_PENALTY = 0.3
"""L2 penalty of the answer probes; 0.03 and 0.3 give passage classes the same macro AUC within 0.001.

What these probes bring, nested cross-validation, one seed, folds that part articles: macro AUC of passage classes 0.941
-> 0.946, macro F1 0.915 -> 0.913 (no gain); of lower-cased passages 0.928 -> 0.944 and 0.886 -> 0.904. On a source that
is left out of training F1 gains 0.009 to 0.038. Some twenty variants of layer, penalty, directions and pooling, scored on
the same passages with fewer labels, lie between 0.942 and 0.952 in AUC: differences of 0.003 are noise. Layers 5 and 6
were the lowest of them; probes for fine classes brought nothing."""

QUESTION_STRENGTH = 0.001
"""Inverse penalty of the classes of questions, on standardised means of layers."""

SHORTEST, LONGEST = 60, 110
"""Words of a window: it ends with the first sentence that ends after the shortest, or else at the longest."""

HELD_OUT = 5
"""Every fifth document is held out where the probe is measured."""


def windows(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Cut a document into passages of whole sentences, as (first word, word after the last)."""
    start = 0
    for place, word in enumerate(words, 1):
        length = place - start
        if length >= LONGEST or (length >= SHORTEST and word.rstrip("'\"`")[-1:] in {".", "!", "?"}):
            yield start, place
            start = place
    if start < len(words):
        yield start, len(words)


def word_of_piece(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> Array:
    """Index of the word in which each word piece starts, for words that were joined by single blanks."""
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
    return np.searchsorted(starts, [start for start, _ in spans], side="right") - 1


def token_states(
    model: onnx.ModelProto, tokenizer: tokenizers.Tokenizer, documents: Sequence[Mapping[str, Any]], layer: int
) -> tuple[Array, Array, Array]:
    """Encode the documents and give each word piece its type.

    Parameters
    ----------
    model
        Encoder graph with a tensor ``layer<layer>`` of shape (batch, length, hidden); it is not changed.
    tokenizer
        Its tokeniser, without truncation and padding.
    documents
        Records with ``tokens`` and, for each, ``labels`` (``B-PERSON``, ``I-PERSON``, ``O`` ...).
    layer
        Which layer.

    Returns
    -------
    tuple of ndarray
        States, float32 (pieces, hidden); types as indices into `TYPES`, -1 for none; index of the document. Special tokens
        are there too, as pieces without a type, so that the view need not mask them.
    """
    session = _session(model, f"layer{layer}")
    states, types, sources = [], [], []
    for index, document in enumerate(documents):
        kinds = np.array([TYPES.index(TYPE_OF_LABEL[tag[2:]]) if tag != "O" else -1 for tag in document["labels"]])
        for start, end in windows(document["tokens"]):
            words = document["tokens"][start:end]
            encoding = tokenizer.encode(" ".join(words))
            kind = kinds[start:end][word_of_piece(words, encoding.offsets)]
            kind[np.array(encoding.special_tokens_mask, bool)] = -1
            states.append(_output(session, encoding.ids))
            types.append(kind)
            sources.append(np.full(len(kind), index))
    return np.concatenate(states), np.concatenate(types), np.concatenate(sources)


def fit_probe(states: Array, types: Array) -> tuple[Array, Array]:
    """Fit one logistic regression per type.

    Parameters
    ----------
    states
        float32 (pieces, hidden).
    types
        Index into `TYPES` of each piece, -1 for none.

    Returns
    -------
    tuple of ndarray
        float32 (hidden, len(TYPES)) and float32 (len(TYPES),): ``states @ weight + bias`` are log-odds. Standardisation is
        folded in; four significant digits, so that processors that round sums differently give the same bytes.
    """
    mean, spread = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64)
    standard = ((states - mean) / spread).astype(np.float32)
    weight, bias = np.zeros((states.shape[1], len(TYPES))), np.zeros(len(TYPES))
    for column in range(len(TYPES)):
        fitted = LogisticRegression(C=STRENGTH, max_iter=200).fit(standard, types == column)
        weight[:, column] = fitted.coef_[0] / spread
        bias[column] = fitted.intercept_[0] - mean @ weight[:, column]
    return _rounded(weight), _rounded(bias)


def answer_targets(model: onnx.ModelProto, tokenizer: tokenizers.Tokenizer, data: Path) -> tuple[list[str], Array]:
    """Sentences that answer questions, and how probably one of each class.

    Returns
    -------
    tuple
        n sentences of ``squad_sentences/train``, and float64 (n, 6): the largest probability of the class among the
        questions that the sentence answers.
    """
    rows = [(row["question"], row["coarse"]) for row in read_tsv(data / "trec" / "train.tsv")]
    natural = read_tsv(data / "questions" / "natural.tsv")
    rows += [(row["question"], row["coarse"]) for row in natural if row["split"] == "train"]
    asked = read_jsonl(data / "squad_sentences" / "train.queries.jsonl.gz")
    session = _session(model, "layers")
    views = np.stack(
        [
            _output(session, tokenizer.encode(text).ids)
            for text in [*(text for text, _ in rows), *(record["text"] for record in asked)]
        ]
    )
    known = views[: len(rows)]
    mean, spread = known.mean(axis=0), known.std(axis=0)
    spread[spread < 1e-6] = 1.0
    classifier = LogisticRegression(C=QUESTION_STRENGTH, max_iter=200)
    classifier.fit((known - mean) / spread, np.array([label for _, label in rows]))
    columns = [classifier.classes_.tolist().index(name) for name in COARSE]
    probabilities = classifier.predict_proba((views[len(rows) :] - mean) / spread)[:, columns]
    sentences = read_jsonl(data / "squad_sentences" / "train.corpus.jsonl.gz")
    places = {record["_id"]: place for place, record in enumerate(sentences)}
    targets = np.zeros((len(sentences), len(COARSE)))
    np.maximum.at(targets, [places[record["relevant"]] for record in asked], probabilities)
    return [record["text"] for record in sentences], targets


def fit_answers(states: Array, starts: Array, targets: Array) -> tuple[Array, Array]:
    """Fit one probe per class to bags of word pieces: log-odds of a bag are ln(sum(exp(log-odds of its pieces))).

    Parameters
    ----------
    states
        float32 (pieces, hidden), bag after bag.
    starts
        First piece of each bag, int64 (bags,).
    targets
        Probability of each class in each bag, float64 (bags, classes).

    Returns
    -------
    tuple of ndarray
        float32 (hidden, classes) and float32 (classes,), as of :func:`fit_probe`.
    """
    mean, spread = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64)
    spread[spread < 1e-6] = 1.0
    standard = ((states - mean) / spread).astype(np.float32)
    values, axes = np.linalg.eigh((standard.T @ standard).astype(np.float64) / len(standard))
    # of variance 1/9 on average, which fixes what the penalty means
    axes = axes[:, -DIRECTIONS:] / (3 * np.sqrt(values[-DIRECTIONS:].mean()))
    pieces = standard @ axes.astype(np.float32)
    owners = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(states))))
    shape = (axes.shape[1] + 1, targets.shape[1])

    def loss(flat: Array) -> tuple[float, Array]:
        weight, bias = np.split(flat.reshape(shape), [shape[0] - 1])
        scores = pieces @ weight.astype(np.float32) + bias.astype(np.float32)
        top = np.maximum.reduceat(scores, starts)
        powers = np.exp(scores - top[owners])
        sums = np.add.reduceat(powers, starts)
        odds = (top + np.log(sums)).astype(np.float64)
        value = (np.logaddexp(0, odds) - targets * odds).sum() + ANSWER_PENALTY * (weight**2).sum()
        shares = powers * ((0.5 * (1 + np.tanh(odds / 2)) - targets) / sums).astype(np.float32)[owners]
        slope = np.concatenate([pieces.T @ shares + 2 * ANSWER_PENALTY * weight, shares.sum(axis=0)[None]])
        return float(value), slope.astype(np.float64).ravel()

    start = np.zeros(shape)
    start[-1] = -3.0  # a bag has some thirty pieces; at zero nearly every bag would have every class
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 60, "maxcor": 20}).x
    weight, bias = np.split(found.reshape(shape), [shape[0] - 1])
    folded = axes @ weight / spread[:, None]
    return _rounded(folded), _rounded(bias[0] - mean @ folded)


def answer_probe(
    model: onnx.ModelProto, tokenizer: tokenizers.Tokenizer, data: Path, layer: int = LAYER
) -> tuple[Array, Array]:
    """Fit the probes for answers of each class of questions; gives weight and bias, see :func:`fit_answers`."""
    sentences, targets = answer_targets(model, tokenizer, data)
    session = _session(model, f"layer{layer}")
    bags = [_output(session, tokenizer.encode(sentence).ids) for sentence in sentences]
    return fit_answers(np.concatenate(bags), np.cumsum([0, *map(len, bags[:-1])]), targets)


def entity_probe(
    model: onnx.ModelProto, tokenizer: tokenizers.Tokenizer, data: Path, layer: int = LAYER
) -> tuple[Array, Array, dict[str, float]]:
    """Fit the probes of an encoder: entities first, in the order of `TYPES`, then answers in the order of `COARSE`.

    Returns
    -------
    tuple
        Weight and bias, see :func:`fit_probe`, and the average precision per word piece by type of entity that the same fit
        without every fifth document reaches on those.
    """
    states, types, sources = token_states(model, tokenizer, read_documents(data), layer)
    held_out = sources % HELD_OUT == 0
    weight, bias = fit_probe(states[~held_out], types[~held_out])
    scores = states[held_out] @ weight + bias
    precision = {
        name: round(float(average_precision_score(types[held_out] == column, scores[:, column])), 3)
        for column, name in enumerate(TYPES)
    }
    entities, answers = fit_probe(states, types), answer_probe(model, tokenizer, data, layer)
    weight, bias = (np.concatenate(pair, axis=-1) for pair in zip(entities, answers, strict=True))
    return weight, bias, precision


def read_documents(data: Path) -> list[dict[str, Any]]:
    """Documents of the data folder, in their order."""
    return read_jsonl(data / "entities" / "ieer.jsonl.gz")


def _session(model: onnx.ModelProto, wanted: str) -> onnxruntime.InferenceSession:
    """Run a graph up to one of its tensors; the graph is not changed."""
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    del probed.graph.output[:]
    probed.graph.output.append(onnx.helper.make_tensor_value_info(wanted, onnx.TensorProto.FLOAT, None))
    return onnxruntime.InferenceSession(probed.SerializeToString(), providers=["CPUExecutionProvider"])


def _output(session: onnxruntime.InferenceSession, ids: list[int]) -> Array:
    """Run a session with one output on one text; without the axis of the batch."""
    batch = np.array([ids], np.int64)
    (output,) = session.run(None, {"input_ids": batch, "attention_mask": np.ones_like(batch)})
    return output[0]


def _rounded(values: Array) -> Array:
    """Four significant digits."""
    flat = [float(f"{value:.4g}") for value in values.ravel()]
    return np.array(flat, np.float32).reshape(values.shape)
