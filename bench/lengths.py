"""Pairs of a short page and a wordy page about the same thing, of which one answers the question.

    python -m bench.lengths

15 pairs of pages with four questions each, written for this bench: two that only the short page answers, and two that
only the wordy page answers. How often does `Reranker` put the right page first, from the whole pages, and from passages
of 100 words that are cut by hand, where the best passage of a page counts? The wordy page is also continued by wordy
pages about other things.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from datasets_io import read_jsonl
from semclass import Passage, Reranker
from semclass.documents.chunking import cut

PAGES = Path(__file__).parent / "questions" / "lengths.jsonl"

TIMES = (1, 3, 10)
"""How many wordy pages make the long page, which begins with the one that is asked about."""

Ranking = Callable[[str, list[str]], int]
"""The place of the page that comes first, for a question and some pages."""


def whole(reranker: Reranker) -> Ranking:
    """Rank whole pages."""
    return lambda question, pages: reranker.rerank(question, pages, k=1)[0].index


def by_hand(reranker: Reranker) -> Ranking:
    """Cut pages into passages of 100 words, and rank these."""

    def first(question: str, pages: list[str]) -> int:
        passages = [piece for place, page in enumerate(pages) for piece in cut(page, str(place), by="window")]
        ranked = reranker.rerank(question, [Passage(piece.id, piece.text) for piece in passages], k=1)
        return int(ranked[0].id.partition("#")[0])

    return first


def measure(rank: Ranking, times: int) -> dict[str, int]:
    """How many of the questions find their page first, by the page that answers."""
    rows: list[dict[str, Any]] = list(read_jsonl(PAGES))
    right = {"short": 0, "wordy": 0}
    for place, row in enumerate(rows):
        wordy = "\n\n".join(rows[(place + more) % len(rows)]["wordy"] for more in range(times))
        for answer, name in enumerate(right):
            right[name] += sum(rank(question, [row["short"], wordy]) == answer for question in row[f"asks_{name}"])
    return right


@click.command()
def main() -> None:
    """Print how many of the questions find their page first."""
    reranker = Reranker.load()
    for times in TIMES:
        for name, rank in (("whole", whole(reranker)), ("by hand", by_hand(reranker))):
            right = measure(rank, times)
            total = sum(right.values())
            click.echo(
                f"wordy x{times:<3} {name:<8} {total} of 60; short {right['short']}, wordy {right['wordy']} of 30"
            )


if __name__ == "__main__":
    main()
