"""``semclass serve`` as a process."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager


@contextmanager
def serving(*arguments, before=()):
    """A process that is ready, and the lines that it logs."""
    command = [*before, sys.executable, "-m", "semclass", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    lines, ready = [], threading.Event()

    def read():
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "serving":
                ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        ready.wait()
        assert process.poll() is None, lines
        yield process, lines
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def address(lines):
    """Where a process serves."""
    (line,) = [line for line in lines if line["event"] == "serving"]
    return f"http://{line['host']}:{line['port']}"
