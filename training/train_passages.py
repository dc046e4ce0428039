"""Make ``models/passages``: a one-vs-all head with six columns that tell which types of answer a passage provides.

    python training/train_passages.py --data DATA --encoder models/encoder --out models/passages
    python training/train_passages.py --data DATA --multilingual --encoder MULTILINGUAL/encoder --out MULTILINGUAL/passages

Each column is a logistic regression over three views of a passage: ``layers`` and ``entities`` of the encoder, ``surface``
read off the spelling. The labels are ``gold``: 508 Wikipedia passages of ``passages/``; and ``read``: passages of WikiQA,
newswire and SQuAD, see ``labels.py``. Every passage also counts once in lower case, so that text without capitals is not
mistaken for text without names.

All figures are of nested cross-validation: penalty, calibration and threshold come from the training folds alone, and the
passages that score are those of the held-out fold that were read twice. Passages of one article share a fold
(``labels.py``), in the inner folds, too. The same data, encoder and seed give the same head.

With --multilingual, for an encoder of many languages, ``surface`` counts for ABBR alone: other languages have other capital
letters and no English words. Of Turkish paragraphs of an article, those with the person that a question asks for have an
AUC of 0.61 so, and of 0.48 otherwise. All labels are of English passages.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, precision_recall_fscore_support, roc_auc_score
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from command import Array, language_of, make_parser, run, save_artifact, seconds_so_far
from datasets_io import read_jsonl
from labels import article_groups, labelled_passages, passage_articles
from semclass.core.types import COARSE, Encoder, FloatArray
from semclass.encoders.excerpts import encode_passages
from semclass.encoders.onnx_encoder import open_encoder
from semclass.heads.surface import surface_features
from semclass.train.fitted import FittedHead, best_threshold, expected_calibration_error, head_to_onnx

# views that heads read, and the root mean square length of each where the penalty works: with those of
# standardised columns, 8 : 1 : 0.4, the macro F1 is 0.08 lower
WEIGHTS = {"layers": 4.0, "surface": 5.0, "entities": 5.0}
COMPONENTS = 100  # principal components of a view at most; from 50 to 300 the macro AUC is the same within 0.001
LOWER_CASE_SHARE = 0.3  # weight of a passage's lower-cased copy; the passage itself has the rest
# weight of a passage of `read`; one of `gold` has 1. With 0.3 and 1 macro F1 and AUC are the same within 0.002
READ_WEIGHT = 0.6
# inverse penalties that are tried; the one with the least cross-validated log loss is taken
STRENGTHS = (0.03, 0.1, 0.3)
FOLDS = 5
REPEATS = 5  # assignments of folds that the figures are the mean of
GOLD = "gold"


@dataclass(frozen=True)
class Corpus:
    """The labelled passages, ``gold`` first."""

    texts: list[str]
    labels: Array  # float64 (n, 6): 1, 0, or nan where the readings differ
    sources: Array  # str (n,): ``gold``, ``wikiqa``, ``news`` or ``squad``
    twice: Array  # bool (n,): of ``gold`` and read twice, independently
    spelt: tuple[str, ...]  # classes that are told by spelling, too
    articles: Array  # int (n,): group of passages that are of one article, see ``labels.py``

    @property
    def weights(self) -> Array:
        """Weight of each passage in training, float64 (n,)."""
        return np.where(self.sources == GOLD, 1.0, READ_WEIGHT)


@dataclass(frozen=True)
class Space:
    """Where the penalty works: ``(views - mean) @ matrix``, views concatenated in the order of `WEIGHTS`."""

    mean: Array
    matrix: Array

    def __call__(self, dense: Array) -> Array:
        """Coordinates, float64 (n, components)."""
        return (dense - self.mean) @ self.matrix


@dataclass(frozen=True)
class Trained:
    """A head of one class, before it is written."""

    space: Space
    model: LogisticRegression  # over the coordinates of `space`
    slope: float  # calibration of its log-odds
    intercept: float
    threshold: float  # of calibrated probabilities
    strength: float  # inverse penalty that was chosen

    def probabilities(self, dense: Array) -> Array:
        """Calibrated probabilities, float64 (n,)."""
        return _sigmoid(self.slope * self.model.decision_function(self.space(dense)) + self.intercept)


def read_corpus(data: Path, *, multilingual: bool = False) -> Corpus:
    passages = read_jsonl(data / "passages" / "wikipedia_flan_ul2.jsonl.gz")
    gold = {record["_id"]: record for record in read_jsonl(data / "passages" / "gold.jsonl")}
    others, labels = labelled_passages(data)
    articles = passage_articles(data)
    sources = [articles[text].partition(" ")[0] for text in others]
    twice = [gold[passage["_id"]]["readings"] == 2 for passage in passages]
    texts = [*(passage["text"] for passage in passages), *others]
    return Corpus(
        texts=texts,
        labels=np.concatenate([_label_matrix([gold[passage["_id"]]["labels"] for passage in passages]), labels]),
        sources=np.array([GOLD] * len(passages) + sources),
        spelt=("ABBR",) if multilingual else COARSE,
        twice=np.array(twice + [False] * len(others)),
        articles=article_groups(texts, articles),
    )


def _label_matrix(labels: Sequence[Mapping[str, int | None]]) -> Array:
    return np.array([[np.nan if row[name] is None else row[name] for name in COARSE] for row in labels], np.float64)


def view_matrices(encoder: Encoder, texts: list[str]) -> dict[str, FloatArray]:
    """Views that the heads read, float32 (n, dim) by name."""
    # the same reading as of the classifier: by excerpts
    encoding, _ = encode_passages(encoder, texts, [name for name in WEIGHTS if name in encoder.views])
    found = {"layers": encoding.layers, "surface": surface_features(texts), "entities": encoding.entities}
    return {name: view for name, view in found.items() if view is not None}


def fit_space(dense: Array, dims: Mapping[str, int]) -> Space:
    """Standardise columns (n, sum of dims), keep each view's principal components, and give each view its weight."""
    mean, spread = dense.mean(axis=0), dense.std(axis=0)
    spread[spread < 1e-6] = 1.0
    blocks, start = [], 0
    for name, dim in dims.items():
        part = slice(start, start + dim)
        axes = np.eye(dim)
        if dim > COMPONENTS:
            standard = (dense[:, part] - mean[part]) / spread[part]
            axes = PCA(COMPONENTS, svd_solver="randomized", random_state=0).fit(standard).components_.T
        block = np.zeros((dense.shape[1], axes.shape[1]))
        block[part] = axes / spread[part, None] * WEIGHTS[name] / np.sqrt(dim)
        blocks.append(block)
        start += dim
    return Space(mean, np.concatenate(blocks, axis=1))


def spaces_of(corpus: Corpus, dense: Array, dims: Mapping[str, int]) -> list[Space]:
    """The space of each class; ``surface`` moves nothing in that of one that does not read it."""
    space = fit_space(dense, dims)
    bare = space.matrix * np.repeat([name != "surface" for name in dims], list(dims.values()))[:, None]
    return [space if name in corpus.spelt else Space(space.mean, bare) for name in COARSE]


def train_class(dense: Array, space: Space, corpus: Corpus, rows: Array, column: int, seed: int) -> Trained:
    """Choose penalty, calibration and threshold of one class by cross-validation within `rows`, and fit it to all of them.

    `dense` are the views of passages, then of their lower-cased copies, (2n, dim); `space` was fitted on `rows`.
    """
    coordinates = space(dense)
    rows = rows[~np.isnan(corpus.labels[rows, column])]
    truth, weights = corpus.labels[rows, column].astype(int), corpus.weights[rows]

    def fitted(places: Array, strength: float) -> LogisticRegression:
        chosen = np.concatenate([rows[places], rows[places] + len(corpus.texts)])
        share = np.concatenate([weights[places] * (1 - LOWER_CASE_SHARE), weights[places] * LOWER_CASE_SHARE])
        model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=100)
        return model.fit(coordinates[chosen], np.tile(truth[places], 2), share)

    scores = np.zeros((len(STRENGTHS), len(rows)))
    for fit, held_out in inner_folds(truth, corpus.articles[rows], seed):
        for place, strength in enumerate(STRENGTHS):
            scores[place, held_out] = fitted(fit, strength).decision_function(coordinates[rows[held_out]])
    losses = [log_loss(truth, _sigmoid(row), sample_weight=weights) for row in scores]
    best = int(np.argmin(losses))
    platt = LogisticRegression(C=1e4).fit(scores[best][:, None], truth, weights)
    slope, intercept = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    probabilities = _sigmoid(slope * scores[best] + intercept)
    return Trained(
        space=space,
        model=fitted(np.arange(len(rows)), STRENGTHS[best]),
        slope=slope,
        intercept=intercept,
        threshold=best_threshold(probabilities, truth, weights),
        strength=STRENGTHS[best],
    )


def inner_folds(truth: Array, articles: Array, seed: int) -> Iterable[tuple[Array, Array]]:
    """Places to fit on and places to score, with like shares of each truth; those of one article share a fold."""
    folds: StratifiedGroupKFold = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    return folds.split(truth, truth, articles)


def _sigmoid(scores: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(scores / 2)))


def held_out(
    corpus: Corpus, dense: Array, dims: Mapping[str, int], splits: Iterable[tuple[Array, Array]], seed: int
) -> tuple[Array, Array]:
    """Score passages with heads that were fitted without them; `splits` are passages to fit on and passages to score.

    Gives calibrated probabilities and decisions, each (2n, 6): passages, then their lower-cased copies; zero where no split
    scores.
    """
    n = len(corpus.texts)
    probabilities, decisions = np.zeros((2 * n, len(COARSE))), np.zeros((2 * n, len(COARSE)), int)
    for rows, scored in splits:
        spaces = spaces_of(corpus, dense[np.concatenate([rows, rows + n])], dims)
        both = np.concatenate([scored, scored + n])
        for column, space in enumerate(spaces):
            trained = train_class(dense, space, corpus, rows, column, seed)
            probabilities[both, column] = trained.probabilities(dense[both])
            decisions[both, column] = probabilities[both, column] >= trained.threshold
    return probabilities, decisions


def gold_folds(corpus: Corpus, seed: int) -> list[tuple[Array, Array]]:
    """Folds of ``gold`` by article; each is fitted on all other articles."""
    gold, everything = np.flatnonzero(corpus.sources == GOLD), np.arange(len(corpus.texts))
    folds = GroupKFold(FOLDS, shuffle=True, random_state=seed).split(gold, groups=corpus.articles[gold])
    return [(everything[~np.isin(corpus.articles, corpus.articles[gold[scored]])], gold[scored]) for _, scored in folds]


def out_of_fold(corpus: Corpus, dense: Array, dims: Mapping[str, int], seed: int) -> tuple[Array, Array, Array]:
    """Out-of-fold probabilities, decisions and truths, perhaps nan, of the passages that were read twice, each (m, 6)."""
    probabilities, decisions = held_out(corpus, dense, dims, gold_folds(corpus, seed), seed)
    places = np.flatnonzero(corpus.twice)
    return probabilities[places], decisions[places], corpus.labels[places]


def measure(truth: Array, probabilities: Array, decisions: Array) -> dict[str, Array]:
    """Figures of each class, float64 (6,), over the passages whose truth is known; nan where it is all the same."""
    rows = []
    for column in range(len(COARSE)):
        known = ~np.isnan(truth[:, column])
        right, scores, said = truth[known, column] == 1, probabilities[known, column], decisions[known, column]
        precision, recall, f1, _ = precision_recall_fscore_support(right, said, average="binary", zero_division=0)
        auc = roc_auc_score(right, scores) if 0 < right.sum() < len(right) else np.nan
        error = expected_calibration_error(scores, right)
        rows.append((precision, recall, f1, auc, error))
    names = ("precision", "recall", "f1", "auc", "calibration_error")
    return dict(zip(names, np.array(rows, float).T, strict=True))


def evaluate(corpus: Corpus, dense: Array, dims: Mapping[str, int], seeds: Sequence[int]) -> dict[str, Array]:
    """Figures by name, each (seeds, 6); ``lower_f1`` and the like are of lower-cased passages."""
    n, places, found = len(corpus.texts), np.flatnonzero(corpus.twice), []
    for seed in seeds:
        probabilities, decisions = held_out(corpus, dense, dims, gold_folds(corpus, seed), seed)
        truth = corpus.labels[places]
        figures = measure(truth, probabilities[places], decisions[places])
        lower = measure(truth, probabilities[places + n], decisions[places + n])
        found.append(figures | {f"lower_{name}": row for name, row in lower.items()})
    return {name: np.array([figures[name] for figures in found]) for name in found[0]}


def other_sources(corpus: Corpus, dense: Array, dims: Mapping[str, int], seed: int) -> dict[str, dict[str, float]]:
    """Macro figures on each source of a head that was fitted on the others; classes with under five cases are left out."""
    found = {}
    for source in dict.fromkeys(corpus.sources.tolist()):
        scored = np.flatnonzero(corpus.sources == source)
        rows = np.flatnonzero((corpus.sources != source) & ~np.isin(corpus.articles, corpus.articles[scored]))
        probabilities, decisions = held_out(corpus, dense, dims, [(rows, scored)], seed)
        truth = corpus.labels[scored]
        figures = measure(truth, probabilities[scored], decisions[scored])
        common = np.nansum(truth, axis=0) >= 5
        means = {name: figures[name][common].mean() for name in ("f1", "auc")}
        found[source] = {name: round(float(value), 3) for name, value in means.items()}
    return found


def head_of(
    corpus: Corpus, dense: Array, dims: Mapping[str, int], metrics: Mapping[str, Any], seed: int
) -> tuple[FittedHead, dict[str, Any]]:
    """Fit to all passages; gives the head, which has one column for each class, and what its manifest says of it."""
    rows, spaces, labels = np.arange(len(corpus.texts)), spaces_of(corpus, dense, dims), corpus.labels
    trained = [train_class(dense, space, corpus, rows, column, seed) for column, space in enumerate(spaces)]
    card = {
        "task": "passage-provides",
        "classes": COARSE,
        "link": "sigmoid",
        "inputs": dims,
        "calibration": {
            "method": "platt",
            "on": f"out-of-fold scores, {FOLDS} folds by article, of the training passages",
        },
        "training": {
            "data": "passages/gold.jsonl, training/labels/passages.tsv",
            "passages": len(rows),
            "labelled": dict(zip(COARSE, (~np.isnan(labels)).sum(axis=0).tolist(), strict=True)),
            "positives": dict(zip(COARSE, np.nansum(labels, axis=0).astype(int).tolist(), strict=True)),
            "strength": {name: one.strength for name, one in zip(COARSE, trained, strict=True)},
            "seed": seed,
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
        "threshold": [round(one.threshold, 6) for one in trained],
    }
    # fold space, regression and calibration of each class into one column of one matrix
    weights = np.stack([one.slope * (one.space.matrix @ one.model.coef_[0]) for one in trained], axis=1)
    bias = np.array([one.slope * one.model.intercept_[0] + one.intercept for one in trained]) - spaces[0].mean @ weights
    head = FittedHead("sigmoid", COARSE, dims, weights.astype(np.float32), bias.astype(np.float32))
    return head, card


def head_metrics(figures: Mapping[str, Array]) -> dict[str, Any]:
    """Figures of cross-validation for the manifest: of each class, and macro averages."""
    means = {key: values.mean(axis=0) for key, values in figures.items()}
    found: dict[str, Any] = {
        name: {key: round(float(values[column]), 4) for key, values in means.items()}
        for column, name in enumerate(COARSE)
    }
    found["macro"] = {key: round(float(values.mean()), 4) for key, values in means.items()} | {
        f"{name}_by_seed": [round(float(value), 4) for value in figures[name].mean(axis=1)] for name in ("f1", "auc")
    }
    return found


def _rows(table: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> str:
    cells = {name: " | ".join(f"{row[column]:.3f}" for column in columns) for name, row in table.items()}
    return "\n".join(f"| {name} | {row} |" for name, row in cells.items())


def train(arguments: argparse.Namespace) -> None:
    many, seed = arguments.multilingual, arguments.seed
    corpus, encoder = read_corpus(arguments.data, multilingual=many), open_encoder(arguments.encoder)
    views = view_matrices(encoder, [*corpus.texts, *(text.lower() for text in corpus.texts)])
    dims = {name: view.shape[1] for name, view in views.items()}
    dense = np.concatenate(list(views.values()), axis=1).astype(np.float64)
    metrics = head_metrics(evaluate(corpus, dense, dims, range(seed, seed + REPEATS)))
    metrics["other_sources"] = other_sources(corpus, dense, dims, seed)
    for name, found in metrics.items():
        print(f"{name}: {found}")
    head, card = head_of(corpus, dense, dims, metrics, seed)
    card |= {"encoder": encoder.fingerprint}
    columns = ("precision", "recall", "f1", "auc", "calibration_error", "lower_f1", "lower_auc")
    english = "All labelled passages are English. It hardly finds ABBR in others." if many else "It reads English."
    words = {
        "language": language_of(arguments),
        "kinds": "ABBR (abbreviation), DESC (description), ENTY (entity), HUM (human), LOC (location), NUM (number)",
        "reads": "and of abbreviations over" if many else "its evidence for entities and answers, and",
        "languages": english,
        "table": _rows({name: metrics[name] for name in (*COARSE, "macro")}, columns),
        "sources": _rows(metrics["other_sources"], ("f1", "auc")),
    }
    save_artifact(arguments.out, "head", {"model.onnx": head_to_onnx(head)}, card, "passages", **words)


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "multilingual", "seed", "out"), train)
