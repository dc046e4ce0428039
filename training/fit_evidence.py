"""Make ``models/pairs/evidence``: the weights of pair features that the default method adds to a convex combination.

    python training/fit_evidence.py --data DATA --models models --out models/pairs/evidence
    python training/fit_evidence.py --data DATA --models MULTILINGUAL --multilingual --out MULTILINGUAL/pairs/evidence

Domains of ``sections`` from which the encoder did not learn each become an index, and their headings are asked of it; the
candidates are the first 50 of the fusion. The softmax of temperature * (fused score + weights @ features) is fitted to the
passages under a heading (ListNet, Cao et al. 2007), from the weights that serve any encoder, with a penalty on the
distance from them. Domains weigh the same, and so do headings that are questions and others. The features are those in
`SEARCHED`: the others changed no mean over domains left out. What is more like an answer never lowers the score.
The result is half way from the start to the fit. With --multilingual, the domains are the languages
of ``pair_domains.read_languages`` and `read_across`, with questions in place of headings, and the headings of some English
domains that are questions; the result is three quarters of the way, and short passages add nothing.

What short passages of no index add to the weights is fitted next, in the same way: to files of ``qa`` from which the
encoder did not learn, re-ranked within a document, to sentences of ``wikiqa``, and to the contrast items for training. The
features are those in `GIVEN`, whose weights start from 0. `SHORT_SHARE` of the fit is taken.

The figures in the manifest are of domains that the fit did not see: each fifth of them in turn.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from answer_groups import Group, contrast, wikiqa
from command import ENCODER_HELP, make_parser, npy_bytes, run, save_artifact, seconds_so_far
from pair_domains import Domain, read_across, read_languages
from pair_fits import listwise
from section_sets import Collection, learnt_by, read_domain, read_groups, unseen, unseen_qa
from semclass.core.errors import TruncationWarning
from semclass.core.types import Passage
from semclass.index.candidates import Candidates, Query
from semclass.index.passage_index import PassageIndex
from semclass.ranking.evidence import shortness
from semclass.ranking.features import FEATURES, PAIR_FEATURES
from semclass.ranking.methods import DEFAULT, METHODS
from semclass.ranking.models import Models
from semclass.ranking.reranker import Reranker
from semclass.ranking.retriever import HybridRetriever

Array = npt.NDArray[Any]

RERANKED = (
    "afriqa_en", "dstc9_faq", "fetaqa", "nq_paragraphs", "onestopqa", "qamr_sentences", "tatqa", "timeqa", "wikitables",
)  # fmt: skip
"""Files of ``qa`` with passages of at most 100 word pieces on average."""

SEARCHED = ("dense", "dense_gap", "cosine_rarity", "neighbours", "cosine_rarity_z", "advantage", "numbers")
"""Features of passages that a search finds."""

GIVEN = (*SEARCHED, "cosine", "cosine_unmatched", "overlap", "overlap_rare", "unmatched", "expected", "provided")
"""Features of short passages that come with the question. Without the last seven, answers rank behind their echoes."""

RIDGE, RIDGE_OF_LANGUAGES, SHORT_RIDGE = 1.0, 0.1, 0.5
"""Penalty on the squared distance from the start, in deviations within a question."""

SHARE, SHARE_OF_LANGUAGES, SHORT_SHARE = 0.5, 0.75, 0.85
"""Share of the way to the fit that is gone."""

ASKED = 500  # questions of each set of sentences
ASKED_IN_LANGUAGE = 1000  # and of each language
FOLDS = 5
DEPTH = 10  # places that nDCG counts
START = np.array([feature.weight for feature in FEATURES])
LEARNT_FROM_HEADINGS = (
    "headings and the passages under them, of documentation, handbooks, textbooks and help pages; NOTICE names the "
    "repositories. The second row: questions with passages of one document, sentences that answer, and texts that only "
    "resemble an answer."
)
LEARNT_FROM_LANGUAGES = (
    "questions in languages that the encoder did not learn from, with paragraphs, others with paragraphs in another "
    "language, and English headings that are questions; NOTICE names the sources."
)
ENGLISH = ("community", "health", "legal")
"""Domains of ``sections`` from which weights for many languages learn English."""


@dataclass(frozen=True)
class Judged:
    """Candidates of q questions, d each; fewer are padded with a score of -inf."""

    score: Array  #: convex, (q, d)
    features: Array  #: (features, q, d)
    gains: Array  #: 1 for what answers, (q, d)
    ideal: Array  #: DCG@10 of the best ranking, also of what is no candidate, (q,)
    short: Array  #: how short the candidates are, (q,)


Row = tuple[Array, Array, Array, int, float]  # score, features and gains of candidates; answers, shortness


def read(collection: Collection, models: Models) -> dict[str, Judged]:
    """Ask a collection its queries: candidates by kind of query."""
    how = METHODS[DEFAULT]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        index = PassageIndex.build(collection.passages, passage_encoder=models.passage_encoder)
    retriever = HybridRetriever(index, models)
    found = {}
    for kind, queries in collection.queries.items():
        rows = []
        for query, (_, answers) in zip(retriever.encode([text for text, _ in queries]), queries, strict=True):
            candidates = retriever.candidates(query, how.candidates, METHODS["convex"])
            right = [passage.id in answers for passage in index.passages(candidates.rows)]
            rows.append(row_of(query, candidates, right, len(answers), models))
        found[kind] = judged_of(rows)
    return found


def reranked(groups: Iterable[tuple[str, Sequence[str], Sequence[bool]]], models: Models) -> Judged:
    """Candidates of questions that come with their passages."""
    reranker, how, rows = Reranker(models), METHODS[DEFAULT], []
    needed = {"tokens": True, "classes": False}
    for question, texts, right in groups:
        queries = models.encode([question], **needed)
        passages = [Passage(str(place), text) for place, text in enumerate(texts)]
        (candidates,), _ = reranker.candidates(queries, [passages], how, models.weights, needed)
        rows.append(row_of(queries[0], candidates, right, sum(right), models))
    return judged_of(rows)


def row_of(query: Query, candidates: Candidates, right: Sequence[bool], answers: int, models: Models) -> Row:
    """Describe the candidates of a question."""
    features = models.pairs.features(query, candidates)
    short = shortness(candidates.evidence.pieces.lengths())
    return candidates.score, features, np.array(right, float), min(answers, DEPTH), short


def judged_of(rows: Sequence[Row]) -> Judged:
    score, gains = (padded([row[place] for row in rows], fill) for place, fill in ((0, -np.inf), (2, 0.0)))
    columns = [padded([row[1][:, column] for row in rows], 0.0) for column in range(len(PAIR_FEATURES))]
    ideal = np.array([discounts(row[3]).sum() for row in rows])
    return Judged(score, np.array(columns), gains, ideal, np.array([row[4] for row in rows]))


def of_language(domain: Domain) -> Collection:
    """Questions in one language and the passages that are searched for them."""
    passages = [Passage(str(place), text) for place, text in enumerate(domain.passages)]
    answers = [frozenset(map(str, found)) for found in domain.answers]
    return Collection(passages, {"question": list(zip(domain.questions, answers, strict=True))})


def sentence_groups(groups: Iterable[Group]) -> list[tuple[str, list[str], list[bool]]]:
    """Some questions with their passages, and which of these answer."""
    kept = [group for group in groups if 0 < len(group.answers) < len(group.passages)]
    drawn = np.sort(np.random.default_rng(0).permutation(len(kept))[:ASKED]).tolist()
    return [
        (
            kept[row].question,
            [" ".join(sentences) for sentences in kept[row].passages],
            [place in kept[row].answers for place in range(len(kept[row].passages))],
        )
        for row in drawn
    ]


def read_short(data: Path, encoder: Path, models: Models) -> dict[tuple[str, str], Judged]:
    """Read what weights of short passages are fitted to, by name and kind."""
    known = unseen_qa(encoder)
    groups = {name: read_groups(data, name) for name in RERANKED if name in known}
    sentences = {"wikiqa": wikiqa(data), "contrast": contrast()}
    sets = {(name, "reranked"): reranked(some, models) for name, some in groups.items()}
    return sets | {(name, "sentences"): reranked(sentence_groups(some), models) for name, some in sentences.items()}


def added(judged: Judged, weights: Array) -> Judged:
    """The same with `weights` added to the score, and features that count as much as the candidates are short."""
    return replace(judged, score=total(judged, weights), features=judged.features * judged.short[:, None])


def padded(rows: Sequence[Array], fill: float) -> Array:
    """Rows of several lengths as one array."""
    table = np.full((len(rows), max(map(len, rows))), fill)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def discounts(count: int) -> Array:
    """What a relevant passage counts in each of the first places; nothing behind the tenth."""
    places = np.arange(count)
    return np.where(places < DEPTH, 1 / np.log2(2 + places), 0.0)


def ndcg(judged: Judged, weights: Array) -> float:
    """Mean nDCG@10 of a ranking by convex score + weights @ features."""
    order = np.argsort(-total(judged, weights), axis=1, kind="stable")
    gains = np.take_along_axis(judged.gains, order, axis=1)
    return float((gains @ discounts(gains.shape[1]) / judged.ideal).mean())


def total(judged: Judged, weights: Array) -> Array:
    return np.asarray(judged.score + np.einsum("f,fqn->qn", weights, judged.features))


def fit(sets: Mapping[tuple[str, str], Judged], ridge: float = RIDGE, share: float = SHARE) -> Array:
    """Weights of all features, from collections by name and kind."""
    return np.asarray(START + share * (fitted(sets, START, SEARCHED, ridge, rising=True) - START))


def fit_short(sets: Mapping[tuple[str, str], Judged]) -> Array:
    """What short candidates add to the weights, from what `added` gives."""
    return SHORT_SHARE * fitted(sets, 0 * START, GIVEN, SHORT_RIDGE)


def fitted(
    sets: Mapping[tuple[str, str], Judged], start: Array, free: Sequence[str], ridge: float, *, rising: bool = False
) -> Array:
    """Weights near a start; only those of some features are free. If `rising`, those of likeness are not negative."""
    parts = [_decided(judged) for judged in sets.values()]
    kinds = [kind for _, kind in sets]
    share = np.array([1 / kinds.count(kind) / len(set(kinds)) for kind in kinds])
    spread = np.sqrt(sum(part * _spread(judged) for part, judged in zip(share, parts, strict=True)))
    scale = np.where(spread > 1e-6, spread, 1.0)

    def loss(point: Array) -> tuple[float, Array]:
        weights, temperature = point[:-1] / scale, np.exp(point[-1])
        value, slope = 0.0, np.zeros_like(point)
        for part, judged in zip(share, parts, strict=True):
            score = np.where(np.isfinite(judged.score), temperature * total(judged, weights), -np.inf)
            losses, steps = listwise(score, judged.gains)
            value += part * float(losses.mean())
            step = part / len(losses) * steps
            slope[:-1] += temperature * np.einsum("qn,fqn->f", step, judged.features) / scale
            slope[-1] += (step * np.where(np.isfinite(score), score, 0.0)).sum()
        away = point[:-1] - start * scale
        slope[:-1] += ridge * away
        return value + ridge / 2 * float(away @ away), slope

    least = [0.0 if rising and name != "numbers" else None for name in PAIR_FEATURES]
    fixed = zip(start * scale, np.isin(PAIR_FEATURES, free), least, strict=True)
    bounds: list[tuple[float | None, float | None]] = [(low, None) if any_ else (at, at) for at, any_, low in fixed]
    begin = np.append(start * scale, np.log(8.0))
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)], options={"maxiter": 300})
    return np.asarray(found.x[:-1] / scale)


def _decided(judged: Judged) -> Judged:
    """The questions with candidates that answer, and others."""
    right = judged.gains > 0
    kept = right.any(axis=1) & ~right.all(axis=1)
    parts = (judged.score[kept], judged.features[:, kept], judged.gains[kept], judged.ideal[kept], judged.short[kept])
    return Judged(*parts)


def _spread(judged: Judged) -> Array:
    """Mean variance of each feature within a question."""
    there = np.isfinite(judged.score)
    values = np.where(there, judged.features, np.nan)
    return np.asarray(np.nanvar(values, axis=2).mean(axis=1))


def left_out(sets: Mapping[tuple[str, str], Judged], fit: Callable[..., Array] = fit) -> dict[tuple[str, str], Array]:
    """For each collection weights that were fitted without its fifth of the domains."""
    names = sorted({name for name, _ in sets})
    found = {}
    for number in range(FOLDS):
        out = names[number::FOLDS]
        weights = fit({key: judged for key, judged in sets.items() if key[0] not in out})
        found |= {key: weights for key in sets if key[0] in out}
    return found


def train(arguments: argparse.Namespace) -> None:
    models = Models.load(arguments.models, encoder=arguments.encoder, threads=arguments.threads)
    sets = {}
    encoder = Path(arguments.encoder or arguments.models / "encoder")
    collections: Iterable[tuple[str, Collection]]
    if arguments.multilingual:
        asked = {name: read_domain(arguments.data, name) for name in ENGLISH}
        languages = read_languages(arguments.data, learnt_by(encoder), ASKED_IN_LANGUAGE)
        languages += read_across(arguments.data, ASKED_IN_LANGUAGE)
        collections = [
            *((name, replace(one, queries={"question": one.queries["question"]})) for name, one in asked.items()),
            *((domain.name, of_language(domain)) for domain in languages),
        ]
    else:
        collections = ((name, read_domain(arguments.data, name)) for name in unseen(arguments.data, encoder))
    for name, collection in collections:
        for kind, judged in read(collection, models).items():
            sets[name, kind] = judged
            print(f"{name}, {kind}s: {len(judged.ideal)}  {seconds_so_far()} s", flush=True)
    ridge, share = (RIDGE_OF_LANGUAGES, SHARE_OF_LANGUAGES) if arguments.multilingual else (RIDGE, SHARE)
    long = partial(fit, ridge=ridge, share=share)
    folds = left_out(sets, fit=long)
    rows = {key: (ndcg(one, 0 * START), ndcg(one, START), ndcg(one, folds[key])) for key, one in sets.items()}
    metrics = {"domains": len({name for name, _ in sets}), "questions": sum(len(one.ideal) for one in sets.values())}
    for kind in sorted({kind for _, kind in sets}):
        means = np.mean([row for key, row in rows.items() if key[1] == kind], axis=0).round(4).tolist()
        metrics |= dict(zip((f"{kind}s_convex", f"{kind}s_start", f"{kind}s_left_out"), means, strict=True))
    for key, row in rows.items():
        print(f"{', '.join(key)}: convex, start, left out {' '.join(f'{value:.3f}' for value in row)}")
    weights = np.round(long(sets), 5)
    short = {} if arguments.multilingual else read_short(arguments.data, encoder, models)
    both = {key: added(one, weights) for key, one in short.items()}
    folds = left_out(both, fit=fit_short) if short else {}
    rows = {
        key: (ndcg(one, 0 * START), ndcg(both[key], 0 * START), ndcg(both[key], folds[key]))
        for key, one in short.items()
    }
    for kind in sorted({kind for _, kind in short}):
        means = np.mean([row for key, row in rows.items() if key[1] == kind], axis=0).round(4).tolist()
        metrics |= dict(zip((f"{kind}_convex", f"{kind}_long", f"{kind}_left_out"), means, strict=True))
    for key, row in rows.items():
        print(f"{', '.join(key)}: convex, as of long ones, left out {' '.join(f'{value:.3f}' for value in row)}")
    more = np.round(fit_short(both), 5) if short else 0 * weights
    for name, *values in zip(PAIR_FEATURES, weights.tolist(), more.tolist(), strict=True):
        print(f"{name}: {values}")
    fields = {
        "encoder": models.encoder.fingerprint,
        "features": list(PAIR_FEATURES),
        "training": {
            "data": ", ".join(dict.fromkeys(name for name, _ in sets)),
            "data_of_short_candidates": ", ".join(f"{name} ({kind})" for name, kind in short),
            "ridge": [ridge, SHORT_RIDGE],
            "share": [share, SHORT_SHARE],
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
    }
    shown = "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in metrics.items())
    what = "Weights of pair features: the default method adds their sum to the convex score, from 0 to 1."
    learnt = LEARNT_FROM_LANGUAGES if arguments.multilingual else LEARNT_FROM_HEADINGS
    limits = "The weights fit the features of one encoder; with another they are refused."
    sections = [
        (
            "What it is",
            what if arguments.multilingual else f"{what} The second row is added for short passages of no index.",
        ),
        ("Training", f"`training/fit_evidence.py`: {learnt}"),
        ("Figures", f"nDCG@10, means over domains that the fit did not see:\n\n{shown}"),
        ("Limits", limits if arguments.multilingual else f"English. {limits}"),
    ]
    files = {"weights.npy": npy_bytes(np.stack([weights, more]))}
    title, many = "Weights of the evidence", arguments.multilingual
    save_artifact(arguments.out, "evidence", files, fields, title, sections, "re-ranking", multilingual=many)
    print(metrics)


def main() -> None:
    parser = make_parser(__doc__, "data", "models", "multilingual", "threads", "out")
    parser.add_argument("--encoder", help=f"{ENCODER_HELP}; encoder/ of --models if not given")
    run(parser, train)


if __name__ == "__main__":
    main()
