"""A server of the Model Context Protocol over an index, for assistants (extra ``mcp``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import cleandoc
from typing import Any

from semclass import HybridRetriever, SemclassError, __version__
from semclass.plugins import import_extra
from semclass_serve.limits import Settings, check_count, check_filter, check_texts

PASSAGES, SENTENCES = 10, 5
"""Default number of passages of a search, and of sentences of an answer."""

LIMITS = Settings()
"""The limits of the service, which also limit the time of a call."""

MAX_FIELDS = 50
"""Most metadata fields that the description of a tool lists."""

STATEMENTS = ("answerable", "certainty")
"""Fields of a result that the tools ``search`` and ``ask`` return."""

INSTRUCTIONS = (
    "Passages of one collection of documents. Give `search` a whole question; `ask` returns the sentences that answer it, "
    "numbered so that you can cite them. If no passage answers a question, the collection does not hold the answer."
)


def make_server(retriever: HybridRetriever, name: str = "semclass") -> Any:
    """Make a server over an index.

    Its tools are ``search`` and ``ask``, and ``classify`` if the models classify questions. Errors of semclass become
    errors of the tool, and the server continues. Assistants show the `name`. The result is an
    ``mcp.server.mcpserver.MCPServer``; its method ``run()`` serves standard input and output. Without ``mcp``, a
    MissingExtraError names the command to install it.
    """
    module = import_extra("mcp.server.mcpserver", "mcp")
    server = module.MCPServer(name, version=__version__, instructions=INSTRUCTIONS)
    reads = import_extra("mcp_types", "mcp").ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tool_error = import_extra("mcp.server.mcpserver.exceptions", "mcp").ToolError

    @contextmanager
    def errors_of_caller() -> Iterator[None]:
        try:
            yield
        except SemclassError as error:
            raise tool_error(str(error)) from error

    def search(question: str, k: int = PASSAGES, where: dict[str, Any] | None = None) -> dict[str, Any]:
        """Find the passages that answer a question, best first.

        `where` filters by metadata, such as {"document": "a.md"} or {"page": {"$gte": 3}}.

        `answerable` is the probability that the collection answers the question at all. `certainty` says how certain
        the first hit is.
        """
        with errors_of_caller():
            _check(question, k, where)
            result = retriever.search(question, k, where=where)
        hits = [{"id": hit.id, "text": hit.text, "score": hit.score, "metadata": dict(hit.metadata)} for hit in result]
        return {"hits": hits, **{name: getattr(result, name) for name in STATEMENTS}}

    def ask(question: str, k: int = SENTENCES, where: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the sentences that best answer a question, with the id and metadata of their passages.

        `answered` is false if nothing in the collection seems to answer.
        """
        with errors_of_caller():
            _check(question, k, where)
            answer = retriever.ask(question, k, where=where)
        sentences = [
            {"number": number, "text": sentence.text, "id": sentence.id, "metadata": dict(sentence.metadata)}
            for number, sentence in enumerate(answer.sentences, 1)
        ]
        return {
            "sentences": sentences,
            "answered": answer.answered,
            **{name: getattr(answer, name) for name in STATEMENTS},
        }

    def classify(question: str) -> dict[str, Any]:
        """Return the type of answer that a question asks for, such as HUM:ind for a person, with its probability."""
        with errors_of_caller():
            _check(question)
            label = retriever.models.questions.classify([question])[0]
        return {"label": label.fine, "probability": label.fine_probability}

    fields = sorted(getattr(retriever.index, "fields", ()))
    known = f"\n\nFields that `where` knows: {', '.join(fields[:MAX_FIELDS])}." if fields else ""
    for tool in (search, ask):
        server.tool(annotations=reads, description=cleandoc(tool.__doc__ or "") + known)(tool)
    if retriever.models.has_classes:
        server.tool(annotations=reads)(classify)
    return server


def _check(question: str, k: int = 1, where: dict[str, Any] | None = None) -> None:
    check_texts([question], LIMITS)
    check_count(k, "k", LIMITS)
    check_filter(where)
