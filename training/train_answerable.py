"""Make ``models/answerable``: a head that tells whether an index answers a question at all.

    python training/train_answerable.py --data DATA --models models --out models/answerable
    python training/train_answerable.py --data DATA --models MULTILINGUAL --multilingual --out MULTILINGUAL/answerable

Small indices of many kinds (``small_indices.py``) are asked three ways: with the passage that answers, without it, and
questions of another kind. A logistic regression over what the best hits have, see ``semclass/ranking/answerable.py``,
tells the first from the others. Its calibration and threshold come from kinds that the fit did not see, and the threshold
keeps `KEPT` of the questions with an answer. Kinds weigh as the square root of their number of questions. With
--multilingual, kinds are languages, and each question is asked of 10 or more of the passages in its language.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from command import MULTILINGUAL, make_parser, run, seconds_so_far
from pair_domains import read_languages
from pair_fits import logistic
from section_sets import learnt_by, unseen
from semclass.core import artifacts
from semclass.core.types import Passage
from semclass.index.passage_index import PassageIndex
from semclass.ranking.answerable import FEATURES, answerable_features
from semclass.ranking.features import pair_features
from semclass.ranking.methods import METHODS
from semclass.ranking.models import Models
from semclass.ranking.order import reorder
from semclass.ranking.retriever import HybridRetriever
from semclass.train.calibration import expected_calibration_error
from semclass.train.export import head_to_onnx
from semclass.train.fitted import FittedHead
from small_indices import indices, read_kinds

Array = npt.NDArray[Any]

STRENGTH = 0.1  # inverse of the penalty; from 0.03 to 1 no figure changes by more than 0.005
OF_LANGUAGE = 24  # questions of a language
FEWEST = 10  # passages at least that a question in another language is asked of
KEPT = 0.96  # share of the questions with an answer, of kinds that the fit did not see, that are above the threshold
FOREIGN = 0.25  # share of what is not answered that questions of other kinds count for


@dataclass(frozen=True)
class Kind:
    """Features of questions to indices of one kind of documents, each (n, features)."""

    answered: Array
    removed: Array  #: the same questions without what answers them
    foreign: Array  #: questions of other kinds

    @property
    def rows(self) -> Array:
        """All features, (rows, features)."""
        return np.concatenate([self.answered, self.removed, self.foreign])

    @property
    def target(self) -> Array:
        """Whether the answer is there, (rows,)."""
        return np.repeat([1.0, 0.0, 0.0], [len(self.answered), len(self.removed), len(self.foreign)])

    @property
    def weight(self) -> Array:
        """Weight of each row, (rows,)."""
        shares = (1, 1 - FOREIGN, FOREIGN)
        parts = (self.answered, self.removed, self.foreign)
        size = np.sqrt(len(self.answered))
        return np.concatenate(
            [np.full(len(part), share * size / len(part)) for part, share in zip(parts, shares, strict=True)]
        )


def described(retriever: HybridRetriever, question: str, where: Mapping[str, Any] | None = None) -> Array | None:
    """What the head reads of a question to an index, perhaps to some of its passages; None if nothing is found."""
    models, how = retriever.models, METHODS["default"]
    (query,) = models.encode([question], classes=False)
    found = retriever.candidates(query, how.candidates, how, where=where)
    if not len(found):
        return None
    features = pair_features(query, found, models.pairs.words)
    learned = models.pairs.learned.probabilities({"pairs": features})[:, 0]
    return answerable_features(query, reorder(models, query, found, how), features, learned)[0].astype(np.float64)


def read(data: Path, domains: Sequence[str], models: Models, seed: int) -> dict[str, Kind]:
    """Describe the questions of all kinds."""
    rng = np.random.default_rng(seed)
    kinds = read_kinds(data, domains, rng)
    asked = {name: [text for document in some for text, *_ in document.questions] for name, some in kinds.items()}
    found = {}
    for name, documents in kinds.items():
        others = [text for other, some in asked.items() if other != name for text in some]
        answered, removed, foreign = [], [], []
        for retriever, questions in indices(documents, models, rng):
            for text, answers in questions:
                both = described(retriever, text), described(retriever, text, {"_id": {"$nin": answers}})
                if both[0] is not None and both[1] is not None:
                    answered.append(both[0])
                    removed.append(both[1])
            stranger = described(retriever, others[rng.integers(len(others))])
            if stranger is not None:
                foreign.append(stranger)
        found[name] = Kind(np.array(answered), np.array(removed), np.array(foreign))
        print(f"{name}: {len(answered)} questions, {len(foreign)} foreign ones", flush=True)
    return found


def read_by_language(data: Path, learnt: Sequence[str], models: Models, seed: int) -> dict[str, Kind]:
    """Describe the questions in all languages."""
    rng = np.random.default_rng(seed)
    domains = read_languages(data, learnt, OF_LANGUAGE)
    found = {}
    for domain in domains:
        others = [text for other in domains if other is not domain for text in other.questions]
        passages = [Passage(str(place), text) for place, text in enumerate(domain.passages)]
        index = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
        retriever = HybridRetriever(index, models)
        rows: list[tuple[Array, ...]] = []
        for text, answers in zip(domain.questions, domain.answers, strict=True):
            count = round(FEWEST * (len(passages) / FEWEST) ** rng.random())
            drawn = set(map(str, rng.permutation(len(passages))[:count].tolist()))
            right = set(map(str, answers))
            three = (
                described(retriever, text, {"_id": {"$in": sorted(drawn | right)}}),
                described(retriever, text, {"_id": {"$in": sorted(drawn - right)}}),
                described(retriever, others[rng.integers(len(others))], {"_id": {"$in": sorted(drawn)}}),
            )
            # of at least FEWEST passages, some are always found
            rows.append(tuple(one for one in three if one is not None))
        found[domain.name] = Kind(*(np.array(part) for part in zip(*rows, strict=True)))
        print(f"{domain.name}: {len(rows)} questions", flush=True)
    return found


def fit(kinds: list[Kind]) -> tuple[Array, float]:
    """Weights and bias of a logistic regression; features in units of their deviation."""
    rows, target, weight = (
        np.concatenate([getattr(kind, name) for kind in kinds]) for name in ("rows", "target", "weight")
    )
    centre, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    model = LogisticRegression(C=STRENGTH, max_iter=2000).fit((rows - centre) / scale, target, sample_weight=weight)
    weights = model.coef_[0] / scale
    return weights, float(model.intercept_[0] - centre @ weights)


def calibrated(kinds: list[Kind], scores: list[Array]) -> tuple[float, float]:
    """Slope and intercept of Platt's calibration, of the scores of each kind."""
    target, weight = (np.concatenate([getattr(kind, name) for kind in kinds]) for name in ("target", "weight"))
    slope, intercept = logistic(np.concatenate(scores)[:, None], target, weight / weight.sum(), 0)
    return float(slope[0]), intercept


def train(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:  # without the head that is made here, which may read other features
        others = shutil.copytree(arguments.models, Path(folder) / "models", ignore=shutil.ignore_patterns("answerable"))
        models = replace(Models.load(others), language=None)
    encoder = arguments.models / "encoder"
    if arguments.multilingual:
        kinds = read_by_language(arguments.data, learnt_by(encoder), models, arguments.seed)
    else:
        kinds = read(arguments.data, unseen(arguments.data, encoder), models, arguments.seed)
    scores = []
    for left in kinds:
        weights, bias = fit([kind for name, kind in kinds.items() if name != left])
        scores.append(kinds[left].rows @ weights + bias)
    slope, intercept = calibrated([*kinds.values()], scores)
    given = {name: 1 / (1 + np.exp(-slope * part - intercept)) for name, part in zip(kinds, scores, strict=True)}
    cut = {
        name: np.split(part, np.cumsum([len(kinds[name].answered), len(kinds[name].removed)]))
        for name, part in given.items()
    }
    threshold = round(float(np.quantile(np.concatenate([parts[0] for parts in cut.values()]), 1 - KEPT)), 4)
    every, truth = np.concatenate([*given.values()]), np.concatenate([kind.target for kind in kinds.values()])
    metrics = {
        "auc": {
            name: round(float(roc_auc_score(np.repeat([1, 0], len(parts[0])), np.concatenate(parts[:2]))), 4)
            for name, parts in cut.items()
        },
        "calibration_error": round(expected_calibration_error(every, truth), 4),
        **{
            name: round(float(np.mean([(parts[place] < threshold).mean() for parts in cut.values()])), 4)
            for place, name in enumerate(("refused_with_answer", "refused_without", "refused_foreign"))
        },
    }
    print(f"threshold {threshold}", metrics)
    weights, bias = fit([*kinds.values()])
    inputs = {"ranking": len(FEATURES)}
    shapes = (np.float32(weights)[:, None], np.float32([bias]))
    head = FittedHead("logistic", "sigmoid", ("answerable",), inputs, *shapes, slope=slope, intercept=intercept)
    card = artifacts.HeadCard(
        task="answerable",
        classes=("answerable",),
        link="sigmoid",
        inputs=inputs,
        encoder=models.encoder.fingerprint,
        calibration={"method": "sigmoid", "on": "questions to kinds of documents that the fit did not see"},
        training={
            "data": ", ".join(kinds),
            "questions": sum(len(kind.answered) for kind in kinds.values()),
            "strength": STRENGTH,
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
        },
        metrics=metrics,
        threshold=threshold,
        extra={"features": list(FEATURES)},
    )
    facts = MULTILINGUAL if arguments.multilingual else None
    sections = card_sections(card, multilingual=arguments.multilingual)
    title = "Does an index answer a question?"
    artifacts.save_head(arguments.out, head_to_onnx(head), card, title=title, sections=sections, facts=facts)


def card_sections(card: artifacts.HeadCard, *, multilingual: bool) -> list[tuple[str, str]]:
    found = card.metrics
    areas = ", ".join(f"{name} {value:.3f}" for name, value in found["auc"].items())
    return [
        (
            "What it is",
            "The probability that an index holds an answer to a question, from what the best hit of a search has and how "
            "far it is ahead of the next ones. The result of a search has it as `result.answerable`.",
        ),
        (
            "How it was made",
            f"`training/train_answerable.py`, on {card.training['questions']} questions ({card.training['data']}) to "
            "indices of 10 to 1,000 passages, each asked with and without the passages that answer it, and on questions of "
            + ("other languages." if multilingual else "other kinds of documents."),
        ),
        (
            "How good it is",
            "Area under the curve, with the answer against without it, each kind by a head that did not see it: "
            f"{areas}. The threshold, {card.threshold}, keeps {KEPT:.0%} of the questions with an answer; as a mean over "
            f"kinds, {found['refused_without']:.1%} of those whose answer was taken away are below it, and "
            f"{found['refused_foreign']:.1%} of those of other kinds of documents."
            + ("" if multilingual else " On other sets: `bench/results/abstain.md`, `python -m bench.small_folders`."),
        ),
        (
            "What it is not good at",
            ("" if multilingual else "English. ")
            + "What is left without the answer often resembles it, as other parts of the same document do; then the "
            "head can hardly tell.",
        ),
    ]


def main() -> None:
    parser = make_parser(__doc__, "seed")
    parser.add_argument("--data", type=Path, required=True, help="folder with the public originals")
    parser.add_argument("--models", type=Path, required=True, help="folder with the other models")
    parser.add_argument("--multilingual", action="store_true", help="learn from questions in many languages instead")
    parser.add_argument("--out", type=Path, required=True)
    run(parser, train)


if __name__ == "__main__":
    main()
