"""Calls of the public API as a user's typed code makes them; mypy --strict checks this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

import semclass
from semclass_llm import Context, Endpoint, PromptedReranker, Rewriter, RewritingRetriever, Rewritten, build_context


def classify(questions: list[str]) -> list[tuple[str, float]]:
    classifier = semclass.QuestionClassifier.load(threads=2)
    probabilities: npt.NDArray[np.float64] = classifier.predict_proba(iter(questions))
    if probabilities.shape != (len(questions), len(classifier.classes)):
        raise semclass.InputError("never")
    return [(found.label, found.probability) for found in classifier.classify(questions)]


def tag(passages: list[str]) -> list[Mapping[str | int, float]]:
    found: list[semclass.Label] = semclass.PassageClassifier.load().classify(passages)
    return [item.probabilities for item in found if "NUM" in item.labels]


def answers(question: str, sentences: list[str]) -> list[float]:
    found = semclass.EntailmentClassifier.load(threads=1).classify((question, sentence) for sentence in sentences)
    return [item.probability for item in found if item.label == "entailment"]


def spelt_out(question: str, history: Sequence[str] = ()) -> Rewritten:
    return Rewritten(question, (question.replace("&", "and"),))


def search(folder: str, question: str) -> list[semclass.Hit]:
    retriever = semclass.HybridRetriever.load(folder, threads=1, verify=False)
    many: list[semclass.SearchResult] = retriever.search_many(
        [question], 5, method="entail-integrated", weights={"entailment": 0.2}
    )
    rewriter = Rewriter("hyde", Endpoint("http://localhost:8000/v1", "NAME"))
    rewriting = RewritingRetriever(retriever, rewriter)
    best: semclass.SearchResult = rewriting.search(question, history=["What is it?"], method="convex")
    some = retriever.search(question, k=3, where={"page": {"$gte": 3}}, weights={"alpha": 0.5})
    return [
        *many[0],
        *some,
        *PromptedReranker(rewriter.endpoint).rerank(question, [hit.text for hit in best]),
        *RewritingRetriever(retriever, spelt_out).search(question, 3),
        *retriever.search(question, k=3, method="class-integrated", weights={"class": 0.5}, candidates=50),
    ]


def prompt(folder: str, question: str) -> tuple[str, list[int]]:
    index = semclass.PassageIndex.load(folder)
    hits = semclass.HybridRetriever(index, semclass.Models.load()).search(question)
    context: Context = build_context(hits, budget=300)
    counted = build_context(hits, count=lambda text: len(text))
    return context.text + counted.text, [source.number for source in context.sources]


def build(texts: Mapping[str, str], folder: str) -> int:
    models = semclass.Models.load(encoder=semclass.OnnxEncoder.load(threads=2))
    passages = (semclass.Passage(name, text, {"page": 1}) for name, text in texts.items())
    index = semclass.PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    index.save(folder)
    return len(semclass.PassageIndex.load(folder))


def change(folder: str, passages: list[semclass.Passage]) -> int:
    built = semclass.build_index(folder, iter(passages), small=True, workers=2)
    report = semclass.change_index(folder, add=passages[:1], existing="replace", delete=[passages[0].id])
    assert report.deleted == 1
    return len(built.refresh())


def rerank(question: str, passages: list[semclass.Passage]) -> dict[str, float]:
    hits = semclass.Reranker.load().rerank(question, passages, k=3)
    return {hit.id: hit.components["relevance"] for hit in hits}


def train(texts: list[str], labels: list[str], folder: str) -> list[tuple[str, bool]]:
    model = semclass.TextClassifier("hub:some-model", target_precision=0.9, progress=print)
    model.fit(texts, labels).save(folder)
    report: dict[str, object] = model.report_
    served = semclass.TextModel.load(folder, encoder="hub:some-model", threads=2)
    found: list[semclass.Label] = served.classify(iter(texts), min_probability=0.5)
    return [(item.text, item.label == semclass.ABSTAIN) for item in found if report and item.probability > 0.1]
