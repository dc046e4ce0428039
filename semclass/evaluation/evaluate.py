"""Measuring rankings on a BEIR folder: every method on the same candidates, by two protocols.

The reference protocol ("conditional") looks only at questions whose answer is among the hybrid's first ten, and asks how
much of the error 1 - MRR a method removes there. The other figures are over all questions.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.types import DoubleArray
from semclass.documents.readers import read_corpus, read_json_lines
from semclass.evaluation.candidate_scores import collect
from semclass.index import store
from semclass.index.build import build_index
from semclass.index.passage_encoder import PassageReader
from semclass.index.passage_index import PassageIndex
from semclass.ranking.methods import METHODS, Method
from semclass.ranking.retriever import HybridRetriever

DEPTH = 10
"""Candidates that are re-ranked and measured by default."""

RUN_DEPTH = 100
"""Passages of a run: those that were re-ranked, and behind them the rest as it was retrieved."""

BASELINE = "hybrid"
"""The method that all others are compared with: dense + w * BM25, the reference system's sum, nothing else."""

MEASURES = ("AP@10", "nDCG@10", "P@1", "P@5", "R@5", "R@10", "F1@5", "F1@10")
"""Measures that are given beside the fixed ones where none are named."""

CONFIDENCE = 0.95
"""Level of the confidence intervals."""

_RESAMPLES = 2000
"""Bootstrap samples of a confidence interval; its ends then vary by a few hundredths of its width between seeds."""

_F1 = re.compile(r"F1@([1-9][0-9]*)")


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
    mrr_ci, error_removed_ci
        Lower and upper end of their bootstrap confidence intervals over questions, at the level `CONFIDENCE`.
    measures
        Further measures over all questions, by the names that were asked for.
    slices
        By kind of slice and slice: how many ``questions`` it has, how many of these the hybrid ``answered`` in its first
        ten, and ``mrr@10``, ``cond_mrr``, ``error_removed`` and ``p_value`` over them.
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
    mrr_ci: tuple[float, float]
    error_removed_ci: tuple[float, float]
    measures: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The figures under the names that reports use, such as ``mrr@10``."""
        names = {"mrr": "mrr@10", "recall": "recall@10", "ndcg": "ndcg@10", "mrr_ci": "mrr@10_ci"}
        record = {names.get(key, key): value for key, value in asdict(self).items()}
        pairs = {key: list(record[key]) for key in ("top_k", "mrr@10_ci", "error_removed_ci")}
        return {**{key: value for key, value in record.items() if value != {}}, **pairs}


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
    return read_dataset(folder / "queries.jsonl", judgements, limit=limit)


def read_dataset(queries: str | Path, qrels: str | Path, *, limit: int | None = None) -> Dataset:
    """Read questions and judgements from two files.

    Parameters
    ----------
    queries
        JSON lines with ``_id`` and ``text``.
    qrels
        Tab-separated question id, passage id and relevance, a whole number; a header in the first line is allowed.
    limit
        Take only the first so many questions, in the order of the judgements.

    Returns
    -------
    Dataset
        Questions and judgements; its folder is that of `queries`.

    Raises
    ------
    InputError
        If a file is missing or a line of it is not what it should be; with file and line.
    """
    queries, qrels = Path(queries), Path(qrels)
    relevance: dict[str, dict[str, int]] = {}
    for question, passage, value in _judgements(qrels):
        if value > 0:
            relevance.setdefault(question, {})[passage] = value
    texts = {}
    for number, record in read_json_lines(queries):
        if "_id" not in record or not isinstance(record.get("text"), str):
            raise InputError(f"{queries}, line {number}: an object with _id and text is wanted")
        texts[str(record["_id"])] = record["text"]
    known = [question for question in relevance if question in texts][:limit]
    if not known:
        raise InputError(f"{qrels} judges no question of {queries}")
    return Dataset(queries.parent, {q: texts[q] for q in known}, {q: relevance[q] for q in known})


def _judgements(path: Path) -> Iterator[tuple[str, str, int]]:
    """Question id, passage id and relevance of each line."""
    try:
        file = path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    with file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        for row in rows:
            try:
                question, passage, value = row[0], row[1], int(row[2])
            except (IndexError, ValueError) as error:
                if rows.line_num == 1:
                    continue  # BEIR's judgements begin with a header
                raise InputError(
                    f"{path}, line {rows.line_num}: query-id, corpus-id and a whole number are wanted, not {row}"
                ) from error
            yield question, passage, value


def cached_index(
    folder: str | Path,
    cache: str | Path,
    reader: PassageReader,
    progress: Callable[[int], object] | None = None,
    *,
    similarity: str = "cosine",
    form: str | None = None,
) -> PassageIndex:
    """Index a BEIR folder's passages, or open the index that an earlier run made of the same passages and models.

    Parameters
    ----------
    folder
        Holds ``corpus.jsonl``.
    cache
        Folder for indices; each is named after the hash of everything that it depends on.
    reader
        The models that read passages.
    progress
        Called with the number of passages done.
    similarity
        See :func:`semclass.scoring.topk.similarity`.
    form
        See :meth:`semclass.PassageIndex.build`.

    Returns
    -------
    PassageIndex
        The index, memory-mapped.
    """
    corpus = Path(folder) / "corpus.jsonl"
    encoder, head = reader.encoder.fingerprint, reader.classifier.head
    identity = [
        artifacts.sha256_of(corpus),
        encoder,
        reader.interaction,
        similarity,
        str(form),
        str(store.PROTOCOL),
    ]
    if reader.codebooks:
        identity.append(reader.codebooks.fingerprint)
    if head:
        identity.append(head.artifact.manifest["files"]["model.onnx"]["sha256"])
    place = Path(cache) / hashlib.sha256(" ".join(identity).encode()).hexdigest()[:24]
    try:
        return PassageIndex.load(place, encoder=encoder)
    except ArtifactError:
        passages = read_corpus(corpus)
        return build_index(place, passages, reader=reader, similarity=similarity, form=form, progress=progress)


def evaluate(
    dataset: Dataset,
    retriever: HybridRetriever,
    *,
    seed: int = 0,
    candidates: int = DEPTH,
    measures: Sequence[str] = MEASURES,
    slices: Mapping[str, Sequence[str]] | None = None,
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
        Of the randomisation test and the confidence intervals.
    candidates, progress
        As for :func:`rank`.
    measures, slices
        As for :func:`measure`.

    Returns
    -------
    dict
        A result by method name, in the order of :func:`rank`.

    Raises
    ------
    MissingExtraError
        If ir-measures or scipy is not installed: ``pip install "semclass[eval]"``.
    """
    check_measures(measures)
    import_extra("scipy.stats", "eval")
    rankings = rank(dataset, retriever, candidates=candidates, progress=progress)
    return measure(dataset, rankings, seed=seed, measures=measures, slices=slices)


def rank(
    dataset: Dataset,
    retriever: HybridRetriever,
    *,
    candidates: int = DEPTH,
    depth: int = RUN_DEPTH,
    progress: Callable[[int], object] | None = None,
) -> dict[str, list[list[str]]]:
    """Rank the passages for each question by every method, with the weights that the retriever has.

    Parameters
    ----------
    dataset
        n questions.
    retriever
        Over the data set's passages.
    candidates
        Passages that are re-ranked. If that is not 10, each method of the reference system that re-ranks appears twice:
        with 10, and as ``NAME@candidates``.
    depth
        Length of each ranking; behind what was re-ranked follows the rest in the order before.
    progress
        Called with the number of questions done.

    Returns
    -------
    dict
        By method, in the order of `METHODS`: for each question, passage ids, best first. Methods whose heads the models
        lack are left out.
    """
    methods = {name: how for name, how in METHODS.items() if retriever.ranker.has_heads_for(how)}
    queries, weights = retriever.encode(list(dataset.questions.values())), retriever.weights
    plain = {name: how for name, how in methods.items() if how.rerank is None}
    found: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in plain}
    for query in queries:
        for name, how in plain.items():
            # the two lists of the other fusions are no longer than the run: longer ones would change their scores
            n = max(depth, candidates, DEPTH) if how.fusion == "linear" else depth
            found[name].append(retriever.retrieve(query, n, how, weights=weights))
        if progress is not None:
            progress(1)
    retrieved = {name: np.stack(rows) for name, rows in found.items()}
    behind = {"linear": retrieved[BASELINE], "convex": retrieved["convex"]}
    reranked = [
        (name if n == how.candidates else f"{name}@{n}", how, n)
        for name, how in methods.items()
        if name not in plain
        for n in dict.fromkeys((how.candidates, *((candidates,) if how.fusion == "linear" else ())))
    ]
    for fusion, n in sorted({(how.fusion, n) for _, how, n in reranked}):
        parts = collect(retriever, queries, n, Method(fusion))
        for name, how, own in reranked:
            if (how.fusion, own) == (fusion, n):
                moved = np.take_along_axis(parts.rows, parts.order(how, weights.get(how.signal_weight, 0.0)), axis=1)
                retrieved[name] = np.concatenate([moved, behind[fusion][:, moved.shape[1] :]], axis=1)
    names = [name for name in METHODS if name in retrieved] + [name for name in retrieved if name not in METHODS]
    retrieved = {name: rows[:, :depth] for name, rows in retrieved.items()}
    seen = np.unique(np.concatenate([rows.ravel() for rows in retrieved.values()]))
    ids = {row: passage.id for row, passage in zip(seen.tolist(), retriever.index.passages(seen), strict=True)}
    return {name: [[ids[row] for row in rows] for rows in retrieved[name].tolist()] for name in names}


def measure(
    dataset: Dataset,
    rankings: Mapping[str, Sequence[Sequence[str]]],
    *,
    seed: int = 0,
    measures: Sequence[str] = (),
    slices: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, MethodResult]:
    """Measure rankings; the one named ``"hybrid"`` is what the others are compared with.

    Parameters
    ----------
    dataset
        n questions with judgements.
    rankings
        By method: for each question, passage ids, best first.
    seed
        Of the randomisation test and the confidence intervals.
    measures
        Further measures, by the names that ir-measures has for them, such as ``"AP@100"``, or ``"F1@k"``, see
        :func:`per_question`.
    slices
        By kind of slice, such as ``"passage kind"``: the slice of each question.

    Returns
    -------
    dict
        A result by method name.

    Raises
    ------
    InputError
        If a measure has no such name.
    """
    wanted = tuple(dict.fromkeys(("RR@10", "R@10", "nDCG@10", *measures)))
    values = {name: per_question(dataset, ranking, wanted) for name, ranking in rankings.items()}
    base = values[BASELINE]["RR@10"]
    answered = base > 0
    groups = {} if slices is None else {kind: np.asarray(labels) for kind, labels in slices.items()}
    results = {}
    for name, found in values.items():
        reciprocal = found["RR@10"]
        first = np.divide(1, reciprocal, out=np.full(len(base), np.inf), where=reciprocal > 0).round()
        top_k = tuple(float((first <= k).mean()) for k in range(1, DEPTH + 1))
        results[name] = MethodResult(
            mrr=float(reciprocal.mean()),
            top1=top_k[0],
            top_k=top_k,
            recall=float(found["R@10"].mean()),
            ndcg=float(found["nDCG@10"].mean()),
            cond_mrr=float(reciprocal[answered].mean()) if answered.any() else 1.0,
            cond_top1=float((first == 1)[answered].mean()) if answered.any() else 1.0,
            error_removed=_error_removed(reciprocal, base),
            p_value=_randomisation_test(reciprocal, base, seed),
            mrr_ci=_interval(_mean, (reciprocal,), seed),
            error_removed_ci=_interval(_error_removed, (reciprocal[answered], base[answered]), seed),
            measures={item: float(found[item].mean()) for item in measures},
            slices={kind: _by_slice(reciprocal, base, labels, seed) for kind, labels in groups.items()},
        )
    return results


def _by_slice(
    values: DoubleArray, base: DoubleArray, labels: npt.NDArray[Any], seed: int
) -> dict[str, dict[str, float]]:
    """The main figures over each slice."""
    found = {}
    for label in np.unique(labels).tolist():
        inside = labels == label
        mine, theirs = values[inside], base[inside]
        answered = theirs > 0
        found[str(label)] = {
            "questions": int(inside.sum()),
            "answered": int(answered.sum()),
            "mrr@10": float(mine.mean()),
            "cond_mrr": float(mine[answered].mean()) if answered.any() else 1.0,
            "error_removed": _error_removed(mine, theirs),
            "p_value": _randomisation_test(mine, theirs, seed),
        }
    return found


def check_measures(names: Sequence[str]) -> None:
    """Refuse names that are no measures.

    Raises
    ------
    InputError
        Naming the first that is none.
    MissingExtraError
        If ir-measures is not installed.
    """
    for name in names:
        _parse(name)


def _parse(name: str) -> tuple[Any, int | None]:
    """The measure of ir-measures behind a name, and the rank at which rankings are to be cut before."""
    ir = import_extra("ir_measures", "eval")
    cut = _F1.fullmatch(name)
    try:
        measure = ir.SetF if cut else ir.parse_measure(name)
        known = ir.DefaultPipeline.supports(measure)
    except (NameError, ValueError, AssertionError, SyntaxError, TypeError):
        known = False
    if not known:
        raise InputError(
            f"{name!r} is no measure that ir-measures can compute here; such are nDCG@10, P@5, R@100, AP@100, RR@10, SetF "
            "and, beside them, F1@5"
        )
    return measure, int(cut[1]) if cut else None


def per_question(dataset: Dataset, ranking: Sequence[Sequence[str]], measures: Sequence[str]) -> dict[str, DoubleArray]:
    """Values of measures for each question.

    Parameters
    ----------
    dataset
        n questions with judgements.
    ranking
        For each question, passage ids, best first; may be empty.
    measures
        Names that ir-measures knows. ``"F1@k"``, which it does not, is its ``SetF`` over the first k of each ranking: the
        harmonic mean of precision and recall of these k.

    Returns
    -------
    dict
        By name: float64 of shape (n,), in the data set's order.

    Raises
    ------
    InputError
        If a measure has no such name.
    """
    ir = import_extra("ir_measures", "eval")
    # measures sort by score; scores made from the places keep each method's own order, also where its scores tie
    run = {
        question: {passage: float(-place) for place, passage in enumerate(passages)}
        for question, passages in zip(dataset.questions, ranking, strict=True)
    }
    place = {question: row for row, question in enumerate(dataset.questions)}
    values: dict[str, DoubleArray] = {name: np.zeros(len(place)) for name in measures}
    by_cut: dict[int | None, dict[Any, list[str]]] = {}
    for name in values:
        parsed, cut = _parse(name)
        by_cut.setdefault(cut, {}).setdefault(parsed, []).append(name)
    for cut, wanted in by_cut.items():
        part = run if cut is None else {question: dict(list(row.items())[:cut]) for question, row in run.items()}
        for metric in ir.iter_calc(list(wanted), dataset.relevance, part):
            for name in wanted[metric.measure]:
                values[name][place[metric.query_id]] = metric.value
    return values


def _mean(values: DoubleArray, axis: int = -1) -> DoubleArray:
    return np.asarray(values.mean(axis=axis))


def _error_removed(values: DoubleArray, base: DoubleArray, axis: int = -1) -> Any:
    """Share of the error 1 - RR of the questions with base > 0 that is gone; 0 if there was none. Sums over `axis`."""
    answered = base > 0
    gained = ((values - base) * answered).sum(axis=axis)
    error = ((1 - base) * answered).sum(axis=axis)
    removed = np.divide(gained, error, out=np.zeros_like(gained, dtype=np.float64), where=error > 0)
    return removed if removed.ndim else float(removed)


def _interval(statistic: Callable[..., Any], samples: Sequence[DoubleArray], seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic over questions, which are drawn together from all samples."""
    stats = import_extra("scipy.stats", "eval")
    if len(samples[0]) < 2:
        value = float(statistic(*samples)) if len(samples[0]) else 0.0
        return value, value
    found = stats.bootstrap(
        samples,
        statistic,
        paired=True,
        n_resamples=_RESAMPLES,
        batch=200,
        vectorized=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


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
