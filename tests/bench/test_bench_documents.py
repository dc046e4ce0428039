"""Documentation as packages ship it: what is unpacked, what counts as found, how much of what is needed is held."""

from __future__ import annotations

import io
import tarfile

import pytest

from bench import documents
from semclass import Passage

QUESTION = documents.Question(
    "boiler-1.0", "question", "How long is it?", "a/terms.rst", "Warranty period", "no", "The boiler has *two* years."
)
SOURCES = {source.source for source in documents.read(documents.Source, "sources.tsv")}


def passage(text, *headings, document="a/terms.rst"):
    return Passage("1", text, {"document": document, "headings": list(headings)})


def test_the_questions_are_many_and_half_of_them_have_no_word_of_the_heading():
    found = documents.read(documents.Question, "questions.tsv")
    asked = [question for question in found if question.kind == "question"]
    assert {question.source for question in asked} == SOURCES
    assert len(asked) >= 60
    assert sum(question.shares == "no" for question in asked) >= len(asked) / 2
    assert all(question.excerpt for question in asked)
    assert sum(question.kind == "faq" for question in found) >= 118


def test_of_a_package_only_its_documentation_is_written(tmp_path):
    archive, out = tmp_path / "boiler-1.0.tar.gz", tmp_path / "out"
    names = ("docs/a/terms.rst", "docs/old/terms.rst", "docs/logo.png", "docs/../../away.rst", "code/terms.rst")
    with tarfile.open(archive, "w:gz") as packed:
        for name in names:
            member = tarfile.TarInfo(f"boiler-1.0/{name}")
            member.size = 4
            packed.addfile(member, io.BytesIO(b"text"))
    documents.unpack(archive, documents.Source("", "", "docs", ".rst", "old/"), out)
    assert [path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()] == ["a/terms.rst"]


def test_a_passage_is_right_below_the_heading_whatever_its_markup_and_only_in_the_file():
    assert documents.is_right(passage("Two years.", "Terms", "**Warranty** period", "Boiler"), QUESTION)
    assert not documents.is_right(passage("Two years.", "Terms", "Warranty periods"), QUESTION)
    assert not documents.is_right(passage("Two years.", "Warranty period", document="b.rst"), QUESTION)


def test_what_is_held_of_an_excerpt_worked_out_by_hand():
    hits = [
        passage("The boiler has two years", document="b.rst"),  # the same words elsewhere are not the answer
        passage("Note that the boiler has two"),  # two of three runs of three words
        passage("boiler has two years more"),
    ]
    found = dict(zip(documents.COLUMNS, documents.held(hits, QUESTION), strict=True))
    assert found["recall@1"] == 0
    assert found["recall@3"] == found["recall_of_budget"] == 1
    assert found["words@3"] == 5 + 6 + 5
    assert found["precision@3"] == pytest.approx(5 / 16)


def test_the_tables_count_questions_by_what_they_are():
    trees = {}
    for name in SOURCES:
        asked = documents.questions_of(name, quick=True)
        ranks = [1 if question.kind == "faq" else 2 for question in asked]
        row = {"passages": 9, "words": 20.0, "few_words": 0.0, "excerpts": dict.fromkeys(documents.COLUMNS, 0.5)}
        trees[name] = {documents.DEFAULT_CUT: {**row, "ranks": dict.fromkeys(documents.METHODS, ranks)}}
    found = {"documents": {"quick": True, "trees": trees}}
    first = documents.table(found).splitlines()[2].split(" | ")
    assert first[1:3] == ["0.0%", "100.0%"]
    assert first[-1].startswith("100.0%")
    assert len(documents.table_of_cuts(found).splitlines()) == 2 + len(trees)
