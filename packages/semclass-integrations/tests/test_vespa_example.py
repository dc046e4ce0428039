"""The example for Vespa, without its server: the feed is what the schema says, and gives the hits of the index."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET

import blocks
import pytest
from world import ROOT

from semclass import HybridRetriever, Passage
from semclass_integrations.engine import EngineIndex

APPLICATION = ROOT / "docs" / "examples" / "vespa"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the page writes."""
    folder = tmp_path_factory.mktemp("vespa")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        blocks.run_page(ROOT / "docs" / "howto" / "vespa.md", folder)
    return folder


def documents(folder):
    return [json.loads(line) for line in (folder / "feed.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_feed_has_the_fields_and_types_of_the_schema(folder):
    schema = (APPLICATION / "schemas" / "passage.sd").read_text(encoding="utf-8")
    types = dict(re.findall(r"field (\w+) type (\S+) \{", schema))
    assert len(documents(folder)) == 2
    for number, document in enumerate(documents(folder)):
        assert document["put"] == f"id:semclass:passage::{number}"
        assert document["fields"].keys() == types.keys()
        for name, value in document["fields"].items():
            if types[name] == "string":
                assert isinstance(value, str)
            elif types[name] == "raw":
                assert base64.b64decode(value, validate=True)
            else:
                (size,) = re.fullmatch(r"tensor<float>\(x\[(\d+)\]\)", types[name]).groups()
                assert len(value) == int(size)
                assert all(isinstance(number, float) for number in value)
    (asked,) = re.findall(r"query\(asked\) (\S+)", schema)
    assert asked == types["vector"]


def test_the_schema_is_whole_and_is_the_one_that_is_served():
    schema = (APPLICATION / "schemas" / "passage.sd").read_text(encoding="utf-8")
    assert schema.count("{") == schema.count("}")
    ranked = set(re.findall(r"(?:closeness\(field, |bm25\()(\w+)", schema))
    assert ranked <= set(re.findall(r"field (\w+) type", schema))
    (document,) = ET.parse(APPLICATION / "services.xml").getroot().iter("document")  # noqa: S314 - our own file
    assert f"schema {document.get('type')} {{" in schema


def test_the_feed_gives_the_hits_of_the_index(folder, models):
    rows = [document["fields"] for document in documents(folder)]
    found = [
        (Passage(row["name"], row["text"], json.loads(row["metadata"])), base64.b64decode(row["stored"]))
        for row in rows
    ]
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    retriever = HybridRetriever(EngineIndex.of(record, lambda question, vector, n, where: found[:n]), models)
    wanted = HybridRetriever.from_passages([passage for passage, _ in found], models=models)
    for question in ("Who built the bridge?", "What does the film tell?"):
        assert [hit.id for hit in retriever.search(question)] == [hit.id for hit in wanted.search(question)]
