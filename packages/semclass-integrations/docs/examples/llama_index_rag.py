"""A small RAG pipeline with LlamaIndex: every step where a language model helps, and semclass between them.

    python -m pip install '.[llama-index]'  # in a checkout of semclass
    python llama_index_rag.py "Why does the ship stay in port, and who runs the museum?"
    python llama_index_rag.py --base-url http://localhost:8000/v1 --model NAME

Without an address a stub answers by rule (``stub_model.py``), so that it runs as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from llama_index.core import Document, PromptTemplate, Settings
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import LLM
from llama_index.core.node_parser import MarkdownNodeParser, SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine, TransformQueryEngine
from llama_index.core.schema import BaseNode, MetadataMode, QueryBundle, TransformComponent
from llama_index.llms.openai_like import OpenAILike

from semclass import Context, HybridRetriever, Models, PassageIndex, Reranker, build_context
from semclass_integrations.llama_index import SemclassRerank, SemclassRetriever, to_hits, to_passages
from semclass_integrations.llama_index_selector import SemclassSelector
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

QUESTION = "Hello! Could you please tell me who designed the lighthouse, and how much is a return ticket for the ferry?"


class Placed(TransformComponent):
    """Writes a sentence that places a chunk in its document into ``metadata["context"]``, which is read with the chunk."""

    llm: LLM
    texts: dict[str, str]

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Give copies of the nodes, each with its context."""
        return [node.model_copy(update={"metadata": {**node.metadata, "context": self.place(node)}}) for node in nodes]

    def place(self, node: BaseNode) -> str:
        """Ask where a chunk stands."""
        document, passage = self.texts[node.metadata["file"]], node.get_content(MetadataMode.NONE)
        return read_line(self.llm.predict(PromptTemplate(PLACE), document=document, passage=passage))


def contextual_chunks(texts: dict[str, str], llm: LLM) -> Sequence[BaseNode]:
    """Cut documents under their headings, and at ends of sentences, and place each chunk in its document."""
    documents = [
        # a file's name is for filters and people; what embedding models read should be prose
        Document(id_=name, text=text, metadata={"file": name}, excluded_embed_metadata_keys=["file", "header_path"])
        for name, text in texts.items()
    ]
    cutting = [MarkdownNodeParser(), SentenceSplitter(chunk_size=100, chunk_overlap=0)]
    return IngestionPipeline(transformations=[*cutting, Placed(llm=llm, texts=texts)]).run(documents=documents)


def answer(message: str, model: Model) -> tuple[str, Context]:
    """Answer a message from the corpus, telling of each step."""
    llm = Settings.llm = OpenAILike(
        api_base=model.base_url, model=model.name, api_key=model.api_key, is_chat_model=True, temperature=0
    )
    models = Models.load()

    chunks = contextual_chunks(read_corpus(), llm)
    show(f"Contextual chunks: {len(chunks)}, such as", chunks[-1].get_content(MetadataMode.EMBED))
    index = PassageIndex.build(to_passages(chunks), passage_encoder=models.passage_encoder)
    retriever = SemclassRetriever(HybridRetriever(index, models), similarity_top_k=5, method="convex")

    question = read_line(llm.predict(PromptTemplate(REWRITE), question=message)) or message
    show("Query rewriting", question)

    subquestions = read_lines(llm.predict(PromptTemplate(SUBQUESTIONS), question=question)) or [question]
    show("Sub-questions", subquestions)

    # the vector of a passage that a model makes up, with that of the question, finds passages that read alike
    prompt = PromptTemplate(HYDE, template_var_mappings={"context_str": "question"})
    imagine = HyDEQueryTransform(llm=llm, hyde_prompt=prompt)
    show("HyDE", [imagine.run(part).custom_embedding_strs[0] for part in subquestions])

    # a description is pieced together from more passages than a name or a number
    reranker = Reranker(models)
    engines = [
        TransformQueryEngine(
            RetrieverQueryEngine.from_args(retriever, node_postprocessors=[SemclassRerank(reranker, top_n=top_n)]),
            imagine,
        )
        for top_n in (4, 2)
    ]
    selector = SemclassSelector({"description": "DESC"}, default="fact", classifier=models.questions)
    chosen = [selector.select(["description", "fact"], part) for part in subquestions]
    show("Routed", [choice.reason for choice in chosen])

    best = [engines[choice.ind].retrieve(QueryBundle(part)) for part, choice in zip(subquestions, chosen, strict=True)]
    show("Retrieved and re-ranked", [f"{node.score:.2f} {node.text}" for nodes in best for node in nodes])

    context = build_context(to_hits(each_once(best, attrgetter("node_id"))), budget=300)
    show(f"Context of {context.count} words", context.text)

    text = llm.predict(PromptTemplate(ANSWER), context=context.text, question=question)
    return text, context


if __name__ == "__main__":
    run_example("A small RAG pipeline with LlamaIndex.", QUESTION, answer)
