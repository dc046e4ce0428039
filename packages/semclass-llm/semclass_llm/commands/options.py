"""Options of the commands that ask a language model."""

from __future__ import annotations

import os
from pathlib import Path

import click

from semclass.cli.options import any_path, positive, together
from semclass.core.errors import InputError
from semclass_llm.endpoint import client
from semclass_llm.endpoint.client import Endpoint
from semclass_llm.prompted import PROMPTED

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
    if endpoint is None or model is None:
        raise InputError("give both --endpoint URL and --model NAME")
    key = os.environ.get(client.KEY_VARIABLE)
    return client.Endpoint(endpoint, model, key, concurrency, retries, timeout, cache)
