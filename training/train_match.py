"""Make ``models/match``: what re-ranking by class reads of a passage, see ``semclass/ranking/proximity.py``.

    python training/train_match.py --data DATA --encoder models/encoder --out models/match

Two things are fitted, on ``squad_sentences/train``. The probe tells from a token vector what the encoder's probes for
entities and answers tell from the states of a whole layer. The table says what that evidence counts for each fine class of
question: passages of 4 sentences are indexed, the retriever's own first 10 are the candidates, and the softmax of a * score
+ match over them, where score is dense + w * BM25, is fitted to the passage that answers (ListNet, Cao et al. 2007). Class
probabilities go in without their mean, so that what would serve every question alike cannot be learned.

The weight of the match is the best for questions whose articles the fit did not see. ``questions``, ``passages``
and ``codebooks`` beside --out are used as they are. The same data give the same bytes on the same machine, but for the
seconds in the manifest.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from scipy.optimize import minimize

import onnx_graphs
from command import make_parser, npy_bytes, run, save_artifact, seconds_so_far
from datasets_io import squad_train, training_passages
from pair_fits import LAMBDAS, listwise, reciprocal_ranks
from semclass.core.artifacts import STATES
from semclass.core.errors import InputError
from semclass.encoders.onnx_encoder import PASSAGE, OnnxEncoder
from semclass.heads.questions import QuestionClassifier
from semclass.index.passage_encoder import PassageEncoder
from semclass.ranking.proximity import ARRAYS, CLIP, ProximityModel, evidence_at_place
from semclass.scoring.topk import unit
from train_pairs import N_CANDIDATES, build_index, candidates_of, encode

Array = npt.NDArray[Any]

SENTENCES = 4  # sentences of a passage
# each fold has every fifth of so many blocks of consecutive passages: most articles stay whole
FOLDS, BLOCKS = 5, 50
# penalty on the table: of 0.001 to 0.1 the strongest whose cross-validated loss is within 0.002 of the least
RIDGE = 0.03
STEPS = 50  # steps of the fit of the table at most; it ends before
EXTREME = 8.0  # log-odds beyond which the encoder's probes count as sure
# tensor of the encoder's upper network: log-odds of each type for each word piece, special tokens included
TOKEN_EVIDENCE = "entities.tokens"
BATCH = 256  # sentences encoded at a time


@dataclass(frozen=True)
class Questions:
    """Questions whose answer is among their candidates."""

    classes: Array  # coarse, then fine class probabilities (n, coarse + fine)
    evidence: Array  # as :func:`semclass.ranking.proximity.evidence_at_place` gives it, (n, 10, columns)
    score: Array  # dense + w * BM25, (n, 10)
    answers: Array  # bool (n, 10)
    fold: Array  # of the cross-validation, int (n,)


def examples_of_probe(
    sentences: list[str], encoder: OnnxEncoder, folder: Path, passage_encoder: PassageEncoder
) -> list[Array]:
    """Token vectors as an index gives them back, and the probabilities of the encoder's own probes, both float32."""
    network = onnx.load(folder / "upper.onnx")
    if not any(TOKEN_EVIDENCE in node.output for node in network.graph.node):
        raise InputError("the match is made for an encoder with the view 'entities'")
    network.graph.output.append(onnx.helper.make_tensor_value_info(TOKEN_EVIDENCE, onnx.TensorProto.FLOAT, None))
    upper = onnx_graphs.open_model(network, encoder.threads)
    inputs = [item.name for item in upper.get_inputs()]
    kept = np.ones(len(encoder.is_term), np.bool_) if encoder.kept is None else encoder.kept
    vectors, pieces, targets = [], [], []
    for start in range(0, len(sentences), BATCH):
        encoding = encoder.encode(sentences[start : start + BATCH], views=(STATES,))
        states = encoding.pieces(STATES)
        for row in range(len(states)):
            terms = encoding.terms.row(row)[: len(states.row(row)) - 2]
            inner = np.flatnonzero(kept[terms]) + 1
            places = np.concatenate([[0], inner, [len(states.row(row)) - 1]])
            feed = onnx_graphs.packed_feed(states.row(row)[None], places, PASSAGE)
            found = upper.run(["tokens", TOKEN_EVIDENCE], {name: feed[name] for name in inputs})
            vectors.append(found[0][0, 1:-1])
            pieces.append(terms[inner - 1])
            targets.append(found[1][0, 1:-1])
    tokens = np.concatenate(vectors)
    if passage_encoder.codebooks is not None:
        books, read = passage_encoder.codebooks, np.concatenate(pieces)
        tokens = unit(books.decode(books.encode(tokens, read), read))
    return [tokens, _sigmoid(np.clip(np.concatenate(targets), -EXTREME, EXTREME))]


def fit_probe(tokens: Array, targets: Array) -> tuple[Array, list[float]]:
    """Fit on the first four fifths; gives weights and bias, and the correlation with each target on the rest."""
    inputs = np.append(tokens, np.ones((len(tokens), 1), np.float32), axis=1)
    cut = len(inputs) * 4 // 5
    seen, wanted = inputs[:cut], targets[:cut]

    def loss(flat: Array) -> tuple[float, Array]:
        score = seen @ flat.reshape(seen.shape[1], -1).astype(np.float32)
        slope = seen.T @ (_sigmoid(score) - wanted) / np.float32(cut)
        value = (np.logaddexp(0, score) - wanted * score).mean(axis=0, dtype=np.float64).sum()
        return float(value), slope.ravel().astype(np.float64)

    start = np.zeros(seen.shape[1] * targets.shape[1])
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    probe = weights.reshape(seen.shape[1], -1).astype(np.float32)
    found = _sigmoid(inputs[cut:] @ probe)
    pairs = zip(found.T, targets[cut:].T, strict=True)
    return probe, [round(float(np.corrcoef(*pair)[0, 1]), 3) for pair in pairs]


def collect(data: Path, classifier: QuestionClassifier, passage_encoder: PassageEncoder, probe: Array) -> Questions:
    """Index the passages, ask the questions, read the evidence of their candidates."""
    index = build_index(training_passages(data, SENTENCES), passage_encoder)
    _, questions, places = squad_train(data)
    rows = []
    for sentence, query in zip(places, encode(questions, passage_encoder, classifier), strict=True):
        found = candidates_of(index, passage_encoder, query)
        answer = sentence // SENTENCES
        right = found.rows == answer
        if right.any() and len(right) == N_CANDIDATES:
            classes = np.append(query.probabilities, query.fine)
            fold = answer * BLOCKS // len(index) % FOLDS
            rows.append((classes, evidence_at_place(query, found, probe), found.score, right, fold))
    print(f"{len(index)} passages, {len(questions)} questions, {len(rows)} with the answer among the candidates")
    return Questions(*(np.array(column) for column in zip(*rows, strict=True)))


def fit_table(classes: Array, evidence: Array, score: Array, answers: Array) -> tuple[float, Array]:
    """Scale of the hybrid's score and the table, (classes, columns); both inputs are centred already."""
    n, columns = len(score), evidence.shape[2]
    asked, given = classes.astype(np.float32), evidence.astype(np.float32)

    def loss(flat: Array) -> tuple[float, Array]:
        scale, table = flat[0], flat[1:].reshape(-1, columns)
        value, slope = listwise(scale * score + _match(asked, given, table.astype(np.float32)), answers)
        slope /= n
        each = np.matmul(slope.astype(np.float32)[:, None], given)[:, 0]
        penalised = value.mean() + RIDGE / 2 * (table**2).sum()
        return float(penalised), np.append((slope * score).sum(), asked.T @ each + RIDGE * table)

    start = np.append(1.0, np.zeros(asked.shape[1] * columns))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    return float(found[0]), found[1:].reshape(-1, columns)


def fit(data: Questions, classifier: QuestionClassifier, probe: Array) -> tuple[ProximityModel, dict[str, float]]:
    """Fit the table, find the weight on unseen articles."""
    usual, columns = data.classes.mean(axis=0), data.evidence.shape[2]
    centre, scale = data.evidence.mean(axis=(0, 1)), data.evidence.std(axis=(0, 1)) + 1e-6
    classes, evidence = data.classes - usual, np.clip((data.evidence - centre) / scale, -CLIP, CLIP)
    match, losses = np.zeros(data.score.shape), np.zeros(len(data.score))
    for fold in range(FOLDS):
        seen, unseen = data.fold != fold, data.fold == fold
        factor, table = fit_table(classes[seen], evidence[seen], data.score[seen], data.answers[seen])
        found = _match(classes[unseen], evidence[unseen], table)
        losses[unseen], _ = listwise(factor * data.score[unseen] + found, data.answers[unseen])
        match[unseen] = found / factor
    ranks = [reciprocal_ranks(data.score + weight * match, data.answers).mean() for weight in LAMBDAS]
    factor, table = fit_table(classes, evidence, data.score, data.answers)
    coarse = len(classifier.classes)
    membership = classifier.coarse(np.eye(len(classifier.fine_classes)))
    best = int(np.argmax(ranks))
    model = ProximityModel(
        probe=probe,
        usual=usual[coarse:],
        centre=centre,
        scale=scale,
        # a coarse class is the sum of its fine ones, so that one table says what both do
        table=(membership @ table[:coarse] + table[coarse:]).reshape(-1, columns),
        weight=round(LAMBDAS[best] / factor, 4),
    )
    metrics = {
        "questions": len(match),
        "conditional_mrr_hybrid": float(ranks[0]),
        "conditional_mrr": float(ranks[best]),
        "error_removed": float((ranks[best] - ranks[0]) / (1 - ranks[0])),
        "softmax_loss": float(losses.mean()),
    }
    return model, metrics


def _match(classes: Array, evidence: Array, table: Array) -> Array:
    return np.asarray(np.matmul(evidence, (classes @ table)[:, :, None])[..., 0])


def _sigmoid(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-values)))


def train(arguments: argparse.Namespace) -> None:
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    root = arguments.out.parent
    passage_encoder = PassageEncoder.load(root, encoder=encoder, threads=arguments.threads)
    classifier = QuestionClassifier.load(root, encoder=encoder)
    sentences, _, _ = squad_train(arguments.data)
    examples = examples_of_probe(sentences, encoder, Path(arguments.encoder), passage_encoder)
    probe, correlations = fit_probe(*examples)
    print(f"correlation of the probe with those of the encoder, by type: {correlations}")
    model, metrics = fit(collect(arguments.data, classifier, passage_encoder, probe), classifier, probe)
    for name, value in metrics.items():
        print(f"{name}: {value:.4f}")
    print(f"weight: {model.weight}")
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in metrics.items()}
    fields = {
        "encoder": encoder.fingerprint,
        "classes": list(classifier.fine_classes),
        "weight": model.weight,
        "training": {
            "data": "squad_sentences/train",
            "sentences_per_passage": SENTENCES,
            "candidates": N_CANDIDATES,
            "ridge": RIDGE,
            "steps": STEPS,
            "seconds": seconds_so_far(),
        },
        "metrics": {**rounded, "probe_correlations": correlations},
    }
    removed = metrics["error_removed"]
    sections = [
        (
            "What it tells",
            "Whether a passage holds what a question of a class asks for, near the question's own words: log-odds, up "
            "to what all candidates of the question share. `probe.npy` reads types of evidence off token vectors, "
            "`table.npy` says what they count for each fine class, `usual.npy` is the mean of class probabilities; "
            "`centre.npy` and `scale.npy` standardise the evidence.",
        ),
        ("Training", "`training/train_match.py` on `squad_sentences/train`, passages of 4 sentences."),
        (
            "Figures",
            f"Added to the hybrid's score with the weight found, it removes {removed:.1%} of 1 - MRR on "
            f"{metrics['questions']} training questions whose answer is among the first 10, by cross-validation over "
            "blocks of articles.",
        ),
        ("Limits", "English. It reorders candidates of one question; it is no probability."),
    ]
    files = {f"{name}.npy": npy_bytes(getattr(model, name)) for name in ARRAYS}
    title = "Class match at a place"
    save_artifact(arguments.out, "match", files, fields, title, sections, "passage-ranking")


def main() -> None:
    parser = make_parser(__doc__, "encoder", "threads")
    parser.add_argument("--data", type=Path, required=True, help="data folder with squad_sentences/")
    parser.add_argument("--out", type=Path, default=Path("models/match"))
    run(parser, train)


if __name__ == "__main__":
    main()
