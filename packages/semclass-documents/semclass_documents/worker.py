"""A process that reads documents. Only the system can stop a C library that loops or takes too much memory."""

from __future__ import annotations

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
from typing import IO, Any, cast

from semclass import Chunking, InputError, MissingExtraError, Passage, SemclassError
from semclass.plugins import Document, Record, reading
from semclass_documents.limits import CLOCK_FACTOR, MAX_MEMORY, SPLIT, seconds_for

_OUT_OF_MEMORY = 3
_OUT_OF_TIME = -getattr(signal, "SIGXCPU", 0)
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which is valid in JSON but not in UTF-8."""

_CODE = "import sys; sys.path[:] = sys.argv[1:]; from semclass_documents.worker import serve; serve()"


class Worker:
    """Reads documents by :func:`semclass_documents.reader.convert`, and cuts them, within limits of time and memory.

    The process starts with the first document. It starts again if a document ended it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def read(self, path: Path, chunking: Chunking) -> Document:
        """Read a document. An InputError or MissingExtraError says why it cannot be read."""
        with reading(path):
            size = path.stat().st_size
        document = Document(*self._ask(path, size, chunking, None))
        return document._replace(records=[Record(*record) for record in document.records])

    def cut(self, name: str, document: Document, chunking: Chunking) -> list[Passage]:
        """Cut a document into passages. An InputError says why it cannot be cut."""
        return [Passage(*passage) for passage in self._ask(Path(name), document.size, chunking, document)]

    def _ask(self, path: Path, size: int, chunking: Chunking, document: Document | None) -> Any:
        process, seconds = self._started(), seconds_for(size)
        requests, replies = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        request = json.dumps([str(path), seconds, dict(chunking.settings()), document])
        with self._clocked(path, process, CLOCK_FACTOR * seconds):
            with suppress(BrokenPipeError):
                requests.write(request.encode() + b"\n")
                requests.flush()
            head = replies.readline()
            kind, size = json.loads(head) if head.endswith(b"\n") else ("", 0)
            content = replies.read(size)
        if not head.endswith(b"\n"):
            raise _reason(path, self._end(), seconds)
        reply = json.loads(content)
        if kind:
            raise (MissingExtraError if kind == MissingExtraError.__name__ else InputError)(reply)
        return reply

    @contextmanager
    def _clocked(self, path: Path, process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
        """End the process if a document takes too much elapsed time. A waiting process takes no CPU time."""
        late = threading.Event()

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
            raise InputError(
                f"{path} took more than {seconds:.0f} seconds to read; {SPLIT}, or read it when the machine is idle"
            )

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the process; start it if there is none."""
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
        """Wait for the end of the process, and return its code."""
        process, self._process = cast("subprocess.Popen[bytes]", self._process), None
        with suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


def _reason(path: Path, code: int, seconds: int) -> InputError:
    """Say why the process of a document ended."""
    if code == _OUT_OF_TIME:
        return InputError(f"{path} took more than {seconds} seconds of CPU time; {SPLIT}")
    if code == _OUT_OF_MEMORY:
        return InputError(f"{path} took more than {MAX_MEMORY / 1e6:.0f} MB of memory to read; {SPLIT}")
    return InputError(f"{path} cannot be read: its reader crashed ({code}); check whether the file is damaged")


def serve() -> None:
    """Read or cut documents in this process. Each line of standard input names a document, or contains one to cut."""
    from semclass.plugins import cut_document
    from semclass_documents.reader import convert

    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no reply
    _limit_memory()
    for line in sys.stdin.buffer:
        try:
            name, seconds, settings, content = json.loads(line)
            chunking = Chunking(**settings)
            _limit_time(seconds)
            if content is None:
                reply = json.dumps(convert(Path(name), chunking), ensure_ascii=False)
            else:
                document = Document(*content)
                document = document._replace(records=[Record(*record) for record in document.records])
                passages = cut_document(name, document, chunking)
                reply = json.dumps([[one.id, one.text, one.metadata] for one in passages], ensure_ascii=False)
            kind = ""
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        except SemclassError as error:
            kind, reply = type(error).__name__, json.dumps(str(error))
        content = _SURROGATE.sub("\ufffd", reply).encode()
        replies.write(json.dumps([kind, len(content)]).encode() + b"\n" + content)
        replies.flush()


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, hard))


def _limit_time(seconds: int) -> None:
    """End this process when a document takes too much CPU time. On Windows, only elapsed time is limited."""
    with suppress(ImportError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
