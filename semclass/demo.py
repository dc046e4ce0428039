"""Demonstration on a small corpus: what questions ask for, what re-ranking changes, and what it costs."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from semclass.documents.readers import read_passages
from semclass.index.passage_index import PassageIndex
from semclass.ranking.models import Models
from semclass.ranking.retriever import HybridRetriever

CORPUS = Path(__file__).parent / "demo_data" / "corpus.jsonl"
"""Thirty passages about a town that does not exist, written for this demonstration."""

QUESTIONS = (
    "Who leads the museum?",  # the first search puts another passage first
    "How long can kelp grow?",
    "Where was the ferry built?",
    "How does a Fresnel lens work?",
)

ASKS_FOR = {
    "ABBR": "what an abbreviation stands for",
    "DESC": "a description or a reason",
    "ENTY": "a thing",
    "HUM": "a person or a group",
    "LOC": "a place",
    "NUM": "a number, a date or an amount",
}
"""The coarse classes in plain words."""


def story(models: Path | None) -> Iterator[tuple[str, str]]:
    """Run the demonstration with the models of a folder. Yields lines with their kind: heading, text, good or command."""
    started = time.perf_counter()
    loaded, passages = Models.load(models), read_passages(CORPUS)
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=loaded.passage_encoder), loaded)
    seconds = time.perf_counter() - started
    yield (
        "text",
        f"{len(passages)} passages of a small town, read and indexed in {seconds:.1f} s without a language model",
    )
    yield "heading", "What does a question ask for?"
    for found in loaded.questions.classify(QUESTIONS):
        yield "text", f"  {found.text:<36}{ASKS_FOR.get(found.label, found.label)} ({found.probability:.0%} sure)"
    yield "heading", "Which passage answers it? The first hit before and after re-ranking:"
    hits = retriever.search(QUESTIONS[0])
    yield "text", f"  {QUESTIONS[0]}"
    for kind, name, hit in (("text", "before", min(hits, key=lambda hit: hit.rank_before)), ("good", "after", hits[0])):
        yield kind, f"    {name:<8}{textwrap.shorten(hit.text, 100, placeholder=' ...')}"
    yield "heading", "What does it cost?"
    classify = _median_ms(lambda: loaded.questions.classify(QUESTIONS[:1]))
    search = _median_ms(lambda: retriever.search(QUESTIONS[0]))
    yield "text", f"  {classify:.1f} ms to classify a question, {search:.1f} ms to search and re-rank passages"
    yield (
        "text",
        "  a prompted language model of 20 billion parameters: a second (assumed) for each question and passage",
    )
    yield "heading", "Now your own documents:"
    yield "command", '  semclass index build FOLDER --out my-index && semclass search my-index "a question of yours"'


def _median_ms(job: Callable[[], object], runs: int = 50) -> float:
    """Median wall time of a job, in milliseconds."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return median(times) * 1000
