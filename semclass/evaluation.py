"""Measuring rankings on a BEIR folder: every method on the same candidates, by two protocols.

The reference protocol ("conditional") looks only at questions whose answer is among the hybrid's first ten, and asks how
much of the error 1 - MRR a method removes there. The other figures are over all questions.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semclass import artifacts
from semclass.documents import read_corpus, read_json_lines
from semclass.errors import ArtifactError, InputError, import_extra
from semclass.index import PassageIndex
from semclass.passages import PassageClassifier
from semclass.retriever import HybridRetriever
from semclass.types import DoubleArray

DEPTH = 10
"""Candidates that are re-ranked and measured."""

METHODS: dict[str, dict[str, Any]] = {
    "hybrid": {"rerank": None},
    "class-stable": {"rerank": "stable", "by": "class"},
    "class-integrated": {"rerank": "integrated", "by": "class"},
    "entail-stable": {"rerank": "stable", "by": "entailment"},
    "entail-integrated": {"rerank": "integrated", "by": "entailment"},
    "learned": {"rerank": "learned"},
}
"""Each method by name: arguments of :meth:`semclass.retriever.HybridRetriever.search`."""


@dataclass(frozen=True)
class Dataset:
    """A BEIR folder's questions and judgements.

    Attributes
    ----------
    folder
        Where it is.
    questions
        Text by question id; only those with a relevant passage.
    relevance
        Relevance by passage id, by question id; only values above 0.
    """

    folder: Path
    questions: Mapping[str, str]
    relevance: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class MethodResult:
    """Figures of one method; all are in [0, 1], except that `error_removed` may be negative.

    Attributes
    ----------
    mrr, top1, top_k, recall, ndcg
        MRR@10, share of questions with a relevant passage in first place, the same for the first 1 to 10, recall@10 and
        nDCG@10, over all questions.
    cond_mrr, cond_top1
        The same over the questions whose answer is among the hybrid's first ten.
    error_removed
        Share of the hybrid's 1 - cond_mrr that the method removes.
    p_value
        Two-sided paired randomisation test of the reciprocal ranks against the hybrid's; 1 for the hybrid itself.
    """

    mrr: float
    top1: float
    top_k: tuple[float, ...]
    recall: float
    ndcg: float
    cond_mrr: float
    cond_top1: float
    error_removed: float
    p_value: float

    def as_json(self) -> dict[str, Any]:
        """The figures under the names that reports use, such as ``mrr@10``."""
        names = {"mrr": "mrr@10", "recall": "recall@10", "ndcg": "ndcg@10"}
        record = {names.get(key, key): value for key, value in asdict(self).items()}
        return {**record, "top_k": list(self.top_k)}


def load_dataset(folder: str | Path, *, split: str = "test", limit: int | None = None) -> Dataset:
    """Read the questions and judgements of a BEIR folder.

    Parameters
    ----------
    folder
        Holds ``queries.jsonl`` and ``qrels/<split>.tsv``.
    split
        Which judgements.
    limit
        Take only the first so many questions, in the order of the judgements.

    Returns
    -------
    Dataset
        Questions and judgements.

    Raises
    ------
    InputError
        If a file is missing or a line of it is not what it should be; with file and line.
    """
    folder = Path(folder)
    judgements = folder / "qrels" / f"{split}.tsv"
    for path in (folder / "corpus.jsonl", folder / "queries.jsonl", judgements):
        if not path.is_file():
            raise InputError(f"{path} is missing; a BEIR folder has corpus.jsonl, queries.jsonl and qrels/{split}.tsv")
    relevance: dict[str, dict[str, int]] = {}
    with judgements.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows, None)  # BEIR's judgements begin with a header
        for row in rows:
            try:
                question, passage, value = row[0], row[1], int(row[2])
            except (IndexError, ValueError) as error:
                raise InputError(
                    f"{judgements}, line {rows.line_num}: query-id, corpus-id and a whole number are wanted, not {row}"
                ) from error
            if value > 0:
                relevance.setdefault(question, {})[passage] = value
    texts = {}
    for number, record in read_json_lines(folder / "queries.jsonl"):
        if "_id" not in record or not isinstance(record.get("text"), str):
            raise InputError(f"{folder / 'queries.jsonl'}, line {number}: an object with _id and text is wanted")
        texts[str(record["_id"])] = record["text"]
    known = [question for question in relevance if question in texts][:limit]
    if not known:
        raise InputError(f"{judgements} judges no question of {folder / 'queries.jsonl'}")
    return Dataset(folder, {q: texts[q] for q in known}, {q: relevance[q] for q in known})


def cached_index(
    folder: Path, cache: Path, classifier: PassageClassifier, progress: Callable[[int], object] | None = None
) -> PassageIndex:
    """Index a BEIR folder's passages, or open the index that an earlier run made of the same passages and models.

    Parameters
    ----------
    folder
        Holds ``corpus.jsonl``.
    cache
        Folder for indices; each is named after the hash of everything that it depends on.
    classifier
        Passage heads with their encoder.
    progress
        Called with the number of passages done.

    Returns
    -------
    PassageIndex
        The index, memory-mapped.
    """
    corpus = folder / "corpus.jsonl"
    identity = [artifacts.sha256_of(corpus), classifier.encoder.fingerprint, str(artifacts.PROTOCOL)]
    if classifier.head:
        identity.append(classifier.head.artifact.manifest["files"]["model.onnx"]["sha256"])
    place = cache / hashlib.sha256(" ".join(identity).encode()).hexdigest()[:24]
    try:
        return PassageIndex.load(place, encoder=classifier.encoder.fingerprint)
    except ArtifactError:
        PassageIndex.build(read_corpus(corpus), classifier=classifier, progress=progress).save(place)
        return PassageIndex.load(place, encoder=classifier.encoder.fingerprint)


def evaluate(
    dataset: Dataset,
    retriever: HybridRetriever,
    *,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> dict[str, MethodResult]:
    """Run every method on the same candidates and measure it.

    Parameters
    ----------
    dataset
        Questions and judgements.
    retriever
        Over the data set's passages.
    seed
        Of the randomisation test.
    progress
        Called with the number of questions done.

    Returns
    -------
    dict
        A result by method name, in the order of `METHODS`.

    Raises
    ------
    MissingExtraError
        If ir-measures or scipy is not installed: ``pip install "semclass[eval]"``.
    """
    import_extra("ir_measures", "eval")
    import_extra("scipy.stats", "eval")
    rankings: dict[str, list[list[str]]] = {name: [] for name in METHODS}
    for query in retriever.encode(list(dataset.questions.values())):
        candidates = retriever.candidates(query, DEPTH)
        names = [retriever.index.passage(int(row)).id for row in candidates.rows]
        for method, arguments in METHODS.items():
            order = retriever.order(query, candidates, **arguments).order
            rankings[method].append([names[place] for place in order])
        if progress is not None:
            progress(1)
    return measure(dataset, rankings, seed=seed)


def measure(
    dataset: Dataset, rankings: Mapping[str, Sequence[Sequence[str]]], *, seed: int = 0
) -> dict[str, MethodResult]:
    """Measure rankings; the one named ``"hybrid"`` is what the others are compared with.

    Parameters
    ----------
    dataset
        n questions with judgements.
    rankings
        By method: for each question, passage ids, best first.
    seed
        Of the randomisation test.

    Returns
    -------
    dict
        A result by method name.
    """
    values = {name: _per_question(dataset, ranking) for name, ranking in rankings.items()}
    base = values["hybrid"]["RR@10"]
    answered = base > 0
    cond_base = float(base[answered].mean()) if answered.any() else 1.0
    results = {}
    for name, found in values.items():
        reciprocal = found["RR@10"]
        cond = float(reciprocal[answered].mean()) if answered.any() else 1.0
        top_k = tuple(float(found[f"Success@{k}"].mean()) for k in range(1, DEPTH + 1))
        results[name] = MethodResult(
            mrr=float(reciprocal.mean()),
            top1=top_k[0],
            top_k=top_k,
            recall=float(found["R@10"].mean()),
            ndcg=float(found["nDCG@10"].mean()),
            cond_mrr=cond,
            cond_top1=float(found["Success@1"][answered].mean()) if answered.any() else 1.0,
            error_removed=(cond - cond_base) / (1 - cond_base) if cond_base < 1 else 0.0,
            p_value=_randomisation_test(reciprocal, base, seed),
        )
    return results


def _per_question(dataset: Dataset, ranking: Sequence[Sequence[str]]) -> dict[str, DoubleArray]:
    """Each measure's value for each question, in the data set's order."""
    ir = import_extra("ir_measures", "eval")
    measures = {ir.RR @ DEPTH: "RR@10", ir.R @ DEPTH: "R@10", ir.nDCG @ DEPTH: "nDCG@10"}
    measures |= {ir.Success @ k: f"Success@{k}" for k in range(1, DEPTH + 1)}
    # measures sort by score; scores made from the places keep each method's own order, also where its scores tie
    run = {
        question: {passage: float(-place) for place, passage in enumerate(passages)}
        for question, passages in zip(dataset.questions, ranking, strict=True)
    }
    place = {question: row for row, question in enumerate(dataset.questions)}
    values: dict[str, DoubleArray] = {name: np.zeros(len(place)) for name in measures.values()}
    for metric in ir.iter_calc(list(measures), dataset.relevance, run):
        values[measures[metric.measure]][place[metric.query_id]] = metric.value
    return values


def _randomisation_test(values: DoubleArray, base: DoubleArray, seed: int) -> float:
    """Two-sided paired randomisation test of a difference in means, with 9,999 random sign flips."""
    stats = import_extra("scipy.stats", "eval")
    difference = values - base
    difference = difference[difference != 0]  # flipping the sign of 0 changes nothing
    if len(difference) < 2:
        return 1.0  # of one difference both signs are as large

    def mean(sample: DoubleArray, axis: int) -> DoubleArray:
        return np.asarray(sample.mean(axis=axis))

    result = stats.permutation_test(
        (difference,),
        mean,
        permutation_type="samples",
        n_resamples=9999,
        batch=256,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
