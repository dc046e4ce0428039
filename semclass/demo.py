"""The main job on a small corpus: classify questions and passages, build an index, search it and re-rank."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from semclass.documents.readers import read_corpus
from semclass.index.passage_index import PassageIndex
from semclass.ranking.models import Models
from semclass.ranking.retriever import HybridRetriever

CORPUS = Path(__file__).parent / "demo_data" / "corpus.jsonl"
"""Thirty passages about a town that does not exist, written for this demonstration."""

QUESTIONS = (
    "Who pays for the museum?",
    "Who is in charge of the museum?",
    "How high is the tower?",
    "How does a Fresnel lens work?",
    "What does SBMT stand for?",
    "Where was the ferry built?",
    "What is dried kelp used for?",
)


def run(models: Path | None, say: Callable[[str], object]) -> None:
    """Run the demonstration.

    Parameters
    ----------
    models
        Model folder; the shipped one if None.
    say
        Called with each line of output.

    Raises
    ------
    ArtifactError
        If a model folder is damaged.
    """
    started = time.perf_counter()
    loaded = Models.load(models)
    passages = read_corpus(CORPUS)
    index = PassageIndex.build(passages, passage_encoder=loaded.passage_encoder)
    say(f"models loaded and {len(index)} passages indexed in {time.perf_counter() - started:.1f} s\n")

    say("which types of answer a passage provides:")
    for found in loaded.passages.predict([passages[row].text for row in (1, 2, 10, 19)]):
        say(f"  {' '.join(found.labels) or '-':<20} {found.text[:80]}...")

    retriever = HybridRetriever(index, loaded)
    say("\nwhat a question asks for, and the passage that answers it (in brackets: its rank before re-ranking):")
    for question, asked in zip(QUESTIONS, loaded.questions.predict(QUESTIONS), strict=True):
        best = retriever.search(question, k=1)[0]
        say(f"  {question}  asks for {asked.label} ({asked.probability:.2f})")
        say(f"    {best.score:.2f} [{best.rank_before}] {best.text}")

    say("\nmilliseconds a question, one thread, median of 50:")
    say(f"  text to class  {_median_ms(lambda: loaded.questions.predict(QUESTIONS[:1])):.2f}")
    say(f"  text to ranked passages  {_median_ms(lambda: retriever.search(QUESTIONS[0])):.2f}")


def _median_ms(job: Callable[[], object], runs: int = 50) -> float:
    """Median wall time of a job, in milliseconds."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return float(np.median(times)) * 1000
