"""The command that compares settings of a search on questions with known answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

import semclass
from semclass.cli import options
from semclass.cli.evaluate import CACHE_VARIABLE, cache_folder, open_index
from semclass.cli.options import any_path, positive, show
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.evaluation.sweep import Sweep

UNIT = 1e-3
"""Greatest difference from 1 at which the length of a vector counts as 1."""


@click.command()
@click.argument("folder", type=any_path, metavar="BEIR_DIR")
@click.option("--split", default="test", show_default=True, help="Relevance judgments to use: qrels/SPLIT.tsv.")
@click.option("--limit", type=positive, help="Maximum number of questions; the first ones are used.")
@click.option(
    "--encoder",
    "encoders",
    multiple=True,
    help="Encoder to compare: a folder, an installed package of models, or hub:NAME. Repeatable. Default: the encoder of "
    "the models.",
)
@click.option(
    "--size",
    "sizes",
    type=click.IntRange(0),
    multiple=True,
    default=(0, 100),
    show_default=True,
    help="Cut the passages into windows of at most this number of words; 0: leave them whole. Repeatable.",
)
@click.option(
    "--similarity",
    "similarities",
    type=click.Choice(["cosine", "ip", "l2"]),
    multiple=True,
    help="Vector similarity to compare. Repeatable. Default: all that differ for the encoder and fit the models.",
)
@click.option("--measure", default="nDCG@10", show_default=True, help="Measure, by its ir-measures name, e.g. R@5.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Random seed of the two halves, the intervals and the test."
)
@click.option("--cache", type=any_path, help=f"Folder that caches the built indices. Default: ${CACHE_VARIABLE}.")
@click.option(
    "--index", "place", type=any_path, help="Existing index of the passages; only methods are compared, by its encoder."
)
@options.json_output
@options.models
@options.threads
def sweep(
    folder: Path,
    split: str,
    limit: int | None,
    encoders: Sequence[str],
    sizes: Sequence[int],
    similarities: Sequence[str],
    measure: str,
    seed: int,
    cache: Path | None,
    place: Path | None,
    *,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Compare encoders, similarities, fusions and passage lengths on the questions in BEIR_DIR.

    BEIR_DIR is a folder in BEIR format. The best setting is chosen on a random half of the questions, and reported on the
    other half, because the best of many settings looks too good on the questions that it was chosen by.
    """
    from semclass.core.cpu import available_threads
    from semclass.evaluation.dataset import load_dataset
    from semclass.evaluation.evaluate import cached_index
    from semclass.evaluation.measure import check_measures
    from semclass.evaluation.sweep import sweep

    if place is not None and (len(encoders) > 1 or similarities):
        raise InputError("an index has one encoder and one similarity; remove --index, or the other options")
    check_measures([measure])
    dataset = load_dataset(folder, split=split, limit=limit, corpus=place is None)
    searched: Callable[[int], object] = print

    def indices() -> Iterator[tuple[str, semclass.PassageIndex, semclass.Models]]:
        for encoder in encoders or (None,):
            loaded = semclass.Models.load(models, encoder=encoder, threads=threads or available_threads())
            if place is not None:
                yield place.name, open_index(place, loaded, folder / "qrels" / f"{split}.tsv"), loaded
                return
            tried = itertools.product(dict.fromkeys(sizes), dict.fromkeys(similarities or _different(loaded)))
            for size, similarity in tried:
                name = f"{encoder or 'shipped' if models is None else models}, {f'{size} words' if size else 'whole'}"
                with progress(f"indexing {name}", None) as step:
                    passages = cached_index(
                        folder, cache or cache_folder(), loaded.passage_encoder, step, similarity=similarity, size=size
                    )
                yield name, passages, loaded

    def retrievers() -> Iterator[tuple[str, semclass.HybridRetriever]]:
        nonlocal searched
        for name, passages, loaded in indices():
            with progress(f"searching {name}", len(dataset.questions), "questions") as searched:
                yield name, semclass.HybridRetriever(passages, loaded)

    found = sweep(dataset, retrievers(), measure=measure, seed=seed, progress=lambda done: searched(done))
    show(found.as_json(), "\n".join(_lines(found)), as_json=as_json)


def _different(models: semclass.Models) -> Sequence[str]:
    """The similarities that differ for an encoder: vectors of length 1 have but one, and heads were trained with one."""
    if models.pair_heads is not None:
        return (models.pair_heads.similarity,)
    length = float(np.linalg.norm(models.encoder.encode(["length"]).rows("pooled")))
    return ("cosine",) if abs(length - 1) < UNIT else ("cosine", "ip", "l2")


def _lines(found: Sweep) -> Iterator[str]:
    """A line for each setting, and what the best one gains."""
    half, width = found.gain.questions, max(len(one.name) for one in found.settings)
    yield f"{found.measure} of {counted(half, 'question')} (95 % from, to), and of the others, by which * was chosen\n"
    yield f"  {'passages':<{width}}  similarity  method   {found.measure:>8}                  to choose by"
    for place, one in enumerate(found.settings):
        mark, (low, high) = "*" if place == found.best else " ", one.reported.interval
        yield (
            f"{mark} {one.name:<{width}}  {one.similarity:<10}  {one.method:<7}  {one.reported.value:8.4f} ({low:.4f} to "
            f"{high:.4f})        {one.chosen_by:.4f}"
        )
    best, default, (low, high) = found.settings[found.best], found.settings[0], found.gain.interval
    if found.best == 0:
        yield "\nno setting is better than the default (the first line) on the questions to choose by"
        return
    yield (
        f"\n* against the default (the first line): {found.gain.value:+.4f} ({low:+.4f} to {high:+.4f}), p = "
        f"{found.p_value:.4f} in a paired randomisation test"
    )
    yield (
        f"on the questions that it was chosen by, it gains {best.chosen_by - default.chosen_by:+.4f}: the best of "
        f"{len(found.settings)} looks better there than it is"
    )
