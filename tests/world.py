"""Shared parts of tests: the shipped models, an index of the demonstration, a tiny made-up encoder and its passages."""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read once, when numpy is imported
    os.environ.setdefault(variable, "1")  # tests run beside each other: more threads would wait for processors

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from semclass import Hit, HybridRetriever, Models, OnnxEncoder, Passage, PassageClassifier, PassageIndex
from semclass.core import plugins
from semclass.core.types import Encoding, ragged
from semclass.documents.readers import read_passages
from semclass.index.candidates import Scoring
from semclass.index.passage_encoder import PassageEncoder
from semclass.ranking.models import read_questions
from semclass.scoring.vectors import Codebooks

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "models"

# a property is about values: how long an example took says only how busy the machine was. Examples are the same in every
# run, so that a change is judged by what it changes; `pytest --hypothesis-profile=search` looks for others
settings.register_profile("values", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("search", deadline=None)
settings.load_profile("values")


@cache
def word_vectors(n_terms: int, dim: int) -> np.ndarray:
    """Vectors of length 1, one for each word."""
    table = np.random.default_rng(0).normal(size=(n_terms, dim)).astype(np.float32)
    return table / np.linalg.norm(table, axis=1, keepdims=True)


@dataclass(frozen=True)
class FakeEncoder:
    """Sixteen dimensions, a word a term: enough of an encoder to show that any will do."""

    fingerprint: str = "fake"
    dim: int = 16
    n_terms: int = 1000
    provided: int = 0  # dimensions of the view `provides`; 0: there is none

    @property
    def views(self) -> dict[str, int]:
        views = {"pooled": self.dim, "layers": 2 * self.dim, "tokens": self.dim}
        return {**views, "provides": self.provided} if self.provided else views

    @property
    def is_term(self) -> np.ndarray:
        return np.ones(self.n_terms, bool)

    @property
    def vocabulary(self) -> list[str]:
        return [f"w{place}" for place in range(self.n_terms)]

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        table = word_vectors(self.n_terms, self.dim)
        terms = [
            np.array([sum(word.encode()) % self.n_terms for word in text.lower().split()], np.int32) for text in texts
        ]
        means = np.array([table[row].mean(axis=0) for row in terms], np.float32).reshape(-1, self.dim)
        return Encoding(
            terms=ragged(terms, np.zeros(0, np.int32)),
            pooled=means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9),
            layers=np.concatenate([means, means**2], axis=1),
            tokens=ragged([table[row] for row in terms], np.zeros((0, self.dim), np.float32)),
            provides=3 * np.einsum("nd,pd->np", means, table[: self.provided]) if self.provided else None,
        )


class Counting(FakeEncoder):
    """Remembers the texts that it encoded."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "seen", [])

    def encode(self, texts, *, views=("pooled",)):
        self.seen.extend(texts)
        return super().encode(texts, views=views)


def passage_encoder_of(encoder, codebooks=None) -> PassageEncoder:
    """A passage encoder without heads."""
    return PassageEncoder(PassageClassifier(encoder, None), codebooks)


FAKE = passage_encoder_of(FakeEncoder())

BOOKS = Codebooks(
    "books",
    np.random.default_rng(1).integers(-30, 30, (1000, 16)).astype(np.int8),
    np.random.default_rng(0).normal(size=(16, 256, 1)).astype(np.float32),
)
"""Codebooks for the vectors of the fake encoder."""

WORDS = ["red", "green", "blue", "boat", "hill", "lake", "stone", "tower", "bridge", "river"]


def passages(*numbers: int, text: str = "the {} boat", **metadata: object) -> list[Passage]:
    """Short passages, whose ids are the numbers."""
    return [Passage(str(number), text.format(WORDS[number % 10] + str(number)), metadata) for number in numbers]


def scores(
    index: PassageIndex, text: str, n: int = 1000, *, passage_encoder: PassageEncoder = FAKE, **options: object
) -> dict[str, float]:
    """Scores of the best passages by their ids."""
    (query,) = read_questions(passage_encoder.encoder, None, [text])
    best = index.candidates(query, n, Scoring({"dense": 1.0, "bm25": 0.1}), passage_encoder=passage_encoder, **options)
    return dict(zip((passage.id for passage in index.passages(best.rows)), best.score.tolist(), strict=True))


def assert_same_hits(found: Sequence[Hit], wanted: Sequence[Hit]) -> None:
    """Compare hits of two indices of the same passages."""
    assert [hit.id for hit in found] == [hit.id for hit in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-5)
        assert mine.components == pytest.approx(theirs.components, abs=1e-5)
        assert (mine.text, mine.metadata, mine.labels) == (theirs.text, theirs.metadata, theirs.labels)


MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes folders of its own there
ENOUGH = 8e9
"""Bytes in memory that temporary files may need."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary folders in memory where there is enough: on a disk, tests of indices take twice as long."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


TESTS = ROOT / "tests"
FAST = {"core", "documents", "encoders", "heads", "index", "ranking", "scoring"}
"""Folders whose tests need neither the shipped models nor a process, except where they say so."""


def ignored_without(name: str) -> list[str]:
    """Patterns of files that pytest does not collect where a distribution is not installed."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return ["*.py"]
    return []


MODEL_FIXTURES = {"data_folder", "encoder", "models"}
WAITING = {"test_connection.py", "test_limits.py"}
"""Files whose tests wait for another process, or for time to pass."""


def is_fast(item: pytest.Function) -> bool:
    """Whether a test needs neither the shipped models nor a process: it is in such a folder, and names neither."""
    folder = item.path.parent.name
    shipped = MODEL_FIXTURES.intersection(item.fixturenames)
    named = {"MODELS", "subprocess"}.intersection(item.obj.__code__.co_names)
    return folder in FAST and item.path.name not in WAITING and not shipped and not named


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no other folders for `pytest -m fast`."""
    other = (collection_path.parent == TESTS and collection_path.name not in FAST) or collection_path.name == "packages"
    return True if other and config.option.markexpr == "fast" else None


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        if is_fast(item):
            item.add_marker("fast")


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda number: None)
        yield


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by the readers of semclass alone, in this process, whatever packages are installed."""
    monkeypatch.setattr(plugins, "installed", lambda group: {})


@pytest.fixture(scope="session")
def fake_encoder() -> FakeEncoder:
    return FakeEncoder()


@pytest.fixture
def index_folder(tmp_path: Path) -> Path:
    """An index of the fake passages 0 to 19."""
    PassageIndex.build(passages(*range(20)), passage_encoder=FAKE).save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture(scope="session")
def encoder() -> OnnxEncoder:
    """The shipped encoder."""
    return OnnxEncoder.load(MODELS / "encoder")


@pytest.fixture(scope="session")
def models(encoder: OnnxEncoder) -> Models:
    """All shipped models."""
    return Models.load(MODELS, encoder=encoder)


@pytest.fixture(scope="session")
def corpus() -> list[Passage]:
    """The thirty passages of the demonstration."""
    return read_passages(ROOT / "semclass" / "demo_data" / "corpus.jsonl")


@pytest.fixture(scope="session")
def retriever(models: Models, corpus: list[Passage]) -> HybridRetriever:
    """Over an index of the demonstration."""
    return HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the public data sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("SEMCLASS_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; name one with SEMCLASS_DATA")
    return folder
