"""A command in a terminal of its own: a pseudo-terminal of some width, as a person would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence

from conftest import ROOT

CTRL_C = b"\x03"


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
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C reaches the command
        env={**{name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}, **(env or {})},
    )
    os.close(theirs)
    sent, seen, waiting = b"", 0, list(steps)
    try:
        while part := os.read(ours, 65536):
            sent += part
            while waiting and (place := sent.find(waiting[0][0].encode(), seen)) >= 0:
                seen = place + 1
                os.write(ours, waiting.pop(0)[1]() or b"")
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    return running.wait(), sent.decode()


def drawn(sent: str, label: str) -> list[str]:
    """What was drawn over and over in one line that begins with a label."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", sent) if line.startswith(label)]
