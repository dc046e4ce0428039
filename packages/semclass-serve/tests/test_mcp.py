"""The server of the Model Context Protocol, asked by the protocol's own client."""

from __future__ import annotations

import asyncio
import sys

import pytest

from semclass import HybridRetriever, Passage, PassageIndex, build_index
from semclass_serve.mcp_server import make_server

mcp = pytest.importorskip("mcp")

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

PASSAGES = [
    Passage("a", "The bridge was built of granite by Ada Merriweather.", {"page": 1}),
    Passage("b", "The bridge was opened in October 1874.", {"page": 2}),
]


def asked(server, *calls):
    """Results of some calls of tools, and the names of all tools."""

    async def talk():
        async with mcp.Client(server) as client:
            tools = {tool.name: tool.description for tool in (await client.list_tools()).tools}
            return tools, [await client.call_tool(*call) for call in calls]

    return asyncio.run(talk())


@pytest.fixture(scope="module")
def server(models):
    return make_server(HybridRetriever(PassageIndex.build(PASSAGES, passage_encoder=models.passage_encoder), models))


def test_a_client_searches_asks_and_classifies(server):
    question = "Who built the bridge?"
    names, (found, narrow, sentences, label) = asked(
        server,
        ("search", {"question": question, "k": 1}),
        ("search", {"question": question, "where": {"page": 2}}),
        ("ask", {"question": question, "k": 1}),
        ("classify", {"question": question}),
    )
    assert set(names) == {"search", "ask", "classify"}
    assert "knows: page." in names["search"]
    (hit,) = found.structured_content["hits"]
    assert (hit["id"], hit["metadata"]) == ("a", {"page": 1})
    assert 0 <= found.structured_content["answerable"] <= 1
    assert found.structured_content["certainty"] in ("strong", "likely", "weak")
    assert [other["id"] for other in narrow.structured_content["hits"]] == ["b"]
    (sentence,) = sentences.structured_content["sentences"]
    assert (sentence["number"], sentence["id"], sentence["text"]) == (1, "a", PASSAGES[0].text)
    assert sentences.structured_content["answered"] is True
    assert label.structured_content["label"] == "HUM:ind"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (("search", {"question": "Who?", "k": 1001}), "1000"),
        (("classify", {"question": "w " * 60_000}), "120000"),
        (("search", {"question": "Who?", "where": {"$what": 1}}), "$what"),
    ],
)
def test_a_refusal_is_told_to_the_caller(server, call, named):
    _, (found,) = asked(server, call)
    assert found.is_error
    assert named in found.content[0].text


def test_the_command_serves_an_index(tmp_path, models):
    build_index(tmp_path / "index", PASSAGES, passage_encoder=models.passage_encoder)
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "semclass", "mcp", str(tmp_path / "index")], cwd=str(tmp_path)
    )
    _, (found,) = asked(command, ("search", {"question": "When was the bridge opened?", "k": 1}))
    assert found.structured_content["hits"][0]["id"] == "b"
