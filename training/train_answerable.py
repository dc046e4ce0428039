"""Make ``models/answerable``: a head that tells whether an index answers a question at all.

    python training/train_answerable.py --data DATA --models models --out models/answerable

The domains of ``pair_domains.py``, and functions with what people type to find them (CoSQA), each become an index. Every
question is asked twice: of the whole index, and of what is left without the passages that answer it. A logistic regression
over what the best hit has, see ``semclass/ranking/answerable.py``, tells the two apart. Its calibration and threshold come
from questions of a domain that the fit did not see; domains weigh as the square root of their number of questions.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from command import make_parser, run, seconds_so_far
from datasets_io import read_jsonl
from pair_domains import Domain, read_domains
from pair_fits import logistic
from semclass.core import cards
from semclass.core.types import Passage
from semclass.index.passage_index import PassageIndex
from semclass.ranking.answerable import FEATURES, answerable_features
from semclass.ranking.features import pair_features
from semclass.ranking.methods import METHODS
from semclass.ranking.models import Models
from semclass.ranking.retriever import HybridRetriever
from semclass.train.calibration import expected_calibration_error
from semclass.train.export import head_to_onnx
from semclass.train.fitted import FittedHead

Array = npt.NDArray[Any]

MOST = 800  # questions of a domain
RIDGE = 0.001  # strength of the penalty; from 0.0003 to 0.03 no figure changes by more than 0.005
KEPT = 0.95  # share of the questions with an answer, unseen, that are above the threshold


def functions(data: Path) -> Domain:
    """What people type into a search box, and the function that does it."""
    rows = read_jsonl(data / "code" / "cosqa.jsonl.gz")
    places: dict[str, int] = {}
    answers = [frozenset([places.setdefault(row["code"], len(places))]) for row in rows]
    return Domain("cosqa", list(places), [row["query"] for row in rows], answers)


def read(domain: Domain, models: Models, seed: int) -> Array:
    """Features of some questions with and without the passages that answer them, float64 (n, 2, features)."""
    passages = [Passage(str(place), text) for place, text in enumerate(domain.passages)]
    index = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    retriever, how = HybridRetriever(index, models), METHODS["default"]
    rows = sorted(np.random.default_rng(seed).permutation(len(domain.questions))[:MOST].tolist())
    found = []
    for row, query in zip(rows, models.encode([domain.questions[row] for row in rows], classes=False), strict=True):
        for where in (None, {"_id": {"$nin": sorted(map(str, domain.answers[row]))}}):
            candidates = retriever.candidates(query, how.candidates, how, where=where)
            features = pair_features(query, candidates, models.pairs.words)
            found.append(answerable_features(models.order(query, candidates, how), features)[0])
    print(f"{domain.name}: {len(passages)} passages, {len(rows)} questions", flush=True)
    return np.array(found, np.float64).reshape(len(rows), 2, -1)


def fit(parts: list[Array]) -> tuple[Array, float]:
    """Weights and bias of a logistic regression of parts (n, 2, features); features in units of their deviation."""
    inputs = np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])
    centre, scale = inputs.mean(axis=0), inputs.std(axis=0)
    weights, bias = logistic((inputs - centre) / scale, *target_of(parts), RIDGE)
    return weights / scale, bias - float(centre @ (weights / scale))


def calibrated(scores: list[Array]) -> tuple[float, float]:
    """Slope and intercept of Platt's calibration, of scores (n, 2) of each domain."""
    slope, intercept = logistic(np.concatenate([part.ravel() for part in scores])[:, None], *target_of(scores), 0)
    return float(slope[0]), intercept


def target_of(parts: list[Array]) -> tuple[Array, Array]:
    """Whether the answer is there, and the weight of each row: those of a domain sum to the root of its size."""
    target = np.concatenate([np.tile([1.0, 0.0], len(part)) for part in parts])
    weight = np.concatenate([np.full(2 * len(part), 1 / np.sqrt(len(part))) for part in parts])
    return target, weight / weight.sum()


def auc(given: Array) -> float:
    """Area under the curve of numbers (n, 2), with the answer and without."""
    return round(float(roc_auc_score(np.tile([1, 0], len(given)), given.ravel())), 4)


def train(arguments: argparse.Namespace) -> None:
    models = Models.load(arguments.models)
    domains = [*read_domains(arguments.data, arguments.seed), functions(arguments.data)]
    parts = [read(domain, models, arguments.seed) for domain in domains]
    scores = []
    for place, part in enumerate(parts):
        weights, bias = fit(parts[:place] + parts[place + 1 :])
        scores.append(part @ weights + bias)
    slope, intercept = calibrated(scores)
    given = [1 / (1 + np.exp(-slope * part - intercept)) for part in scores]
    every = np.concatenate(given)
    threshold = round(float(np.quantile(every[:, 0], 1 - KEPT)), 4)
    metrics = {
        "auc": {domain.name: auc(part) for domain, part in zip(domains, given, strict=True)},
        "auc_of_entailment": {domain.name: auc(part[..., 0]) for domain, part in zip(domains, parts, strict=True)},
        "calibration_error": round(expected_calibration_error(every.ravel(), np.tile([1, 0], len(every))), 4),
        "kept": round(float((every[:, 0] >= threshold).mean()), 4),
        "refused": round(float((every[:, 1] < threshold).mean()), 4),
    }
    print(f"threshold {threshold}", metrics)
    weights, bias = fit(parts)
    print(dict(zip(FEATURES, weights.round(3).tolist(), strict=True)), round(bias, 3))
    inputs = {"ranking": len(FEATURES)}
    shapes = (np.float32(weights)[:, None], np.float32([bias]))
    head = FittedHead("logistic", "sigmoid", ("answerable",), inputs, *shapes, slope=slope, intercept=intercept)
    card = cards.HeadCard(
        task="answerable",
        classes=("answerable",),
        link="sigmoid",
        inputs=inputs,
        encoder=models.encoder.fingerprint,
        calibration={"method": "sigmoid", "on": "questions of domains that the fit did not see"},
        training={
            "data": ", ".join(domain.name for domain in domains),
            "questions": len(every),
            "ridge": RIDGE,
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
        },
        metrics=metrics,
        threshold=threshold,
        extra={"features": list(FEATURES)},
    )
    cards.save_head(
        arguments.out, head_to_onnx(head), card, title="Does an index answer a question?", sections=card_sections(card)
    )


def card_sections(card: cards.HeadCard) -> list[tuple[str, str]]:
    found = card.metrics
    areas = ", ".join(f"{name} {value:.3f}" for name, value in found["auc"].items())
    return [
        (
            "What it is",
            "The probability that an index holds an answer to a question, from what the best hit of a search has and how "
            "far it is ahead of the next ones. A hit of a search bears it as `hit.answerable`.",
        ),
        (
            "How it was made",
            f"`training/train_answerable.py`, on {card.training['questions']} questions ({card.training['data']}), each "
            "asked with and without the passages that answer it.",
        ),
        (
            "How good it is",
            f"Area under the curve, each domain by a head that did not see it: {areas}. From the threshold on, "
            f"{card.threshold}, {found['kept']:.1%} of the questions with an answer are kept, and {found['refused']:.1%} "
            "of those without are refused. On other sets: `bench/results/abstain.md`.",
        ),
        (
            "What it is not good at",
            "English. What is left without the answer often resembles it, as other parts of the same document do; then the "
            "head cannot tell. Half of the questions that it saw had an answer: where nearly all have one, it is too low.",
        ),
    ]


def main() -> None:
    parser = make_parser(__doc__, "seed")
    parser.add_argument("--data", type=Path, required=True, help="folder with the public originals")
    parser.add_argument("--models", type=Path, required=True, help="folder with the other models")
    parser.add_argument("--out", type=Path, required=True)
    run(parser, train)


if __name__ == "__main__":
    main()
