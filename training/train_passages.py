"""Make ``models/passages``: a one-vs-all head with six columns that tell which types of answer a passage provides.

    python training/train_passages.py --data DATA --encoder models/encoder --out models/passages

Each column is a logistic regression over three views of a passage: ``layers`` and ``entities`` of the encoder, ``surface``
read off the spelling. The labels are the 508 Wikipedia passages of ``passages/``: ``gold`` by reading them, ``weak``
by flan-ul2, or ``both``. Every passage also counts once in lower case, so that text without capitals is not mistaken for
text without names.

All figures are of nested cross-validation: penalty, calibration and threshold come from the training folds alone, and
the passages that score are those of the held-out fold that were read twice. The same data, encoder and seed give the
same head.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold

from command import ENCODER_HELP, load_encoder, make_parser, run
from datasets_io import read_jsonl
from semclass.artifacts import HeadCard, save_head
from semclass.bulk import encode_quietly
from semclass.errors import ArtifactError
from semclass.export import head_to_onnx
from semclass.fit import FittedHead, expected_calibration_error
from semclass.heads import Head
from semclass.surface import surface_features
from semclass.taxonomy import COARSE, COARSE_NAMES
from semclass.types import Encoder, FloatArray

Array = npt.NDArray[Any]

WEIGHTS = {"layers": 4.0, "surface": 5.0, "entities": 3.0}
"""Views that heads read, and the root mean square length of each where the penalty works: a view counts for what it
says, not for its number of columns. Macro F1 (five seeds, std 0.005, components found once) 0.897; with weights as
standardised columns have them, 8 : 1 : 0.4, 0.818; with weights chosen among four inside the folds 0.897 again. Without
entities 0.881, without surface 0.820, without layers 0.890 (but the mean AUC 0.908, not 0.932)."""

COMPONENTS = 100
"""Principal components of a view at most; with 400 the macro F1 is the same within a standard deviation."""

LOWER_CASE_SHARE = 0.3
"""Weight of a passage's lower-cased copy; the passage itself has the rest. Macro F1 on lower-cased passages 0.843 without
it and 0.858 with it; on passages as they are 0.894 and 0.893."""

WEAK_SHARE = 0.2
"""Weight of flan-ul2's label beside the gold one in ``both``."""

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Inverse penalties that are tried; the one with the least cross-validated log loss is taken."""

FOLDS = 5
FLAT = 0.003
"""Thresholds whose F1 is within this of the best count as equally good; the middle one is taken."""

TOLERANCE = 1e-4
"""Largest difference between a head's probabilities in ONNX and in scikit-learn."""


@dataclass(frozen=True)
class Corpus:
    """The labelled passages.

    Attributes
    ----------
    texts
        n passages.
    gold, weak
        float64 of shape (n, 6): 1, 0, or nan where the readings differ, or where flan-ul2 gave no answer.
    twice
        bool of shape (n,): read twice, independently.
    """

    texts: list[str]
    gold: Array
    weak: Array
    twice: Array

    def targets(self, labels: str) -> list[tuple[Array, float]]:
        """Labels to train on, each with its weight."""
        kinds = {"gold": [(self.gold, 1.0)], "weak": [(self.weak, 1.0)]}
        kinds["both"] = [(self.gold, 1 - WEAK_SHARE), (self.weak, WEAK_SHARE)]
        return kinds[labels]


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
    """A head of one class, before it is written.

    Attributes
    ----------
    model
        Logistic regression over the coordinates of `space`.
    slope, intercept
        Calibration of its log-odds.
    threshold
        Calibrated probability from which the passage has the class.
    strength
        Inverse penalty that was chosen.
    """

    space: Space
    model: LogisticRegression
    slope: float
    intercept: float
    threshold: float
    strength: float

    def probabilities(self, dense: Array) -> Array:
        """Calibrated probabilities, float64 (n,)."""
        return _sigmoid(self.slope * self.model.decision_function(self.space(dense)) + self.intercept)


def read_corpus(data: Path) -> Corpus:
    """Read passages, gold and weak labels, in the order of the passages' file."""
    passages = read_jsonl(data / "passages" / "wikipedia_flan_ul2.jsonl.gz")
    gold = {record["_id"]: record for record in read_jsonl(data / "passages" / "gold.jsonl")}
    return Corpus(
        texts=[passage["text"] for passage in passages],
        gold=_label_matrix([gold[passage["_id"]]["labels"] for passage in passages]),
        weak=_label_matrix([passage["labels"] for passage in passages]),
        twice=np.array([gold[passage["_id"]]["readings"] == 2 for passage in passages]),
    )


def _label_matrix(labels: Sequence[Mapping[str, int | None]]) -> Array:
    return np.array([[np.nan if row[name] is None else row[name] for name in COARSE] for row in labels], np.float64)


def view_matrices(encoder: Encoder, texts: list[str]) -> dict[str, FloatArray]:
    """Views that the heads read, float32 (n, dim) by name."""
    # a quarter of the passages is longer than the encoder reads
    encoding, _ = encode_quietly(encoder, texts, [name for name in WEIGHTS if name in encoder.views])
    found = {"layers": encoding.layers, "surface": surface_features(texts), "entities": encoding.entities}
    return {name: view for name, view in found.items() if view is not None}


def fit_space(dense: Array, dims: Mapping[str, int]) -> Space:
    """Standardise columns, keep each view's principal components, and give each view its weight.

    Parameters
    ----------
    dense
        float64 (n, sum of dims).
    dims
        Columns of each view by its name, in the order of `dense`.
    """
    mean, spread = dense.mean(axis=0), dense.std(axis=0)
    spread[spread < 1e-6] = 1.0
    blocks, start = [], 0
    for name, dim in dims.items():
        part = slice(start, start + dim)
        axes = np.eye(dim)
        if dim > COMPONENTS:
            standard = (dense[:, part] - mean[part]) / spread[part]
            axes = PCA(COMPONENTS, svd_solver="full").fit(standard).components_.T
        block = np.zeros((dense.shape[1], axes.shape[1]))
        block[part] = axes / spread[part, None] * WEIGHTS[name] / np.sqrt(dim)
        blocks.append(block)
        start += dim
    return Space(mean, np.concatenate(blocks, axis=1))


def training_rows(
    rows: Array, column: int, targets: Sequence[tuple[Array, float]], n: int
) -> tuple[Array, Array, Array]:
    """Rows to fit a class on, their labels and weights; row ``n + i`` is passage i in lower case."""
    places, labels, weights = [], [], []
    for matrix, weight in targets:
        known = rows[~np.isnan(matrix[rows, column])]
        for offset, share in ((0, 1 - LOWER_CASE_SHARE), (n, LOWER_CASE_SHARE)):
            places.append(known + offset)
            labels.append(matrix[known, column].astype(int))
            weights.append(np.full(len(known), weight * share))
    return np.concatenate(places), np.concatenate(labels), np.concatenate(weights)


def train_class(
    dense: Array, space: Space, rows: Array, column: int, targets: Sequence[tuple[Array, float]], seed: int
) -> Trained:
    """Choose penalty, calibration and threshold of one class by cross-validation within `rows`, and fit it to all of them.

    Parameters
    ----------
    dense
        float64 (2n, dim): passages, then their lower-cased copies.
    space
        Fitted on `rows`.
    rows
        Passages to use.
    column
        Class, as a column of the label matrices.
    targets
        Label matrices with their weights; the first decides what is right.
    seed
        Of the folds.
    """
    n, coordinates, truth = len(dense) // 2, space(dense), targets[0][0]
    rows = rows[~np.isnan(truth[rows, column])]
    right = truth[rows, column].astype(int)
    scores = np.zeros((len(STRENGTHS), len(rows)))
    for fit, held_out in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(rows, right):
        places, labels, weights = training_rows(rows[fit], column, targets, n)
        for place, strength in enumerate(STRENGTHS):
            model = _logistic(strength).fit(coordinates[places], labels, weights)
            scores[place, held_out] = model.decision_function(coordinates[rows[held_out]])
    best = int(np.argmin([log_loss(right, _sigmoid(row)) for row in scores]))
    platt = LogisticRegression(C=1e4).fit(scores[best][:, None], right)
    slope, intercept = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    places, labels, weights = training_rows(rows, column, targets, n)
    return Trained(
        space=space,
        model=_logistic(STRENGTHS[best]).fit(coordinates[places], labels, weights),
        slope=slope,
        intercept=intercept,
        threshold=best_threshold(_sigmoid(slope * scores[best] + intercept), right),
        strength=STRENGTHS[best],
    )


def best_threshold(probabilities: Array, truth: Array) -> float:
    """Threshold with the best F1; of many within `FLAT` of it the middle one, which the next sample moves least."""
    order = np.argsort(-probabilities, kind="stable")
    falling = probabilities[order]
    f1 = 2 * np.cumsum(truth[order]) / (np.arange(1, len(truth) + 1) + truth.sum())
    below = np.append(falling[1:], 0.0)
    possible = falling > below
    good = possible & (f1 >= f1[possible].max() - FLAT)
    return float(np.median((falling + below)[good] / 2))


def _logistic(strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, solver="newton-cholesky", max_iter=100)


def _sigmoid(scores: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(scores / 2)))


def cross_validate(
    corpus: Corpus, dense: Array, dims: Mapping[str, int], labels: str, seed: int
) -> tuple[Array, Array]:
    """Held-out probabilities and decisions.

    Returns
    -------
    tuple of ndarray
        Each (2n, 6): passages, then their lower-cased copies; probabilities are calibrated, decisions 0 or 1.
    """
    n, targets = len(corpus.texts), corpus.targets(labels)
    probabilities, decisions = np.zeros((2 * n, len(COARSE))), np.zeros((2 * n, len(COARSE)), int)
    for rows, held_out in KFold(FOLDS, shuffle=True, random_state=seed).split(corpus.texts):
        space = fit_space(dense[np.concatenate([rows, rows + n])], dims)
        scored = np.concatenate([held_out, held_out + n])
        for column in range(len(COARSE)):
            trained = train_class(dense, space, rows, column, targets, seed)
            probabilities[scored, column] = trained.probabilities(dense[scored])
            decisions[scored, column] = probabilities[scored, column] >= trained.threshold
    return probabilities, decisions


def measure(corpus: Corpus, probabilities: Array, decisions: Array) -> dict[str, Array]:
    """F1, area under the ROC curve and calibration error of each class on the passages that were read twice."""
    figures: dict[str, list[float]] = {"f1": [], "auc": [], "calibration_error": []}
    for column in range(len(COARSE)):
        rows = corpus.twice & ~np.isnan(corpus.gold[:, column])
        truth, scores = corpus.gold[rows, column].astype(int), probabilities[rows, column]
        figures["f1"].append(f1_score(truth, decisions[rows, column]))
        figures["auc"].append(roc_auc_score(truth, scores))
        figures["calibration_error"].append(expected_calibration_error(scores, truth == 1))
    return {name: np.array(values) for name, values in figures.items()}


def flan_f1(corpus: Corpus) -> Array:
    """F1 of flan-ul2's own answers on the same passages; those it did not answer are left out."""
    figures = []
    for column in range(len(COARSE)):
        rows = corpus.twice & ~np.isnan(corpus.gold[:, column]) & ~np.isnan(corpus.weak[:, column])
        figures.append(f1_score(corpus.gold[rows, column], corpus.weak[rows, column]))
    return np.array(figures)


def evaluate(
    corpus: Corpus, dense: Array, dims: Mapping[str, int], labels: str, seeds: Sequence[int]
) -> dict[str, Array]:
    """Figures by name, each of shape (seeds, 6); ``lower_f1`` and the like are of lower-cased passages."""
    n, found = len(corpus.texts), []
    for seed in seeds:
        probabilities, decisions = cross_validate(corpus, dense, dims, labels, seed)
        lower = measure(corpus, probabilities[n:], decisions[n:])
        found.append(
            measure(corpus, probabilities[:n], decisions[:n]) | {f"lower_{name}": row for name, row in lower.items()}
        )
    return {name: np.array([figures[name] for figures in found]) for name in found[0]}


def table(title: str, f1: Array, auc: Array | None = None) -> str:
    """One line per measure; `f1` and `auc` have shape (seeds, 6)."""
    line = f"{title:34s} F1  {f1.mean():.3f} ±{f1.mean(axis=1).std():.3f}  "
    line += " ".join(f"{value:.3f}" for value in f1.mean(axis=0))
    if auc is not None:
        line += f"\n{'':34s} AUC {auc.mean():.3f} ±{auc.mean(axis=1).std():.3f}  "
        line += " ".join(f"{value:.3f}" for value in auc.mean(axis=0))
    return line


def fitted_head(trained: Sequence[Trained], dims: Mapping[str, int]) -> FittedHead:
    """Fold space, regression and calibration of each class into one column of one matrix."""
    weights = np.stack([one.slope * (one.space.matrix @ one.model.coef_[0]) for one in trained], axis=1)
    bias = np.array([one.slope * one.model.intercept_[0] + one.intercept for one in trained])
    return FittedHead(
        kind="logistic",
        link="sigmoid",
        classes=COARSE,
        inputs=dims,
        weights=weights.astype(np.float32),
        bias=(bias - trained[0].space.mean @ weights).astype(np.float32),
    )


def write_head(
    corpus: Corpus,
    dense: Array,
    views: Mapping[str, FloatArray],
    figures: Mapping[str, Array],
    arguments: argparse.Namespace,
    encoder: str,
) -> str:
    """Fit each class on everything, write one head, and compare the network with scikit-learn; gives a line of report."""
    n, dims = len(corpus.texts), {name: view.shape[1] for name, view in views.items()}
    space, targets = fit_space(dense, dims), corpus.targets(arguments.labels)
    trained = [
        train_class(dense, space, np.arange(n), column, targets, arguments.seed) for column in range(len(COARSE))
    ]
    metrics = head_metrics(figures, flan_f1(corpus))
    known = ~np.isnan(corpus.gold)
    card = HeadCard(
        task="passage-provides",
        classes=COARSE,
        link="sigmoid",
        inputs=dims,
        encoder=encoder,
        calibration={"method": "platt", "on": f"out-of-fold scores, {FOLDS} folds, of the training passages"},
        training={
            "data": "passages/gold.jsonl, passages/wikipedia_flan_ul2.jsonl.gz",
            "labels": arguments.labels,
            "passages": len(corpus.texts),
            "labelled": dict(zip(COARSE, known.sum(axis=0).tolist(), strict=True)),
            "positives": dict(zip(COARSE, np.nansum(corpus.gold, axis=0).astype(int).tolist(), strict=True)),
            "strength": {name: one.strength for name, one in zip(COARSE, trained, strict=True)},
            "seed": arguments.seed,
        },
        metrics=metrics,
        threshold=[round(one.threshold, 6) for one in trained],
    )
    save_head(
        arguments.out,
        head_to_onnx(fitted_head(trained, dims)),
        card,
        title="Which types of answer does a passage provide?",
        sections=card_sections(metrics, arguments),
    )
    network = Head.load(arguments.out, encoder=encoder).probabilities(views)
    expected = np.stack([one.probabilities(dense) for one in trained], axis=1)
    difference = float(np.abs(network - expected).max())
    if difference > TOLERANCE:
        raise ArtifactError(f"{arguments.out}: the network differs from scikit-learn by {difference:.1e}")
    return f"{arguments.out}  ONNX - scikit-learn {difference:.1e}"


def head_metrics(figures: Mapping[str, Array], flan: Array) -> dict[str, Any]:
    """Figures of cross-validation for the manifest: macro averages, and the same of each class."""
    means = {key: values.mean(axis=0) for key, values in figures.items()} | {"flan_ul2_f1": flan}
    found: dict[str, Any] = {
        name: {key: round(float(values[column]), 4) for key, values in means.items()}
        for column, name in enumerate(COARSE)
    }
    macro = {key: round(float(values.mean()), 4) for key, values in means.items()}
    return found | {"macro": macro | {"f1_std": round(float(figures["f1"].mean(axis=1).std()), 4)}}


def card_sections(metrics: Mapping[str, Any], arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Sections of the model card."""
    labels, repeats = arguments.labels, arguments.repeats
    columns = ("f1", "auc", "lower_f1", "lower_auc", "calibration_error", "flan_ul2_f1")
    rows = "\n".join(
        f"| {name} | " + " | ".join(f"{metrics[name][column]:.3f}" for column in columns) + " |"
        for name in (*COARSE, "macro")
    )
    kinds = ", ".join(f"{name} ({COARSE_NAMES[name]})" for name in COARSE)
    return [
        (
            "What it is",
            f"Calibrated probabilities that a reader could take from a passage a clear answer to a question of the types "
            f"{kinds}: a logistic regression for each over means of the encoder's layers, its entity evidence, and counts "
            "of numbers, capitals, acronyms and the like in the raw text.",
        ),
        (
            "How it was made",
            f"`training/train_passages.py --labels {labels}`, on passages of English Wikipedia; each also in lower case. "
            "Penalty, calibration and threshold by cross-validation.",
        ),
        (
            "How good it is",
            f"Nested {FOLDS}-fold cross-validation, mean of {repeats} assignments of folds, on the 250 passages that were "
            "read twice; `lower`: the same passages in lower case; flan-ul2: the language model's answers to a prompt.\n\n"
            "| class | F1 | AUC | lower F1 | lower AUC | calibration error | flan-ul2 F1 |\n|---|---|---|---|---|---|---|\n"
            + rows,
        ),
        (
            "Limits",
            "English. Trained on encyclopedic text, much of it about computing and companies, of 50 to 300 words; shorter "
            "texts provide less and get lower probabilities. It tells that an answer of the type is there, not to which "
            "question.",
        ),
    ]


def train(arguments: argparse.Namespace) -> None:
    """Read, encode, report, write."""
    corpus = read_corpus(arguments.data)
    encoder = load_encoder(arguments.encoder)
    views = view_matrices(encoder, [*corpus.texts, *(text.lower() for text in corpus.texts)])
    dims = {name: view.shape[1] for name, view in views.items()}
    dense = np.concatenate(list(views.values()), axis=1).astype(np.float64)
    seeds = range(arguments.seed, arguments.seed + arguments.repeats)
    print(f"{'':34s}     macro         " + "  ".join(f"{name:4s}" for name in COARSE))
    print(table("flan-ul2, prompted", flan_f1(corpus)[None]))
    report = {kind: evaluate(corpus, dense, dims, kind, seeds) for kind in ("gold", "weak", "both")}
    for kind, figures in report.items():
        print(table(f"trained on {kind}", figures["f1"], figures["auc"]))
        print(table(f"trained on {kind}, lower case", figures["lower_f1"], figures["lower_auc"]))
    print(write_head(corpus, dense, views, report[arguments.labels], arguments, encoder.fingerprint))


def main() -> None:
    """Command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data folder with passages/")
    parser.add_argument(
        "--labels", choices=("gold", "weak", "both"), default="gold", help="what the written heads learn"
    )
    parser.add_argument("--encoder", default="models/encoder", help=ENCODER_HELP)
    parser.add_argument("--out", type=Path, default=Path("models/passages"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3, help="assignments of folds that the figures are the mean of")
    run(parser, train)


if __name__ == "__main__":
    main()
