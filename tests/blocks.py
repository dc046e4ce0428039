"""Run the code blocks of Markdown pages as a reader would: in order, in one folder.

* ```` ```python ````: all blocks of a page share a namespace; lines that begin with ``# `` are the expected output.
* ```` ```sh ````: runs in bash; a ```` ```text ```` or ```` ```json ```` block after it is the expected output.
* Decimal numbers are compared within `TOLERANCE`: processors round products of 8-bit integers differently.
* A block with a caption (``{code-block}`` or ``{literalinclude}``) is a file of that name.
* ``<!-- background -->`` before a block: it runs until the page ends. Ports 8080 to 8089 are replaced by free ones.
* ``<!-- not run: REASON -->`` before a block: it does not run; tests list the reasons.

Any other block is an error, so that none is skipped unnoticed. ``extras: NAME, NAME`` in the front matter of a page names
the modules that it needs beyond the extra ``test``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0
"""Seconds that a background program may take to start or stop."""

_MARK = re.compile(r"<!-- (not run|background)(?:: (.+?))? -->\s*$")
_OPTION = re.compile(r":([\w-]+):[ \t]*(.*)")
_PORT = re.compile(r"\b808\d\b")
_DECIMAL = re.compile(r"\d+\.\d+")
TOLERANCE = 0.0301
"""Three hundredths, and what binary fractions add to them."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; lines count from 1."""

    line: int
    language: str
    text: str
    file: str | None = None
    not_run: str | None = None
    background: bool = False


def read(page: Path) -> list[Block]:
    """Read all code blocks of a page; directives of other kinds are skipped."""
    blocks = []
    mark: re.Match[str] | None = None
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block":
            mark = _MARK.match(token.content)
        elif token.type == "fence":
            block = _block(page, token.info.strip(), token.content, token.map[0] + 1, mark)
            blocks += [] if block is None else [block]
            mark = None
        elif token.level == 0:
            mark = None
    return blocks


def _block(page: Path, info: str, text: str, line: int, mark: re.Match[str] | None) -> Block | None:
    directive = re.fullmatch(r"\{([\w:-]+)\}\s*(.*)", info)
    file = None
    if directive is not None:
        name, argument = directive.groups()
        if name not in ("code-block", "literalinclude"):
            return None
        options, text = _options(text)
        file = options.get("caption")
        if name == "literalinclude":
            text = (page.parent / argument).read_text(encoding="utf-8")
        info = options.get("language", "") if name == "literalinclude" else argument
    marked = (None, None) if mark is None else mark.groups()
    not_run = (marked[1] or "") if marked[0] == "not run" else None
    return Block(line, info, text, file, not_run, background=marked[0] == "background")


def _options(text: str) -> tuple[dict[str, str], str]:
    """Split a directive into its options and its text."""
    lines = text.splitlines(keepends=True)
    options = {}
    while lines and (found := _OPTION.fullmatch(lines[0].rstrip("\n"))):
        options[found[1]] = found[2].strip()
        lines.pop(0)
    return options, "".join(lines).lstrip("\n")


def extras_of(page: Path) -> list[str]:
    """Read which modules a page needs beyond the extra ``test``."""
    front = re.match(r"---\n(.*?\n)---\n", page.read_text(encoding="utf-8"), re.S)
    named = re.search(r"^extras: *(.+)$", front[1], re.M) if front else None
    return [name.strip() for name in named[1].split(",")] if named else []


def run_python(text: str, names: dict[str, object], where: str, line: int = 0) -> None:
    """Run one block, and compare its output with its lines that begin with ``# ``."""
    said = [row[2:] for row in text.splitlines() if row.startswith("# ")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * line + text, where, "exec"), names)  # noqa: S102
    assert text_alike(printed.getvalue(), "\n".join(said)), f"{where}, line {line}: {printed.getvalue()}"


def run_page(page: Path, folder: Path) -> None:
    """Run the blocks of a page in the working directory `folder`."""
    blocks = read(page)
    serves = any(block.background for block in blocks)
    ports: dict[str, str] = defaultdict(_free_port)
    names: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    with contextlib.ExitStack() as running:
        for block in blocks:
            if block.not_run is not None:
                printed = None
                continue
            where = f"{page.name}, line {block.line}"
            text = _PORT.sub(lambda port: ports[port[0]], block.text) if serves else block.text
            if block.file is not None:
                target = folder / block.file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            elif block.background:
                if "--port" not in text:
                    text = f"{text.rstrip()} --port {ports['8080']}"
                running.enter_context(_background(text, folder, where))
            elif block.language == "python":
                run_python(text, names, page.name, block.line)
            elif block.language == "sh":
                printed = _run_sh(text, folder, where)
            elif block.language in ("text", "json") and printed is not None:
                _compare(block, printed, where)
                printed = None
            else:
                raise AssertionError(f"{where}: unexpected block of {block.language!r}; run it or mark it as not run")


def _environment() -> dict[str, str]:
    """Environment of a reader who has installed the checkout."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": paths, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def _run_sh(text: str, folder: Path, where: str) -> str:
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _compare(block: Block, printed: str, where: str) -> None:
    if block.language == "text":
        assert text_alike(printed, block.text), f"{where}: {printed}"
    else:
        assert _alike(_json_values(printed), _json_values(block.text)), f"{where}: {printed}"


def text_alike(found: str, said: str) -> bool:
    """Whether lines are as expected, decimal numbers within `TOLERANCE`."""
    words = [[_DECIMAL.sub("0.0", line) for line in text.rstrip().splitlines()] for text in (found, said)]
    numbers = [map(float, _DECIMAL.findall(text)) for text in (found, said)]
    return words[0] == words[1] and all(abs(a - b) <= TOLERANCE for a, b in zip(*numbers, strict=True))


def _json_values(text: str) -> list[Any]:
    """Read consecutive JSON values, whatever their layout."""
    decoder, values, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip()
    return values


def _alike(found: Any, said: Any) -> bool:
    """Whether JSON is as expected, numbers within `TOLERANCE`; ``"..."`` stands for anything."""
    if said == "...":
        return True
    if isinstance(said, dict):
        same = isinstance(found, dict) and found.keys() == said.keys()
        return same and all(_alike(found[name], said[name]) for name in said)
    if isinstance(said, list):
        same = isinstance(found, list) and len(found) == len(said)
        return same and all(_alike(*both) for both in zip(found, said, strict=True))
    if isinstance(said, float):
        return isinstance(found, (int, float)) and abs(found - said) <= TOLERANCE
    return bool(found == said)


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@contextlib.contextmanager
def _background(text: str, folder: Path, where: str) -> Iterator[None]:
    """Run a service in the background, from when it is ready until the page ends."""
    port = re.search(r"--port (\d+)", text)[1]  # type: ignore[index]
    log = folder / f".background-{port}.log"
    with log.open("wb") as out:
        bash = [shutil.which("bash") or "bash", "-c", f"exec {text.strip()}"]
        process = subprocess.Popen(bash, cwd=folder, env=_environment(), stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + PATIENCE
            while not _ready(port):
                assert process.poll() is None, f"{where}: the program ended\n{log.read_text()}"
                assert time.monotonic() < deadline, f"{where}: not ready\n{log.read_text()}"
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(port: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def pages(folder: Path) -> Sequence[Path]:
    """List the pages of the documentation by name."""
    return sorted(path for path in folder.rglob("*.md") if not {"examples", "container"} & set(path.parts))
