"""Windows, parents and orders as the packages themselves give them: haystack-ai, langchain and llama-index-core."""

from __future__ import annotations

import os

import pytest

from semclass import Hit, Passage
from semclass_llm.context.parents import expand_parents
from semclass_llm.context.prompt import reorder_for_long_context
from semclass_llm.context.window import by_document, expand_window

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

TEXT = (
    "The sun rose early in the morning. It cast a warm glow over the trees. Birds began to sing. A boat left the harbour "
    "and went out to the banks, where the fish are. By noon the wind had turned, and it came back with half a load."
)


def hit(name, text="text", rank=1, **metadata):
    return Hit(name, text, metadata, 1 / rank, rank, rank, {}, (), {})


@pytest.mark.parametrize("n", range(1, 12))
def test_orders_are_those_of_haystack_and_but_for_the_side_those_of_langchain_and_llama_index(n):
    haystack = pytest.importorskip("haystack")
    rankers = pytest.importorskip("haystack.components.rankers")
    transformers = pytest.importorskip("langchain_community.document_transformers")
    documents = pytest.importorskip("langchain_core.documents")
    postprocessors = pytest.importorskip("llama_index.core.postprocessor")
    schema = pytest.importorskip("llama_index.core.schema")
    ids = [str(rank) for rank in range(1, n + 1)]
    ours = [item.id for item in reorder_for_long_context([hit(name, rank=int(name)) for name in ids])]
    theirs = rankers.LostInTheMiddleRanker().run([haystack.Document(content=name) for name in ids])["documents"]
    assert ours == [document.content for document in theirs]
    mirrored = ours if n % 2 else ours[::-1]
    moved = transformers.LongContextReorder().transform_documents([documents.Document(name) for name in ids])
    assert mirrored == [document.page_content for document in moved]
    nodes = [schema.NodeWithScore(node=schema.TextNode(text=name), score=1 / int(name)) for name in ids]
    assert mirrored == [item.node.text for item in postprocessors.LongContextReorder().postprocess_nodes(nodes)]


@pytest.mark.parametrize(("overlap", "around"), [(0, 1), (4, 1), (4, 2), (8, 3)])
def test_windows_read_as_those_of_haystack(overlap, around):
    haystack = pytest.importorskip("haystack")
    stores = pytest.importorskip("haystack.document_stores.in_memory")
    splitters = pytest.importorskip("haystack.components.preprocessors")
    retrievers = pytest.importorskip("haystack.components.retrievers")
    splitter = splitters.DocumentSplitter(split_length=10, split_overlap=overlap, split_by="word")
    parts = splitter.run([haystack.Document(content=TEXT)])["documents"]
    store = stores.InMemoryDocumentStore()
    store.write_documents(parts)
    windows = retrievers.SentenceWindowRetriever(store, window_size=around)
    passages = [
        Passage(
            part.id,
            part.content,
            {
                "document": part.meta["source_id"],
                "start": part.meta["split_idx_start"],
                "end": part.meta["split_idx_start"] + len(part.content),
            },
        )
        for part in parts
    ]
    assert len(passages) > 3
    for part, passage in zip(parts, passages, strict=True):
        (theirs,) = windows.run([part])["context_windows"]
        found = hit(passage.id, passage.text, **passage.metadata)
        (ours,) = expand_window([found], by_document(passages), before=around, after=around)
        assert ours.text == theirs


@pytest.mark.parametrize("threshold", [0.1, 0.4, 0.5, 0.7])
@pytest.mark.parametrize("chosen", [[0], [0, 1], [0, 2, 3], [5, 1, 4], [0, 1, 2, 3, 4, 5], [2, 3, 7, 8, 9]])
def test_parents_are_those_of_haystack(threshold, chosen):
    haystack = pytest.importorskip("haystack")
    stores = pytest.importorskip("haystack.document_stores.in_memory")
    splitters = pytest.importorskip("haystack.components.preprocessors")
    merging = pytest.importorskip("haystack.components.retrievers.auto_merging_retriever")
    builder = splitters.HierarchicalDocumentSplitter(block_sizes={20, 10, 4}, split_overlap=0, split_by="word")
    parts = builder.run([haystack.Document(content=TEXT)])["documents"]
    store = stores.InMemoryDocumentStore()
    store.write_documents([part for part in parts if part.meta["__children_ids"]])
    leaves = [part for part in parts if not part.meta["__children_ids"]]
    found = [leaves[place] for place in chosen]
    theirs = merging.AutoMergingRetriever(store, threshold=threshold).run(found)["documents"]

    def metadata(part):
        return {"parent": part.meta["__parent_id"], "children": part.meta["__children_ids"]}

    parents = {part.id: Passage(part.id, part.content, metadata(part)) for part in parts}
    hits = [hit(part.id, part.content, rank, **metadata(part)) for rank, part in enumerate(found, 1)]
    ours = hits
    for _ in range(3):
        ours = expand_parents(ours, parents, threshold=threshold)
    assert {item.id for item in ours} == {document.id for document in theirs}
    assert {item.text for item in ours} == {document.content for document in theirs}


def test_parents_are_those_of_langchain():
    retrievers = pytest.importorskip("langchain_classic.retrievers")
    storage = pytest.importorskip("langchain_core.stores")
    vectorstores = pytest.importorskip("langchain_core.vectorstores")
    embeddings = pytest.importorskip("langchain_core.embeddings")
    documents = pytest.importorskip("langchain_core.documents")
    splitters = pytest.importorskip("langchain_text_splitters")
    retriever = retrievers.ParentDocumentRetriever(
        vectorstore=vectorstores.InMemoryVectorStore(embeddings.DeterministicFakeEmbedding(size=8)),
        docstore=storage.InMemoryStore(),
        child_splitter=splitters.CharacterTextSplitter(separator=". ", chunk_size=40, chunk_overlap=0),
        search_kwargs={"k": 5},
    )
    texts = [TEXT, TEXT.upper(), TEXT.lower()]
    retriever.add_documents([documents.Document(text) for text in texts], ids=["a", "b", "c"])
    for question in ("What left the harbour?", "When did birds sing?", "Where are the fish?"):
        children = retriever.vectorstore.similarity_search(question, k=5)
        hits = [
            hit(str(rank), child.page_content, rank, parent=child.metadata["doc_id"])
            for rank, child in enumerate(children, 1)
        ]
        ours = expand_parents(hits, {name: Passage(name, text) for name, text in zip("abc", texts, strict=True)})
        assert [item.text for item in ours] == [document.page_content for document in retriever.invoke(question)]
