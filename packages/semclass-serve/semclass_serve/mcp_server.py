"""Serves passages and contexts of an index to assistants with the Model Context Protocol (extra ``mcp``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from semclass import __version__
from semclass.core.checks import check_positive, short
from semclass.core.errors import InputError, SemclassError, import_extra
from semclass.ranking.ask import MAX_SENTENCES, AnswerSentence
from semclass.ranking.result import SearchResult
from semclass.ranking.retriever import HybridRetriever
from semclass_llm import build_context

SHOWN = 10
"""Default number of passages of a search."""

WORDS = 600
"""Default number of words of a context."""

MOST, LONGEST, LONGEST_FILTER = 1000, 100_000, 10_000
"""Most passages of a search, and most characters of a question and of a filter. These bound the time that an assistant
waits.
"""

SAID = ("answerable", "certainty")
"""Fields of a result that the tools ``search``, ``ask`` and ``context`` return."""

INSTRUCTIONS = (
    "Passages of one collection of documents. Give `search` a whole question; `ask` returns the sentences that answer it, "
    "and `context` one text with numbered sources to answer from and to cite. If no passage answers a question, the "
    "collection does not hold the answer."
)


def make_server(retriever: HybridRetriever, name: str = "semclass") -> Any:
    """Make a server over an index.

    Its tools are ``search``, ``ask`` and ``context``, and ``classify`` if the models classify questions. The caller gets
    errors of semclass as errors of the tool, and the server continues.

    Parameters
    ----------
    retriever
        The retriever to search with, such as ``HybridRetriever.load("my-index")``.
    name
        Name of the server, which assistants show.

    Returns
    -------
    mcp.server.mcpserver.MCPServer
        The server. ``run()`` serves standard input and output.

    Raises
    ------
    MissingExtraError
        If the package ``mcp`` is not installed.
    """
    module = import_extra("mcp.server.mcpserver", "mcp")
    server = module.MCPServer(name, version=__version__, instructions=INSTRUCTIONS)
    reads = import_extra("mcp_types", "mcp").ToolAnnotations(read_only_hint=True, open_world_hint=False)
    refused = import_extra("mcp.server.mcpserver.exceptions", "mcp").ToolError

    def searched(question: str, k: int, where: dict[str, Any] | None) -> SearchResult:
        """The result of a search within the limits."""
        _check(question, k, where)
        return retriever.search(question, k, where=where)

    @contextmanager
    def told() -> Iterator[None]:
        """Errors of semclass are the caller's."""
        try:
            yield
        except SemclassError as error:
            raise refused(str(error)) from error

    def search(question: str, k: int = SHOWN, where: dict[str, Any] | None = None) -> dict[str, Any]:
        """Find the passages that answer a question, best first.

        `where` filters by metadata, such as {"document": "a.md"}.

        `answerable` is the probability that the collection answers the question at all. `certainty` tells how certain
        the first hit is.
        """
        with told():
            found = searched(question, k, where)
        hits = [{"id": hit.id, "text": hit.text, "score": hit.score, "metadata": dict(hit.metadata)} for hit in found]
        return {"hits": hits, **{name: getattr(found, name) for name in SAID}}

    def context(question: str, words: int = WORDS, where: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return one text of at most `words` words with numbered sources, from which you can answer a question."""
        with told():
            found = searched(question, SHOWN, where)
            made = build_context(found, budget=check_positive(words, "words"))
        sources = [asdict(source) for source in made.sources]
        return {"text": made.text, "sources": sources, **{name: getattr(found, name) for name in SAID}}

    def ask(question: str, k: int = MAX_SENTENCES, where: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the sentences that best answer a question, with the id and metadata of their passages.

        `answered` is false if nothing in the collection seems to answer.
        """
        with told():
            _check(question, k, where)
            found = retriever.ask(question, k, where=where)
        sentences = [_plain(one, number) for number, one in enumerate(found.sentences, 1)]
        return {"sentences": sentences, "answered": found.answered, **{name: getattr(found, name) for name in SAID}}

    def classify(question: str) -> dict[str, Any]:
        """Return the type of answer that a question asks for, such as HUM:ind for a person, with its probability."""
        with told():
            _check_length(question)
            found = retriever.models.questions.classify([question])[0]
        return {"label": found.fine, "probability": found.fine_probability}

    for tool in (search, ask, context, *((classify,) if retriever.models.has_classes else ())):
        server.tool(annotations=reads)(tool)
    return server


def _check(question: str, k: int, where: dict[str, Any] | None) -> None:
    """Refuse what exceeds the limits."""
    _check_length(question)
    if check_positive(k, "k") > MOST:
        raise InputError(f"k is {k}; it must be at most {MOST}")
    if len(short(where, LONGEST_FILTER)) > LONGEST_FILTER:
        raise InputError(f"where is too long; write a filter of at most {LONGEST_FILTER} characters of JSON")


def _plain(sentence: AnswerSentence, number: int) -> dict[str, Any]:
    return {"number": number, "text": sentence.text, "id": sentence.id, "metadata": dict(sentence.metadata)}


def _check_length(question: str) -> None:
    if len(question) > LONGEST:
        raise InputError(f"the question has {len(question)} characters; shorten it to at most {LONGEST}")
