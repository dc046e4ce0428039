"""A language model around the search: candidates re-ranked by prompts, questions rewritten, nDCG@10 before and after.

With ``--endpoint`` and ``--model``: the reference's prompted re-ranking of the hybrid's first ten beside our heads, and the
default with rewritten questions. Without them: our heads alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import prices, readme
from bench.measures import compared, shown
from bench.retrieval_systems import DEPTH, drawn, measured, open_retriever
from bench.steps import Bench
from datasets_io import squad_train
from semclass import Hit, Passage
from semclass.core.types import DoubleArray
from semclass.endpoint.bill import Bill
from semclass.endpoint.client import Endpoint
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import BASELINE, per_question
from semclass.ranking.methods import DEFAULT, PROMPTED
from semclass.ranking.prompted import POINTWISE, PromptedReranker, Shot
from semclass.rewriting import WAYS
from semclass.rewriting.retriever import search_rewritten
from semclass.rewriting.rewriter import Rewriter

SETS = ("squad4", "docs")
"""Development sets: an encyclopaedia, and a product's documentation."""

QUESTIONS, QUICK = 300, 12  # of a set; each takes calls
SHOTS, NEAR = 10, 2  # examples of a prompt: ten for yes and ten for no, as the reference's; sentences on either side
SEED = 0
ADDED = f"prompted, {POINTWISE}, added"
HEADS = {"default": DEFAULT, "our head, yes first": "entail-stable", "our head, added": "entail-integrated-hard"}
"""What our heads do, by name and method; the last two as the reference did with its prompts."""

MEASURES = ("nDCG@10", "RR@10")
REWRITING = tuple(way for way in WAYS if way != "conversation")
"""Ways that are measured: the sets hold no conversations."""


def run(bench: Bench) -> dict[str, Any]:
    sets = {}
    questions = QUICK if bench.quick else QUESTIONS
    for name in SETS[: 1 if bench.quick else None]:
        where = {"folder": bench.beir(name), "cache": bench.indices}
        replies = f"language-model-{re.sub('[^a-zA-Z0-9_.-]+', '-', bench.model or 'none')}.jsonl"
        prompted = bench.step(
            f"language_model/{name}/prompted", "bench.language_model:prompted", **where, questions=questions,
            data=bench.data, replies=bench.work / "answers" / replies, endpoint=bench.endpoint, model=bench.model,
            key=bench.key,
        )  # fmt: skip
        sets[name] = {"prompted": prompted}
    protocol = f"at most {QUESTIONS} questions of a set, drawn by chance; {SHOTS} training questions as examples"
    model = bench.model or "none was given"
    return {"task": {"what": "nDCG@10 with and without it", "model": model, "protocol": protocol}, "on": sets}


# -- steps ----------------------------------------------------------------------------------------------------------------


def prompted(
    folder: str,
    cache: str,
    questions: int,
    data: str,
    replies: str,
    endpoint: str | None,
    model: str | None,
    key: str | None,
) -> dict[str, Any]:
    """What our heads do on questions of a set and, where a model is given, every prompted way."""
    dataset, retriever = drawn(load_dataset(folder), questions), open_retriever(folder, cache)
    texts = list(dataset.questions.values())
    first = retriever.search_many(texts, DEPTH, method=BASELINE)
    after = {name: retriever.search_many(texts, DEPTH, method=method) for name, method in HEADS.items()}
    default, rewritten, costs = after["default"], {}, {}
    if endpoint is not None and model is not None:
        service = Endpoint(endpoint, model, os.environ.get(key or ""), cache=Path(replies))
        given = [[Passage(hit.id, hit.text, hit.metadata) for hit in hits] for hits in first]
        for way in PROMPTED:
            reranker, name = PromptedReranker(service, way, shots(Path(data))), f"prompted, {way}"
            after[name] = reranker.rerank_many(texts, given)
            costs[name] = _cost(reranker.chat.bill, len(texts), model)
        after[ADDED] = _added(first, after[f"prompted, {POINTWISE}"], retriever.weights["entailment_hard"])
        costs[ADDED] = costs[f"prompted, {POINTWISE}"]
        for way in REWRITING:
            rewriter, name = Rewriter(way, replace(service, retries=1)), f"rewritten, {way}"
            with ThreadPoolExecutor(service.concurrency) as pool:
                made = list(pool.map(rewriter, texts))
            rewritten[name] = [search_rewritten(retriever, one, DEPTH) for one in made]
            as_asked = sum(bool(one.why) for one in made)
            costs[name] = {"searched_as_asked": as_asked, **_cost(rewriter.chat.bill, len(texts), model)}
    before, asked = _values(dataset, first), _values(dataset, default)
    found = {name: {"before": BASELINE, **_figures(before, _values(dataset, hits))} for name, hits in after.items()}
    for name, row in measured(dataset, {BASELINE: _ids(first), **{name: _ids(hits) for name, hits in after.items()}})[
        "systems"
    ].items():
        if name in found:  # the reference's own figures
            found[name] |= {key: row[key] for key in ("cond_mrr", "error_removed", "error_removed_ci")}
    for name, hits in rewritten.items():
        found[name] = {"before": "default", **_figures(asked, _values(dataset, hits))}
    systems = [{"name": name, **row, **costs.get(name, {})} for name, row in found.items()]
    return {"questions": len(texts), "systems": systems, "failed": sum(row.get("failed", 0) for row in systems)}


def _added(first: Sequence[Sequence[Hit]], judged: Sequence[Sequence[Hit]], weight: float) -> list[list[Hit]]:
    """The reference's other way: a yes adds to the hybrid's score, with the weight of our own head."""
    found = []
    for hits, answers in zip(first, judged, strict=True):
        said = {hit.id: weight * hit.score for hit in answers}
        found.append(sorted(hits, key=lambda hit: -hit.score - said[hit.id]))
    return found


def _ids(found: Sequence[Sequence[Hit]]) -> list[list[str]]:
    return [[hit.id for hit in hits[:DEPTH]] for hits in found]


def shots(data: Path) -> tuple[Shot, ...]:
    """Training questions, each with the sentence that answers it among its neighbours."""
    (sentences, asked, answers), rng = squad_train(data), np.random.default_rng(SEED)
    made = []
    for row in rng.choice(len(asked), SHOTS, replace=False).tolist():
        answer = answers[row]
        near = list(range(max(answer - NEAR, 0), min(answer + NEAR + 1, len(sentences))))
        order = rng.permutation(near).tolist()
        made.append(Shot(asked[row], tuple(sentences[place] for place in order), order.index(answer)))
    return tuple(made)


def _values(dataset: Dataset, found: Sequence[Sequence[Hit]]) -> dict[str, DoubleArray]:
    return per_question(dataset, _ids(found), MEASURES)


def _figures(before: Mapping[str, DoubleArray], after: Mapping[str, DoubleArray]) -> dict[str, Any]:
    """The mean before; nDCG@10 and MRR@10 after, and the gain in nDCG@10 with its interval."""
    means = {"ndcg_before": before["nDCG@10"].mean(), "mrr": after["RR@10"].mean()}
    rounded = {name: round(float(value), 4) for name, value in means.items()}
    return {**rounded, **compared(before["nDCG@10"], after["nDCG@10"])}


def _cost(bill: Bill, questions: int, model: str) -> dict[str, Any]:
    """What it took: calls, tokens and seconds of a question, USD for a million, and calls of which nothing came."""
    calls, per = bill.calls or 1, bill.calls / questions
    found = {
        "calls_per_question": round(per, 2),
        "prompt_tokens_per_call": round(bill.prompt_tokens / calls, 1),
        "answer_tokens_per_call": round(bill.answer_tokens / calls, 1),
        "seconds_per_question": round(bill.seconds / questions, 3),
        **{name: getattr(bill, name) for name in ("failed", "refused", "nonsense")},
    }
    if model in prices.load()["tokens"]:
        call = prices.tokens(model, bill.prompt_tokens / calls, bill.answer_tokens / calls)
        return {**found, "usd_per_million": round(per * call, 2)}
    return {**found, "usd_per_million_gpu": round(prices.gpu_call(bill.seconds / questions), 2)}


# -- tables ---------------------------------------------------------------------------------------------------------------


def table(found: Mapping[str, Any]) -> str:
    """Our heads and every prompted way, by set."""
    rows = []
    for name, results in found["language_model"]["on"].items():
        systems = results["prompted"]["systems"]
        for row in systems:
            cost = _shown_cost(row) if "calls_per_question" in row else "-----"
            rows.append((name, row["name"], *_quality(row), *cost))
        if len(systems) == len(HEADS):
            rows.append((name, "any model", "not measured: give --endpoint URL and --model NAME", *"--------"))
    head = ("set", "system", "nDCG@10 before", "after", "gain", "error removed", *COSTS)
    return readme.markdown(head, rows)


COSTS = ("calls a question", "tokens a prompt", "calls of which nothing came", "s a question", "USD a million")


def _quality(row: Mapping[str, Any]) -> tuple[str, ...]:
    removed = f"{row['error_removed']:+.0%}" if "error_removed" in row else "-"
    return f"{row['ndcg_before']:.3f} ({row['before']})", f"{row['after']:.3f}", shown(row), removed


def _shown_cost(row: Mapping[str, Any]) -> tuple[str, ...]:
    nothing = sum(row[why] for why in ("failed", "refused", "nonsense"))
    counts = (row["calls_per_question"], row["prompt_tokens_per_call"], nothing, row["seconds_per_question"])
    usd = row.get("usd_per_million", row.get("usd_per_million_gpu"))
    return (*map(readme.number, counts), readme.money(float(usd)))  # type: ignore[arg-type]


TABLES = {"": table}
