"""Questions and passages in other languages, by the shipped models, which do not read them, and by others.

    python -m bench.languages --data DATA [--limit 300] [--models multilingual]

For each file of ``multilingual``, an index of the passages of some questions, drawn with a fixed seed; nDCG@10 of BM25,
vectors, plain fusion and the default. The default of the shipped models notices the language, and should not be below BM25
and plain fusion; the last but one column is the difference to the better one, with 1.96 standard errors of the mean over
questions. Models without pair heads have no default of their own. With ``--times``, the milliseconds of a question by each
of the models, by turns.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import readme
from bench.measures import dcg, gain
from bench.timing import by_turns, milliseconds
from datasets_io import read_jsonl
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.ranking.methods import METHODS
from semclass.ranking.order import available, reorder

SHOWN = ("bm25", "dense", "convex", "default")
DEPTH = 10


def sample(path: Path, limit: int, seed: int = 0) -> tuple[list[Passage], list[tuple[str, set[str]]]]:
    """The passages of some questions, and these questions with the ids of what answers them."""
    rows = read_jsonl(path)
    ids: dict[str, int] = {}
    questions = []
    for place in sorted(np.random.default_rng(seed).permutation(len(rows))[:limit].tolist()):
        row = rows[place]
        known = [ids.setdefault(text, len(ids)) for text in row["passages"]]
        questions.append((row["question"], {str(known[answer]) for answer in row["answers"]}))
    return [Passage(str(number), text) for text, number in ids.items()], questions


def measure(models: Models, passages: list[Passage], questions: list[tuple[str, set[str]]]) -> dict[str, Any]:
    """NDCG@10 of each method, and the share of the questions whose passages are told to be in another language."""
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    found: dict[str, list[float]] = {name: [] for name in SHOWN}
    foreign = []
    for query, (_, relevant) in zip(models.encode([text for text, _ in questions]), questions, strict=True):
        for name in SHOWN:
            method = available(models, METHODS[name])
            candidates = retriever.candidates(query, method.candidates, method)
            ranked = reorder(models, query, candidates, method)
            ids = [passage.id for passage in retriever.index.passages(candidates.rows[ranked.places[:DEPTH]])]
            gains = np.isin(ids, list(relevant)).astype(float)
            found[name].append(float(dcg(gains) / dcg(np.ones(len(relevant)))))
        foreign.append(ranked.language == "other")
    row = {name: float(np.mean(values)) for name, values in found.items()} | {"other": float(np.mean(foreign))}
    better = max(("bm25", "convex"), key=row.__getitem__)
    return row | gain(np.array(found["default"]), np.array(found[better]))


def times_of(compared: dict[str, Models], data: Path, limit: int) -> dict[str, dict[str, float]]:
    """Milliseconds to encode a question for plain fusion, by each of the models, one after another."""
    paths = sorted((data / "multilingual").glob("*.jsonl.gz"))
    questions = [text for path in paths for text, _ in sample(path, max(limit // len(paths), 1))[1]]

    def encode(models: Models, text: str) -> object:
        return models.encode([text], classes=False, tokens=False)

    jobs = {name: partial(encode, models) for name, models in compared.items()}
    return {name: milliseconds(seconds) for name, seconds in by_turns(questions, jobs).items()}


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True)
@click.option("--limit", type=int, default=300, help="Questions of each file.")
@click.option("--models", "others", multiple=True, help="Other models to measure beside the shipped ones. Repeatable.")
@click.option("--times", is_flag=True, help="Measure the time of a question instead.")
@click.argument("names", nargs=-1)
def main(data: Path, limit: int, others: tuple[str, ...], names: tuple[str, ...], *, times: bool) -> None:
    """Print a table."""
    compared = {"shipped": Models.load()} | {name: Models.load(name) for name in others}
    if times:
        print(json.dumps(times_of(compared, data, limit), indent=1))
        return
    print(
        "| questions | passages | models | bm25 | dense | convex | default | against the better, 95 % | other language |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for path in sorted((data / "multilingual").glob("*.jsonl.gz")):
        name = path.name.split(".")[0]
        if names and name not in names:
            continue
        passages, questions = sample(path, limit)
        for title, models in compared.items():
            row = measure(models, passages, questions)
            shown = " | ".join(f"{row[method]:.3f}" for method in SHOWN)
            ahead, other = ("", "") if models.pair_heads is None else (readme.with_error(row), f"{row['other']:.0%}")
            first = f"{name} ({len(questions)}) | {len(passages)} | {title}"
            print(f"| {first} | {shown} | {ahead} | {other} |", flush=True)


if __name__ == "__main__":
    main()
