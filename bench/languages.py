"""Questions and passages in other languages, by the shipped models, which do not read them, and by others.

    python -m bench.languages --data DATA [--limit 300] [--models shipped --models multilingual] [NAME ...]

For each file of ``multilingual``, an index of the passages of some questions, drawn with a fixed seed; nDCG@10 of BM25,
vectors, plain fusion and the default. The default of the shipped models notices the language, and should not be below BM25
and plain fusion; the last but one column is the difference to the better one, with 1.96 standard errors of the mean over
questions. Models without pair heads have no default of their own. With ``--times``, the milliseconds of a question by each
of the models, by turns.

Where the passages are in another language than the questions, a second row, ``NAME-translated``, has the same questions in
the language of the passages. Rows such as ``deu-eng`` have sentences of ``multilingual/topics``: one in the first language
is the question, and the same one in the second language answers it, among all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import readme
from bench.measures import dcg, gain
from bench.timing import by_turns, milliseconds
from datasets_io import language_sample, parallel_sentences, read_jsonl
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.ranking.methods import METHODS
from semclass.ranking.order import available, reorder

SHOWN = ("bm25", "dense", "convex", "default")
DEPTH = 10

ACROSS = ("deu-eng", "jpn-eng", "arb-eng", "hin-eng", "eng-deu", "swe-deu", "eng-jpn", "zho-jpn")
"""Languages of a sentence and of what is searched for it. Some share their letters, and some no piece of a word."""

Questions = list[tuple[str, set[str]]]
"""Questions, with the ids of the passages that answer each."""


def sample(path: Path, limit: int, *, asked: str = "question") -> tuple[list[Passage], Questions]:
    """The passages of some questions, and these questions, from the field `asked`."""
    texts, questions = language_sample(path, limit, asked=asked)
    passages = [Passage(str(place), text) for place, text in enumerate(texts)]
    return passages, [(question, set(map(str, answers))) for question, answers in questions]


def sets_of(data: Path, limit: int) -> Iterator[tuple[str, list[Passage], dict[str, Questions]]]:
    """Name, passages, and the questions of each row over these passages."""
    for path in sorted((data / "multilingual").glob("*.jsonl.gz")):
        name = path.name.split(".")[0]
        passages, questions = sample(path, limit)
        rows = {name: questions}
        if "question_translated" in read_jsonl(path)[0]:
            rows[f"{name}-translated"] = sample(path, limit, asked="question_translated")[1]
        yield name, passages, rows
    sentences = parallel_sentences(data)
    for target in dict.fromkeys(pair.partition("-")[2] for pair in ACROSS):
        passages = [Passage(name, text) for name, text in sorted(sentences[target].items())]
        chosen = [passages[place].id for place in np.random.default_rng(0).permutation(len(passages))[:limit]]
        pairs = [pair for pair in ACROSS if pair.endswith(target)]
        yield (
            target,
            passages,
            {pair: [(sentences[pair.partition("-")[0]][name], {name}) for name in chosen] for pair in pairs},
        )


def measure(models: Models, retriever: HybridRetriever, questions: Questions) -> dict[str, Any]:
    """NDCG@10 of each method, and the share of the questions whose passages are told to be in another language."""
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
@click.option("--models", "compared", multiple=True, default=["shipped"], help="Models to measure. Repeatable.")
@click.option("--times", is_flag=True, help="Measure the time of a question instead.")
@click.argument("names", nargs=-1)
def main(data: Path, limit: int, compared: tuple[str, ...], names: tuple[str, ...], *, times: bool) -> None:
    """Print a table."""
    loaded = {name: Models.load(None if name == "shipped" else name) for name in compared}
    if times:
        print(json.dumps(times_of(loaded, data, limit), indent=1))
        return
    print(
        "| questions | passages | models | bm25 | dense | convex | default | against the better, 95 % | other language |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, passages, rows in sets_of(data, limit):
        wanted = {row: questions for row, questions in rows.items() if not names or {name, row} & {*names}}
        for title, models in loaded.items() if wanted else ():
            retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
            for row, questions in wanted.items():
                show(
                    f"{row} ({len(questions)}) | {len(passages)} | {title}",
                    models,
                    measure(models, retriever, questions),
                )


def show(first: str, models: Models, found: dict[str, Any]) -> None:
    """Print a row of the table, whose first columns are given."""
    shown = " | ".join(f"{found[method]:.3f}" for method in SHOWN)
    ahead, other = ("", "") if models.pair_heads is None else (readme.with_error(found), f"{found['other']:.0%}")
    print(f"| {first} | {shown} | {ahead} | {other} |", flush=True)


if __name__ == "__main__":
    main()
