"""Make ``models/pairs``: the two heads that judge a question and a passage together, and the weights of re-ranking.

    python training/train_pairs.py --data DATA --encoder models/encoder --out models/pairs

Training data are questions of ``squad_sentences/train``, each with the sentence that answers it. Consecutive
sentences are joined to passages of 1 to 5, one index per length, and every question is asked of one of them; its
candidates are the retriever's own first 10. ``learned`` orders them: a linear score over all features whose softmax
over the candidates of a question is fitted to the passage that answers, then calibrated. ``entailment`` sees the two
texts alone, and its probability can be compared between questions. Both are calibrated, and all weights and
thresholds are found, on scores of questions from articles that the fit did not see (folds are stretches of the
document order). Class heads beside --out (``questions``, ``passages``) give the feature ``match``;
without them its weight is 0.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from command import ENCODER_HELP, make_parser, run
from datasets_io import read_jsonl, sentence_windows
from semclass import artifacts
from semclass.candidates import Candidates, Query
from semclass.errors import TruncationWarning
from semclass.export import head_to_onnx
from semclass.fit import FittedHead
from semclass.index import PassageIndex
from semclass.pairs import PAIR_FEATURES, TEXT_FEATURES, pair_features
from semclass.passages import PassageClassifier
from semclass.questions import QuestionClassifier
from semclass.ranker import BM25_WEIGHT
from semclass.ranking import SIMILARITIES, class_match, top_k
from semclass.texts import open_encoder
from semclass.types import Encoder, Passage

Array = npt.NDArray[Any]

LENGTHS = (1, 2, 3, 4, 5)
"""Sentences per passage."""

IDF_LENGTH = 4
"""Sentences per passage whose document frequencies make the background idf."""

N_CANDIDATES = 10

FOLDS = 5
STRETCHES = 50
"""Pieces that the document order is cut into; stretch i is in fold i modulo FOLDS."""

RIDGES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Strengths of the penalty that are tried, strongest first."""

LAMBDAS = tuple(np.round(np.concatenate([[0.0], np.geomspace(0.01, 100, 81)]), 3).tolist())
"""Weights that are tried for the integrated methods and for class match in retrieval."""

TEXT_ONLY = np.isin(PAIR_FEATURES, TEXT_FEATURES)


@dataclass(frozen=True)
class Examples:
    """Questions whose answer is among their candidates.

    Attributes
    ----------
    features
        float64 of shape (n, 10, n_features).
    answers
        bool of shape (n, 10).
    score
        dense + w * BM25, float64 of shape (n, 10), falling.
    match
        Soft and hard class match, float64 of shape (2, n, 10).
    fold
        int64 of shape (n,).
    """

    features: Array
    answers: Array
    score: Array
    match: Array
    fold: Array


@dataclass(frozen=True)
class Linear:
    """A linear score: features @ weights + bias."""

    weights: Array
    bias: float = 0.0

    def __call__(self, features: Array) -> Array:
        """Score features of shape (..., n_features)."""
        return np.asarray(features @ self.weights + self.bias)


@dataclass(frozen=True)
class Classifiers:
    """Class heads beside --out; without them there are no classes."""

    questions: QuestionClassifier | None
    passages: PassageClassifier

    @classmethod
    def load(cls, root: Path, encoder: Encoder) -> Classifiers:
        """Load what is there."""
        folders = [root / "questions", root / "passages"]
        if not all((folder / artifacts.MANIFEST).is_file() for folder in folders):
            print("no class heads beside --out: the features of class match stay 0")
            return cls(None, PassageClassifier(encoder, None))
        questions = QuestionClassifier.load(root, encoder=encoder)
        return cls(questions, PassageClassifier.load(root, encoder=encoder))

    def encode(self, encoder: Encoder, texts: list[str]) -> list[Query]:
        """Encode and classify questions."""
        views = () if self.questions is None else self.questions.encoder_views
        queries = []
        for start in range(0, len(texts), 512):
            chunk = texts[start : start + 512]
            encoding = encoder.encode(chunk, views=("pooled", "tokens", *views))
            pooled, tokens = encoding.rows("pooled"), encoding.pieces("tokens")
            none = np.zeros((len(chunk), 0))
            classes = none if self.questions is None else self.questions.probabilities(chunk, encoding)
            queries += [
                Query(text, pooled[row], classes[row], tokens.row(row), encoding.terms.row(row))
                for row, text in enumerate(chunk)
            ]
        return queries


def candidates_of(index: PassageIndex, query: Query) -> tuple[Candidates, Array]:
    """Find the retriever's first candidates without class match; gives the score of every passage, too."""
    dense = index.dense_scores(query.pooled)
    lexical = index.lexical_scores(query.terms).astype(np.float64)
    score = dense + BM25_WEIGHT * lexical
    rows = top_k(score, N_CANDIDATES)
    found = Candidates(
        rows=rows,
        dense=dense[rows],
        bm25=lexical[rows],
        match=None,
        parts={"dense": dense[rows], "bm25": BM25_WEIGHT * lexical[rows]},
        score=score[rows],
        probabilities=index.probabilities[rows],
        thresholds=index.thresholds,
        tokens=index.tokens.take(rows),
        sentences=index.sentences.take(rows),
        terms=index.terms.take(rows),
        idf=index.idf,
    )
    return found, score


def matches(query: Query, probabilities: Array, thresholds: Array) -> Array:
    """Soft and hard class match, float64 of shape (2, n); 0 without classes."""
    if not len(query.probabilities):
        return np.zeros((2, len(probabilities)))
    return np.stack([class_match(query.probabilities, probabilities, thresholds, kind) for kind in ("soft", "hard")])


def examples_of(
    index: PassageIndex, queries: list[Query], answers: Array, fold: Array, ranks: list[Array]
) -> Iterator[tuple[Array, Array, Array, Array, int]]:
    """Examples of one index; appends to `ranks` each question's reciprocal rank by kind of match and weight."""
    for query, answer, part in zip(queries, answers.tolist(), fold.tolist(), strict=True):
        found, score = candidates_of(index, query)
        match = matches(query, index.probabilities, index.thresholds)
        ranks.append(retrieval_ranks(score, match, answer))
        right = found.rows == answer
        if right.any():
            yield pair_features(query, found), right, found.score, match[:, found.rows], part


def retrieval_ranks(score: Array, match: Array, answer: int) -> Array:
    """Reciprocal rank, 0 beyond 10, of the answer in score + weight * match, shape (2, len(LAMBDAS))."""
    # passages beyond the first 200 are left out, which makes a difference to large weights only
    rows = top_k(score, 200)
    if answer not in rows:
        return np.zeros((2, len(LAMBDAS)))
    total = score[rows] + np.array(LAMBDAS)[None, :, None] * match[:, None, rows]
    place = int(np.flatnonzero(rows == answer)[0])
    own = total[..., place, None]
    above = (total > own).sum(axis=-1) + (total == own)[..., :place].sum(axis=-1)
    return np.where(above < N_CANDIDATES, 1 / (1 + above), 0.0)


def collect(
    data: Path, encoder: Encoder, classifiers: Classifiers, seed: int, similarity: str
) -> tuple[Examples, Array, Array]:
    """Build the indices, ask the questions.

    Returns
    -------
    tuple
        The examples; reciprocal ranks (n_questions, 2, len(LAMBDAS)); the background idf, float32 (vocabulary,).
    """
    records = read_jsonl(data / "squad_sentences" / "train.corpus.jsonl.gz")
    sentences = [record["text"] for record in records]
    place = {record["_id"]: row for row, record in enumerate(records)}
    questions = read_jsonl(data / "squad_sentences" / "train.queries.jsonl.gz")
    answers = np.array([place[record["relevant"]] for record in questions])
    queries = classifiers.encode(encoder, [record["text"] for record in questions])
    fold = answers * STRETCHES // len(sentences) % FOLDS
    length = np.random.default_rng(seed).choice(LENGTHS, len(questions))
    rows: list[tuple[Array, Array, Array, Array, int]] = []
    ranks: list[Array] = []
    idf = np.zeros(len(encoder.is_term), np.float32)
    for size in LENGTHS:
        passages = [Passage(str(i), text) for i, text in enumerate(sentence_windows(sentences, size))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # a few passages of five sentences
            index = PassageIndex.build(passages, classifier=classifiers.passages, similarity=similarity)
        chosen = np.flatnonzero(length == size)
        asked = [queries[row] for row in chosen]
        rows += examples_of(index, asked, answers[chosen] // size, fold[chosen], ranks)
        print(f"passages of {size} sentences: {len(index)}, questions: {len(chosen)}", flush=True)
        if size == IDF_LENGTH:
            idf = index.idf
    features, right, score, match, part = zip(*rows, strict=True)
    examples = Examples(
        np.stack(features).astype(np.float64), np.stack(right), np.stack(score), np.stack(match, axis=1), np.array(part)
    )
    return examples, np.stack(ranks), idf


def fit_listwise(features: Array, answers: Array, ridge: float) -> Linear:
    """Fit a linear score whose softmax over a question's candidates gives the answers (ListNet, Cao et al. 2007).

    Minimises the mean of -ln(sum of the softmax over the answers) + ridge / 2 * |w|**2 over standardised features. What
    all candidates of a question share cancels, so that all weights serve the order.
    """
    centre, scale = _standard(features)
    inputs = (features - centre) / scale

    def loss(weights: Array) -> tuple[float, Array]:
        score = inputs @ weights
        share = np.exp(score - score.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        right = (share * answers).sum(axis=1, keepdims=True)
        slope = np.einsum("qc,qcf->f", share - share * answers / right, inputs) / len(inputs)
        return float(-np.log(right).mean() + ridge / 2 * weights @ weights), slope + ridge * weights

    found = minimize(loss, np.zeros(inputs.shape[-1]), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    return Linear(found.x / scale)


def fit_pointwise(features: Array, answers: Array, ridge: float) -> Linear:
    """Fit a logistic regression with the mean log loss + ridge / 2 * |w|**2 over standardised features."""
    centre, scale = _standard(features)
    inputs = ((features - centre) / scale).reshape(-1, features.shape[-1])
    target = answers.reshape(-1).astype(np.float64)

    def loss(theta: Array) -> tuple[float, Array]:
        score = inputs @ theta[:-1] + theta[-1]
        error = 1 / (1 + np.exp(-score)) - target
        slope = np.append(inputs.T @ error / len(target) + ridge * theta[:-1], error.mean())
        value = np.logaddexp(0, score).mean() - (target * score).mean() + ridge / 2 * theta[:-1] @ theta[:-1]
        return float(value), slope

    found = minimize(loss, np.zeros(inputs.shape[-1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    weights = found.x[:-1] / scale
    return Linear(weights, float(found.x[-1] - centre @ weights))


def _standard(features: Array) -> tuple[Array, Array]:
    flat = features.reshape(-1, features.shape[-1])
    scale = flat.std(axis=0)
    return flat.mean(axis=0), np.where(scale > 1e-9, scale, 1.0)


def cross_fit(fit: Callable[[Array, Array, float], Linear], data: Examples, columns: Array, ridge: float) -> Array:
    """Score every question by a head that was fitted on the other folds, shape (n, 10)."""
    scores = np.zeros(data.answers.shape)
    for part in range(FOLDS):
        seen = data.fold != part
        scores[~seen] = fit(data.features[seen][..., columns], data.answers[seen], ridge)(
            data.features[~seen][..., columns]
        )
    return scores


def choose(
    fit: Callable[[Array, Array, float], Linear], data: Examples, columns: Array, loss: Callable[[Array], Array]
) -> tuple[float, Array]:
    """Strongest penalty whose cross-fitted loss is within one standard error of the best: it carries over better."""
    scores = {ridge: cross_fit(fit, data, columns, ridge) for ridge in RIDGES}
    losses = {ridge: loss(score) for ridge, score in scores.items()}
    best = min(RIDGES, key=lambda ridge: losses[ridge].mean())
    for ridge in RIDGES:
        extra = losses[ridge] - losses[best]
        print(f"  ridge {ridge}: loss {losses[ridge].mean():.4f}, MRR {mean_rank(scores[ridge], data.answers):.4f}")
        if extra.mean() <= losses[best].std() / np.sqrt(len(extra)):
            return ridge, scores[ridge]
    raise AssertionError("the best is within one standard error of itself")


def reciprocal_ranks(score: Array, answers: Array) -> Array:
    """Reciprocal rank of the first answer, shape (n,); equal scores keep their order."""
    order = np.argsort(-score, axis=1, kind="stable")
    return np.asarray(1 / (1 + np.take_along_axis(answers, order, axis=1).argmax(axis=1)))


def mean_rank(score: Array, answers: Array) -> float:
    """Mean reciprocal rank."""
    return float(reciprocal_ranks(score, answers).mean())


def removed(score: Array, data: Examples) -> float:
    """Share of 1 - MRR that a score removes against the hybrid."""
    before = mean_rank(data.score, data.answers)
    return (mean_rank(score, data.answers) - before) / (1 - before)


def softmax_loss(answers: Array) -> Callable[[Array], Array]:
    """Loss of each question under :func:`fit_listwise`."""

    def loss(score: Array) -> Array:
        top = score.max(axis=1, keepdims=True)
        share = np.exp(score - top)
        return np.asarray(-np.log((share * answers).sum(axis=1) / share.sum(axis=1)))

    return loss


def log_loss(answers: Array) -> Callable[[Array], Array]:
    """Mean log loss of each question's candidates."""

    def loss(score: Array) -> Array:
        return np.asarray((np.logaddexp(0, score) - answers * score).mean(axis=1))

    return loss


def calibrated(head: Linear, cross_scores: Array, answers: Array) -> tuple[Linear, Array]:
    """Platt's sigmoid on scores of unseen questions; gives the head in log-odds, and those questions' probabilities."""
    platt = fit_pointwise(cross_scores[..., None], answers, 0.0)
    slope = float(platt.weights[0])
    probabilities = 1 / (1 + np.exp(-platt(cross_scores[..., None])))
    return Linear(head.weights * slope, head.bias * slope + platt.bias), probabilities


def best_threshold(probabilities: Array, answers: Array) -> float:
    """Threshold that makes the stable partition best, to three decimals."""
    grid = np.round(np.linspace(0.02, 0.98, 97), 3)
    partition = [mean_rank((probabilities >= threshold).astype(float), answers) for threshold in grid]
    return float(grid[int(np.argmax(partition))])


def best_weight(score: Array, signal: Array, answers: Array) -> float:
    """Weight of a signal that makes score + weight * signal best."""
    return float(LAMBDAS[int(np.argmax([mean_rank(score + weight * signal, answers) for weight in LAMBDAS]))])


def calibration_error(probabilities: Array, answers: Array, bins: int = 15) -> float:
    """Compute the expected calibration error over bins of equal count."""
    order = np.argsort(probabilities, axis=None)
    pairs = zip(
        np.array_split(probabilities.ravel()[order], bins), np.array_split(answers.ravel()[order], bins), strict=True
    )
    return float(np.mean([abs(p.mean() - y.mean()) for p, y in pairs]))


def to_onnx(head: Linear) -> bytes:
    """Write sigmoid(features @ weights + bias) as a network with input ``pairs`` and output ``probabilities``."""
    fitted = FittedHead(
        kind="logistic",
        link="sigmoid",
        classes=("answers",),
        inputs={"pairs": len(PAIR_FEATURES)},
        weights=head.weights.astype(np.float32)[:, None],
        bias=np.array([head.bias], np.float32),
    )
    return head_to_onnx(fitted)


def save(
    folder: Path,
    head: Linear,
    *,
    encoder: str,
    training: dict[str, Any],
    metrics: dict[str, float],
    threshold: float,
    what: str,
    extra: dict[str, Any],
    files: dict[str, bytes] | None = None,
) -> None:
    """Write one head."""
    card = artifacts.HeadCard(
        task="passage-answers-question",
        classes=("answers",),
        link="sigmoid",
        inputs={"pairs": len(PAIR_FEATURES)},
        encoder=encoder,
        calibration={"method": "sigmoid", "on": "questions of articles that the fit did not see"},
        training=training,
        metrics={name: round(value, 4) for name, value in metrics.items()},
        threshold=threshold,
        extra={
            "features": list(PAIR_FEATURES),
            "linear": {"weights": head.weights.astype(np.float32).tolist(), "bias": float(np.float32(head.bias))},
            **extra,
        },
    )
    table = "\n".join(f"- {name}: {value:.4f}" for name, value in metrics.items())
    sections = [
        ("What it tells", what),
        ("Training", f"`training/train_pairs.py` on {training['questions']} questions of `{training['data']}`."),
        ("Figures", f"On training questions, scored by heads that did not see their articles:\n\n{table}"),
        ("Limits", "English. A probability is that of a passage among the first 10 of a retriever, not of any text."),
    ]
    artifacts.save_head(folder, to_onnx(head), card, title=f"pairs: {folder.name}", sections=sections, files=files)


def train(arguments: argparse.Namespace) -> None:
    """Collect, fit, calibrate, find the weights, save, report."""
    encoder = open_encoder(arguments.encoder, threads=arguments.threads)
    classifiers = Classifiers.load(arguments.out.parent, encoder)
    data, ranks, idf = collect(arguments.data, encoder, classifiers, arguments.seed, arguments.similarity)
    answers = data.answers
    everything = np.ones(len(PAIR_FEATURES), bool)

    print("learned:")
    ridge, scores = choose(fit_listwise, data, everything, softmax_loss(answers))
    learned, probabilities = calibrated(fit_listwise(data.features, answers, ridge), scores, answers)
    figures = {
        "questions": float(len(answers)),
        "conditional_mrr_hybrid": mean_rank(data.score, answers),
        "conditional_mrr": mean_rank(scores, answers),
        "error_removed": removed(scores, data),
        "calibration_error": calibration_error(probabilities, answers),
    }

    print("entailment:")
    text_ridge, text_scores = choose(fit_pointwise, data, TEXT_ONLY, log_loss(answers))
    text_head = fit_pointwise(data.features[..., TEXT_ONLY], answers, text_ridge)
    weights = np.zeros(len(PAIR_FEATURES))
    weights[TEXT_ONLY] = text_head.weights
    entailment, text_probabilities = calibrated(Linear(weights, text_head.bias), text_scores, answers)
    threshold = best_threshold(text_probabilities, answers)
    found = {
        "entailment": best_weight(data.score, text_probabilities, answers),
        "class": best_weight(data.score, data.match[0], answers),
        "match_soft": float(LAMBDAS[int(ranks[:, 0].mean(axis=0).argmax())]),
        "match_hard": float(LAMBDAS[int(ranks[:, 1].mean(axis=0).argmax())]),
    }
    text_figures = {
        "questions": float(len(answers)),
        "conditional_mrr_hybrid": mean_rank(data.score, answers),
        "conditional_mrr_stable": mean_rank((text_probabilities >= threshold).astype(float), answers),
        "conditional_mrr_integrated": mean_rank(data.score + found["entailment"] * text_probabilities, answers),
        "conditional_mrr_alone": mean_rank(text_probabilities, answers),
        "calibration_error": calibration_error(text_probabilities, answers),
    }
    for name, value in {**figures, **{f"entailment {key}": value for key, value in text_figures.items()}}.items():
        print(f"{name}: {value:.4f}")
    print(f"threshold {threshold}, weights {found}")
    for name, value in zip(PAIR_FEATURES, learned.weights * _standard(data.features)[1], strict=True):
        print(f"  {name:20s} {value:+.3f}")

    training = {
        "data": "squad_sentences/train",
        "questions": len(answers),
        "sentences_per_passage": list(LENGTHS),
        "candidates": N_CANDIDATES,
        "seed": arguments.seed,
    }
    buffer = io.BytesIO()
    np.save(buffer, idf, allow_pickle=False)
    save(
        arguments.out / "entailment",
        entailment,
        encoder=encoder.fingerprint,
        training={**training, "loss": "log loss", "ridge": text_ridge},
        metrics=text_figures,
        threshold=threshold,
        what="P(passage answers question) from the two texts alone; comparable between questions.",
        extra={},
    )
    save(
        arguments.out / "learned",
        learned,
        encoder=encoder.fingerprint,
        training={**training, "loss": "softmax over the candidates of a question", "ridge": ridge},
        metrics=figures,
        threshold=0.5,
        what="P(passage answers question) from all evidence, the scores of the other candidates included. `idf.npy` "
        "holds the inverse document frequency of word pieces in general text.",
        extra={"weights": found, "similarity": arguments.similarity},
        files={"idf.npy": buffer.getvalue()},
    )


def main() -> None:
    """Command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data folder with squad_sentences/")
    parser.add_argument("--encoder", default="models/encoder", help=ENCODER_HELP)
    parser.add_argument("--out", type=Path, default=Path("models/pairs"))
    parser.add_argument(
        "--similarity", choices=SIMILARITIES, default="cosine", help="how the indices to search compare vectors"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    run(parser, train)


if __name__ == "__main__":
    main()
