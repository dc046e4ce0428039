"""Make ``models/pairs/entailment``: the head that judges a question and a passage together, and weights of re-ranking.

    python training/train_pairs.py --data DATA --encoder models/encoder --out models/pairs
    python training/train_pairs.py --data DATA --multilingual --encoder MULTILINGUAL/encoder --out MULTILINGUAL/pairs

The domains of ``pair_domains.py`` each become an index, and every question is asked of its own; its candidates are the
retriever's own first 10. The head sees the two texts alone, and its probability can be compared between questions.
Penalty, calibration, weights and thresholds are chosen on questions of a domain that the fit did not see. Questions that
the encoder was tuned on, see ``tune_encoder.py``, take part in fits alone.

Domains weigh as the square root of their number of questions. Models beside --out are used as they are: ``codebooks`` round
token vectors as an index does, and the class heads (``questions``, ``passages``) give the class match, whose weights are
found here.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from answer_groups import read_groups
from command import Array, language_of, make_parser, npy_bytes, run, save_artifact, seconds_so_far
from pair_domains import Domain, read_domains, read_multilingual
from section_sets import learnt_by
from semclass.core import artifacts
from semclass.core.errors import TruncationWarning, import_extra
from semclass.core.types import Passage
from semclass.encoders.onnx_encoder import open_encoder
from semclass.encoders.words import CONTINUES, ENDING, WordTable, mark_of
from semclass.heads.questions import QuestionClassifier
from semclass.index.candidates import Scoring
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.ranking.features import PAIR_FEATURES, pair_features
from semclass.ranking.models import BM25_WEIGHT, read_questions
from semclass.ranking.thesis import class_match
from semclass.scoring.bm25 import idf as idf_of
from semclass.train.fitted import FittedHead, expected_calibration_error, head_to_onnx
from tuning_texts import held_out

# last pieces that are but an ending of the word before them, as word pieces cut English
ENDINGS = frozenset("a al ally ation d e ed er ers es ia ic ical ies ing ity ive ly ment n ous s tion y".split())  # noqa: SIM905
N_CANDIDATES = 10
RIDGES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # strengths of the penalty that are tried, strongest first
# weights that are tried for the integrated methods
LAMBDAS = tuple(np.round(np.concatenate([[0.0], np.geomspace(0.01, 100, 81)]), 3).tolist())


@dataclass(frozen=True)
class Examples:
    """Questions whose answer is among their candidates."""

    features: Array  # (n, 10, n_features)
    answers: Array  # bool (n, 10)
    score: Array  # dense + w * BM25, (n, 10), falling
    match: Array  # class match, (n, 10)
    domain: Array  # place of the domain of each, (n,)
    weight: Array  # of each question in fits and means, (n,), sums to 1
    unseen: Array  # whether the encoder was not tuned on the question, bool (n,)

    def take(self, rows: Array) -> Examples:
        """Some of them (bool of shape (n,)), weighing what they weighed."""
        parts = {
            name: getattr(self, name)[rows] for name in ("features", "answers", "score", "match", "domain", "unseen")
        }
        weight = self.weight[rows] / self.weight[rows].sum()
        return Examples(**parts, weight=weight)


@dataclass(frozen=True)
class Linear:
    """A linear score: features @ weights + bias."""

    weights: Array
    bias: float = 0.0

    def __call__(self, features: Array) -> Array:
        """Score features of shape (..., n_features)."""
        return np.asarray(features @ self.weights + self.bias)


def word_table(pieces: Sequence[str]) -> Array:
    """Make the table that :meth:`semclass.encoders.words.WordTable.of` reads, int32 (2, vocabulary).

    Pieces that go on with a word are marked ``##`` (WordPiece) or lack the mark of a beginning, ``\u2581`` (SentencePiece)
    or ``\u0120`` (byte-level BPE). Stems are those of the Snowball stemmer for English (Porter 2001).
    """
    stemmer = import_extra("Stemmer", "train").Stemmer("english")
    mark = mark_of(pieces)
    first: dict[str, int] = {}
    table = np.zeros((2, len(pieces)), np.int32)
    for place, piece in enumerate(pieces):
        begins = piece.startswith(mark) if mark else not piece.startswith("##")
        text = piece.removeprefix(mark if mark else "##")
        if begins:
            table[0, place] = first.setdefault(stemmer.stemWord(text.lower()), place)
        else:
            table[0, place] = ENDING if text in ENDINGS else CONTINUES
        table[1, place] = any(character.isdigit() for character in text)
    return table


def learnt_questions(data: Path, seed: int) -> set[str]:
    """Questions that ``tune_encoder.py`` learns from, all but those that it holds out."""
    groups = read_groups(data, seed)
    return {group.question for group, out in zip(groups, held_out(groups), strict=True) if not out}


def general_idf(domains: Sequence[Domain], passage_encoder: PassageEncoder) -> Array:
    """Idf of word pieces in text of any of some languages: each piece is as frequent as where it is most frequent."""
    encoder = passage_encoder.encoder
    rates, count = np.zeros(len(encoder.is_term)), 0
    for domain in domains:
        terms = encoder.encode(domain.passages, views=()).terms
        own = np.unique(np.stack([np.repeat(np.arange(len(terms)), terms.lengths()), terms.values]), axis=1)[1]
        rates = np.maximum(rates, np.bincount(own, minlength=len(rates)) / len(terms))
        count += len(terms)
    return idf_of(np.round(rates * count).astype(np.int64), count) * encoder.is_term


def collect(
    domains: list[Domain],
    passage_encoder: PassageEncoder,
    classifier: QuestionClassifier | None,
    words: WordTable,
    idf: Array,
    learnt: set[str],
) -> Examples:
    """Build the indices, ask the questions; `learnt` are those that the encoder was tuned on."""
    rows: list[tuple[Array, Array, Array, Array, int, bool]] = []
    scoring = Scoring({"dense": 1.0, "bm25": BM25_WEIGHT})
    for number, domain in enumerate(domains):
        passages = [Passage(str(place), text) for place, text in enumerate(domain.passages)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # a few long passages
            index = PassageIndex.build(passages, passage_encoder=passage_encoder)
        queries = read_questions(passage_encoder.encoder, classifier, domain.questions)
        before = len(rows)
        for query, answers in zip(queries, domain.answers, strict=True):
            found = index.candidates(query, N_CANDIDATES, scoring, passage_encoder=passage_encoder)
            right = np.isin(found.rows, list(answers))
            if right.any() and len(right) == N_CANDIDATES:
                features = pair_features(query, found, words, idf[query.terms])
                match = np.zeros(len(right))
                if len(query.probabilities):
                    match = class_match(query.probabilities, found.probabilities, found.thresholds, "soft")
                rows.append((features, right, found.score, match, number, query.text not in learnt))
        print(
            f"{domain.name}: {len(index)} passages, {len(domain.questions)} questions, {len(rows) - before} with the "
            "answer among the candidates",
            flush=True,
        )
    features, right, score, match, number, unseen = zip(*rows, strict=True)
    place = np.array(number)
    weight = 1 / np.sqrt(np.bincount(place, minlength=len(domains)))[place]
    return Examples(
        np.stack(features).astype(np.float64),
        np.stack(right),
        np.stack(score),
        np.stack(match),
        place,
        weight / weight.sum(),
        np.array(unseen),
    )


# -- fits -------------------------------------------------------------------------------------------------------------


def fit_pointwise(data: Examples, ridge: float) -> Linear:
    """Fit a logistic regression with the weighted mean log loss + ridge / 2 * |w|**2 over standardised features."""
    features = data.features.reshape(-1, data.features.shape[-1])
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale[scale <= 1e-9] = 1.0
    weights, bias = logistic((features - centre) / scale, data.answers.ravel(), _of_pairs(data), ridge)
    return Linear(weights / scale, bias - float(centre @ (weights / scale)))


def logistic(inputs: Array, target: Array, weight: Array, ridge: float) -> tuple[Array, float]:
    """Weights and bias of a logistic regression, by weighted mean log loss + ridge / 2 * |w|**2."""
    strength = 1 / ridge if ridge else np.inf
    model = LogisticRegression(C=strength, tol=1e-6, max_iter=1000).fit(inputs, target, weight)
    return model.coef_[0], float(model.intercept_[0])


def _of_pairs(data: Examples) -> Array:
    """Weight of each pair, shape (n * 10,), sums to 1."""
    return np.repeat(data.weight, data.answers.shape[1]) / data.answers.shape[1]


def cross_fit(data: Examples, ridge: float) -> Array:
    """Score every question by a head that was fitted on the other domains, shape (n, 10)."""
    scores = np.zeros(data.answers.shape)
    for place in np.unique(data.domain):
        seen = data.domain != place
        scores[~seen] = fit_pointwise(data.take(seen), ridge)(data.features[~seen])
    return scores


def choose(data: Examples) -> tuple[float, Array]:
    """Strongest penalty whose loss on unseen domains is within one standard error of the least: it carries over better.

    Gives the scores of unseen domains, too.
    """
    unseen = data.take(data.unseen)
    scores = {ridge: cross_fit(data, ridge) for ridge in RIDGES}
    losses = {ridge: log_loss(score[data.unseen], unseen.answers) for ridge, score in scores.items()}
    means = {ridge: float(unseen.weight @ values) for ridge, values in losses.items()}
    print(f"  loss by ridge: {means}")
    best = min(RIDGES, key=lambda ridge: means[ridge])
    error = float(np.sqrt(unseen.weight**2 @ (losses[best] - means[best]) ** 2))
    chosen = next(ridge for ridge in RIDGES if means[ridge] <= means[best] + error)
    return chosen, scores[chosen]


def mean_rank(score: Array, data: Examples) -> float:
    """Mean reciprocal rank of the first answer; equal scores keep their order."""
    order = np.argsort(-score, axis=1, kind="stable")
    ranks = 1 + np.take_along_axis(data.answers, order, axis=1).argmax(axis=1)
    return float((1 / ranks) @ data.weight)


def log_loss(score: Array, answers: Array) -> Array:
    return np.asarray((np.logaddexp(0, score) - answers * score).mean(axis=1))


def calibrated(head: Linear, scores: Array, data: Examples) -> tuple[Linear, Array]:
    """Platt's sigmoid on scores of unseen questions; gives the head in log-odds, and those questions' probabilities."""
    weights, bias = logistic(scores.reshape(-1, 1), data.answers.ravel(), _of_pairs(data), 0.0)
    slope = float(weights[0])
    return Linear(head.weights * slope, head.bias * slope + bias), 1 / (1 + np.exp(-slope * scores - bias))


def best_threshold(probabilities: Array, data: Examples) -> float:
    """Threshold that makes the stable partition best, to three decimals."""
    grid = np.round(np.linspace(0.02, 0.98, 97), 3)
    partition = [mean_rank((probabilities >= threshold).astype(float), data) for threshold in grid]
    return float(grid[int(np.argmax(partition))])


def best_weight(signal: Array, data: Examples) -> float:
    return float(LAMBDAS[int(np.argmax([mean_rank(data.score + weight * signal, data) for weight in LAMBDAS]))])


def train(arguments: argparse.Namespace) -> None:
    encoder = open_encoder(arguments.encoder, threads=arguments.threads)
    table_of_words = word_table(encoder.vocabulary)
    passage_encoder = PassageEncoder.load(arguments.out.parent, encoder=encoder)
    classifier, there = None, (arguments.out.parent / "questions" / artifacts.MANIFEST).is_file()
    if there and passage_encoder.classifier.head is not None:
        classifier = QuestionClassifier.load(arguments.out.parent, encoder=encoder)
    else:
        print("no class heads beside --out: the class match stays 0")
    domains = (
        read_multilingual(arguments.data, learnt_by(Path(arguments.encoder)))
        if arguments.multilingual
        else read_domains(arguments.data, arguments.seed)
    )
    learnt = learnt_questions(arguments.data, arguments.seed) if "provides" in encoder.views else set()
    idf = general_idf(domains if arguments.multilingual else domains[:1], passage_encoder)
    everything = collect(domains, passage_encoder, classifier, WordTable.of(table_of_words), idf, learnt)
    data = everything.take(everything.unseen)

    text_ridge, text_scores = choose(everything)
    text_head = fit_pointwise(everything, text_ridge)
    entailment, text_probabilities = calibrated(text_head, text_scores[everything.unseen], data)
    threshold = best_threshold(text_probabilities, data)
    hard = (text_probabilities >= threshold).astype(float)
    found = {"entailment": best_weight(text_probabilities, data), "class": best_weight(data.match, data)}
    text_figures = {
        "questions": float(len(data.answers)),
        "conditional_mrr_hybrid": mean_rank(data.score, data),
        "conditional_mrr_stable": mean_rank(hard, data),
        "conditional_mrr_integrated": mean_rank(data.score + found["entailment"] * text_probabilities, data),
        "conditional_mrr_alone": mean_rank(text_probabilities, data),
        "calibration_error": expected_calibration_error(text_probabilities.ravel(), data.answers.ravel()),
    }
    for name, value in text_figures.items():
        print(f"{name}: {value:.4f}")
    print(f"threshold {threshold}, weights {found}")

    inputs = {"pairs": len(PAIR_FEATURES)}
    weights, bias = entailment.weights.astype(np.float32), np.float32(entailment.bias)
    network = FittedHead("sigmoid", ("answers",), inputs, weights[:, None], bias[None])
    fields = {
        "task": "passage-answers-question",
        "classes": ("answers",),
        "link": "sigmoid",
        "inputs": inputs,
        "encoder": encoder.fingerprint,
        "calibration": {"method": "sigmoid", "on": "questions of domains that the fit did not see"},
        "training": {
            "data": ", ".join(domain.name for domain in domains),
            "questions": len(everything.answers),
            "candidates": N_CANDIDATES,
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
            "loss": "log loss",
            "ridge": text_ridge,
        },
        "metrics": {name: round(value, 4) for name, value in text_figures.items()},
        "threshold": threshold,
        "features": list(PAIR_FEATURES),
        "linear": {"weights": weights.tolist(), "bias": float(bias)},
        "weights": found,
    }
    table = "\n".join(f"- {name}: {value:.4f}" for name, value in text_figures.items())
    words = {
        "table": table,
        "languages": "" if arguments.multilingual else "It reads English. ",
        "language": language_of(arguments),
    }
    files = {"model.onnx": head_to_onnx(network), "idf.npy": npy_bytes(idf), "words.npy": npy_bytes(table_of_words)}
    save_artifact(arguments.out / "entailment", "head", files, fields, "pairs", **words)


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "multilingual", "threads", "seed", "out"), train)
