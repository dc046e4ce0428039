"""Make ``models/entailment``: does a sentence answer a question? The pair head that was tuned beside the encoder.

    python training/export_entailment.py --data DATA --encoder models/encoder --tuned tuned.npz --out models/entailment
    python training/export_entailment.py --data DATA --encoder models/encoder --out models/entailment

The second command only calibrates the head in ``--out`` again, for an encoder that reads passages otherwise.
``export_encoder.py`` made the encoder of the same weights; it gives the token vectors that the head compares
(``semclass/heads/entailment.py``). Platt's sigmoid is fitted on the questions of ``squad_sentences/train`` that the tuning
held out, each with the sentence that answers it and those around it: either class has half the weight, and a sentence that
does not answer weighs more, the more of the question's words it has.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import bert_graph
import onnx_graphs
from answer_groups import Group, squad
from command import Array, make_parser, npy_bytes, run, save_artifact
from encoder_network import Recipe
from pair_head import write_head
from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.entailment import EntailmentClassifier
from tuning_texts import PAIRED, held_out

TOLERANCE = 5e-3  # largest difference allowed between a pair alone and in a batch; int8 rounding may tip a value


@dataclass(frozen=True)
class Held:
    """Pairs of a question and a sentence that the tuning held out, n of each; answers are bool, shares are weights."""

    questions: list[str]
    sentences: list[str]
    answers: Array
    share: Array

    @classmethod
    def of(cls, groups: Sequence[Group], encoder: OnnxEncoder, idf: Array, hardness: float) -> Held:
        """All pairs of the groups that were held out."""
        found = [
            (group.question, passage[0], place in group.answers)
            for group, out in zip(groups, held_out(groups), strict=True)
            if out
            for place, passage in enumerate(group.passages)
        ]
        questions, sentences = [row[0] for row in found], [row[1] for row in found]
        answers = np.array([row[2] for row in found])
        share = balance(answers, overlaps(encoder, idf, questions, sentences), hardness)
        return cls(questions, sentences, answers, share)


def overlaps(encoder: OnnxEncoder, idf: Array, questions: list[str], sentences: list[str]) -> Array:
    """Share of each question's idf whose word pieces the sentence has, float64 (n,)."""
    asked, given = encoder.tokenize(questions), encoder.tokenize(sentences)
    found = []
    for row in range(len(questions)):
        words = asked.row(row)
        rarity = idf[words].astype(np.float64)
        found.append(rarity @ np.isin(words, given.row(row)) / max(rarity.sum(), 1e-6))
    return np.array(found)


def balance(answers: Array, overlap: Array, hardness: float) -> Array:
    """Weights of pairs, float64 (n,), sum 1: half for those that answer, half for the others, these by their overlap."""
    weight = np.where(answers, 0, np.exp(hardness * overlap))
    return (answers / max(answers.sum(), 1) + weight / max(weight.sum(), 1e-9)) / 2


def platt(logits: Array, answers: Array, weight: Array) -> list[float]:
    """Slopes and bias of the sigmoid that gives probabilities of logits (n, k), by weighted log loss."""
    fitted = LogisticRegression(C=1e9).fit(logits, answers, sample_weight=weight * len(weight))
    return [round(float(value), 4) for value in (*fitted.coef_[0], fitted.intercept_[0])]


def figures(given: Array, answers: Array, weight: Array) -> dict[str, float]:
    """Accuracy at 0.5, area under the curve, expected calibration error over 15 bins; weighted."""
    order = np.argsort(given, kind="stable")
    p, y, w = given[order], answers[order].astype(float), weight[order] / weight.sum()
    bins = np.minimum((np.cumsum(w) * 15).astype(int), 14)
    found = {
        "accuracy": float((w * ((p >= 0.5) == (y > 0.5))).sum()),
        "auc": float(roc_auc_score(y, p, sample_weight=w)),
        "calibration_error": float(np.abs(np.bincount(bins, w * (p - y))).sum()),
    }
    return {name: round(value, 4) for name, value in found.items()}


def calibrated(head: onnx.ModelProto, slope: float, bias: float) -> onnx.ModelProto:
    """A copy of a head with another sigmoid."""
    found = onnx.ModelProto.FromString(head.SerializeToString())
    for constant in found.graph.initializer:
        if constant.name in ("slope", "bias"):
            value = slope if constant.name == "slope" else bias
            constant.CopyFrom(numpy_helper.from_array(np.array(value, np.float32), constant.name))
    return found


def export(arguments: argparse.Namespace) -> None:
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    if arguments.tuned:
        weights = bert_graph.mean_of(arguments.tuned)
        head, idf = write_head(weights), weights["idf"]
    else:
        earlier = artifacts.load_artifact(arguments.out, "entailment")
        head, idf = onnx.ModelProto.FromString(earlier.read("head.onnx")), earlier.array("idf.npy")
    held = Held.of(list(squad(arguments.data)), encoder, idf, Recipe.hardness)
    plain = onnx_graphs.open_model(calibrated(head, 1.0, 0.0), encoder.threads)
    classifier = EntailmentClassifier(encoder, plain, idf, 0.5)
    given = classifier.predict_proba(zip(held.questions, held.sentences, strict=True))[:, 1]
    given = np.clip(given, 1e-7, 1 - 1e-7)  # within what float32 tells apart
    logits = np.log(given) - np.log1p(-given)
    slope, bias = platt(logits[:, None], held.answers, held.share)
    found = figures(1 / (1 + np.exp(-(slope * logits + bias))), held.answers, held.share)
    print(f"held out: {found}, slope {slope}, bias {bias}", flush=True)
    fields = {
        "task": "sentence-answers-question",
        "encoder": encoder.fingerprint,
        "threshold": 0.5,
        "calibration": {
            "method": "sigmoid",
            "slope": slope,
            "bias": bias,
            "on": f"{held.answers.sum()} held-out questions",
        },
        "training": {"domains": list(PAIRED)},
        "metrics": {"held_out": found},
    }
    files = {
        "head.onnx": calibrated(head, slope, bias).SerializeToString(deterministic=True),
        "idf.npy": npy_bytes(idf),
    }
    save_artifact(arguments.out, "entailment", files, fields, "entailment")
    written = EntailmentClassifier.load(arguments.out.parent, encoder=encoder, deep=False)
    check(written.predict_proba, held.questions, held.sentences, TOLERANCE)


def check(
    score: Callable[[list[tuple[str, str]]], Array], questions: list[str], sentences: list[str], tolerance: float
) -> None:
    """Compare what pairs are given together with what the same pairs are given one by one."""
    step = max(1, len(questions) // 50)
    some = list(zip(questions[::step], sentences[::step], strict=True))
    together = score(some)
    alone = np.concatenate([score([pair]) for pair in some])
    difference = float(np.abs(together - alone).max())
    print(f"largest difference between batches and single pairs: {difference:.1e}")
    if difference > tolerance:
        raise ArtifactError(f"batches change what pairs are given by {difference:.1e}, more than {tolerance}")


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "tuned", "threads", "out"), export)
