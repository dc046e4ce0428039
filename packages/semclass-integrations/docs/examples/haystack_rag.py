"""A small RAG pipeline with Haystack: every step where a language model helps, and semclass between them.

    python -m pip install '.[haystack]'  # in a checkout of semclass
    python haystack_rag.py "Who designed the lighthouse, and how high is it?"
    python haystack_rag.py --base-url http://localhost:8000/v1 --model NAME

Without an address a stub answers by rule (``stub_model.py``), so that it runs as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import BranchJoiner, DocumentJoiner
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

from semclass import Context, Models, PassageIndex, build_context
from semclass.documents.chunking import cut
from semclass_integrations.haystack import SemclassRanker, SemclassRetriever, to_hits, to_passages
from semclass_integrations.haystack_router import SemclassQueryRouter
from steps import (
    ANSWER,
    HYDE,
    PLACE,
    REWRITE,
    SUBQUESTIONS,
    Model,
    each_once,
    jinja,
    read_corpus,
    read_line,
    read_lines,
    run_example,
    show,
)

QUESTION = "Hello! Could you please tell me who designed the lighthouse, and how high is it?"


@component
class FirstLine:
    """Reads one line from what a model replied, or gives the question where it said nothing."""

    @component.output_types(text=str)
    def run(self, replies: list[ChatMessage], question: str) -> dict[str, str]:
        """Give the line."""
        return {"text": read_line(replies[0].text or "") or question}


@component
class Sources:
    """Writes documents as one text with numbered sources."""

    def __init__(self, budget: int = 300) -> None:
        self.budget = budget

    @component.output_types(context=Context, text=str)
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Give the context, and its text alone for a prompt."""
        context = build_context(to_hits(documents), budget=self.budget)
        return {"context": context, "text": context.text}


def chat(model: Model) -> OpenAIChatGenerator:
    """The model: any OpenAI-compatible address."""
    return OpenAIChatGenerator(
        api_key=Secret.from_token(model.api_key),
        model=model.name,
        api_base_url=model.base_url,
        generation_kwargs={"temperature": 0},
    )


def prompt(text: str) -> ChatPromptBuilder:
    """A step's prompt, all of whose fields must be filled."""
    return ChatPromptBuilder([ChatMessage.from_user(jinja(text))], required_variables="*")


def asking(text: str, model: Model) -> Pipeline:
    """A step that a model does: fields of a prompt in, replies out."""
    pipeline = Pipeline()
    pipeline.add_component("prompt", prompt(text))
    pipeline.add_component("chat", chat(model))
    pipeline.connect("prompt", "chat")
    return pipeline


def ask(step: Pipeline, **fields: str) -> str:
    """Run such a step."""
    return step.run({"prompt": fields})["chat"]["replies"][0].text or ""


def contextual_chunks(texts: dict[str, str], model: Model) -> list[Document]:
    """Cut documents into passages, and place each in its document: the sentence is its title, which is read before it."""
    placing = asking(PLACE, model)
    return [
        Document(
            id=piece.id,
            content=piece.text,
            meta={**piece.metadata, "title": read_line(ask(placing, document=text, passage=piece.text)).rstrip(".")},
        )
        for name, text in texts.items()
        for piece in cut(text, name, markdown=True)
    ]


def searching(index: Path, model: Model) -> Pipeline:
    """From a question to its best documents.

    A passage that a model makes up finds passages that read alike (HyDE). A description is pieced together from more
    passages than a name or a number: the router sends a question to the ranker that gives as many as it needs.
    """
    pipeline = Pipeline()
    pipeline.add_component("imagine", prompt(HYDE))
    pipeline.add_component("chat", chat(model))
    pipeline.add_component("imagined", FirstLine())
    pipeline.add_component("alike", SemclassRetriever(index, top_k=5, method="convex"))
    pipeline.add_component("retriever", SemclassRetriever(index, top_k=5, method="convex"))
    pipeline.add_component("pool", DocumentJoiner("concatenate"))
    pipeline.add_component("router", SemclassQueryRouter(["DESC"]))
    pipeline.add_component("description", SemclassRanker(top_k=4, meta_fields_to_embed=["title"]))
    pipeline.add_component("fact", SemclassRanker(top_k=2, meta_fields_to_embed=["title"]))
    pipeline.add_component("best", BranchJoiner(list[Document]))
    for sender, receiver in (
        ("imagine", "chat"),
        ("chat.replies", "imagined.replies"),
        ("imagined.text", "alike.query"),
        ("alike", "pool"),
        ("retriever", "pool"),
        ("router.DESC", "description.query"),
        ("router.unmatched", "fact.query"),
        ("pool", "description.documents"),
        ("pool", "fact.documents"),
        ("description", "best"),
        ("fact", "best"),
    ):
        pipeline.connect(sender, receiver)
    return pipeline


def answering(model: Model) -> Pipeline:
    """From documents and a question to an answer and its sources."""
    pipeline = Pipeline()
    pipeline.add_component("sources", Sources())
    pipeline.add_component("prompt", prompt(ANSWER))
    pipeline.add_component("chat", chat(model))
    pipeline.connect("sources.text", "prompt.context")
    pipeline.connect("prompt", "chat")
    return pipeline


async def search(pipeline: Pipeline, questions: Sequence[str]) -> list[dict[str, Any]]:
    """Search for several questions at a time."""
    names = {"imagine": "question", "imagined": "question", "retriever": "query", "router": "query"}
    return await asyncio.gather(
        *(
            pipeline.run_async(
                {name: {field: question} for name, field in names.items()}, include_outputs_from={"imagined", "pool"}
            )
            for question in questions
        )
    )


def answer(message: str, model: Model, folder: Path) -> tuple[str, Context]:
    """Answer a message from the corpus, telling of each step."""
    chunks = contextual_chunks(read_corpus(), model)
    show(f"Contextual chunks: {len(chunks)}, such as", f"{chunks[-1].meta['title']}. {chunks[-1].content}")
    PassageIndex.build(to_passages(chunks), passage_encoder=Models.load().passage_encoder).save(folder)

    question = read_line(ask(asking(REWRITE, model), question=message)) or message
    show("Query rewriting", question)

    subquestions = read_lines(ask(asking(SUBQUESTIONS, model), question=question)) or [question]
    show("Sub-questions", subquestions)

    found = asyncio.run(search(searching(folder, model), subquestions))
    show("HyDE", [each["imagined"]["text"] for each in found])
    show(
        "Retrieved, with HyDE",
        [f"{part} {len(each['pool']['documents'])}" for part, each in zip(subquestions, found, strict=True)],
    )

    best = [each["best"]["value"] for each in found]
    show("Re-ranked", [f"{document.score:.2f} {document.content}" for documents in best for document in documents])

    data = {"sources": {"documents": each_once(best)}, "prompt": {"question": question}}
    told = answering(model).run(data, include_outputs_from={"sources"})
    context = told["sources"]["context"]
    show(f"Context of {context.count} words", context.text)
    return told["chat"]["replies"][0].text or "", context


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        run_example("A small RAG pipeline with Haystack.", QUESTION, partial(answer, folder=Path(folder, "index")))
