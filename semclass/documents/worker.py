"""A process that reads documents: libraries in C can loop and grow, and only the system can stop them."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from semclass.core.errors import InputError, MissingExtraError, SemclassError
from semclass.documents.formats import read_content
from semclass.documents.limits import CLOCK, MEMORY, out_of_clock, out_of_memory, out_of_time, seconds_for, size_of
from semclass.documents.records import Columns, Content, Record

_OUT_OF_MEMORY = 3
_OUT_OF_TIME = {-getattr(signal, "SIGXCPU", 0), 1}  # 1 is the code of `faulthandler`
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can hold and UTF-8 cannot."""

_CODE = "import sys; sys.path[:] = sys.argv[1:]; from semclass.documents.worker import serve; serve()"


class Converter:
    """Reads documents as :func:`semclass.documents.formats.read_content` does, within limits of time and memory.

    Its process starts with the first document, and again after one that ended it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Converter:
        """Start nothing yet."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def __call__(
        self,
        path: Path,
        encoding: str | None = None,
        columns: Columns = Columns(),  # noqa: B008 - it cannot change
    ) -> tuple[Content, str]:
        """Read a document, with what is said if it was cut. An InputError or MissingExtraError says why not."""
        process = self._started()
        requests, replies = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        with self._clocked(path, process):
            with suppress(BrokenPipeError):
                requests.write(json.dumps([str(path), encoding, columns]).encode() + b"\n")
                requests.flush()
            head = replies.readline()
            kind, size, cut = json.loads(head) if head.endswith(b"\n") else ("", 0, "")
            content = replies.read(size)
        if not head.endswith(b"\n"):
            raise _reason(path, self._end())
        text = content.decode()
        if kind:
            raise (MissingExtraError if kind == MissingExtraError.__name__ else InputError)(text)
        markdown, records = json.loads(text)
        return Content(markdown, [Record(*record) for record in records]), cut

    @contextmanager
    def _clocked(self, path: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """End the process if a document takes too long by the clock, as one that waits takes no time of a processor."""
        seconds, late = CLOCK * seconds_for(size_of(path)), threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # it may be ending the process right now
        if late.is_set():
            self._end()
            raise out_of_clock(path, seconds)

    def _started(self) -> subprocess.Popen[bytes]:
        """Give the process; it is started if there is none."""
        if self._process is None:
            # a library may start a thread for each processor, whose stacks would count as memory
            threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-W", "ignore", "-c", _CODE, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **threads},
            )
        return self._process

    def _end(self) -> int:
        """Wait for the end of the process, and give its code."""
        process, self._process = cast("subprocess.Popen[bytes]", self._process), None
        with suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


def _reason(path: Path, code: int) -> InputError:
    """Tell why the process of a document ended."""
    if code in _OUT_OF_TIME:
        return out_of_time(path)
    if code == _OUT_OF_MEMORY:
        return out_of_memory(path)
    return InputError(f"{path} cannot be read: its reader crashed ({code}); is the file damaged?")


def serve() -> None:
    """Read the documents that standard input names, one a line: what the process does."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no reply
    _limit_memory()
    for line in sys.stdin.buffer:
        path, encoding, columns = json.loads(line)
        _limit_time(Path(path))
        cuts: list[str] = []
        try:
            found = read_content(Path(path), encoding, cuts.append, Columns(*columns))
            kind, text = "", json.dumps(found, ensure_ascii=False)
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        except SemclassError as error:
            kind, text = type(error).__name__, str(error)
        content = _SURROGATE.sub("\ufffd", text).encode()
        replies.write(json.dumps([kind, len(content), "".join(cuts)]).encode() + b"\n" + content)
        replies.flush()


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))


def _limit_time(path: Path) -> None:
    """End this process when a document takes too long, by the time of its processor, or of a clock on Windows."""
    with suppress(OSError):
        seconds = seconds_for(path.stat().st_size)
        try:
            import resource

            used = resource.getrusage(resource.RUSAGE_SELF)
            soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
            resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        except ImportError:
            faulthandler.dump_traceback_later(seconds, exit=True)
