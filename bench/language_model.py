"""A language model around the search: candidates re-ranked by prompts, questions rewritten, nDCG@10 before and after.

With ``--endpoint`` and ``--model``: the reference's prompted re-ranking of the hybrid's first ten beside our heads, and the
default with rewritten questions. Without them: our heads, and how rankings of several questions are best made one.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import prices, readme
from bench.measures import compared
from bench.retrieval_systems import DEPTH, drawn, measured, opened
from bench.steps import Bench
from datasets_io import read_jsonl
from semclass import Hit, HybridRetriever, Passage
from semclass.core.types import DoubleArray
from semclass.endpoint.bill import Bill
from semclass.endpoint.client import Endpoint
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import BASELINE, per_question
from semclass.index.passage_encoder import searchable
from semclass.ranking.methods import DEFAULT, METHODS, PROMPTED
from semclass.ranking.prompted import POINTWISE, PromptedReranker, Shot
from semclass.ranking.rewritten import search_rewritten
from semclass.rewriting import WAYS
from semclass.rewriting.rewriter import Rewriter
from semclass.rewriting.transform import Rewritten
from semclass.scoring.fusion import RRF_K

SETS = ("squad4", "docs")
"""Development sets: an encyclopaedia, and a product's documentation."""

QUESTIONS, QUICK = 300, 12  # of a set; each takes calls
PAIRS = 150  # pairs of questions that are asked in one, at most
SHOTS, NEAR = 10, 2  # examples of a prompt: ten for yes and ten for no, as the reference's; sentences on either side
SAID = "Tell me about {}."  # what was said before a question that leaves out a name
FOLLOWED = ("alone", "after what was said", "rewritten", "rewritten, another name")
IMAGINED = 40  # words of a passage that stands in for an imagined one
SEED = 0
ADDED = f"prompted, {POINTWISE}, added"
HEADS = {"default": DEFAULT, "our head, yes first": "entail-stable", "our head, added": "entail-integrated-hard"}
"""What our heads do, by name and method; the last two as the reference did with its prompts."""

MEASURES = ("nDCG@10", "RR@10")
REWRITING = tuple(way for way in WAYS if way != "conversation")
"""Ways that are measured: the sets hold no conversations."""

POOLED = ("by its best rank", "by the sum of reciprocal ranks")
"""How a passage counts that several questions find: as the library has it, and by reciprocal rank fusion."""

STOP = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been by can did do does for from had has have how i in is it its me my of on or s that the "
        "there this to was we were what when where which who whom whose why with you",
    )
)
"""Words that are left out where a question is asked by its keywords."""


def run(bench: Bench) -> dict[str, Any]:
    sets = {}
    questions = QUICK if bench.quick else QUESTIONS
    for name in SETS:
        where = {"folder": bench.beir(name), "cache": bench.indices}
        pairs = QUICK if bench.quick else PAIRS
        by_rule = bench.step(f"language_model/{name}/by_rule", "bench.language_model:by_rule", **where, pairs=pairs)
        sets[name] = {"by_rule": by_rule}
        replies = f"language-model-{re.sub('[^a-zA-Z0-9_.-]+', '-', bench.model or 'none')}.jsonl"
        sets[name]["prompted"] = bench.step(
            f"language_model/{name}/prompted", "bench.language_model:prompted", **where, questions=questions,
            data=bench.data, replies=bench.work / "answers" / replies, endpoint=bench.endpoint, model=bench.model,
            key=bench.key,
        )  # fmt: skip
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
    dataset, retriever = drawn(load_dataset(folder), questions), opened(folder, cache, 0.0, None).retriever
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


def by_rule(folder: str, cache: str, pairs: int) -> dict[str, Any]:
    """Two questions in one, parted as they were joined; and a question with its keywords as another wording."""
    dataset, retriever = load_dataset(folder), opened(folder, cache, 0.0, None).retriever
    names = np.random.default_rng(SEED).permutation(list(dataset.questions)).tolist()
    couples = list(zip(names[: len(names) // 2], names[len(names) // 2 :], strict=False))[:pairs]
    parts = {}
    for couple in couples:
        one, other = (dataset.questions[name] for name in couple)
        parts[f"{one.rstrip('?. ')}, and {other[:1].lower()}{other[1:]}"] = (one, other)
    both = replace(
        dataset,
        questions={" ".join(couple): text for couple, text in zip(couples, parts, strict=True)},
        relevance={" ".join(both): dataset.relevance[both[0]] | dataset.relevance[both[1]] for both in couples},
    )
    some = drawn(dataset, pairs)
    worded = {text: (text, keywords(text)) for text in some.questions.values()}
    return {
        "joined": _pooled(retriever, both, parts),
        "keywords": _pooled(retriever, some, worded),
        "imagined": _imagined(retriever, some),
        "followed": _followed(retriever, some),
    }


def _followed(retriever: HybridRetriever, dataset: Dataset) -> dict[str, Any]:
    """What a question costs that leaves out the name of what it is about, and what each way to bring it back gives."""
    index = retriever.embedded
    common = Counter(word for passage in index.passages(np.arange(len(index))) for word in _words(searchable(passage)))
    names = {}
    for key, text in dataset.questions.items():
        (answer,) = index.passages(index.find([next(iter(dataset.relevance[key]))]))
        shared = [word for word in _words(text) if word in _words(searchable(answer)) and word not in STOP]
        if shared:
            names[key] = min(shared, key=lambda word: (common[word], word))
    asked = {key: dataset.questions[key] for key in names}
    kept = replace(dataset, questions=asked, relevance={key: dataset.relevance[key] for key in names})
    short = {key: re.sub(rf"\b{re.escape(name)}\b", "it", asked[key], flags=re.I) for key, name in names.items()}
    others = dict(zip(names, [*list(names.values())[1:], *list(names.values())[:1]], strict=True))
    said = {key: f"{SAID.format(names[key])} {text}" for key, text in short.items()}
    wrong = {key: re.sub(rf"\b{re.escape(name)}\b", others[key], asked[key], flags=re.I) for key, name in names.items()}
    ways = dict(zip(FOLLOWED, (short, said, asked, wrong), strict=True))
    values = {way: _values(kept, retriever.search_many(list(some.values()), DEPTH)) for way, some in ways.items()}
    before = values[FOLLOWED[0]]
    return {"questions": len(names), "ways": {way: _figures(before, after) for way, after in values.items()}}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _imagined(retriever: HybridRetriever, dataset: Dataset) -> dict[str, Any]:
    """What the beginning of a passage brings in place of a model's: of the right one, and of one for another question."""
    texts = list(dataset.questions.values())
    ids = [next(iter(relevant)) for relevant in dataset.relevance.values()]
    passages = retriever.embedded.passages(retriever.embedded.find(ids))
    begin = [" ".join(passage.text.split()[:IMAGINED]) for passage in passages]
    found: dict[str, Any] = {}
    for method in (DEFAULT, "convex"):
        before = _values(dataset, retriever.search_many(texts, DEPTH, method=method))
        for which, given in (("right", begin), ("wrong", [*begin[1:], begin[0]])):
            made = [Rewritten(text, (text,), (passage,)) for text, passage in zip(texts, given, strict=True)]
            hits = [search_rewritten(retriever, one, DEPTH, method=method) for one in made]
            found[f"{method}, {which}"] = _figures(before, _values(dataset, hits))
    return {"questions": len(texts), "ways": found}


def keywords(text: str) -> str:
    return " ".join(word for word in re.findall(r"\w+", text) if word.lower() not in STOP) or text


def _pooled(retriever: HybridRetriever, dataset: Dataset, made: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """What each way to pool gives with questions that others stand for."""
    texts = list(dataset.questions.values())
    before = _values(dataset, retriever.search_many(texts, DEPTH))
    best = [search_rewritten(retriever, Rewritten(text, made[text]), DEPTH) for text in texts]
    summed = [_summed(retriever.search_many(made[text], METHODS[DEFAULT].candidates)) for text in texts]
    found = zip(POOLED, (_figures(before, _values(dataset, hits)) for hits in (best, summed)), strict=True)
    return {"questions": len(texts), "ways": dict(found)}


def _summed(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Hits by reciprocal rank fusion."""
    score: defaultdict[str, float] = defaultdict(float)
    for hit in (hit for ranking in rankings for hit in ranking):
        score[hit.id] += 1 / (RRF_K + hit.rank)
    hits = {hit.id: hit for ranking in rankings for hit in ranking}
    return [hits[name] for name in sorted(score, key=lambda name: -score[name])[:DEPTH]]


def shots(data: Path) -> tuple[Shot, ...]:
    """Training questions, each with the sentence that answers it among its neighbours."""
    folder, rng = data / "squad_sentences", np.random.default_rng(SEED)
    sentences = [row["text"] for row in read_jsonl(folder / "train.corpus.jsonl.gz")]
    asked = read_jsonl(folder / "train.queries.jsonl.gz")
    made = []
    for row in rng.choice(len(asked), SHOTS, replace=False).tolist():
        answer = int(asked[row]["relevant"].removeprefix("s"))
        near = list(range(max(answer - NEAR, 0), min(answer + NEAR + 1, len(sentences))))
        order = rng.permutation(near).tolist()
        made.append(Shot(asked[row]["text"], tuple(sentences[place] for place in order), order.index(answer)))
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
    return f"{row['ndcg_before']:.3f} ({row['before']})", f"{row['after']:.3f}", _gain(row), removed


def _shown_cost(row: Mapping[str, Any]) -> tuple[str, ...]:
    nothing = sum(row[why] for why in ("failed", "refused", "nonsense"))
    counts = (row["calls_per_question"], row["prompt_tokens_per_call"], nothing, row["seconds_per_question"])
    usd = row.get("usd_per_million", row.get("usd_per_million_gpu"))
    return (*map(readme.number, counts), readme.money(float(usd)))  # type: ignore[arg-type]


def table_by_rule(found: Mapping[str, Any]) -> str:
    """What pooling brings, where questions were parted or worded by rule."""
    rows = []
    for name, results in found["language_model"]["on"].items():
        for what in ("joined", "keywords"):
            one = results["by_rule"][what]
            ways = [one["ways"][way] for way in POOLED]
            cells = (f"{way['after']:.3f}, {_gain(way)}" for way in ways)
            rows.append((f"{name}, {one['questions']} {SHOWN[what]}", f"{ways[0]['ndcg_before']:.3f}", *cells))
    return readme.markdown(("nDCG@10", "as it was asked", *(f"a passage counts {way}" for way in POOLED)), rows)


def table_of_imagined(found: Mapping[str, Any]) -> str:
    """What an imagined passage can bring at most, and what a wrong one costs."""
    rows = []
    for name, results in found["language_model"]["on"].items():
        one = results["by_rule"]["imagined"]
        for method in (DEFAULT, "convex"):
            right, wrong = (one["ways"][f"{method}, {which}"] for which in ("right", "wrong"))
            shown = (f"{row['after']:.3f}, {_gain(row)}" for row in (right, wrong))
            rows.append((f"{name}, {one['questions']} questions", f"`{method}`", f"{right['ndcg_before']:.3f}", *shown))
    head = ("nDCG@10", "method", "as it was asked", "the right passage imagined", "one for another question imagined")
    return readme.markdown(head, rows)


def table_of_follow_ups(found: Mapping[str, Any]) -> str:
    """What a follow-up question loses by itself, and what brings it back."""
    rows = []
    for name, results in found["language_model"]["on"].items():
        one = results["by_rule"]["followed"]
        alone, *others = (one["ways"][way] for way in FOLLOWED)
        cells = (f"{way['after']:.3f}, {_gain(way)}" for way in others)
        rows.append((f"{name}, {one['questions']} questions", f"{alone['after']:.3f}", *cells))
    return readme.markdown(("nDCG@10", *FOLLOWED), rows)


SHOWN = {"joined": "pairs of questions in one, parted", "keywords": "questions, also by their keywords"}


def _gain(row: Mapping[str, Any]) -> str:
    low, high = row["gain_ci"]
    return f"{row['gain']:+.3f} ({low:+.3f} to {high:+.3f})"


TABLES = {"": table, "by rule": table_by_rule, "imagined": table_of_imagined, "follow-up": table_of_follow_ups}
