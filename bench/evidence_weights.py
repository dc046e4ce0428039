"""Weights of the evidence that the default method adds to the convex score, chosen over sets of many domains.

    python -m bench.evidence_weights --data DATA --cache FOLDER

Seven sets count by nDCG@10, the contrast items by the share whose answer is first. The weights that are best on all of
them flatter them; so each domain is left out in turn, and ranked with the weights that the others choose.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from bench import readme
from bench.contrast import ANSWER, read_items, tens
from bench.retrieval import DEFAULTS
from semclass import HybridRetriever, Models, Reranker
from semclass.core import artifacts
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.index.records import Candidates, Query
from semclass.ranking.features import PAIR_FEATURES, pair_features
from semclass.ranking.methods import METHODS
from semclass.ranking.reranker import check_passages

Array = npt.NDArray[Any]

CONTRAST = "contrast"
CONTRAST_WEIGHT = 0.5  # what the contrast items count beside a set
CANDIDATES = 50  # that are re-ranked
DEPTH = 10  # places that count
POOL = 100  # length of the lists that plain rankings are made of
PLAIN = ("bm25", "dense", "hybrid", "convex", "rrf")

STEPS = np.geomspace(0.01, 1, 9).round(3)
GRID = tuple(sorted([0.0, *STEPS.tolist(), *(-STEPS).tolist()], key=abs))
"""Weights that are tried, the smallest first."""

LEAST = 1e-4  # gain of the objective for which a weight is moved
PASSES = 20  # over all features, at most


@dataclass(frozen=True)
class Judged:
    """The candidates of a set's questions, in the order of the first stage, and what is relevant among them.

    Of q questions with d candidates each; fewer are padded with a score of -inf.
    """

    score: Array  #: convex, float32 (q, d)
    features: Array  #: float32 (features, q, d)
    gains: Array  #: float32 (q, d)
    ideal: Array  #: DCG@10 of the best ranking, also of what no candidate is, (q,)
    plain: Mapping[str, float] = field(default_factory=dict)  #: figure of the plain rankings, by name


# -- reading --------------------------------------------------------------------------------------------------------------


def read_set(name: str, data: Path, cache: Path, models: Models) -> Judged:
    """Read the candidates of a set, or what an earlier run read of the same set with the same encoder and features."""
    source = data / ("contrast/dev.jsonl" if name == CONTRAST else f"beir/{name}/corpus.jsonl")
    files = [source, Path(inspect.getfile(pair_features))]
    identity = [*map(artifacts.sha256_of, files), models.encoder.fingerprint, str(models.weights["alpha"])]
    place = cache / f"{name}-{hashlib.sha256(' '.join(identity).encode()).hexdigest()[:16]}.npz"
    if place.is_file():
        kept = dict(np.load(place))
        plain = {key.removeprefix("plain "): float(kept.pop(key)) for key in [*kept] if key.startswith("plain ")}
        return Judged(**kept, plain=plain)
    click.echo(f"reading {name} ...", err=True)
    judged = read_contrast(data, models) if name == CONTRAST else read_beir(data / "beir" / name, cache, models)
    place.parent.mkdir(parents=True, exist_ok=True)
    arrays = {key: getattr(judged, key) for key in ("score", "features", "gains", "ideal")}
    np.savez_compressed(place, **arrays, **{f"plain {key}": np.array(value) for key, value in judged.plain.items()})
    return judged


def read_beir(folder: Path, cache: Path, models: Models) -> Judged:
    """Candidates of a search's first stage, and nDCG@10 of the plain rankings."""
    retriever = HybridRetriever(evaluate.cached_index(folder, cache / "indices", models.passage_encoder), models)
    dataset = load_dataset(folder)
    ids = [passage.id for passage in retriever.index.passages(np.arange(len(retriever.index)))]
    rows = {name: row for row, name in enumerate(ids)}
    found, relevance = [], np.zeros((len(dataset.questions), len(ids)), np.float32)
    plain = {name: np.zeros((len(relevance), DEPTH), np.float32) for name in PLAIN}
    for place, (name, query) in enumerate(
        zip(dataset.questions, retriever.encode([*dataset.questions.values()]), strict=True)
    ):
        for passage, gain in dataset.relevance[name].items():
            if passage in rows:
                relevance[place, rows[passage]] = gain
        candidates = retriever.candidates(query, CANDIDATES, METHODS["convex"])
        found.append((query, candidates, relevance[place, candidates.rows]))
        for method, gains in plain.items():
            first = relevance[place, retriever.retrieve(query, POOL, METHODS[method])[:DEPTH]]
            gains[place, : len(first)] = first
    # of judgements, also those of passages that are not in the corpus
    ideal = dcg(padded([sorted(dataset.relevance[name].values(), reverse=True)[:DEPTH] for name in dataset.questions]))
    return judged_of(found, ideal, {name: float((dcg(gains) / ideal).mean()) for name, gains in plain.items()}, models)


def read_contrast(data: Path, models: Models) -> Judged:
    """The ten strings of each item, as a re-ranker scores them; the share of first answers by convex alone."""
    reranker, items, found = Reranker(models), read_items(data), []
    options = reranker._options("default", None, None, None, explain=True)
    needed = models.needs(options.method, explain=True)
    for item, ten in zip(items, tens(items), strict=True):
        (query,) = models.encode([item.question], **needed)
        passages = check_passages([passage.text for passage in ten], "passages")
        ((candidates,), _) = reranker._candidates([query], [passages], options, needed)
        found.append((query, candidates, np.array([passage is item.passages[ANSWER] for passage in ten], np.float32)))
    plain = {
        name: float(np.mean([gains[keys(candidates).argmax()] for _, candidates, gains in found]))
        for name, keys in CONTRAST_PLAIN.items()
    }
    return judged_of(found, np.ones(len(found)), plain, models)


CONTRAST_PLAIN: Mapping[str, Callable[[Candidates], Array]] = {
    "bm25": lambda found: found.bm25,
    "dense": lambda found: found.dense,
    "convex": lambda found: found.score,
}
"""What the plain rankings of ten strings go by."""


def judged_of(
    found: Sequence[tuple[Query, Candidates, Array]], ideal: Array, plain: Mapping[str, float], models: Models
) -> Judged:
    """Compute the pair features of questions' candidates, whose gains are given."""
    features = [pair_features(query, candidates, models.pairs.words) for query, candidates, _ in found]
    columns = [padded([some[:, column] for some in features]) for column in range(len(PAIR_FEATURES))]
    score = padded([candidates.score for _, candidates, _ in found], -np.inf)
    return Judged(score, np.array(columns), padded([gains for _, _, gains in found]), ideal, plain)


def padded(rows: Sequence[Sequence[float] | Array], value: float = 0.0) -> Array:
    """Rows of several lengths as one array, float32."""
    table = np.full((len(rows), max(map(len, rows))), value, np.float32)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def dcg(gains: Array) -> Array:
    """DCG of the first places, of gains in the order of a ranking, (q, places) to (q,)."""
    return np.asarray(gains @ discounts(np.arange(gains.shape[1])))


def discounts(places: Array) -> Array:
    """What a relevant passage in each place counts, from 0: nothing behind the tenth."""
    return np.asarray(np.where(places < DEPTH, 1 / np.log2(2 + places), 0.0))


# -- searching ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pooled:
    """The relevant candidates of all sets: what their places are counted among, and what they count.

    Only where these stand matters, so that nothing is sorted. Of n relevant candidates with d - 1 others each.
    """

    names: tuple[str, ...]  #: of the sets
    score: Array  #: how far each other candidate is ahead by the convex score, (n, d)
    features: Array  #: and by each feature, (features, n, d)
    earlier: Array  #: whether it stands before it, so that it wins ties, bool (n, d)
    of_set: Array  #: place of its set in `names`, (n,)
    share: Array  #: what it adds to the set's figure if it is first, (n,)
    first_only: Array  #: whether it counts in first place alone, bool (n,)


def pool(sets: Mapping[str, Judged], features: Sequence[str]) -> Pooled:
    """Gather what an evaluation of all sets reads."""
    columns = [PAIR_FEATURES.index(name) for name in features]
    width = max(judged.score.shape[1] for judged in sets.values())
    parts: dict[str, list[Array]] = {name: [] for name in Pooled.__dataclass_fields__ if name != "names"}
    for place, (name, judged) in enumerate(sets.items()):
        question, own = np.nonzero(judged.gains > 0)
        wide = ((0, 0), (0, width - judged.score.shape[1]))
        ahead = judged.score[question] - judged.score[question, own][:, None]
        parts["score"].append(np.pad(ahead, wide, constant_values=-np.inf))
        values = judged.features[columns][:, question]
        parts["features"].append(np.pad(values - values[:, np.arange(len(own)), own][..., None], ((0, 0), *wide)))
        parts["earlier"].append(np.pad(np.arange(ahead.shape[1]) < own[:, None], wide))
        parts["of_set"].append(np.full(len(own), place))
        parts["share"].append(judged.gains[question, own] / judged.ideal[question] / len(judged.ideal))
        parts["first_only"].append(np.full(len(own), name == CONTRAST))
    joined = {key: np.concatenate(some, axis=1 if key == "features" else 0) for key, some in parts.items()}
    return Pooled(tuple(sets), **joined)


def without(pooled: Pooled, name: str) -> Pooled:
    """The same without a set."""
    kept = pooled.of_set != pooled.names.index(name)
    places = np.cumsum([other != name for other in pooled.names]) - 1
    names = tuple(other for other in pooled.names if other != name)
    arrays = {key: getattr(pooled, key)[kept] for key in ("score", "earlier", "share", "first_only")}
    return Pooled(names, features=pooled.features[:, kept], of_set=places[pooled.of_set[kept]], **arrays)


def figures(pooled: Pooled, ahead: Array) -> Array:
    """Figure of each set, where the other candidates are so far ahead, (n, d) to (sets,): as a stable sort would rank."""
    place = np.count_nonzero((ahead > 0) | ((ahead == 0) & pooled.earlier), axis=1)
    counts = np.where(pooled.first_only, place == 0, discounts(place))
    return np.bincount(pooled.of_set, pooled.share * counts, len(pooled.names))


def objective(names: Sequence[str], found: Array) -> float:
    """Mean figure of the domains."""
    counts = np.array([CONTRAST_WEIGHT if name == CONTRAST else 1.0 for name in names])
    return float((counts * found).mean())


def ahead_by(pooled: Pooled, weights: Array) -> Array:
    """How far the other candidates are ahead with these weights of the features, (n, d)."""
    terms = ((weight, pooled.features[place]) for place, weight in enumerate(weights) if weight)
    return reduce(lambda total, term: total + np.float32(term[0]) * term[1], terms, pooled.score)


def choose(pooled: Pooled, grid: Sequence[float] = GRID, start: Array | None = None) -> Array:
    """Weights of the features, each in turn the best of a grid, until none gains; the smallest of those that are equal."""
    weights = np.zeros(len(pooled.features)) if start is None else start.copy()
    best = objective(pooled.names, figures(pooled, ahead_by(pooled, weights)))
    for _ in range(PASSES):
        before = best
        for place, column in enumerate(pooled.features):
            others = weights.copy()
            others[place] = 0.0
            base = ahead_by(pooled, others)
            tried = [objective(pooled.names, figures(pooled, base + np.float32(value) * column)) for value in grid]
            found = int(np.argmax(tried))
            if tried[found] >= best + LEAST:
                weights[place], best = grid[found], tried[found]
        if best == before:
            break
    return weights


# -- showing --------------------------------------------------------------------------------------------------------------


def report(sets: Mapping[str, Judged], features: Sequence[str], given: Mapping[str, float] | None) -> str:
    """Tables of the weights, and of each set's figure by them and by the plain rankings."""
    pooled = pool(sets, features)
    if given is None:
        weights = choose(pooled)
        left = {name: choose(without(pooled, name)) for name in pooled.names} if len(sets) > 1 else {}
    else:
        weights, left = np.array([given[name] for name in features]), {}
    found = figures(pooled, ahead_by(pooled, weights))
    rows, chosen = [], {"all": weights, **left}
    for place, (name, judged) in enumerate(sets.items()):
        plain = (readme.cell(judged.plain, method, ".4f") for method in PLAIN)
        apart = f"{figures(pooled, ahead_by(pooled, left[name]))[place]:.4f}" if name in left else readme.NONE
        rows.append((name, *plain, f"{found[place]:.4f}", apart))
    head = ("nDCG@10; contrast: answer first", *PLAIN, "these weights", "chosen on the other sets")
    told = [(name, *(f"{weight:g}" for weight in values)) for name, values in chosen.items()]
    return f"{readme.markdown(('left out', *features), told)}\n\n{readme.markdown(head, rows)}"


def read_weight(text: str) -> tuple[str, float]:
    """A feature and its weight, as ``name=weight``."""
    name, _, value = text.partition("=")
    try:
        weight = float(value)
    except ValueError as error:
        raise click.BadParameter(f"give NAME=WEIGHT, not {text!r}") from error
    if name not in PAIR_FEATURES:
        raise click.BadParameter(f"{name!r} is no pair feature; there are {', '.join(PAIR_FEATURES)}")
    return name, weight


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), required=True, help="Keeps what was read.")
@click.option(
    "--models", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Default: the shipped ones."
)
@click.option("--set", "names", type=click.Choice([*DEFAULTS, CONTRAST]), multiple=True, help="Default: all.")
@click.option("--feature", "features", type=click.Choice(PAIR_FEATURES), multiple=True, help="Default: all.")
@click.option("--weight", "given", multiple=True, metavar="NAME=WEIGHT", help="Measure these, and choose nothing.")
def main(
    data: Path, cache: Path, models: Path | None, names: Sequence[str], features: Sequence[str], given: Sequence[str]
) -> None:
    """Choose, or measure, and print tables."""
    loaded, weights = Models.load(models, threads=1), dict(map(read_weight, given))
    sets = {name: read_set(name, data, cache, loaded) for name in names or (*DEFAULTS, CONTRAST)}
    click.echo(report(sets, [*weights] or features or PAIR_FEATURES, weights or None))


if __name__ == "__main__":
    main(prog_name="python -m bench.evidence_weights")
