"""A command in a terminal of its own: a pseudo-terminal of some width, as a person would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence

from world import ROOT

CTRL_C = b"\x03"
LONGEST = 120  # seconds without a sign of life


def in_terminal(
    *arguments: object,
    columns: int = 80,
    env: dict[str, str] | None = None,
    steps: Sequence[tuple[str, Callable[[], bytes | None]]] = (),
) -> tuple[int, str]:
    """Run a command; its exit code, and all that the terminal was sent.

    When the terminal was sent the text of the next of the `steps`, its function is called, and what it gives is typed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    running = subprocess.Popen(
        [sys.executable, "-m", "semclass", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=_take_terminal,
        env={**{name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}, **(env or {})},
    )
    os.close(theirs)
    sent, seen, waiting = b"", 0, list(steps)
    try:
        while part := _read(ours, running):
            sent += part
            while waiting and (place := sent.find(waiting[0][0].encode(), seen)) >= 0:
                seen = place + 1
                os.write(ours, waiting.pop(0)[1]() or b"")
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    return running.wait(), sent.decode()


def _take_terminal() -> None:
    """Let Ctrl-C reach the command, also where the tests run in the background, which ignores it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _read(terminal: int, running: subprocess.Popen[bytes]) -> bytes:
    if not select.select([terminal], [], [], LONGEST)[0]:
        running.kill()
    return os.read(terminal, 65536)


def drawn(sent: str, label: str) -> list[str]:
    """The states of a line that begins with a label and was drawn over and over."""
    lines = re.split(r"[\r\n]+", re.sub("\x1b\\[\\?25[lh]", "", sent))
    return [line.rstrip() for line in lines if line.startswith(label)]
