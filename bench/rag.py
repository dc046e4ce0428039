"""Answers from what was found: encoder, search and generator of a RAG pipeline, measured apart and together.

The floor needs no language model: of the best passage, the sentence that is ranked first for the question. With
``--endpoint`` and ``--model`` a model writes answers, too, and judges all of them. A folder of your own joins the tables
if it lies with the data as ``beir/NAME`` and its ``queries.jsonl`` has right answers in the field ``answers``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench import context, measures, rag_budget, rag_tables
from bench.rag_encoders import ENCODERS, SHIPPED
from bench.retrieval_systems import drawn
from bench.steps import Bench, StepError, write_beir
from datasets_io import read_jsonl, read_tsv, sentence_windows
from semclass import Hit, HybridRetriever, Models, Reranker, build_context
from semclass.core.errors import import_extra
from semclass.documents.sentences import split_sentences
from semclass.endpoint.bill import Bill
from semclass.endpoint.client import Chat, Endpoint
from semclass.endpoint.reading import YES_NO, one_of, spoken
from semclass.evaluation.answers import exact_match, token_f1
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.evaluate import cached_index
from semclass.evaluation.measure import per_question
from semclass.ranking.methods import DEFAULT
from semclass.scoring.topk import SIMILARITIES

Array = npt.NDArray[Any]

MADE = ("squad4", "wikiqa")
"""Sets whose answers are known: sentences of an encyclopaedia."""

OTHERS = ("docs", "codebase")
"""Sets of which only the right passages are known."""

COMPARED = "wikiqa"  # on which the similarities are compared
QUICK_BUDGETS = ("policyqa",)
QUESTIONS, QUICK = 150, 12  # of a set, drawn by chance
WINDOW = 4  # sentences of a passage
DEPTH, READ, BUDGET = 10, 5, 400  # passages that are found, those that a model is given, and their words
LONG, SHORT = 128, 16  # tokens of an answer, and of a judgement
RIGHT = "the right passage"  # in place of a search: what is lost by the generator alone
SEARCHES = (DEFAULT, "convex", "dense")
FEW_WORDS = 6  # of an answer that is looked for word for word

ANSWER = """Answer the question in one sentence, from the sources alone. If they do not hold the answer, reply with: \
no answer."""

JUDGE = """Does the answer give what the question asks for, and agree with what is known to be right? Reply with yes or \
no."""


class Task(NamedTuple):
    """Some questions of a set, in order."""

    dataset: Dataset
    answers: list[list[str]]  # of each question; none where they are not known

    @property
    def texts(self) -> list[str]:
        """The questions themselves."""
        return [*self.dataset.questions.values()]


Generator = Callable[[Sequence[str], Sequence[Sequence[Hit]]], list[str]]
"""From questions and what was found for each to an answer to each, empty where there is none."""


def run(bench: Bench) -> dict[str, Any]:
    """Every set by every encoder, the similarities, and the budget by class."""
    folders = sets(bench)
    model = re.sub("[^a-zA-Z0-9_.-]+", "-", bench.model or "none")
    asked = {
        "questions": QUICK if bench.quick else QUESTIONS,
        "endpoint": bench.endpoint, "model": bench.model, "key": bench.key,
        "replies": bench.work / "answers" / f"rag-{model}.jsonl",
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, folder in folders.items():
        where = {"folder": folder, "indices": bench.indices}
        parts = {
            encoder: bench.step(f"rag/{name}/{encoder}", "bench.rag:measure", **where, encoder=encoder, **asked)
            for encoder in ENCODERS
        }
        if "skipped" in parts[SHIPPED]:
            raise StepError(parts[SHIPPED]["skipped"])
        found[name] = {"by_encoder": {key: part for key, part in parts.items() if "skipped" not in part}}
    budgets = {}
    for name in QUICK_BUDGETS if bench.quick else rag_budget.SETS:
        folder = None if name in context.SETS else folders[name]
        where = {"data": bench.data, "folder": folder, "indices": bench.indices}
        limit = QUICK if bench.quick else rag_budget.QUESTIONS
        budgets[name] = bench.step(f"rag/budget/{name}", "bench.rag_budget:measure", which=name, limit=limit, **where)
    same = bench.step("rag/similarities", "bench.rag:similarities", folder=folders[COMPARED], indices=bench.indices)
    told = {name: one["by_encoder"][SHIPPED]["abstaining"] for name, one in found.items()}
    for name, one in told.items():
        ways = {**one["ways"], "threshold of the other sets": served(one, elsewhere(told, name))}
        found[name]["by_encoder"][SHIPPED]["abstaining"] = {"ways": ways}
    protocol = (
        f"at most {QUESTIONS} questions of a set, drawn by chance; a model is given {READ} passages, {BUDGET} words"
    )
    task = {"what": "answers from what was found", "model": bench.model or "none was given", "protocol": protocol}
    return {"task": task, "on": found, "similarities": same, "budget": rag_budget.compared(budgets)}


def sets(bench: Bench) -> dict[str, Path]:
    """BEIR folders whose questions have answers, those of the data's own first, and others; few in a quick run."""
    made = (COMPARED,) if bench.quick else MADE
    found = {name: with_answers(bench.data, name, bench.work / "rag" / name) for name in made}
    if bench.quick:
        return found
    queries = sorted((bench.data / "beir").glob("*/queries.jsonl"))
    more = [path.parent for path in queries if '"answers"' in path.read_text(encoding="utf-8")]
    return {**found, **{name: bench.beir(name) for name in OTHERS}, **{path.name: path for path in more}}


def with_answers(data: Path, name: str, out: Path) -> Path:
    """Write a set of `MADE` as a BEIR folder whose questions have answers: the sentences that answer them."""
    if name == "squad4":
        folder, sentences = data / "beir" / name, data / "squad_sentences"
        texts = {row["_id"]: row["text"] for row in read_jsonl(sentences / "dev.corpus.jsonl.gz")}
        right = {row["_id"]: [texts[row["relevant"]]] for row in read_jsonl(sentences / "dev.queries.jsonl.gz")}
        queries = [{**row, "answers": right[row["_id"]]} for row in read_jsonl(folder / "queries.jsonl")]
        files = ((folder / part).read_text(encoding="utf-8") for part in ("corpus.jsonl", "qrels/test.tsv"))
        corpus, qrels = (text.splitlines(keepends=True) for text in files)
    else:
        corpus, queries, qrels = windows(read_tsv(data / "wikiqa" / "dev.tsv.gz"))
    return write_beir(out, corpus, [json.dumps(row) + "\n" for row in queries], qrels)


def windows(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[dict[str, Any]], list[str]]:
    """Passages of consecutive sentences of an article, questions, and which passages hold an answer."""
    articles: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        articles.setdefault(row["question"], []).append(row)
    texts: dict[str, str] = {}  # questions may share an article
    queries, qrels = [], []
    for number, (question, some) in enumerate(articles.items()):
        answers = [row["sentence"] for row in some if row["label"] == "1"]
        if answers:
            queries.append({"_id": f"q{number}", "text": question, "answers": answers})
        for text in sentence_windows([row["sentence"] for row in some], WINDOW):
            name = texts.setdefault(text, f"p{len(texts)}")
            if any(answer in text for answer in answers):
                qrels.append(f"q{number}\t{name}\t1\n")
    return [json.dumps({"_id": name, "text": text}) + "\n" for text, name in texts.items()], queries, qrels


# -- steps ----------------------------------------------------------------------------------------------------------------


def measure(
    folder: str,
    indices: str,
    encoder: str,
    questions: int,
    endpoint: str | None,
    model: str | None,
    key: str | None,
    replies: str,
) -> dict[str, Any]:
    """Every search and generator on questions of a folder; with the shipped encoder also whether to answer at all."""
    models, task = ENCODERS[encoder](), read_task(folder, questions)
    shipped = models.pair_heads is not None
    form = None if shipped else "lean"
    retriever = HybridRetriever(cached_index(folder, indices, models.passage_encoder, form=form), models)
    chat = None
    if endpoint is not None and model is not None:
        chat = Chat(Endpoint(endpoint, model, os.environ.get(key or ""), cache=Path(replies)))
    generators: dict[str, Generator] = {}
    if any(task.answers) or chat is not None:
        generators["first sentence"] = lambda _, found: [
            split_sentences(hits[0].text)[0] if hits else "" for hits in found
        ]
        best = cache(partial(best_sentence, Reranker(models if shipped else Models.load(threads=1))))
        generators["best sentence"] = lambda texts, found: [
            best(text, hits[0].text if hits else "") for text, hits in zip(texts, found, strict=True)
        ]
    if chat is not None:
        generators["language model"] = lambda texts, found: written(chat, texts, found)
    found = {
        name: retriever.search_many(task.texts, DEPTH, method=name) for name in SEARCHES if shipped or name != DEFAULT
    }
    right = relevant_hits(retriever, task) if shipped or chat is not None else []
    if shipped:
        found[RIGHT] = right
    rows = []
    for name, hits in found.items():
        ndcg = per_question(task.dataset, [[hit.id for hit in some] for some in hits], ["nDCG@10"])["nDCG@10"]
        searched = {"search": name, **_mean("ndcg@10", ndcg)}
        rows.append(searched)
        for kind, generate in generators.items():
            before = Bill(**vars(chat.bill)) if chat is not None else Bill()
            answers = generate(task.texts, hits)
            row = {**searched, "generator": kind, **scores(task, answers)}
            if chat is not None:
                row |= _calls(before, chat.bill)
                row |= judged(chat, task, answers, right)
            rows.append(row)
    rows = [row for row in rows if "generator" in row or not generators]
    given: dict[str, Any] = {"passages": len(retriever.index), "questions": len(task.texts), "systems": rows}
    if chat is not None:
        given |= {"bill": chat.bill.figures(), "failed": chat.bill.failed}
    return {**given, "abstaining": abstaining(retriever, task, generators)} if shipped else given


def read_task(folder: str, questions: int) -> Task:
    """Some questions of a folder, with their answers."""
    dataset = drawn(load_dataset(folder), questions)
    known = {row["_id"]: row.get("answers", []) for row in read_jsonl(Path(folder) / "queries.jsonl")}
    return Task(dataset, [known[name] for name in dataset.questions])


def relevant_hits(retriever: HybridRetriever, task: Task) -> list[list[Hit]]:
    """The passages that answer each question, in the order of a search among them."""
    return [
        retriever.search(text, DEPTH, method="convex", where={"_id": {"$in": [*relevant]}})
        for text, relevant in zip(task.texts, task.dataset.relevance.values(), strict=True)
    ]


def best_sentence(reranker: Reranker, text: str, passage: str) -> str:
    """Of a passage, the sentence that is ranked first for the question."""
    return next((hit.text for hit in reranker.rerank(text, split_sentences(passage), k=1)), "")


def written(chat: Chat, texts: Sequence[str], found: Sequence[Sequence[Hit]]) -> list[str]:
    """What a model answers from the best passages; empty where it says that there is no answer, or nothing came."""
    contexts = [build_context(hits[:READ], budget=BUDGET).text for hits in found]
    prompts = [
        f"{ANSWER}\n\n{context}\n\nQuestion: {text}\nAnswer:" for text, context in zip(texts, contexts, strict=True)
    ]
    replies = chat.ask(prompts, max_tokens=LONG)
    given = ["" if reply.refused or reply.error is not None else spoken(reply.text or "") for reply in replies]
    return ["" if said.lower().startswith("no answer") else said for said in given]


def judged(chat: Chat, task: Task, answers: Sequence[str], right: Sequence[Sequence[Hit]]) -> dict[str, Any]:
    """The share of answers that a model calls right, beside the known ones, or the passages that answer."""
    prompts = []
    for text, answer, known, hits in zip(task.texts, answers, task.answers, right, strict=True):
        truth = " / ".join(known) or build_context(hits, budget=BUDGET).text
        prompts.append(f"{JUDGE}\n\nQuestion: {text}\nRight: {truth}\nAnswer: {answer}\nReply:")
    asked = [row for row, answer in enumerate(answers) if answer]
    said = np.zeros(len(answers))
    unread = 0
    for row, reply in zip(asked, chat.ask([prompts[row] for row in asked], max_tokens=SHORT), strict=True):
        verdict = None if reply.refused or reply.error is not None else one_of(reply.text or "", YES_NO)
        said[row] = verdict == "yes"
        unread += verdict is None
    return {**_mean("judged", said), "not_judged": unread}


def scores(task: Task, answers: Sequence[str]) -> dict[str, Any]:
    """Means of the measures over the questions whose answers are known; exact match where these are short."""
    pairs = [(answer, known) for answer, known in zip(answers, task.answers, strict=True) if known]
    if not pairs:
        return {}
    found = _mean("f1", [token_f1(*pair) for pair in pairs]) | _mean("rouge_l", [rouge_l(*pair) for pair in pairs])
    short = [exact_match(*pair) for pair in pairs if min(len(one.split()) for one in pair[1]) <= FEW_WORDS]
    return found | (_mean("exact", short) if len(short) > len(pairs) / 2 else {})


def rouge_l(answer: str, known: Sequence[str]) -> float:
    """ROUGE-L of the nearest of the known answers."""
    return max(float(_scorer().score(one, answer)["rougeL"].fmeasure) for one in known)


@lru_cache(maxsize=1)
def _scorer() -> Any:
    return import_extra("rouge_score.rouge_scorer", "bench").RougeScorer(["rougeL"], use_stemmer=True)


def _mean(name: str, values: Sequence[float] | Array) -> dict[str, Any]:
    given = np.asarray(values, float)
    drawn_means = measures.resamples(len(given), 0) @ given / len(given)
    return measures.figure(name, float(given.mean()), drawn_means)


def _calls(before: Bill, after: Bill) -> dict[str, Any]:
    """What was asked since: calls, tokens, and calls of which nothing came."""
    names = ("calls", "prompt_tokens", "answer_tokens", "failed", "refused")
    return {name: getattr(after, name) - getattr(before, name) for name in names}


# -- to answer or not -----------------------------------------------------------------------------------------------------


def abstaining(retriever: HybridRetriever, task: Task, generators: Mapping[str, Generator]) -> dict[str, Any]:
    """Half of the questions are asked without the passages that answer them: what each generator is worth then."""
    gone = np.zeros(len(task.texts), np.bool_)
    gone[np.random.default_rng(0).permutation(len(gone))[::2]] = True
    relevance = [[*relevant] for relevant in task.dataset.relevance.values()]
    hits = [
        retriever.search(text, DEPTH, where={"_id": {"$nin": right}} if out else None)
        for text, right, out in zip(task.texts, relevance, gone.tolist(), strict=True)
    ]
    found: dict[str, Any] = {
        "gone": gone.tolist(),
        "told": [round(float(some[0].answerable or 0), 4) for some in hits],
        "first_is_right": [some[0].id in right for some, right in zip(hits, relevance, strict=True)],
    }
    if any(task.answers):
        said = generators["best sentence"](task.texts, hits)
        found["f1"] = [token_f1(answer, known) for answer, known in zip(said, task.answers, strict=True)]
    threshold = float(retriever.models.answerable.thresholds[0])  # type: ignore[union-attr]
    ways = {"never": served(found, 0.0), "shipped threshold": served(found, threshold)}
    if "language model" in generators:
        silent = [not said for said in generators["language model"](task.texts, hits)]
        ways["the language model"] = served({**found, "told": [float(not one) for one in silent]}, 0.5)
    return {**found, "ways": ways}


def served(found: Mapping[str, Any], threshold: float) -> dict[str, Any]:
    """Precision and recall of abstaining below a threshold, and the mean score of all questions.

    An answer counts what it is worth: 1 if the first passage is right, or its token F1. No answer counts 1 where there is
    none in the index, else 0, as in SQuAD 2.0.
    """
    gone, silent = np.array(found["gone"]), np.array(found["told"]) < threshold
    both = int((gone & silent).sum())
    rates = {"precision": both / max(int(silent.sum()), 1), "recall": both / max(int(gone.sum()), 1)}
    given = {"threshold": round(threshold, 4), **{name: round(value, 4) for name, value in rates.items()}}
    for name in ("first_is_right", "f1"):
        if name in found:
            given |= _mean(f"all_{name}", np.where(silent, gone, np.where(gone, 0, found[name])))
    return given


def elsewhere(told: Mapping[str, Mapping[str, Any]], name: str) -> float:
    """The threshold with the best mean score on the other sets."""
    others = [one for other, one in told.items() if other != name] or [told[name]]
    grid = np.arange(0, 1, 0.01)
    means = [np.mean([served(one, float(at))["all_first_is_right"] for one in others]) for at in grid]
    return float(grid[int(np.argmax(means))])


# -- similarities ---------------------------------------------------------------------------------------------------------


def similarities(folder: str, indices: str) -> dict[str, Any]:
    """Dense search by each similarity, over indices that were built with each: nDCG@10, and what is as by the first."""
    models, task = Models.load(threads=1), read_task(folder, QUESTIONS)
    ids = {}
    for name in SIMILARITIES:
        retriever = HybridRetriever(cached_index(folder, indices, models.passage_encoder, similarity=name), models)
        ids[name] = [[hit.id for hit in hits] for hits in retriever.search_many(task.texts, DEPTH, method="dense")]
    first = next(iter(ids.values()))
    rows = {
        name: {
            "ndcg@10": round(float(per_question(task.dataset, some, ["nDCG@10"])["nDCG@10"].mean()), 4),
            "same_passages": round(
                float(np.mean([len({*a} & {*b}) / len(a) for a, b in zip(first, some, strict=True)])), 4
            ),
            "same_order": round(float(np.mean([a == b for a, b in zip(first, some, strict=True)])), 4),
        }
        for name, some in ids.items()
    }
    return {"questions": len(first), "systems": rows}


TABLES = rag_tables.TABLES
PICTURES = rag_tables.PICTURES
