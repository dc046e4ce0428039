"""Questions over documentation trees: what is unpacked, and which passages are right."""

from __future__ import annotations

import io
import tarfile

import pytest

from bench import trees
from datasets_io import read_tsv
from semclass import InputError, Passage
from semclass.core import artifacts


def test_only_the_documentation_of_an_archive_is_written(tmp_path):
    archive = tmp_path / "tool-1.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for name in ("docs/use.rst", "docs/history/old.rst", "docs/logo.png", "src/tool.py", "docs/../out.rst"):
            member = tarfile.TarInfo(f"tool-1/{name}")
            member.size = 4
            packed.addfile(member, io.BytesIO(b"text"))
    source = {"sha256": artifacts.sha256_of(archive), "folder": "docs", "ending": ".rst", "without": "history/"}
    trees.unpack(archive, source, tmp_path / "tree")
    assert [path.name for path in (tmp_path / "tree").rglob("*")] == ["use.rst"]
    with pytest.raises(InputError, match="registry"):
        trees.unpack(archive, {**source, "sha256": "0"}, tmp_path / "tree")


def test_a_passage_below_the_heading_in_the_file_is_right():
    question = {"kind": "question", "document": "use.rst", "heading": "Time limits", "answers": "a limit is | it ends"}
    metadata = {"document": "use.rst", "headings": ["Tasks", "Time *limits*"]}
    assert trees.is_right(Passage("1", "text", metadata), question)
    assert not trees.is_right(Passage("1", "text", {**metadata, "document": "other.rst"}), question)
    elsewhere = Passage("1", "A *limit* is a time.", {**metadata, "headings": ["Tasks"]})
    assert not trees.is_right(elsewhere, question)
    assert trees.is_right(elsewhere, {**question, "kind": "definition"})


def test_a_sentence_that_holds_a_marked_string_answers():
    question = {"answers": "a limit is | it ends"}
    assert trees.holds("Then it `ends`.", question)
    assert not trees.holds("A limit isn't much.", {"answers": "limit i"})


def test_every_question_is_of_a_tree_that_is_known():
    sources = {row["source"] for row in read_tsv(trees.HELD / "sources.tsv")}
    assert {row["source"] for row in read_tsv(trees.HELD / "questions.tsv")} == sources
