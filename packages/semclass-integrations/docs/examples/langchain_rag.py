"""A small RAG pipeline with LangChain: every step where a language model helps, and semclass between them.

    python -m pip install '.[langchain]'  # in a checkout of semclass
    python langchain_rag.py "Who designed the lighthouse, and how high is it?"
    python langchain_rag.py --base-url http://localhost:8000/v1 --model NAME

Without an address a stub answers by rule (``stub_model.py``), so that it runs as it is.
"""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import Runnable, RunnableParallel
from langchain_openai import ChatOpenAI

from semclass import Context, Models, Reranker, build_context
from semclass.documents.chunking import cut
from semclass_integrations.langchain import SemclassCompressor, SemclassRetriever, to_hits
from semclass_integrations.langchain_router import SemclassRouter
from steps import (
    ANSWER,
    HYDE,
    PLACE,
    REWRITE,
    SUBQUESTIONS,
    Model,
    each_once,
    read_corpus,
    read_line,
    read_lines,
    run_example,
    show,
)

QUESTION = "Hello! Could you please tell me who designed the lighthouse, and how high is it?"


def asking(prompt: str, chat: Runnable) -> Runnable:
    """A step that a model does: fields of the prompt in, text out."""
    return PromptTemplate.from_template(prompt) | chat | StrOutputParser()


def contextual_chunks(texts: dict[str, str], chat: Runnable) -> list[Document]:
    """Cut documents into passages, each after a sentence that places it in its document."""
    pieces = [piece for name, text in texts.items() for piece in cut(text, name, markdown=True)]
    places = (asking(PLACE, chat) | read_line).batch(
        [{"document": texts[piece.metadata["document"]], "passage": piece.text} for piece in pieces],
        {"max_concurrency": 4},
    )
    return [
        Document(id=piece.id, page_content=f"{place} {piece.text}", metadata=dict(piece.metadata))
        for piece, place in zip(pieces, places, strict=True)
    ]


def answer(message: str, model: Model) -> tuple[str, Context]:
    """Answer a message from the corpus, telling of each step."""
    chat = ChatOpenAI(base_url=model.base_url, model=model.name, api_key=model.api_key, temperature=0)
    models = Models.load()

    chunks = contextual_chunks(read_corpus(), chat)
    show(f"Contextual chunks: {len(chunks)}, such as", chunks[-1].page_content)
    retriever = SemclassRetriever.from_documents(chunks, models=models, k=5)

    question = (asking(REWRITE, chat) | read_line).invoke({"question": message})
    show("Query rewriting", question)

    subquestions = (asking(SUBQUESTIONS, chat) | read_lines).invoke({"question": question}) or [question]
    show("Sub-questions", subquestions)

    # a passage that a model makes up finds passages that read alike, by the first ranking alone: it asks nothing
    imagine = {"query": asking(HYDE, chat) | read_line} | RunnableParallel(
        passage=lambda made: made["query"],
        documents=lambda made: retriever.invoke(made["query"], method="convex") if made["query"] else [],
    )
    imagined = imagine.batch([{"question": part} for part in subquestions])
    show("HyDE", [made["passage"] for made in imagined])

    found = retriever.batch(subquestions)
    pools = [each_once([asked, made["documents"]]) for asked, made in zip(found, imagined, strict=True)]
    show(
        "Retrieved",
        [
            f"{part} {len(asked)}, with HyDE {len(pool)}"
            for part, asked, pool in zip(subquestions, found, pools, strict=True)
        ],
    )

    # a description is pieced together from more passages than a name or a number
    top_n = SemclassRouter(classifier=models.questions, routes={"DESC": lambda _: 4}, default=lambda _: 2)
    reranker = Reranker(models)
    best = [
        SemclassCompressor(reranker=reranker, top_n=n).compress_documents(pool, part)
        for part, pool, n in zip(subquestions, pools, top_n.batch(subquestions), strict=True)
    ]
    show(
        "Re-ranked",
        [f"{document.metadata['relevance_score']:.2f} {document.page_content}" for part in best for document in part],
    )

    context = build_context(to_hits(each_once(best)), budget=300)
    show(f"Context of {context.count} words", context.text)

    text = asking(ANSWER, chat).invoke({"question": question, "context": context.text})
    return text, context


if __name__ == "__main__":
    run_example("A small RAG pipeline with LangChain.", QUESTION, answer)
