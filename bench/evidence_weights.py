"""Weights of the evidence that the default method adds to the convex score, chosen over sets of many domains.

    python -m bench.evidence_weights --data DATA --cache FOLDER

Seven sets count by nDCG@10, and so do questions whose answer stands among sentences of its article, of two sources; the
contrast items count by the share whose answer is first. What falls below a plain ranking of a set counts against the
weights. Those that are best on all of them flatter them; so each domain is left out in turn, and ranked with the weights
that the others choose.
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
from bench.retrieval_systems import open_retriever
from datasets_io import read_jsonl, read_tsv
from semclass import Models, Reranker
from semclass.core import artifacts
from semclass.evaluation.dataset import load_dataset
from semclass.index.records import Candidates, Query
from semclass.ranking.features import PAIR_FEATURES, pair_features
from semclass.ranking.methods import METHODS
from semclass.ranking.order import needs
from semclass.ranking.reranker import check_passages

Array = npt.NDArray[Any]

CONTRAST = "contrast"
SENTENCES = {"squad sentences": "squad_sentences/dev.corpus.jsonl.gz", "wikiqa": "wikiqa/dev.tsv.gz"}
"""Sets of questions with sentences of one article, one of which answers; and the file that tells one from another."""

COUNTS = {CONTRAST: 0.5}  # what a set counts where it is not 1
BELOW = 2.0  # what falling below a plain ranking of a set counts, beside the figure
MARGIN = 0.001  # by which the figure is to be above it
ASKED, AROUND = 600, 5  # questions of squad sentences, drawn by chance, and sentences before and behind the answer
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
    source = data / {CONTRAST: "contrast/dev.jsonl", **SENTENCES}.get(name, f"beir/{name}/corpus.jsonl")
    files = [source, Path(inspect.getfile(pair_features))]
    identity = [*map(artifacts.sha256_of, files), models.encoder.fingerprint, str(models.weights["alpha"])]
    place = cache / f"{name}-{hashlib.sha256(' '.join(identity).encode()).hexdigest()[:16]}.npz"
    if place.is_file():
        kept = dict(np.load(place))
        plain = {key.removeprefix("plain "): float(kept.pop(key)) for key in [*kept] if key.startswith("plain ")}
        return Judged(**kept, plain=plain)
    click.echo(f"reading {name} ...", err=True)
    if name == CONTRAST or name in SENTENCES:
        judged = read_strings(STRINGS[name](data), models)
    else:
        judged = read_beir(data / "beir" / name, cache, models)
    place.parent.mkdir(parents=True, exist_ok=True)
    arrays = {key: getattr(judged, key) for key in ("score", "features", "gains", "ideal")}
    np.savez_compressed(place, **arrays, **{f"plain {key}": np.array(value) for key, value in judged.plain.items()})
    return judged


def read_beir(folder: Path, cache: Path, models: Models) -> Judged:
    """Candidates of a search's first stage, and nDCG@10 of the plain rankings."""
    retriever = open_retriever(folder, cache / "indices", models)
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


Asked = tuple[str, list[str], list[bool]]  # a question, texts, and which of them answer


def contrast_strings(data: Path) -> list[Asked]:
    """The ten strings of each contrast item."""
    items = read_items(data)
    return [
        (item.question, [passage.text for passage in ten], [passage is item.passages[ANSWER] for passage in ten])
        for item, ten in zip(items, tens(items), strict=True)
    ]


def squad_strings(data: Path) -> list[Asked]:
    """Some questions with the sentences around the one that answers, in document order."""
    folder = data / "squad_sentences"
    texts = {row["_id"]: row["text"] for row in read_jsonl(folder / "dev.corpus.jsonl.gz")}
    asked, ids = read_jsonl(folder / "dev.queries.jsonl.gz"), list(texts)
    places = {name: place for place, name in enumerate(ids)}
    found = []
    for row in np.random.default_rng(1).permutation(len(asked))[:ASKED].tolist():
        answer = places[asked[row]["relevant"]]
        near = range(max(answer - AROUND, 0), min(answer + AROUND, len(ids)))
        found.append((asked[row]["text"], [texts[ids[place]] for place in near], [place == answer for place in near]))
    return found


def wikiqa_strings(data: Path) -> list[Asked]:
    """Questions with the sentences of an article, of which some answer and some do not."""
    rows: dict[str, list[tuple[str, bool]]] = {}
    for row in read_tsv(data / "wikiqa" / "dev.tsv.gz"):
        rows.setdefault(row["question"], []).append((row["sentence"], row["label"] == "1"))
    found = [(question, [text for text, _ in some], [right for _, right in some]) for question, some in rows.items()]
    return [item for item in found if len(set(item[2])) == 2]


STRINGS: Mapping[str, Callable[[Path], list[Asked]]] = {
    CONTRAST: contrast_strings,
    "squad sentences": squad_strings,
    "wikiqa": wikiqa_strings,
}


def read_strings(items: Sequence[Asked], models: Models) -> Judged:
    """Texts as a re-ranker scores them; the share of first answers by the plain rankings."""
    reranker, found = Reranker(models), []
    how = METHODS["default"]
    needed = needs(models, how, explain=True)
    for question, texts, right in items:
        (query,) = models.encode([question], **needed)
        items = [check_passages(texts, "passages")]
        ((candidates,), _) = reranker.candidates([query], items, how, models.weights, needed)
        found.append((query, candidates, np.array(right, np.float32)))
    plain = {
        name: float(np.mean([gains[keys(candidates).argmax()] for _, candidates, gains in found]))
        for name, keys in STRINGS_PLAIN.items()
    }
    ideal = dcg(padded([np.sort(gains)[::-1][:DEPTH] for _, _, gains in found]))
    return judged_of(found, ideal, plain, models)


STRINGS_PLAIN: Mapping[str, Callable[[Candidates], Array]] = {
    "bm25": lambda found: found.bm25,
    "dense": lambda found: found.dense,
    "convex": lambda found: found.score,
}
"""What the plain rankings of texts go by."""


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
    plain: Array  #: figure of the best plain ranking of each; 0 for texts, where the figures are of another kind
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
    parts: dict[str, list[Array]] = {name: [] for name in Pooled.__dataclass_fields__ if name not in ("names", "plain")}
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
    best = [0.0 if name in STRINGS else max(judged.plain.values(), default=0.0) for name, judged in sets.items()]
    return Pooled(tuple(sets), np.array(best), **joined)


def without(pooled: Pooled, name: str) -> Pooled:
    """The same without a set."""
    kept = pooled.of_set != pooled.names.index(name)
    places = np.cumsum([other != name for other in pooled.names]) - 1
    names = tuple(other for other in pooled.names if other != name)
    arrays = {key: getattr(pooled, key)[kept] for key in ("score", "earlier", "share", "first_only")}
    best = pooled.plain[[other != name for other in pooled.names]]
    return Pooled(names, best, features=pooled.features[:, kept], of_set=places[pooled.of_set[kept]], **arrays)


def figures(pooled: Pooled, ahead: Array) -> Array:
    """Figure of each set, where the other candidates are so far ahead, (n, d) to (sets,): as a stable sort would rank."""
    place = np.count_nonzero((ahead > 0) | ((ahead == 0) & pooled.earlier), axis=1)
    counts = np.where(pooled.first_only, place == 0, discounts(place))
    return np.bincount(pooled.of_set, pooled.share * counts, len(pooled.names))


def objective(pooled: Pooled, found: Array) -> float:
    """Mean figure of the domains, less what falls below their plain rankings."""
    counts = np.array([COUNTS.get(name, 1.0) for name in pooled.names])
    return float((counts * found - BELOW * np.maximum(pooled.plain + MARGIN - found, 0)).mean())


def ahead_by(pooled: Pooled, weights: Array) -> Array:
    """How far the other candidates are ahead with these weights of the features, (n, d)."""
    terms = ((weight, pooled.features[place]) for place, weight in enumerate(weights) if weight)
    return reduce(lambda total, term: total + np.float32(term[0]) * term[1], terms, pooled.score)


def choose(pooled: Pooled, grid: Sequence[float] = GRID, start: Array | None = None) -> Array:
    """Weights of the features, each in turn the best of a grid, until none gains; the smallest of those that are equal."""
    weights = np.zeros(len(pooled.features)) if start is None else start.copy()
    best = objective(pooled, figures(pooled, ahead_by(pooled, weights)))
    for _ in range(PASSES):
        before = best
        for place, column in enumerate(pooled.features):
            others = weights.copy()
            others[place] = 0.0
            base = ahead_by(pooled, others)
            tried = [objective(pooled, figures(pooled, base + np.float32(value) * column)) for value in grid]
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
    head = (
        "nDCG@10; contrast, and plain rankings of texts: answer first",
        *PLAIN,
        "these weights",
        "chosen on the other sets",
    )
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
@click.option("--set", "names", type=click.Choice([*DEFAULTS, *STRINGS]), multiple=True, help="Default: all.")
@click.option("--feature", "features", type=click.Choice(PAIR_FEATURES), multiple=True, help="Default: all.")
@click.option("--weight", "given", multiple=True, metavar="NAME=WEIGHT", help="Measure these, and choose nothing.")
def main(
    data: Path, cache: Path, models: Path | None, names: Sequence[str], features: Sequence[str], given: Sequence[str]
) -> None:
    """Choose, or measure, and print tables."""
    loaded, weights = Models.load(models, threads=1), dict(map(read_weight, given))
    sets = {name: read_set(name, data, cache, loaded) for name in names or (*DEFAULTS, *STRINGS)}
    click.echo(report(sets, [*weights] or features or PAIR_FEATURES, weights or None))


if __name__ == "__main__":
    main(prog_name="python -m bench.evidence_weights")
