"""Pairs of a short page and a wordy page about the same thing, of which one answers the question.

    python -m bench.lengths

15 pairs of pages with four questions each, written for this bench: two that only the short page answers, and two that
only the wordy page answers. How often does `Reranker` put the right page first, from the whole pages, and from passages
of 100 words that are cut by hand, where the best passage of a page counts? The wordy page is also continued by wordy
pages about other things.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from datasets_io import read_jsonl
from semclass import Passage, Reranker
from semclass.documents.chunking import cut

PAGES = Path(__file__).parent / "questions" / "lengths.jsonl"

KINDS = ("short", "wordy")

TIMES = (1, 3, 10)
"""How many wordy pages make the long page, which begins with the one that is asked about."""


def pairs(times: int) -> tuple[list[str], list[list[str]], list[int]]:
    """Give questions, the two pages of each, and the place of the page that answers."""
    rows = list(read_jsonl(PAGES))
    questions, pages, right = [], [], []
    for place, row in enumerate(rows):
        wordy = "\n\n".join(rows[(place + more) % len(rows)]["wordy"] for more in range(times))
        for answer, kind in enumerate(KINDS):
            for question in row[f"asks_{kind}"]:
                questions.append(question)
                pages.append([row["short"], wordy])
                right.append(answer)
    return questions, pages, right


def by_hand(pages: Sequence[str]) -> list[Passage]:
    """Cut pages into passages of 100 words, whose ids begin with the place of the page."""
    return [Passage(one.id, one.text) for place, page in enumerate(pages) for one in cut(page, f"{place}", by="window")]


def measure(reranker: Reranker, times: int) -> dict[str, list[int]]:
    """How many questions find their page first, by the page that answers: from whole pages, and cut by hand."""
    questions, pages, right = pairs(times)
    whole = [hits[0].index for hits in reranker.rerank_many(questions, pages, k=1)]
    cut_up = reranker.rerank_many(questions, [by_hand(some) for some in pages], k=1)
    hand = [int(hits[0].id.partition("#")[0]) for hits in cut_up]
    return {
        name: [
            sum(one == answer == kind for one, answer in zip(found, right, strict=True)) for kind in range(len(KINDS))
        ]
        for name, found in (("whole", whole), ("by hand", hand))
    }


@click.command()
@click.option("--times", multiple=True, type=int, default=TIMES, help="Number of wordy pages of the long page.")
def main(times: Sequence[int]) -> None:
    """Print how many of the questions find their page first."""
    reranker = Reranker.load()
    for number in times:
        for name, (short, wordy) in measure(reranker, number).items():
            click.echo(f"wordy x{number:<3} {name:<8} {short + wordy} of 60: short {short}, wordy {wordy} of 30")


if __name__ == "__main__":
    main()
