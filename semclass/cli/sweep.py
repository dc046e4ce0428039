"""The command that compares settings of a search on questions with known answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import semclass
from semclass.cli import options
from semclass.cli.evaluate import cache_folder, limit_option, open_index, split_option
from semclass.cli.options import any_path, show
from semclass.cli.progress import progress
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.evaluation.sweep import Sweep

SHIPPED = "shipped"  # name of the encoder that the models have
SIZES = (0, 100)  # passage lengths to compare, in words; 0 stands for whole passages


@click.command()
@click.argument("folder", type=any_path, metavar="BEIR_DIR")
@split_option
@limit_option
@click.option(
    "--encoder",
    "encoders",
    multiple=True,
    help="Encoder to compare: shipped, a folder, a package of models, or hub:NAME. Repeatable. Default: shipped.",
)
@click.option(
    "--size",
    "sizes",
    type=click.IntRange(0),
    multiple=True,
    help="Maximum number of words of a passage; longer ones are cut. 0: no limit. Repeatable. Default: 0 and 100.",
)
@click.option("--measure", default="nDCG@10", show_default=True, help="Measure, by its ir-measures name, e.g. R@5.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Random seed of the two halves, the intervals and the test."
)
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
    measure: str,
    seed: int,
    place: Path | None,
    *,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Compare encoders, fusions and passage lengths on the questions in BEIR_DIR.

    BEIR_DIR is a folder in BEIR format. The best setting is chosen on a random half of the questions, and reported on the
    other half, because the best of many settings looks too good on the questions that it was chosen by.
    """
    from semclass.core.cpu import available_threads
    from semclass.evaluation.dataset import load_dataset
    from semclass.evaluation.evaluate import cached_index
    from semclass.evaluation.sweep import sweep

    if place is not None and (len(encoders) > 1 or sizes):
        raise InputError("an index has one encoder and passage length; remove --index, or the other options")
    dataset = load_dataset(folder, split=split, limit=limit, corpus=place is None)

    def retrievers() -> Iterator[tuple[str, semclass.HybridRetriever]]:
        for encoder in encoders or (SHIPPED,):
            own = None if encoder == SHIPPED else encoder
            loaded = semclass.Models.load(models, encoder=own, threads=threads or available_threads())
            if place is not None:
                index = open_index(place, loaded, folder / "qrels" / f"{split}.tsv")
                yield place.name, semclass.HybridRetriever(index, loaded)
                return
            for size in sizes or SIZES:
                name = f"{own or models or SHIPPED}, {f'{size} words' if size else 'whole'}"
                with progress(f"indexing {name}", None) as step:
                    index = cached_index(folder, cache_folder(), loaded.passage_encoder, step, size=size)
                yield name, semclass.HybridRetriever(index, loaded)

    with progress("searching", None, "questions") as step:
        found = sweep(dataset, retrievers(), measure=measure, seed=seed, progress=step)
    show(asdict(found), "\n".join(_lines(found)), as_json=as_json)


def _lines(found: Sweep) -> Iterator[str]:
    """A line for each setting, and what the best one gains."""
    settings, width = found.settings, max(len(one.name) for one in found.settings)
    yield f"{found.measure}; * is best on the questions to choose by, and counts on the {found.gain.questions} others\n"
    yield f"  {'passages':<{width}}  method   others (95 % from, to)     to choose by"
    for place, one in enumerate(settings):
        mark, (low, high) = "*" if place == found.best else " ", one.reported.interval
        yield (
            f"{mark} {one.name:<{width}}  {one.method:<7}  {one.reported.value:.4f} ({low:.4f} to "
            f"{high:.4f})  {one.chosen_by:.4f}"
        )
    if found.best == 0:
        yield "\nno setting is better than the default (first line) on the questions to choose by"
        return
    low, high = found.gain.interval
    flattered = settings[found.best].chosen_by - settings[0].chosen_by
    yield (
        f"\n* against the default (first line): {found.gain.value:+.4f} ({low:+.4f} to {high:+.4f}), p = "
        f"{found.p_value:.4f} in a paired randomisation test"
    )
    yield f"{flattered:+.4f} on the questions to choose by, where the best of {len(settings)} looks too good"
