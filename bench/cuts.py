"""Ways to cut documents: is the section that answers a heading first, and in the first three.

    python -m bench.cuts --data DATA [--domain NAME ...]

Headings that are questions are asked of all sections of their domain, whose texts are cut as a document is. Domains count
the same. They are of those that teach the encoder nothing.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from bench import readme
from section_sets import Collection, read_domain
from semclass import HybridRetriever, Models, Passage, PassageIndex
from semclass.documents.chunking import cut

DOMAINS = ("community", "legal", "privacy", "support")
CUTS = {
    "paragraph": {"by": "paragraph"},
    "each paragraph by itself": {"by": "paragraph", "size": 1_000},
    "window of 100 words": {"by": "window", "size": 100},
    "window of 150 words": {"by": "window", "size": 150},
    "section": {"by": "section"},
}
METHODS = ("convex", "default")
DEPTH = 10


def passages_of(collection: Collection, options: dict[str, object]) -> tuple[list[Passage], dict[str, str]]:
    """Cut all sections; and tell the section of each passage."""
    passages, owners = [], {}
    for section in collection.passages:
        text = "# Section\n\n" + section.text.replace("\n", "\n\n")
        titles = {name: section.metadata[name] for name in ("title",) if name in section.metadata}
        for part in cut(text, section.id, markdown=True, **options):
            passages.append(Passage(part.id, part.text, titles))
            owners[part.id] = section.id
    return passages, owners


def measure(models: Models, collection: Collection, options: dict[str, object]) -> dict[str, list[float]]:
    """By method: shares of questions with the right section first and in the first three; MRR@10; passages."""
    passages, owners = passages_of(collection, options)
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    found = {}
    for method in METHODS:
        ranks = []
        for question, answers in collection.queries["question"]:
            sections = dict.fromkeys(owners[hit.id] for hit in retriever.search(question, DEPTH, method=method))
            ranks.append(next((place for place, name in enumerate(sections) if name in answers), np.inf))
        rank = np.array(ranks)
        shares = [np.mean(rank < 1), np.mean(rank < 3), np.mean(1 / (1 + rank)), len(passages)]
        found[method] = [float(value) for value in shares]
    return found


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--domain", "domains", multiple=True, default=DOMAINS)
def main(data: Path, domains: tuple[str, ...]) -> None:
    """Print a table of means over domains."""
    models, rows = Models.load(threads=1), []
    collections = [read_domain(data, name) for name in domains]
    for name, options in CUTS.items():
        found = [measure(models, collection, options) for collection in collections]
        for method in METHODS:
            first, three, mrr, _ = np.mean([one[method] for one in found], axis=0)
            count = sum(one[method][3] for one in found)
            rows.append((name, f"`{method}`", f"{count:,.0f}", f"{first:.1%}", f"{three:.1%}", f"{mrr:.3f}"))
        click.echo(f"{name}", err=True)
    click.echo(readme.markdown(("cut", "method", "passages", "first", "in three", "MRR@10"), rows))


if __name__ == "__main__":
    main()
