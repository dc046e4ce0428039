"""What the commands share: options, output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli.output import echo, json_line
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.endpoint.client import Endpoint

API_KEY_VARIABLE = "SEMCLASS_QDRANT_API_KEY"
"""Environment variable that holds the key of a Qdrant server."""


class InputPath(click.Path):
    """A file to read; ``-`` is standard input, so that commands can be piped."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give a path that can be opened."""
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


any_path = click.Path(path_type=Path)
positive = click.IntRange(1)

json_output = click.option("--json", "as_json", is_flag=True, help="Print JSON lines and nothing else.")
models = click.option("--models", type=any_path, help="Folder of models; the shipped ones by default.")
encoder = click.option(
    "--encoder",
    help="Encoder in place of the shipped one: a folder, or hub: and the name or folder of a sentence-transformers model.",
)
storage = click.option(
    "--storage",
    type=click.Choice(["standard", "lean", "exact"]),
    help="Vectors to store. standard, the default: of words and sentences, compressed; lean: of sentences alone, so that "
    "re-ranking reads texts again; exact: of words and sentences, hardly compressed.",
)
similarity = click.option(
    "--similarity",
    type=click.Choice(["cosine", "ip", "l2"]),
    default="cosine",
    show_default=True,
    help="How vectors are compared: by cosine, inner product (ip) or Euclidean distance (l2).",
)
text_column = click.option(
    "--text", metavar="COLUMN", help="Column of the texts, by name or number; `text` by default."
)
encoding = click.option("--encoding", help="Encoding of files that are not UTF-8, such as cp1252.")
threads = click.option("--threads", type=positive, help="Number of CPU threads.")
heads = click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="NAME=DIR",
    help="A trained head, and the name of the field for its labels, such as topic=my-head; repeat it for more heads.",
)
weight = click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=VALUE",
    help="A weight of the method, such as alpha=0.6; `semclass index info` lists those that were tuned.",
)
where = click.option(
    "--where",
    multiple=True,
    metavar="FILTER",
    help="Only passages whose metadata match: 'page>=3', 'lang=de' or a filter as JSON; repeat it to add conditions.",
)


def show(record: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a record as a JSON line, or the text that stands for it."""
    echo(json_line(record) if as_json else text)


def tell_duplicates(passages: Iterable[semclass.Passage]) -> Iterator[semclass.Passage]:
    """Give passages on, and tell at the end of the command how many of them are marked as duplicates."""
    context, total, marked = click.get_current_context(), 0, 0
    for passage in passages:
        total += 1
        marked += "duplicate_of" in passage.metadata
        yield passage
    text = f"{marked} of {counted(total, 'passage')} marked as near-duplicates"
    context.call_on_close(lambda: echo(text, err=True))


def show_weights(values: Mapping[str, float]) -> str:
    """Weights in one line."""
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def qdrant_key() -> str | None:
    """Key of a Qdrant server, from the environment: command lines are visible to everybody."""
    return os.environ.get(API_KEY_VARIABLE)


def endpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of :func:`open_endpoint`, for commands that ask a language model."""
    for option in reversed(
        (
            click.option(
                "--endpoint",
                metavar="URL",
                help="Address of an OpenAI-compatible service, such as http://localhost:8000/v1.",
            ),
            click.option("--model", help="Name of the language model at that address."),
            click.option(
                "--concurrency", type=positive, default=8, show_default=True, help="Simultaneous calls to the model."
            ),
            click.option(
                "--timeout", type=float, default=60.0, show_default=True, help="Seconds for one attempt of a call."
            ),
            click.option(
                "--cache",
                type=any_path,
                help="File for the model's replies, which are not asked for twice; beside the output by default.",
            ),
        )
    ):
        command = option(command)
    return command


def open_endpoint(
    endpoint: str | None, model: str | None, concurrency: int, timeout: float, cache: Path | None, retries: int = 5
) -> Endpoint:
    """Describe the service that options name; its key is in the environment."""
    from semclass.endpoint import client

    if endpoint is None or model is None:
        raise InputError("give both --endpoint URL and --model NAME")
    key = os.environ.get(client.KEY_VARIABLE)
    return client.Endpoint(endpoint, model, key, concurrency, retries, timeout, cache)


def open_retriever(place: str, models: semclass.Models) -> semclass.HybridRetriever:
    """Open the index in a folder, or in a collection on a Qdrant server, such as ``http://localhost:6333/passages``."""
    if place.startswith(("http://", "https://")):
        url, _, collection = place.rstrip("/").rpartition("/")
        if url.endswith(":/"):
            raise InputError(
                f"{place} names no collection; add one to the address, such as {url}/{collection}/passages"
            )
        index = semclass.QdrantIndex.connect(url, collection, api_key=qdrant_key())
        return semclass.HybridRetriever(index, models)
    return semclass.HybridRetriever(
        semclass.PassageIndex.load(place, encoder_fingerprint=models.encoder.fingerprint), models
    )


def read_weights(given: Sequence[str], option: str = "--weight") -> dict[str, float] | None:
    """Read weights that are written as NAME=VALUE; None for none."""
    weights = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"{option} {text!r} has no number; write NAME=VALUE, such as {_SUCH[option]}") from None
    return weights or None


def read_heads(given: Sequence[str]) -> dict[str, str]:
    """Read heads that are written as NAME=DIR."""
    heads = {}
    for text in given:
        name, _, folder = text.partition("=")
        if not folder or name in heads:
            raise InputError(f"--head {text!r}: write NAME=DIR, such as topic=my-head, with each name once")
        heads[name] = folder
    return heads


_SUCH = {"--weight": "alpha=0.6", "--boost": "topic=0.5"}


def shorten(text: str, limit: int = 90) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
