"""Finding near vectors among many: what semclass does by itself against usearch, faiss and hnswlib.

Each library indexes the vectors of the same made corpus, see :mod:`bench.made_corpus`, in a process of its own: seconds of
building, bytes on the disk, memory of a process that searches, and, for each setting, time of a search on one thread and
how many of the 10 and of the 100 nearest passages are among what is found. Libraries are given int8 where they take it.
``looks`` is how many passages a search gives for a closer look, whose vectors are then compared exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import growth, scale
from bench.steps import Bench
from semclass import OnnxEncoder
from semclass.core.errors import import_extra
from semclass.index.passage_index import PassageIndex
from semclass.scoring.reduction import load, reduce_vectors, save
from semclass.scoring.topk import top_k
from semclass.scoring.vectors import Vectors

LIBRARIES = ("reduced", "usearch", "faiss_hnsw", "faiss_ivf", "hnswlib")

SIZES = (100_000,)
"""Passages. A graph of a million takes these libraries hours on two slow processors."""

THREADS = 2
"""Of building."""

NEIGHBOURS, ADDED = 16, 128
"""Connectivity of graphs, and how many passages are looked at when one is added: the same for all libraries."""

ASKED, DEEP = 200, 100
BLOCK = 20_000

Search = Callable[[npt.NDArray[np.float32], int], npt.NDArray[Any]]
"""Places of so many passages near to a vector."""


@dataclass(frozen=True)
class Engine:
    """A library with an index: how to search it with each setting."""

    search: Callable[[int], Search]
    settings: tuple[int, ...]


def run(bench: Bench) -> dict[str, Any]:
    """All libraries on all sizes; a quick run takes a small corpus."""
    few, data, rows = bench.quick, str(bench.data), []
    pool, _ = scale.sentences(bench)
    for size in (1_000,) if few else SIZES:
        folder, _ = scale.made(bench, size, pool)
        truth = bench.work / "ann" / f"nearest-{size}.npz"
        asked = 20 if few else ASKED
        bench.step(f"ann/{size}/exact", "bench.ann:exact", wrote=truth, index=folder, data=data, limit=asked, out=truth)
        for library in LIBRARIES:
            path = bench.work / "ann" / f"{library}-{size}"
            built = bench.step(
                f"ann/{size}/{library}/build",
                "bench.ann:build",
                threads=THREADS,
                wrote=path,
                library=library,
                index=folder,
                out=path,
            )
            if "skipped" in built:
                rows.append({"library": library, "passages": size, **built})
                continue
            found = bench.step(
                f"ann/{size}/{library}/search",
                "bench.ann:search",
                library=library,
                path=path,
                index=folder,
                truth=truth,
            )
            known = {name: built[name] for name in ("passages", "build_s", "bytes")}
            rows += [{"library": library, **known, **row} for row in found["rows"]]
    return {"libraries": rows}


def exact(index: str, data: str, limit: int, out: str) -> dict[str, Any]:
    """Questions' vectors, and the passages nearest to each by comparing all."""
    opened = PassageIndex.load(index, verify=False)
    asked = np.asarray(OnnxEncoder.load().encode(growth.questions(data, limit)).rows("pooled"))
    vectors, nearest, seconds = Vectors(opened.pooled_codes, opened.pooled_levels), [], []
    vectors.scores(asked[0])
    for vector in asked:
        started = time.perf_counter()
        scores = vectors.scores(vector)
        seconds.append(time.perf_counter() - started)
        nearest.append(top_k(scores, DEEP))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    np.savez(out, asked=asked, nearest=np.stack(nearest))
    return {"passages": len(opened), "exact_ms_p50": round(float(np.median(seconds)) * 1e3, 3)}


def build(library: str, index: str, out: str) -> dict[str, Any]:
    """Build one library's index."""
    opened = PassageIndex.load(index, verify=False)
    started = time.perf_counter()
    size = BUILD[library](opened.pooled_codes, opened.pooled_levels, Path(out))
    return {"passages": len(opened), "build_s": round(time.perf_counter() - started, 1), "bytes": size}


def search(library: str, path: str, index: str, truth: str) -> dict[str, Any]:
    """Search one library's index with each setting; memory is what opening it and searching it take."""
    opened = PassageIndex.load(index, verify=False)
    with np.load(truth) as found:
        asked, nearest = found["asked"], found["nearest"]
    before = growth.resident()
    engine, rows = OPEN[library](Path(path), opened), []
    for setting in engine.settings:
        one = engine.search(setting)
        for vector in asked[:20]:
            one(vector, DEEP)
        seconds, given = [], []
        for vector in asked:
            started = time.perf_counter()
            given.append(one(vector, DEEP))
            seconds.append(time.perf_counter() - started)
        now = growth.resident()
        rows.append(
            {
                "setting": setting,
                "looks": round(float(np.mean([len(some) for some in given]))),
                **{f"search_ms_p{part}": round(float(np.percentile(seconds, part)) * 1e3, 3) for part in (50, 99)},
                **{f"recall_{depth}": recall(nearest[:, :depth], given) for depth in (10, DEEP)},
                **{f"memory_{kind}_mb": round(now[kind] - before[kind], 1) for kind in now},
            }
        )
    return {"rows": rows}


def recall(nearest: npt.NDArray[Any], given: Sequence[npt.NDArray[Any]]) -> float:
    """Share of the nearest that are among those given, on average."""
    return round(float(np.mean([np.isin(some, got).mean() for some, got in zip(nearest, given, strict=True)])), 4)


def _blocks(codes: npt.NDArray[np.int8], levels: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    for begin in range(0, len(codes), BLOCK):
        yield begin, codes[begin : begin + BLOCK] * levels[begin : begin + BLOCK, None]


def _build_reduced(codes: npt.NDArray[np.int8], levels: npt.NDArray[Any], path: Path) -> int:
    save(reduce_vectors(codes, levels), path)
    return sum(file.stat().st_size for file in path.iterdir())


def _open_reduced(path: Path, index: PassageIndex) -> Engine:
    reduced = load(path)

    def search(looks: int) -> Search:
        return lambda vector, _: reduced.nearest(vector, looks)

    return Engine(search, (DEEP, 256, 1024, 4096))


def _build_usearch(codes: npt.NDArray[np.int8], levels: npt.NDArray[Any], path: Path) -> int:
    library = import_extra("usearch.index", "ann").Index(
        ndim=codes.shape[1], metric="cos", dtype="i8", connectivity=NEIGHBOURS, expansion_add=ADDED
    )
    for begin in range(0, len(codes), BLOCK):
        rows = codes[begin : begin + BLOCK]
        library.add(np.arange(begin, begin + len(rows), dtype=np.uint64), rows, threads=THREADS)
    library.save(str(path))
    return path.stat().st_size


def _open_usearch(path: Path, index: PassageIndex) -> Engine:
    library = import_extra("usearch.index", "ann").Index.restore(str(path), view=True)

    def search(looks: int) -> Search:
        def one(vector: npt.NDArray[np.float32], n: int) -> npt.NDArray[Any]:
            library.expansion_search = looks
            return np.asarray(library.search(vector, n, threads=1).keys)

        return one

    return Engine(search, (128, 256, 512, 1024))


def _build_faiss_hnsw(codes: npt.NDArray[np.int8], levels: npt.NDArray[Any], path: Path) -> int:
    faiss = import_extra("faiss", "bench")
    faiss.omp_set_num_threads(THREADS)
    metric = faiss.METRIC_INNER_PRODUCT
    library = faiss.IndexHNSWSQ(codes.shape[1], faiss.ScalarQuantizer.QT_8bit, NEIGHBOURS, metric)
    library.hnsw.efConstruction = ADDED
    return _fill_faiss(faiss, library, codes, levels, path)


def _build_faiss_ivf(codes: npt.NDArray[np.int8], levels: npt.NDArray[Any], path: Path) -> int:
    faiss = import_extra("faiss", "bench")
    faiss.omp_set_num_threads(THREADS)
    lists = max(min(4 * int(len(codes) ** 0.5), len(codes) // 40), 1)
    library = faiss.index_factory(codes.shape[1], f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    return _fill_faiss(faiss, library, codes, levels, path)


def _fill_faiss(faiss: Any, library: Any, codes: npt.NDArray[np.int8], levels: npt.NDArray[Any], path: Path) -> int:
    some = np.linspace(0, len(codes) - 1, min(len(codes), 100_000)).astype(np.int64)
    library.train(codes[some] * levels[some, None])
    for _, rows in _blocks(codes, levels):
        library.add(rows)
    faiss.write_index(library, str(path))
    return path.stat().st_size


def _open_faiss(path: Path, index: PassageIndex) -> Engine:
    faiss = import_extra("faiss", "bench")
    faiss.omp_set_num_threads(1)
    library = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    graph = path.name.startswith("faiss_hnsw")

    def search(looks: int) -> Search:
        if graph:
            library.hnsw.efSearch = looks
        else:
            library.nprobe = looks
        return lambda vector, n: library.search(vector[None], n)[1][0]

    return Engine(search, (128, 256, 512, 1024) if graph else (8, 16, 32, 64))


def _build_hnswlib(codes: npt.NDArray[np.int8], levels: npt.NDArray[Any], path: Path) -> int:
    library = import_extra("hnswlib", "bench").Index("ip", codes.shape[1])
    library.init_index(len(codes), M=NEIGHBOURS, ef_construction=ADDED, random_seed=0)
    for begin, rows in _blocks(codes, levels):
        library.add_items(rows, np.arange(begin, begin + len(rows)), num_threads=THREADS)
    library.save_index(str(path))
    return path.stat().st_size


def _open_hnswlib(path: Path, index: PassageIndex) -> Engine:
    library = import_extra("hnswlib", "bench").Index("ip", index.pooled_codes.shape[1])
    library.load_index(str(path))

    def search(looks: int) -> Search:
        library.set_ef(looks)
        return lambda vector, n: library.knn_query(vector, n, num_threads=1)[0][0]

    return Engine(search, (128, 256, 512, 1024))


BUILD: dict[str, Callable[[npt.NDArray[np.int8], npt.NDArray[Any], Path], int]] = {
    "reduced": _build_reduced,
    "usearch": _build_usearch,
    "faiss_hnsw": _build_faiss_hnsw,
    "faiss_ivf": _build_faiss_ivf,
    "hnswlib": _build_hnswlib,
}
OPEN: dict[str, Callable[[Path, PassageIndex], Engine]] = {
    "reduced": _open_reduced,
    "usearch": _open_usearch,
    "faiss_hnsw": _open_faiss,
    "faiss_ivf": _open_faiss,
    "hnswlib": _open_hnswlib,
}
"""What builds an index and gives its bytes, and what opens it, by library."""
