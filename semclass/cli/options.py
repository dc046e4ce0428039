"""What the commands share: options, output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import semclass
from semclass.cli.output import echo, json_line
from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass.ranking.methods import PROMPTED

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


Command = TypeVar("Command", bound=Callable[..., Any])

COLUMNS = ("text_column", "id_column", "title_column")
"""Options that name the columns of records."""

any_path = click.Path(path_type=Path)
positive = click.IntRange(1)

queries = click.option("--queries", type=any_path, help="File of questions: JSON lines with `_id` and `text`.")
qrels = click.option(
    "--qrels", type=any_path, help="File of relevant passages, tab-separated: question id, passage id, relevance."
)
json_output = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON lines.")
models = click.option(
    "--models",
    type=any_path,
    help="Folder of models, or the name of an installed package of models, e.g. multilingual. Default: the shipped models.",
)
encoder = click.option(
    "--encoder",
    help="Encoder to use: a folder, the name of an installed package of models, e.g. multilingual, or hub:NAME for a "
    "sentence-transformers model. Default: the shipped encoder.",
)
storage = click.option(
    "--storage",
    type=click.Choice(["standard", "lean", "exact"]),
    help="Vectors to store. standard (default): compressed vectors of words and sentences; lean: only vectors of "
    "sentences, so re-ranking encodes texts at query time; exact: precise vectors of words and sentences.",
)
similarity = click.option(
    "--similarity",
    type=click.Choice(["cosine", "ip", "l2"]),
    default="cosine",
    show_default=True,
    help="Vector similarity: cosine, inner product (ip) or Euclidean distance (l2).",
)
text_column = click.option("--text", metavar="COLUMN", help="Name or number of the text column. Default: `text`.")
encoding = click.option("--encoding", help="Encoding of non-UTF-8 files, e.g. cp1252.")
threads = click.option("--threads", type=positive, help="Number of CPU threads.")
heads = click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="NAME=DIR",
    help="Trained head and the metadata field for its labels, e.g. topic=my-head. Repeatable.",
)
weight = click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=VALUE",
    help="Weight of the ranking method, e.g. alpha=0.6. `semclass index info` lists tuned weights. Repeatable.",
)
where = click.option(
    "--where",
    multiple=True,
    metavar="FILTER",
    help="Only passages whose metadata match, e.g. 'page>=3', 'lang in (de, en)', 'name=Ac*' or a JSON filter. Repeat "
    "to add conditions.",
)


def together(*several: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(several), command)


columns = together(
    *(
        click.option(
            f"--{kind}-column",
            metavar="NAME",
            help=f"Name of the column with the {kind} of each row, in tables and JSON. Default: it is found.",
        )
        for kind in ("text", "id", "title")
    )
)
"""Options that name the columns of records, see :func:`semclass.documents.readers.iter_passages`."""


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


service_options = together(
    click.option(
        "--endpoint", metavar="URL", help="Base URL of an OpenAI-compatible API, e.g. http://localhost:8000/v1."
    ),
    click.option("--model", help="Name of the language model at --endpoint."),
    click.option(
        "--concurrency",
        type=positive,
        default=8,
        show_default=True,
        help="Maximum number of simultaneous calls to the language model.",
    ),
    click.option(
        "--timeout", type=float, default=60.0, show_default=True, help="Time limit of one call attempt, in seconds."
    ),
)
endpoint_options = together(
    service_options,
    click.option(
        "--cache",
        type=any_path,
        help="File that caches the language model's replies. Default: beside --out; without --out, no cache.",
    ),
)
"""Options of :func:`open_endpoint`, for commands that ask a language model."""

cost_options = together(
    click.option(
        "--prices",
        type=float,
        nargs=2,
        metavar="IN OUT",
        help="Prices in USD per million prompt tokens and per million answer tokens.",
    ),
    click.option(
        "--estimate",
        "only_estimate",
        is_flag=True,
        help="Ask about a few texts, print the estimated cost of all texts, and stop.",
    ),
)


prompt = click.option(
    "--prompt",
    "way",
    type=click.Choice(PROMPTED),
    help=f"With --endpoint: one call per passage, or one call for all passages.  [default: {PROMPTED[0]}]",
)


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
                f"{place} has no collection name; add one to the address, e.g. {url}/{collection}/passages"
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
            raise InputError(
                f"{option} {text!r} has no numeric value; write NAME=VALUE, e.g. {_SUCH[option]}"
            ) from None
    return weights or None


def read_heads(given: Sequence[str]) -> dict[str, str]:
    """Read heads that are written as NAME=DIR."""
    heads = {}
    for text in given:
        name, _, folder = text.partition("=")
        if not folder or name in heads:
            raise InputError(
                f"--head {text!r} is invalid; write NAME=DIR, e.g. topic=my-head, and use each name only once"
            )
        heads[name] = folder
    return heads


_SUCH = {"--weight": "alpha=0.6", "--boost": "topic=0.5"}


def shorten(text: str, limit: int = 90) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
