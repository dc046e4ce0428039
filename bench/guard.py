"""Has a shipped model got worse? Scores on a small fixed set of texts, compared with their record.

    python -m bench.guard                       # what CI runs: seconds, nothing but the checkout
    python -m bench.guard --record              # after a model was made again

``guard.json`` holds, for each model, the SHA-256 of the manifest that its scores belong to, so that a changed model
without a new record is found, too. Where a head was fitted on its texts the score flatters it: the loss against the
record counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import provenance
from datasets_io import read_jsonl, read_tsv
from semclass import (
    EntailmentClassifier,
    HybridRetriever,
    Models,
    Passage,
    PassageClassifier,
    QuestionClassifier,
    TextModel,
)
from semclass.core import artifacts
from semclass.core.errors import SemclassError
from semclass.core.types import FloatArray
from semclass.documents.sentences import split_sentences
from semclass.encoders.onnx_encoder import open_encoder
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.measure import DEPTH, per_question
from semclass.heads.head import Head
from semclass.ranking.models import MIN_ENGLISH, LanguageTest
from semclass.scoring.vectors import unit

HERE = Path(__file__).parent
RECORD = HERE / "guard.json"
LABELS = HERE.parent / "training" / "labels"
PASSAGES = HERE / "guard_texts" / "passages.tsv"
TOLERANCE = 0.005  # half a point: a score that is lower than its record by more has got worse
PER_CLASS, RANKED = 20, 200
"""Questions of each fine class, and passages that are ranked: so many that int8 products of another processor, which round
otherwise and make an answer change places with the next, stay far below :data:`TOLERANCE`."""

Scores = dict[str, dict[str, float]]  # by model folder: scores by name, in [0, 1], higher is better


class GuardError(SemclassError):
    """A model lost quality, or was changed without a record of its scores."""


@dataclass(frozen=True)
class Texts:
    """The fixed set: pairs of a label or id and a text."""

    questions: tuple[tuple[str, str], ...]
    passages: tuple[tuple[str, str], ...]
    ranked: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str], ...]

    @property
    def sha256(self) -> str:
        """SHA-256 over all of it."""
        parts = [self.questions, self.passages, self.ranked, self.asked]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


@lru_cache(maxsize=1)
def texts() -> Texts:
    """Read the set: first rows only, so that what is added to the files later leaves it as it is."""
    by_class: dict[str, list[tuple[str, str]]] = {}
    for row in read_tsv(LABELS / "written_questions.tsv"):
        fine = f"{row['coarse']}:{row['fine']}"
        by_class.setdefault(fine, []).append((fine, row["question"]))
    records = read_jsonl(LABELS / "written_passages.jsonl.gz")[:RANKED]
    ranked = {record["_id"]: record["text"] for record in records}
    asked = read_tsv(LABELS / "written_passage_questions.tsv")
    return Texts(
        questions=tuple(item for items in by_class.values() for item in items[:PER_CLASS]),
        passages=tuple((row["classes"], row["passage"]) for row in read_tsv(PASSAGES)),
        ranked=tuple(ranked.items()),
        asked=tuple((row["corpus-id"], row["question"]) for row in asked if row["corpus-id"] in ranked),
    )


def questions(models: Path) -> Scores:
    fine, asked = zip(*texts().questions, strict=True)
    found = QuestionClassifier.load(models).classify(asked)
    coarse = [item.label == name.partition(":")[0] for item, name in zip(found, fine, strict=True)]
    right = [item.fine == name for item, name in zip(found, fine, strict=True)]
    return {"questions": {"accuracy, coarse": float(np.mean(coarse)), "accuracy, fine": float(np.mean(right))}}


def passages(models: Path) -> Scores:
    """Share of right decisions of the passage heads, over all classes."""
    classifier = PassageClassifier.load(models)
    found = classifier.classify([text for _, text in texts().passages])
    right = [
        (name in item.labels) == (name in classes.split())
        for item, (classes, _) in zip(found, texts().passages, strict=True)
        for name in classifier.classes
    ]
    return {"passages": {"right decisions": float(np.mean(right))}}


def area(values: FloatArray, others: FloatArray) -> float:
    """Area under the curve: how often one of the values is above one of the others."""
    return float(np.mean(values[:, None] > others) + np.mean(values[:, None] == others) / 2)


def scope(models: Path) -> Scores:
    """Questions against greetings, commands and statements."""
    others = [row["text"] for row in read_tsv(LABELS / "in_scope.tsv") if row["scope"] == "out"]
    found = TextModel.load(models / "in_scope", encoder=models / "encoder").predict_proba(
        [text for _, text in texts().questions] + others
    )[:, 0]
    return {"in_scope": {"AUC": area(found[: -len(others)], found[-len(others) :])}}


def generic(models: Path) -> Scores:
    """Questions that name something against those that name nothing of their own."""
    encoder = open_encoder(models / "encoder")
    head = Head.load(models / "generic", encoder=encoder.fingerprint)
    named = [text for _, text in texts().questions]
    asked = (LABELS / "generic_questions.txt").read_text(encoding="utf-8").splitlines() + named
    given = head.probabilities({"pooled": encoder.encode(asked).rows("pooled")})[:, 0]
    right = (given >= head.thresholds[0]) == (np.arange(len(asked)) < len(asked) - len(named))
    return {"generic": {"right": float(right.mean())}}


def language(models: Path) -> Scores:
    """Passages of the fixed set, which are English."""
    encoder = open_encoder(models / "encoder")
    found = LanguageTest.load(models / "language", encoder)
    pieces = encoder.encode([text for _, text in texts().passages], views=()).terms
    means = [found.logs[pieces.row(row)].mean() for row in range(len(pieces)) if len(pieces.row(row))]
    return {"language": {"English": float((np.array(means) >= MIN_ENGLISH).mean())}}


def entailment(models: Path) -> Scores:
    """Passages that answer against their neighbours, each by its best sentence."""
    sentences = {name: split_sentences(text) for name, text in texts().ranked}
    ids = list(sentences)
    pairs, ends = list[tuple[str, str]](), list[int]()
    for answer, question in texts().asked:
        for name in (answer, ids[(ids.index(answer) + 1) % len(ids)]):  # and its neighbour
            pairs += [(question, sentence) for sentence in sentences[name]]
            ends.append(len(pairs))
    given = EntailmentClassifier.load(models).predict_proba(pairs)[:, 1]
    answers, others = np.maximum.reduceat(given, [0, *ends[:-1]]).reshape(-1, 2).T
    return {
        "entailment": {
            "AUC": area(answers, others),
            "probability of what is right": float(np.append(answers, 1 - others).mean()),
        }
    }


RANKING = {"encoder": "hybrid", "sparse": "convex", "pairs/entailment": "default"}
"""The method that shows most of what a model does."""


def ranking(models: Path) -> Scores:
    """MRR@10 of a method for each model, answers against the best without them, and how near codebooks keep vectors."""
    loaded = Models.load(models)
    items = [Passage(name, text) for name, text in texts().ranked]
    retriever = HybridRetriever.from_passages(items, models=loaded)
    asked = {str(place): question for place, (_, question) in enumerate(texts().asked)}
    relevance = {str(place): {answer: 1} for place, (answer, _) in enumerate(texts().asked)}
    dataset = Dataset(HERE, asked, relevance)
    scores: Scores = {}
    for model, method in RANKING.items():
        results = retriever.search_many([*asked.values()], DEPTH, method=method)
        values = per_question(dataset, [[hit.id for hit in result] for result in results], ["RR@10"])["RR@10"]
        scores[model] = {f"MRR@10, {method}": float(values.mean())}
    given = [
        [retriever.search(question, 1, where=where).answerable for where in (None, {"_id": {"$ne": answer}})]
        for answer, question in texts().asked
    ]
    scores["pairs/entailment"]["AUC, answerable"] = area(*np.array(given, np.float64).T)
    return {**scores, "codebooks": _kept_vectors(loaded)}


def _kept_vectors(models: Models) -> dict[str, float]:
    """Mean cosine between vectors and what is decoded."""
    books = models.passage_encoder.codebooks
    if books is None:
        raise GuardError("there are no codebooks beside the other models; restore models/codebooks")
    found, _ = models.passage_encoder.read([Passage("", text) for _, text in texts().ranked[:20]], classes=False)
    vectors, pieces = found.tokens.values, found.pieces.values
    kept = unit(books.decode(books.encode(vectors, pieces), pieces))
    return {"cosine of kept tokens": float(np.einsum("nd,nd->n", unit(vectors), kept).mean())}


SUITES: dict[str, Callable[[Path], Scores]] = {
    "questions": questions,
    "passages": passages,
    "in_scope": scope,
    "generic": generic,
    "language": language,
    "entailment": entailment,
    "ranking": ranking,
}


def measure(models: Path, suites: Sequence[str] = tuple(SUITES)) -> Scores:
    found: Scores = {}
    for name in suites:
        for model, scores in SUITES[name](models).items():
            found.setdefault(model, {}).update(scores)
    return found


def complaints(models: Path, suites: Sequence[str] = tuple(SUITES)) -> list[str]:
    """Lost points, models that are not those that were recorded, and other texts; empty if all is well."""
    return wrong(measure(models, suites), models, artifacts.read_json(RECORD))


def wrong(scores: Scores, models: Path, record: Mapping[str, Any]) -> list[str]:
    said = []
    for model, row in scores.items():
        known = record["models"].get(model, {"scores": {}, "manifest": None})
        for name, value in row.items():
            what, recorded = f"models/{model}: {name} on the fixed set of bench/guard.json", known["scores"].get(name)
            if recorded is None:
                said.append(f"{what} has no record")
            elif value < recorded - TOLERANCE:
                said.append(
                    f"{what} was {recorded:.4f} when it was recorded and is {value:.4f}: "
                    f"{100 * (recorded - value):.1f} points are lost, {100 * TOLERANCE:.1f} are allowed"
                )
        if known["manifest"] != artifacts.sha256_of(models / model / artifacts.MANIFEST):
            said.append(
                f"models/{model}/{artifacts.MANIFEST} is not the one whose scores were recorded: run "
                "`python -m bench.guard --record` and commit bench/guard.json with the model"
            )
    if record.get("texts") != texts().sha256:
        said.append("the texts of the guard changed since scores were recorded: run `python -m bench.guard --record`")
    return said


def new_record(models: Path, scores: Scores, old: Mapping[str, Any]) -> dict[str, Any]:
    """The record of these scores; records of other models that are there stay, and so do scores but for rounding."""
    entries = {name: entry for name, entry in old["models"].items() if (models / name).is_dir()}
    for model, row in scores.items():
        known, manifest = entries.get(model, {}), artifacts.sha256_of(models / model / artifacts.MANIFEST)
        before = known.get("scores", {}) if known.get("manifest") == manifest else {}
        values = {
            name: before[name] if abs(value - before.get(name, np.inf)) <= TOLERANCE else round(value, 4)
            for name, value in row.items()
        }
        entries[model] = {"manifest": manifest, "scores": values}
    return {"texts": texts().sha256, "models": entries, "date": provenance.today(), "commit": provenance.commit()}


@click.command(help=__doc__)
@click.option("--record", is_flag=True, help="Write the scores into bench/guard.json.")
def main(record: bool) -> None:
    root, old = artifacts.default_models(), artifacts.read_json(RECORD)
    try:
        scores = measure(root)
        if record:
            artifacts.write_atomic(RECORD, artifacts.dump_json(new_record(root, scores, old)))
    except SemclassError as error:
        raise click.ClickException(str(error)) from error
    for model, row in scores.items():
        click.echo(f"{model}: {', '.join(f'{name} {value:.4f}' for name, value in row.items())}")
    said = wrong(scores, root, old)
    if record:
        click.echo("\n".join(said))
    elif said:
        raise click.ClickException("\n".join(said))


if __name__ == "__main__":
    main(prog_name="python -m bench.guard")
