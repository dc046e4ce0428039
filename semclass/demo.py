"""The main job on a small corpus, told as a story: what questions ask for, what re-ranking changes, what it costs."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from semclass.core.types import SearchResult
from semclass.documents.readers import read_passages
from semclass.index.passage_index import PassageIndex
from semclass.ranking.models import Models
from semclass.ranking.retriever import HybridRetriever

CORPUS = Path(__file__).parent / "demo_data" / "corpus.jsonl"
"""Thirty passages about a town that does not exist, written for this demonstration."""

QUESTIONS = (
    "How long can kelp grow?",
    "Who leads the museum?",
    "Where was the ferry built?",
    "How does a Fresnel lens work?",
)

RANKED = QUESTIONS[1:2]
"""Questions whose ranking is shown: the first search puts another passage first."""

ASKS_FOR = {
    "ABBR": "what an abbreviation stands for",
    "DESC": "a description or a reason",
    "ENTY": "a thing",
    "HUM": "a person or a group",
    "LOC": "a place",
    "NUM": "a number, a date or an amount",
}
"""The coarse classes in plain words."""

WHY = {
    "meaning": "its words mean what the question's words mean",
    "words": "it has the question's rare words",
    "answers": "it gives what the question asks for",
}
"""Reasons for a passage, by the groups of evidence of the default method."""

WIDTH = 112
"""Characters of a line where nothing else is told."""

_SHOWN = 100  # characters of a passage

Say = Callable[[str], object]


def run(
    models: Path | None,
    say: Say,
    bold: Callable[[str], str] = str,
    good: Callable[[str], str] = str,
    *,
    width: int = WIDTH,
) -> None:
    """Run the demonstration with the models of a folder, and call `say` with each line of at most `width` characters.

    `bold` and `good` mark headings, and what is better after re-ranking.
    """
    started = time.perf_counter()
    loaded, passages = Models.load(models), read_passages(CORPUS)
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=loaded.passage_encoder), loaded)
    seconds = time.perf_counter() - started
    labels = loaded.questions.classify(QUESTIONS)

    def tell(text: str, style: Callable[[str], str] = str, indent: str = "") -> None:
        if 2 * len(indent) > width:  # what begins the line has one of its own
            tell(indent.strip(), indent="  ")
            indent = "    "
        for line in textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=" " * len(indent)):
            say(style(line))

    def head(text: str) -> None:
        say("")
        tell(text, bold)

    tell(f"{len(passages)} passages about a small town, read and indexed in {seconds:.1f} s, without a language model")
    head("What does a question ask for?")
    for question, asked in zip(QUESTIONS, labels, strict=True):
        tell(f"{ASKS_FOR.get(asked.label, asked.label)} ({asked.probability:.0%} sure)", indent=f"  {question:<36}")
    head("Which passage answers it? The first of a search, and after re-ranking:")
    for question in RANKED:
        tell(question, indent="  ")
        for name, line in _moved(retriever.search(question, explain=True)):
            shown = line if name == "why" else textwrap.shorten(line, _SHOWN, placeholder=" ...")
            tell(shown, good if name == "after" else str, f"    {name:<8}")
    head("What does it cost?")
    classify = _median_ms(lambda: loaded.questions.classify(QUESTIONS[:1]))
    search = _median_ms(lambda: retriever.search(QUESTIONS[0]))
    cost = (
        f"{classify:.1f} ms from a question to what it asks for, {search:.1f} ms to ranked passages, on this processor"
    )
    tell(cost, indent="  ")
    prompted = (
        "a prompted language model of 20 billion parameters: a second (assumed) for a question, and for each passage"
    )
    tell(prompted, indent="  ")
    head("Now your own documents:")
    say('  semclass index build FOLDER --out my-index && semclass search my-index "a question of yours"')


def _moved(hits: SearchResult) -> Iterator[tuple[str, str]]:
    """Lines, with their names, that tell the passage that was first from the one that is, and why."""
    first, before = hits[0], min(hits, key=lambda hit: hit.rank_before)
    yield "before", before.text
    yield "after", first.text
    if first.explanation is None or before.explanation is None or first is before:
        return
    gains = {name: first.explanation.parts[name] - before.explanation.parts[name] for name in WHY}
    sure = "" if hits.certainty is None else f", now {hits.certainty} (score {first.score:.2f})"
    yield "why", f"{WHY[max(gains, key=gains.__getitem__)]}; it was number {first.rank_before}{sure}"


def _median_ms(job: Callable[[], object], runs: int = 50) -> float:
    """Median wall time of a job, in milliseconds."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return float(np.median(times)) * 1000
