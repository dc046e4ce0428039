"""The command line.

With ``--json``, standard output holds JSON lines and nothing else; progress and notes go to standard error. Output has no
colours. On a terminal, matching words of a hit are bold. Exit codes: 0; 1 if a reader of the output left early; 2 for
input that is not allowed, damaged files and missing extras; 130 for an interruption.
"""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path

import click

import semclass
from semclass.cli import options
from semclass.cli.classify import classify
from semclass.cli.evaluate import calibrate, evaluate, tune
from semclass.cli.index import index
from semclass.cli.options import echo
from semclass.cli.search import rerank, search
from semclass.cli.train import train
from semclass.core import plugins
from semclass.core.errors import ArtifactError, SemclassError


class _WithInstalled(click.Group):
    """The commands of semclass and of installed packages, which use the group of entry points ``semclass.commands``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        return sorted({*super().list_commands(ctx), *plugins.installed(plugins.COMMANDS)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command. If the package of a known command is missing, the error says how to install it."""
        known = super().get_command(ctx, cmd_name)
        if known is not None or not plugins.is_known(plugins.COMMANDS, cmd_name):
            return known
        command: click.Command = plugins.find(plugins.COMMANDS, cmd_name)
        return command


@click.group(cls=_WithInstalled, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(semclass.__version__, prog_name="semclass")
def cli() -> None:
    """Classify questions by answer type, and find the passage that answers a question."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit with its exit code."""
    warnings.showwarning = lambda message, *_, **__: echo(f"warning: {message}", err=True)
    try:
        cli.main(None if arguments is None else list(arguments), prog_name="semclass", standalone_mode=False)
    except SemclassError as error:
        echo(f"error: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show(shown := io.StringIO())
        echo(shown.getvalue(), err=True, nl=False)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        echo("stopped", err=True)
        sys.exit(130)


for command in (classify, train, index, search, rerank, tune, calibrate, evaluate):
    cli.add_command(command)


@cli.command("models")
@options.json_output
@options.models
def list_models(*, as_json: bool, models: Path | None) -> None:
    """List the installed models, and verify the SHA-256 of their files."""
    from semclass.core import artifacts

    root = artifacts.models_folder(models)
    found = sorted(path.parent for path in root.rglob(artifacts.MANIFEST))
    if not found:
        raise ArtifactError(f"{root} contains no models; name a folder with models (--models), or reinstall semclass")
    for folder in found:
        kind = str(artifacts.read_json(folder / artifacts.MANIFEST).get("kind"))
        artifact = artifacts.load_artifact(folder, kind)
        size = sum(record["bytes"] for record in artifact.manifest["files"].values())
        name = folder.relative_to(root).as_posix()
        record = {**artifact.manifest, "name": name, "folder": str(folder), "bytes": size, "verified": True}
        options.show(record, f"ok  {name:<20} {size / 1e6:7.2f} MB", as_json=as_json)


@cli.command()
@options.models
def demo(*, models: Path | None) -> None:
    """Show classification, indexing, search and re-ranking on a small corpus."""
    from semclass.demo import story

    width = min(shutil.get_terminal_size().columns, 112) if sys.stdout.isatty() else 112
    for kind, text in story(models):
        lines = [text] if kind == "command" else textwrap.wrap(text, width, subsequent_indent=" " * 8)
        if kind == "heading":
            echo("")
        for line in lines:
            echo(click.style(line, bold=kind == "heading" or None, fg="green" if kind == "good" else None), styled=True)
