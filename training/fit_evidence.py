"""Make ``models/pairs/evidence``: the weights of pair features that the default method adds to a convex combination.

    python training/fit_evidence.py --data DATA --models models --out models/pairs/evidence

Domains of ``sections`` from which the encoder did not learn each become an index, and their headings are asked of it; the
candidates are the first 50 of convex fusion. The softmax of temperature * (convex score + weights @ features) is fitted to
the passages under a heading (ListNet, Cao et al. 2007), from the weights that serve any encoder, with a penalty on the
distance from them. Domains weigh the same, and so do headings that are questions and others. The weights in `KEPT`, which
tell an answer from a text that resembles one, stay: there are no such texts below a heading; nor is ``match`` weighed, as
the default method classifies no question. The result is half way from the start to the fit.

The figures in the manifest are of domains that the fit did not see: each fifth of them in turn, also where the fit saw only
one, four or twelve of the other domains, means over all of them (``left_out_fitted_to``).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from command import ENCODER_HELP, make_parser, npy_bytes, run, save_artifact, seconds_so_far
from pair_fits import listwise
from section_sets import Collection, read_domain, unseen
from semclass.core.errors import TruncationWarning
from semclass.index.passage_index import PassageIndex
from semclass.ranking.features import PAIR_FEATURES, pair_features
from semclass.ranking.methods import DEFAULT, METHODS
from semclass.ranking.models import Models
from semclass.ranking.pair_model import EVIDENCE
from semclass.ranking.retriever import HybridRetriever

Array = npt.NDArray[Any]

KEPT = ("echo", "numbers", "provided", "provided_z", "expected", "expected_z", "match")
RIDGE = 1.0  # penalty on the squared distance from the start, in units of a feature's deviation within a question
SHARE = 0.5  # of the way to the fit that is gone
FOLDS = 5
FEWER = (1, 4, 12)  # domains that a fit sees, to learn whether more of them would help
DEPTH = 10  # places that nDCG counts
START = np.array([EVIDENCE.get(name, 0.0) for name in PAIR_FEATURES])


@dataclass(frozen=True)
class Judged:
    """Candidates of q questions, d each; fewer are padded with a score of -inf."""

    score: Array  #: convex, (q, d)
    features: Array  #: (features, q, d)
    gains: Array  #: 1 for what answers, (q, d)
    ideal: Array  #: DCG@10 of the best ranking, also of what is no candidate, (q,)


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
            features = pair_features(query, candidates, models.pairs.words)
            rows.append((candidates.score, features, np.array(right, float), min(len(answers), DEPTH)))
        score, gains = (padded([row[place] for row in rows], fill) for place, fill in ((0, -np.inf), (2, 0.0)))
        columns = [padded([row[1][:, column] for row in rows], 0.0) for column in range(len(PAIR_FEATURES))]
        found[kind] = Judged(score, np.array(columns), gains, np.array([discounts(row[3]).sum() for row in rows]))
    return found


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


def fit(sets: Mapping[tuple[str, str], Judged]) -> Array:
    """Weights of all features, from collections by name and kind."""
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
        away = point[:-1] - START * scale
        slope[:-1] += RIDGE * away
        return value + RIDGE / 2 * float(away @ away), slope

    kept = np.isin(PAIR_FEATURES, KEPT)
    bounds = [(value, value) if fixed else (None, None) for value, fixed in zip(START * scale, kept, strict=True)]
    start = np.append(START * scale, np.log(8.0))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)], options={"maxiter": 300})
    return np.asarray(START + SHARE * (found.x[:-1] / scale - START))


def _decided(judged: Judged) -> Judged:
    """The questions with candidates that answer, and others."""
    right = judged.gains > 0
    kept = right.any(axis=1) & ~right.all(axis=1)
    return Judged(judged.score[kept], judged.features[:, kept], judged.gains[kept], judged.ideal[kept])


def _spread(judged: Judged) -> Array:
    """Mean variance of each feature within a question."""
    there = np.isfinite(judged.score)
    values = np.where(there, judged.features, np.nan)
    return np.asarray(np.nanvar(values, axis=2).mean(axis=1))


def left_out(sets: Mapping[tuple[str, str], Judged], most: int | None = None) -> dict[tuple[str, str], Array]:
    """For each collection weights that were fitted without its fifth of the domains, on at most `most` of the others."""
    names = sorted({name for name, _ in sets})
    found = {}
    for number in range(FOLDS):
        out = names[number::FOLDS]
        others = np.random.default_rng(number).permutation([name for name in names if name not in out])[:most].tolist()
        weights = fit({key: judged for key, judged in sets.items() if key[0] in others})
        found |= {key: weights for key in sets if key[0] in out}
    return found


def mean_ndcg(sets: Mapping[tuple[str, str], Judged], weights: Mapping[tuple[str, str], Array]) -> float:
    """NDCG@10 of each collection with its weights, mean over collections."""
    return float(np.mean([ndcg(judged, weights[key]) for key, judged in sets.items()]))


def train(arguments: argparse.Namespace) -> None:
    models = Models.load(arguments.models, encoder=arguments.encoder, threads=arguments.threads)
    sets = {}
    names = unseen(arguments.data, Path(arguments.encoder or arguments.models / "encoder"))
    for name in names:
        for kind, judged in read(read_domain(arguments.data, name), models).items():
            sets[name, kind] = judged
            print(f"{name}, {kind}s: {len(judged.ideal)}  {seconds_so_far()} s", flush=True)
    folds = left_out(sets)
    rows = {key: (ndcg(one, 0 * START), ndcg(one, START), ndcg(one, folds[key])) for key, one in sets.items()}
    metrics = {"domains": len({name for name, _ in sets}), "questions": sum(len(one.ideal) for one in sets.values())}
    for kind in sorted({kind for _, kind in sets}):
        means = np.mean([row for key, row in rows.items() if key[1] == kind], axis=0).round(4).tolist()
        metrics |= dict(zip((f"{kind}s_convex", f"{kind}s_start", f"{kind}s_left_out"), means, strict=True))
    for count in FEWER:
        metrics[f"left_out_fitted_to_{count}"] = round(mean_ndcg(sets, left_out(sets, count)), 4)
    metrics["left_out_fitted_to_all"] = round(mean_ndcg(sets, folds), 4)
    for key, row in rows.items():
        print(f"{', '.join(key)}: convex, start, left out {' '.join(f'{value:.3f}' for value in row)}")
    weights = np.round(fit(sets), 5)
    for name, value in zip(PAIR_FEATURES, weights.tolist(), strict=True):
        print(f"{name}: {value}")
    fields = {
        "encoder": models.encoder.fingerprint,
        "features": list(PAIR_FEATURES),
        "training": {
            "data": f"sections: {', '.join(names)}",
            "ridge": RIDGE,
            "share": SHARE,
            "kept": list(KEPT),
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
    }
    shown = "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in metrics.items())
    sections = [
        ("What it is", "Weights of pair features: the default method adds their sum to the convex score, from 0 to 1."),
        ("Training", "`training/fit_evidence.py`: headings and the passages under them, of documentation, handbooks, "
         "textbooks and help pages; NOTICE names the repositories."),
        ("Figures", f"nDCG@10, means over domains that the fit did not see:\n\n{shown}"),
        ("Limits", "English. The weights fit the features of one encoder; with another they are refused."),
    ]  # fmt: skip
    files = {"weights.npy": npy_bytes(weights)}
    save_artifact(arguments.out, "evidence", files, fields, "Weights of the evidence", sections, "re-ranking")
    print(metrics)


def main() -> None:
    parser = make_parser(__doc__, "threads")
    parser.add_argument("--data", type=Path, required=True, help="data folder with sections/")
    parser.add_argument("--models", type=Path, default=Path("models"), help="folder with pairs/")
    parser.add_argument("--encoder", help=f"{ENCODER_HELP}; encoder/ of --models if not given")
    parser.add_argument("--out", type=Path, default=Path("models/pairs/evidence"))
    run(parser, train)


if __name__ == "__main__":
    main()
