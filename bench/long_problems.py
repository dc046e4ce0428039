"""Descriptions of a problem that end with a question without content words, such as "What is the best way?".

    python -m bench.long_problems

20 descriptions, each with the passage that helps, in an index of these passages and of 20 general ones. How many find
their passage first, alone and behind each of 12 endings?
"""

from __future__ import annotations

from pathlib import Path

import click

from datasets_io import read_jsonl
from semclass import HybridRetriever, Models, Passage, PassageIndex

FILES = Path(__file__).parent / "questions"

ENDINGS = (
    "What is the best way?",
    "What is wrong here?",
    "What is the reason?",
    "What is the cause and the cure?",
    "What should I do?",
    "Any ideas?",
    "How can I fix this?",
    "What would be a good solution?",
    "Why does this happen?",
    "What can be done about it?",
    "Is there an easy remedy?",
    "Can somebody tell me what the problem might be?",
)


def first(retriever: HybridRetriever, texts: list[str]) -> list[bool]:
    """Whether each problem finds its own passage first."""
    found = retriever.search_many(texts, k=1)
    return [hits[0].id == str(number) for number, hits in enumerate(found)]


def measure(models: Models) -> dict[str, int]:
    """How many problems find their passage first, by ending."""
    problems = list(read_jsonl(FILES / "problems.jsonl"))
    general = list(read_jsonl(FILES / "general.jsonl"))
    passages = [Passage(str(number), row["answer"]) for number, row in enumerate(problems)]
    passages += [Passage(f"general {number}", row["text"]) for number, row in enumerate(general)]
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    alone = [row["problem"] for row in problems]
    return {
        "alone": sum(first(retriever, alone)),
        **{ending: sum(first(retriever, [f"{text} {ending}" for text in alone])) for ending in ENDINGS},
    }


@click.command()
def main() -> None:
    """Print how many of the problems find their passage first."""
    for ending, count in measure(Models.load()).items():
        click.echo(f"{count:3}  {ending}")


if __name__ == "__main__":
    main()
