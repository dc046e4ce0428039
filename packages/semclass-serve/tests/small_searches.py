"""32 clients with the longest questions beside one small search a second: ``python small_searches.py INDEX [SECONDS]``.

Starts ``semclass serve``, and prints the times of the small searches, all answers by status, and the memory of the service
before, at its peak and after.
"""

import itertools
import json
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import httpx
from serving import serving

CLIENTS = 32
QUIET_SECONDS = 8.0  # the service returns memory when all is quiet
KEPT_MB = 200  # of which it may keep so much
SMALL = {"question": "Who designed the lighthouse?", "k": 3}
LONGEST, TOO_LONG, PAGE = 99_000, 120_000, 9_900  # characters; the limit of a text is 100,000

FORMS = (
    "where the river goes and who knows ",
    "The light of the router is red. I have no idea why. ",
    "Who won the game? ",
    "a b ",
    "a,b;",  # one word of many pieces
    "我们在河边看见灯塔",
)
"""Contents of long questions. A word piece has between one and five of their characters."""


def flood(url, seconds):
    """Send long questions over all connections for some seconds; returns the number of answers by status."""
    lengths = (LONGEST, TOO_LONG, PAGE)
    bodies = itertools.cycle(
        [json.dumps({"question": (form * length)[:length]}) for form in FORMS for length in lengths]
    )
    end, statuses = time.monotonic() + seconds, Counter()

    def client(_):
        with httpx.Client(base_url=url, timeout=120, headers={"content-type": "application/json"}) as connection:
            while time.monotonic() < end:
                statuses[connection.post("/api/search", content=next(bodies)).status_code] += 1

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    return dict(statuses)


def resident(process):
    """Resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(index, seconds):
    """Flood a service of its own beside small searches; returns times, answers by status, and memory in MB."""
    context = multiprocessing.get_context("spawn")
    with (
        serving(index) as service,
        ProcessPoolExecutor(1, context) as pool,
        httpx.Client(base_url=service.url, timeout=120) as client,
    ):
        for _ in range(20):
            client.post("/api/search", json=SMALL)
        before = resident(service.process.pid)
        peak, over = [before], threading.Event()

        def watch():
            while not over.wait(0.05):
                peak.append(resident(service.process.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        running, latencies, small = pool.submit(flood, service.url, seconds), [], Counter()
        while not running.done():
            began = time.perf_counter()
            small[client.post("/api/search", json=SMALL).status_code] += 1
            latencies.append(time.perf_counter() - began)
            time.sleep(max(1 - latencies[-1], 0))
        over.set()
        watching.join()
        end = time.monotonic() + QUIET_SECONDS
        while (after := resident(service.process.pid)) > before + KEPT_MB and time.monotonic() < end:
            time.sleep(0.1)
    slowest, median = (round(1e3 * value) for value in (max(latencies), statistics.median(latencies)))
    memory = {"before_mb": round(before), "peak_mb": round(max(peak)), "after_mb": round(after)}
    return {"slowest_ms": slowest, "median_ms": median, "small": dict(small), "answers": running.result(), **memory}


if __name__ == "__main__":
    found = measure(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 20.0)
    sys.stdout.write(json.dumps(found) + "\n")
