"""Class match near the words of the question, against a slow, obvious implementation."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import MODELS

from semclass import Models
from semclass.core.errors import ArtifactError
from semclass.core.types import Ragged, ragged
from semclass.ranking.methods import METHODS
from semclass.ranking.order import reorder, signals
from semclass.ranking.proximity import READINGS, ProximityModel, evidence_at_place, placed_match
from semclass.scoring.topk import class_match

VOCABULARY, DIM, TYPES, CLASSES = 12, 4, 3, 5
QUESTION = "When was the lighthouse finished?"


@dataclass(frozen=True)
class Question:
    terms: np.ndarray
    fine: np.ndarray


@dataclass(frozen=True)
class Passages:
    pieces: Ragged
    tokens: Ragged
    idf: np.ndarray

    @property
    def evidence(self) -> Passages:
        return self

    def take(self, rows) -> Passages:
        rows = np.asarray(rows, np.int64)
        return Passages(self.pieces.take(rows), self.tokens.take(rows), self.idf)


def make(seed, lengths, question_length=3):
    """A question, passages of the given lengths over few pieces, so that there are matches, and a model."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(sum(lengths), DIM)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    pieces = rng.integers(0, VOCABULARY, sum(lengths))
    idf = rng.uniform(0, 8, VOCABULARY).astype(np.float32)
    columns = READINGS * TYPES
    model = ProximityModel(
        probe=rng.normal(size=(DIM + 1, TYPES)).astype(np.float32),
        usual=rng.dirichlet(np.ones(CLASSES)),
        centre=rng.normal(size=columns) - 2,
        scale=rng.uniform(0.3, 1, columns),
        table=rng.normal(size=(CLASSES, columns)),
        weight=0.3,
    )
    question = Question(rng.integers(0, VOCABULARY, question_length), rng.dirichlet(np.ones(CLASSES)))
    return question, Passages(Ragged(pieces, offsets), Ragged(vectors, offsets), idf), model


def slowly(question, passages, model):
    """One passage, one piece, one type at a time."""
    matches = []
    for row in range(len(passages.pieces)):
        pieces, vectors = passages.pieces.row(row).tolist(), passages.tokens.row(row)
        held = [piece in question.terms for piece in pieces]
        near = [
            1e-6
            + sum(
                held[i] * float(passages.idf[pieces[i]]) * math.exp(-abs(i - j) / 8)
                for i in range(len(pieces))
                if abs(i - j) <= 32
            )
            for j in range(len(pieces))
        ]
        place = next((j for j in range(len(pieces)) if near[j] >= max(near) * (1 - 1e-5)), 0)
        largest = max([near[j] for j in range(len(pieces)) if not held[j]], default=1.0)
        relative = [0.0 if held[j] else near[j] / largest for j in range(len(pieces))]
        readings = [[], [], []]
        for kind in range(TYPES):
            log_odds = [float(vector @ model.probe[:-1, kind] + model.probe[-1, kind]) for vector in vectors]
            z = [0.0 if held[j] else 1 / (1 + math.exp(-log_odds[j])) for j in range(len(pieces))]
            share = [value**4 for value in relative]
            readings[0].append(max([z[j] for j in range(len(pieces)) if abs(j - place) <= 16], default=0.0))
            readings[1].append(sum(a * b for a, b in zip(z, share, strict=True)) / max(sum(share), 1e-9))
            readings[2].append(max([a * b for a, b in zip(z, relative, strict=True)], default=0.0))
        evidence = np.log(np.array(readings).ravel() + 0.03)
        relative_to_usual = np.clip((evidence - model.centre) / model.scale, -2.5, 2.5)
        matches.append(float((question.fine - model.usual) @ model.table @ relative_to_usual))
    return matches


LENGTHS = st.lists(st.one_of(st.integers(0, 6), st.integers(30, 90)), min_size=1, max_size=5)
SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, LENGTHS, st.integers(1, 7))
def test_it_equals_its_definition(seed, lengths, question_length):
    question, passages, model = make(seed, lengths, question_length)
    found = placed_match(question, passages, model)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, slowly(question, passages, model), atol=1e-4)


@given(SEEDS, LENGTHS, st.randoms(use_true_random=False))
def test_the_match_of_a_passage_depends_on_nothing_else(seed, lengths, random):
    question, passages, model = make(seed, lengths)
    match = placed_match(question, passages, model)
    rows = random.sample(range(len(lengths)), random.randint(1, len(lengths)))
    np.testing.assert_allclose(placed_match(question, passages.take(rows), model), match[rows], atol=1e-5)
    held = np.isin(passages.pieces.values, question.terms)  # words of the question are no evidence
    other = np.where(held[:, None], np.float32(9), passages.tokens.values)
    changed = replace(passages, tokens=Ragged(other, passages.tokens.offsets))
    np.testing.assert_array_equal(placed_match(question, changed, model), match)
    assert not placed_match(replace(question, fine=model.usual), passages, model).any()


def test_a_date_counts_near_the_words_of_the_question():
    # class 0 is found in piece 5 alone: next to the question's piece 1, or far from it
    probe = np.full((DIM + 1, TYPES), -4, np.float32)
    probe[0, 0] = 8
    question = Question(np.array([1]), np.eye(CLASSES)[0])
    terms = [np.array([5, 1, *[2] * 60]), np.array([1, *[2] * 60, 5])]
    tokens = [np.zeros((62, DIM), np.float32) for _ in terms]
    tokens[0][0, 0] = tokens[1][61, 0] = 1
    passages = Passages(ragged(terms, np.zeros(0)), ragged(tokens, np.zeros(0)), np.full(VOCABULARY, 3, np.float32))
    near, far = evidence_at_place(question, passages, probe).reshape(2, READINGS, TYPES)[..., 0]
    assert (near > far + 1).all()


@pytest.fixture
def found(retriever, models):
    """A question and its candidates."""
    (query,) = models.encode([QUESTION])
    return query, retriever.candidates(query, 10)


def test_integrated_re_ranking_adds_the_match_with_its_own_weight(retriever, models, found):
    _, candidates = found
    order = reorder(models, *found, METHODS["class-integrated"])
    match = placed_match(*found, models.proximity)
    np.testing.assert_allclose(order.components["match"], match)
    np.testing.assert_allclose(order.score, candidates.score + models.proximity.weight * match)
    assert retriever.weights["class"] == models.weights["class"] == models.proximity.weight
    np.testing.assert_allclose(signals(models, *found)["match_soft"], match)
    hard = reorder(models, *found, METHODS["class-integrated-hard"])
    assert set(hard.components["match"].tolist()) <= {0.0, 1.0}


def test_without_its_model_the_match_is_the_inner_product(models, found):
    bare = replace(models, proximity=None)
    query, candidates = found
    order = reorder(bare, *found, METHODS["class-integrated"])
    expected = class_match(query.probabilities, candidates.probabilities, candidates.thresholds, "soft")
    np.testing.assert_allclose(order.components["match"], expected)
    assert bare.weights["class"] == bare.pairs.weights["class"]


def test_a_folder_of_models_need_not_hold_it(encoder, tmp_path):
    for name in ("questions", "passages", "entailment", "pairs", "codebooks"):
        (tmp_path / name).symlink_to(MODELS / name)
    assert Models.load(tmp_path, encoder=encoder).proximity is None


def test_other_classes_are_refused(models, tmp_path):
    shutil.copytree(MODELS / "match", tmp_path / "match")
    made_for = {"encoder_fingerprint": models.encoder.fingerprint, "classes": models.questions.fine_classes}
    model = ProximityModel.load(tmp_path / "match", **made_for)
    assert model.table.shape == (len(models.questions.fine_classes), len(model.centre))
    with pytest.raises(ArtifactError, match="train_match"):
        ProximityModel.load(tmp_path / "match", **{**made_for, "classes": ("ABBR:abb",)})
