"""Judgements that people made of an index's hits, as a data set to tune and measure with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semclass.core import artifacts
from semclass.core.errors import InputError
from semclass.evaluation.dataset import Dataset
from semclass.index.feedback import Judgement, by_question, read_judgements
from semclass.index.passage_index import PassageIndex


def judged_dataset(folder: str | Path, *, limit: int | None = None) -> Dataset:
    """Return the questions with a passage that was judged right, the first `limit`. The text of a question is its id.

    Raises
    ------
    InputError
        If no passage was judged right.
    """
    judged = by_question(read_judgements(folder))
    relevance = {text: {name: 1 for name, right in passages.items() if right} for text, passages in judged.items()}
    relevance = {text: passages for text, passages in relevance.items() if passages}
    if not relevance:
        raise InputError(
            f"{folder} has no passage that was judged right; judge hits with `semclass feedback`, generate questions with "
            "`semclass questions`, or give both --queries FILE and --qrels FILE"
        )
    return Dataset(Path(folder), {text: text for text in list(relevance)[:limit]}, relevance)


def write_judgements(folder: Path, index: PassageIndex, judgements: Sequence[Judgement]) -> int:
    """Write a folder in BEIR format: all passages of an index, and the judgements of those that it still has.

    Wrong passages have the relevance 0. Returns the number of judgements that were written.
    """
    known = index.find([judgement.passage for judgement in judgements]) >= 0
    kept = [judgement for judgement, there in zip(judgements, known, strict=True) if there]
    if not kept:
        raise InputError("there is no judgement to export; judge hits with `semclass feedback`")
    names = {text: f"judged{number}" for number, text in enumerate(dict.fromkeys(one.question for one in kept), 1)}
    rows = [f"{names[one.question]}\t{one.passage}\t{int(bool(one.right))}\n" for one in kept]
    corpus = (
        {"_id": passage.id, "title": "", "text": passage.text, "metadata": dict(passage.metadata)}
        for passage in index.passages(index.rows)
    )
    queries = ({"_id": name, "text": text} for text, name in names.items())
    artifacts.write_atomic(folder / "corpus.jsonl", artifacts.dump_json_lines(corpus))
    artifacts.write_atomic(folder / "queries.jsonl", artifacts.dump_json_lines(queries))
    artifacts.write_atomic(folder / "qrels" / "test.tsv", "".join(["query-id\tcorpus-id\tscore\n", *rows]).encode())
    return len(kept)
