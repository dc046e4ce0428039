"""Fit the encoder's view ``entities``: linear probes over token states for what questions ask for.

The view is the largest value of each probe over the word pieces of a text: its strongest evidence that a "Who ...", "Where
...", "How many ..." question has an answer in it.

Entities
    One logistic regression per type of named entity tells whether a word piece belongs to one, trained on ``entities/``.
Answers
    One probe per coarse class of questions, trained on ``squad_sentences/train``, where the sentence that answers a
    question is known, but not the words. Its log-odds are the logarithm of the sum of exponentials over its word pieces
    (multiple-instance learning). A logistic regression fitted on ``trec/`` and ``questions/`` classifies the questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from command import Array
from datasets_io import read_jsonl, read_tsv, squad_train
from onnx_graphs import Reader
from semclass.core.types import COARSE

# in the order of the view's columns; with eight types passage classes have macro F1 0.879, with these 0.884
TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "DATE", "NUMBER")
# which type each label of the data counts as
TYPE_OF_LABEL = {
    **{name: name for name in TYPES},
    **dict.fromkeys(("TIME", "DURATION"), "DATE"),
    **dict.fromkeys(("CARDINAL", "MEASURE", "MONEY", "PERCENT"), "NUMBER"),
}

# layer whose token states the probe reads. For passage classes layers 3 to 5 are equally good; finding entities
# in held-out documents is best here.
LAYER = 4
# inverse of the L2 penalty. Of 0.001 to 0.1 the smallest whose average precision on held-out documents is within
# 0.005 of the best for every type.
STRENGTH = 0.01
# principal directions of token states that the answer probes read; with 384 the macro AUC is 0.003 to 0.005 lower
DIRECTIONS = 128
# L2 penalty of the answer probes; 0.03 is as good. The probes raise the macro AUC of passage classes from 0.941
# to 0.946 (nested cross-validation), of lower-cased passages from 0.928 to 0.944; F1 on a source left out of
# training gains 0.009 to 0.038.
ANSWER_PENALTY = 0.3
QUESTION_STRENGTH = 0.001  # inverse penalty of the classes of questions, on standardised means of layers
# words of a window: it ends with the first sentence that ends after the shortest, or else at the longest
SHORTEST, LONGEST = 60, 110


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
    read: Reader, kept: Array, tokenizer: tokenizers.Tokenizer, documents: Sequence[Mapping[str, Any]]
) -> tuple[Array, Array]:
    """Encode documents of ``tokens`` and ``labels`` (``B-PERSON``, ``O`` ...); `read` gives states of the pieces `kept`.

    Gives the states, float32 (pieces, hidden), and types as indices into `TYPES`, -1 for none. Special tokens are pieces
    without a type, so that the view need not mask them.
    """
    states, types = [], []
    for document in documents:
        kinds = np.array([TYPES.index(TYPE_OF_LABEL[tag[2:]]) if tag != "O" else -1 for tag in document["labels"]])
        for start, end in windows(document["tokens"]):
            words = document["tokens"][start:end]
            encoding = tokenizer.encode(" ".join(words))
            kind = kinds[start:end][word_of_piece(words, encoding.offsets)]
            kind[np.array(encoding.special_tokens_mask, bool)] = -1
            kind = kind[kept[encoding.ids]]
            states.append(read(encoding.ids))
            types.append(kind)
    return np.concatenate(states), np.concatenate(types)


def fit_probe(states: Array, types: Array) -> tuple[Array, Array]:
    """Fit one logistic regression per type to states and their types; gives weight and bias of log-odds, float32.

    Standardisation is folded in; four significant digits, so that processors that round sums differently give the same.
    """
    mean, spread = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64)
    standard = ((states - mean) / spread).astype(np.float32)
    weight, bias = np.zeros((states.shape[1], len(TYPES))), np.zeros(len(TYPES))
    for column in range(len(TYPES)):
        fitted = LogisticRegression(C=STRENGTH, max_iter=200).fit(standard, types == column)
        weight[:, column] = fitted.coef_[0] / spread
        bias[column] = fitted.intercept_[0] - mean @ weight[:, column]
    return _rounded(weight), _rounded(bias)


def answer_targets(read: Reader, tokenizer: tokenizers.Tokenizer, data: Path) -> tuple[list[str], Array]:
    """Sentences of ``squad_sentences/train``, and how probably each answers a question of each class, float64 (n, 6)."""
    rows = [(row["question"], row["coarse"]) for row in read_tsv(data / "trec" / "train.tsv")]
    natural = read_tsv(data / "questions" / "natural.tsv")
    rows += [(row["question"], row["coarse"]) for row in natural if row["split"] == "train"]
    sentences, questions, places = squad_train(data)
    views = np.stack([read(tokenizer.encode(text).ids) for text in [*(text for text, _ in rows), *questions]])
    known = views[: len(rows)]
    mean, spread = known.mean(axis=0), known.std(axis=0)
    spread[spread < 1e-6] = 1.0
    classifier = LogisticRegression(C=QUESTION_STRENGTH, max_iter=200)
    classifier.fit((known - mean) / spread, np.array([label for _, label in rows]))
    columns = [classifier.classes_.tolist().index(name) for name in COARSE]
    probabilities = classifier.predict_proba((views[len(rows) :] - mean) / spread)[:, columns]
    targets = np.zeros((len(sentences), len(COARSE)))
    np.maximum.at(targets, places, probabilities)
    return sentences, targets


def fit_answers(states: Array, starts: Array, targets: Array) -> tuple[Array, Array]:
    """Fit one probe per class to bags of word pieces: log-odds of a bag are ln(sum(exp(log-odds of its pieces))).

    `states` are float32 (pieces, hidden), bag after bag, `starts` the first piece of each, `targets` the probability of
    each class in each bag. Gives weight and bias as :func:`fit_probe` does.
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


def entity_probe(
    tokenizer: tokenizers.Tokenizer, data: Path, read_layers: Reader, read: Reader, kept: Array
) -> tuple[Array, Array]:
    """Weight and bias of an encoder's probes: entities in the order of `TYPES`, then answers in the order of `COARSE`.

    `read_layers` gives the view ``layers`` of a question, `read` the states of a passage's word pieces that are `kept`,
    bool by id. The tokeniser must neither truncate nor pad.
    """
    entities = fit_probe(*token_states(read, kept, tokenizer, read_jsonl(data / "entities" / "ieer.jsonl.gz")))
    sentences, targets = answer_targets(read_layers, tokenizer, data)
    bags = [read(tokenizer.encode(sentence).ids) for sentence in sentences]
    answers = fit_answers(np.concatenate(bags), np.cumsum([0, *map(len, bags[:-1])]), targets)
    weight, bias = (np.concatenate(pair, axis=-1) for pair in zip(entities, answers, strict=True))
    return weight, bias


def _rounded(values: Array) -> Array:
    flat = [float(f"{value:.4g}") for value in values.ravel()]
    return np.array(flat, np.float32).reshape(values.shape)
