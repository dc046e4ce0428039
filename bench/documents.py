"""Documentation as its packages ship it: is the section that answers first, and which cut holds what is needed.

The questions stand in ``documents/questions.tsv``, with the file, the heading and the sentence that answers. They were
written before the first search; nothing is tuned on them.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench import readme
from bench.contrast import PLAIN
from bench.steps import Bench
from datasets_io import read_jsonl
from semclass import Hit, HybridRetriever, Models, Passage, PassageIndex
from semclass.core import artifacts
from semclass.core.errors import SemclassError
from semclass.core.types import FloatArray
from semclass.documents.chunking import cut
from semclass.documents.readers import iter_passages
from semclass.encoders.onnx_encoder import for_passages
from semclass.ranking.methods import DEFAULT

HELD = Path(__file__).parent / "documents"
QUICK = 5  # one question of so many is asked in a quick run

METHODS = (DEFAULT, *PLAIN, "hybrid")
CUTS = {
    "paragraph": {"by": "paragraph"},
    "sentence": {"by": "sentence"},
    "window, 100 words": {"by": "window"},
    "window, 200 words": {"by": "window", "size": 200},
    "section": {"by": "section"},
    "section, 200 words": {"by": "section", "size": 200},
    "meaning, 100 words": {"by": "meaning"},
    "meaning, 200 words": {"by": "meaning", "size": 200},
}
"""Ways to cut, the default first."""

DEFAULT_CUT = next(iter(CUTS))  # only for it all methods are asked
KINDS = ("question", "faq")

SENTENCES, ARTICLE = 2400, 60  # of SQuAD's articles, that are read, and that are a document
ONE_IN = 20  # question of these that is asked

FIRST = (1, 3, 5, 10)  # so many passages are looked at
BUDGET = 300  # words that are handed on, whatever the cut
FEW = 5  # words of a passage that says too little


@dataclass(frozen=True)
class Question:
    """A question, and where the answer stands."""

    source: str
    kind: str  #: "question", or "faq": a heading
    question: str
    document: str
    heading: str
    shares: str  #: "yes" if it has a word of the heading
    excerpt: str  #: what answers it; empty for a heading


@dataclass(frozen=True)
class Source:
    """A source package, and what of it is documentation."""

    source: str
    sha256: str
    folder: str
    ending: str
    without: str  #: a folder below that is left out: old release notes, listings of code


Row = TypeVar("Row", Question, Source)


def read(kind: type[Row], name: str) -> list[Row]:
    with (HELD / name).open(encoding="utf-8", newline="") as file:
        return [kind(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def questions_of(source: str, *, quick: bool) -> list[Question]:
    found = [question for question in read(Question, "questions.tsv") if question.source == source]
    kinds = ([question for question in found if question.kind == kind] for kind in KINDS)
    return [question for some in kinds for question in (some[::QUICK] if quick else some)]


def run(bench: Bench) -> dict[str, Any]:
    """A step for each tree and cut; a quick run takes the first cut."""
    place = bench.sources or bench.work / "sources"
    trees: dict[str, Any] = {}
    for source in read(Source, "sources.tsv"):
        name, archive = source.source, place / f"{source.source}.tar.gz"
        if bench.fetch and not archive.is_file():
            fetch(name, place)
        if not archive.is_file():
            raise SemclassError(f"{archive} is not there; get it with --fetch, or name its folder with --sources")
        if artifacts.sha256_of(archive) != source.sha256:
            raise SemclassError(f"{archive} is not the file that was measured, whose SHA-256 is {source.sha256}")
        folder = bench.work / "trees" / name
        unpack(archive, source, folder)
        trees[name] = {
            cut: bench.step(
                f"documents/{name}/{cut}",
                "bench.documents:measure",
                folder=folder,
                source=name,
                cutting=cutting,
                methods=METHODS if cut == DEFAULT_CUT else METHODS[:1],
                quick=bench.quick,
            )
            for cut, cutting in CUTS.items()
            if cut == DEFAULT_CUT or not bench.quick
        }
    articles = {
        cut: bench.step(
            f"documents/articles/{cut}",
            "bench.documents:measure_articles",
            data=bench.data,
            cutting=cutting,
            quick=bench.quick,
        )
        for cut, cutting in CUTS.items()
        if cutting["by"] in ("sentence", "window", "meaning")
    }
    return {"quick": bench.quick, "trees": trees, "articles": articles}


def fetch(name: str, place: Path) -> None:
    """Get a source package from the registry."""
    package, _, version = name.rpartition("-")
    command = ("download", "--no-binary", ":all:", "--no-deps", "--dest", place, f"{package}=={version}")
    subprocess.run([sys.executable, "-m", "pip", *map(str, command)], check=True)


def unpack(archive: Path, source: Source, folder: Path) -> None:
    """Write the documentation of a source package, and nothing else of it."""
    with tarfile.open(archive) as packed:
        for member in packed:
            name = member.name.partition("/")[2].removeprefix(f"{source.folder}/")
            inside = f"/{source.folder}/" in member.name and ".." not in name and not name.startswith(source.without)
            if inside and member.isfile() and name.endswith(source.ending) and (held := packed.extractfile(member)):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                artifacts.write_atomic(folder / name, held.read())


def measure(
    folder: str, source: str, cutting: Mapping[str, Any], methods: Sequence[str], *, quick: bool
) -> dict[str, Any]:
    """Where each question's section stands by each method, and how much of its excerpt the first passages hold."""
    models = Models.load(threads=1)
    passages = list(iter_passages(folder, **cutting, vectors=vectors_of(models)))
    index = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    retriever, questions = HybridRetriever(index, models), questions_of(source, quick=quick)
    lengths = [len(passage.text.split()) for passage in passages]
    ranks: dict[str, list[int | None]] = {method: [] for method in methods}
    excerpts = []
    for question in questions:
        for method in methods:
            hits = retriever.search(question.question, k=max(FIRST), method=method)
            ranks[method].append(next((hit.rank for hit in hits if is_right(hit, question)), None))
            if method == methods[0] and question.excerpt:
                excerpts.append(list(held(hits, question)))
    return {
        "passages": len(passages),
        "words": sum(lengths) / len(lengths),
        "few_words": sum(length <= FEW for length in lengths) / len(lengths),
        "ranks": ranks,  # of the first right passage, question by question
        "excerpts": means_of(excerpts),
    }


def measure_articles(data: str, cutting: Mapping[str, Any], *, quick: bool) -> dict[str, Any]:
    """How much of the sentence that answers the first passages hold, in articles without headings."""
    texts, names = dict[str, str](), dict[str, tuple[str, str]]()
    corpus, queries = (
        read_jsonl(Path(data) / "squad_sentences" / f"dev.{kind}.jsonl.gz") for kind in ("corpus", "queries")
    )
    sentences = corpus[: SENTENCES // QUICK if quick else SENTENCES]
    for start in range(0, len(sentences), ARTICLE):
        part, name = sentences[start : start + ARTICLE], f"{start}.txt"
        texts[name] = " ".join(row["text"] for row in part)
        names |= {row["_id"]: (name, row["text"]) for row in part}
    asked = [(row["text"], *names[row["relevant"]]) for row in queries if row["relevant"] in names]
    models = Models.load(threads=1)
    passages = [
        passage for name, text in texts.items() for passage in cut(text, name, **cutting, vectors=vectors_of(models))
    ]
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    excerpts = []
    for text, document, excerpt in asked[::ONE_IN]:
        question = Question("articles", "question", text, document, "", "no", excerpt)
        excerpts.append(list(held(retriever.search(text, k=max(FIRST)), question)))
    return {
        "passages": len(passages),
        "words": sum(len(passage.text.split()) for passage in passages) / len(passages),
        "few_words": sum(len(passage.text.split()) <= FEW for passage in passages) / len(passages),
        "questions": len(excerpts),
        "excerpts": means_of(excerpts),
    }


def vectors_of(models: Models) -> Callable[[Sequence[str]], FloatArray]:
    encoder = for_passages(models.encoder)
    return lambda texts: encoder.encode(texts).rows("pooled")


def means_of(excerpts: Sequence[Sequence[float]]) -> dict[str, float]:
    return dict(zip(COLUMNS, [sum(column) / len(column) for column in zip(*excerpts, strict=True)], strict=True))


def words(text: str) -> list[str]:
    """Words without markup, which readers keep or take off."""
    return re.findall(r"[a-z0-9]+", text.lower())


def is_right(found: Hit | Passage, question: Question) -> bool:
    """Tell whether a passage stands under the heading, in the file."""
    headings = [words(heading) for heading in found.metadata.get("headings", ())]
    return found.metadata.get("document") == question.document and words(question.heading) in headings


COLUMNS = (*(f"{what}@{k}" for k in FIRST for what in ("recall", "precision", "words")), "recall_of_budget")


def held(hits: Sequence[Hit | Passage], question: Question) -> Iterator[float]:
    """Give, for each number of passages: share of the excerpt in them, share of them that is excerpt, and their words.

    The excerpt is what it has of runs of three words, so that markup between two words costs little.
    """
    wanted = runs(words(question.excerpt))
    texts = [(hit.metadata.get("document") == question.document, words(hit.text)) for hit in hits]
    for k in FIRST:
        there = set[tuple[str, ...]]().union(*(runs(text) for same, text in texts[:k] if same))
        recall, total = len(wanted & there) / len(wanted), sum(len(text) for _, text in texts[:k])
        yield from (recall, recall * len(words(question.excerpt)) / total, total)
    there, left = set(), BUDGET
    for same, text in texts:
        there |= runs(text[:left]) if same else set()
        left = max(0, left - len(text))
    yield len(wanted & there) / len(wanted)


def runs(text: Sequence[str]) -> set[tuple[str, ...]]:
    return set(zip(text, text[1:], text[2:], strict=False))


def shares(results: Mapping[str, Any], cut: str, method: str, most: int = 1, **fields: str) -> str:
    """Of the questions whose fields are these, the share with a right passage among the first so many."""
    found = [
        rank is not None and rank <= most
        for name, cuts in results["trees"].items()
        for question, rank in zip(questions_of(name, quick=results["quick"]), cuts[cut]["ranks"][method], strict=True)
        if all(getattr(question, field) == value for field, value in fields.items())
    ]
    return f"{sum(found) / len(found):.1%}"


def table(found: Mapping[str, Any]) -> str:
    """How often the section that answers is first, by method."""
    results = found["documents"]
    columns: dict[str, dict[str, Any]] = {
        "first": {"kind": "question"},
        "in the first three": {"kind": "question", "most": 3},
        **{f"first, {name}": {"kind": "question", "source": name} for name in results["trees"]},
        "first, a word of the heading": {"kind": "question", "shares": "yes"},
        "first, none": {"kind": "question", "shares": "no"},
        "headings asked, first": {"kind": "faq"},
    }
    before = artifacts.read_json(
        HELD / "before.json"
    )  # the last commit that searched no headings, on the same questions
    rows = [
        (f"`{method}`{said}", *(shares(told, DEFAULT_CUT, method, **column) for column in columns.values()))
        for said, told in (("", results), (f", commit {before['commit']}", before))
        for method in METHODS
    ]
    return readme.markdown(("method", *columns), rows)


def table_of_cuts(found: Mapping[str, Any]) -> str:
    """What each cut finds, and how much of what is needed it holds."""
    results = found["documents"]
    rows = []
    for name, cuts in {**results["trees"], "articles": results.get("articles", {})}.items():
        for cut_by, row in cuts.items():
            told, one = row["excerpts"], {"kind": "question", "source": name}
            found_by = [
                shares(results, cut_by, DEFAULT, most, **one) if name in results["trees"] else "-" for most in (1, 3)
            ]
            rows.append((
                name, cut_by, f"{row['passages']:,}", f"{row['words']:.0f}", f"{row['few_words']:.1%}", *found_by,
                *(f"{told[f'recall@{k}']:.0%}" for k in (1, 3, 5)),
                f"{told['precision@3']:.0%}", f"{told['words@3']:.0f}", f"{told['recall_of_budget']:.0%}",
            ))  # fmt: skip
    head = (
        "documents", "cut", "passages", "words each", f"of {FEW} words or fewer", "section first", "in the first three",
        "excerpt in 1", "in 3", "in 5", "needed, of 3", "words of 3", f"excerpt in {BUDGET} words",
    )  # fmt: skip
    return readme.markdown(head, rows)


TABLES = {"": table, "cuts": table_of_cuts}
