"""Prompted language models behind any OpenAI-compatible endpoint: how often right, how fast, at what price.

A call that fails after all retries, and an answer that names no label, are counted and are wrong; neither ends the run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from bench import measures, prices
from datasets_io import read_jsonl, read_tsv, squad_train
from semclass.core import artifacts
from semclass.core.taxonomy import COARSE, MEANINGS, PROVIDED
from semclass_llm.endpoint.client import Endpoint, EndpointError, agree, replies, user
from semclass_llm.endpoint.kept import Reply
from semclass_llm.endpoint.reading import YES_NO, one_of

ALONE = 20  # items whose calls are made one at a time, for the latency of a call
ITEMS, QUICK = 1000, 12  # items that a run and a quick run ask about at most: each call is paid for


def measure(
    task: str,
    data: str,
    work: str,
    endpoint: str,
    model: str,
    key: str | None,
    limit: int,
    seed: int = 0,
    **settings: int,
) -> dict[str, Any]:
    made = TASKS[task](Path(data), seed=seed)
    asked = made.items[:limit]
    calls = [prompt for item in asked for prompt in item.prompts]
    per_item = len(asked[0].prompts)
    asked_of = service(work, endpoint, model, key, **settings)
    try:
        parameters = agree(asked_of, [user(calls[0])], max_tokens=16)
    except EndpointError as error:
        return {"skipped": str(error)}
    # the last items' calls are made one at a time
    together = len(calls) - per_item * min(ALONE, len(asked) // 4)
    alone = _ask(replace(asked_of, concurrency=1), calls[together:], parameters)
    given = [*_ask(asked_of, calls[:together], parameters), *alone]
    failed = Counter(one.error for one in given if one.error)
    said = [None if one.text is None else one_of(one.text, made.words) for one in given]
    return {
        "what": f"{model} behind an endpoint, {made.shots}-shot: {made.what}",
        **quality(task, asked, said, seed),
        "calls": len(calls),
        "failed": failed.total(),
        "failures": dict(failed),
        "unparsed": sum(label is None for label in said) - failed.total(),
        **(measured := times(given, per_item, asked_of.concurrency)),
        **money(model, calls, given, per_item, measured["per_second"]),
        "endpoint": asked_of.address,
        "parameters": parameters,
        "shots": made.shots,
        "calls_per_item": per_item,
        "concurrency": asked_of.concurrency,
    }


def service(work: str, endpoint: str, model: str, key: str | None, **settings: int) -> Endpoint:
    """A model behind an address; its replies are kept below `work`."""
    path = Path(work) / "answers" / f"{re.sub(r'[^a-zA-Z0-9_.-]+', '-', model)}.jsonl"
    return Endpoint(endpoint, model, os.environ.get(key or ""), cache=path, **settings)


def _ask(endpoint: Endpoint, calls: Sequence[str], parameters: Mapping[str, Any]) -> list[Reply]:
    return list(replies(endpoint, map(user, calls), max_tokens=16, parameters=parameters))


def quality(task: str, items: Sequence[Item], said: Sequence[str | None], seed: int = 0) -> dict[str, Any]:
    """Accuracy and macro F1 with intervals; a call without a label is wrong."""
    truth = [label for item in items for label in item.truth]
    if task == "questions":
        return measures.of_classes([str(label) for label in truth], said, seed=seed)
    true = np.array([np.nan if label is None else label == "yes" for label in truth])
    # None is neither yes nor no: the answer that is wrong stands for it
    found = np.array(
        [1 - right if label is None else float(label == "yes") for label, right in zip(said, true, strict=True)]
    )
    if task == "passages":
        shape = (len(items), -1)
        return measures.of_several(true.reshape(shape), [found.reshape(shape)], seed=seed)
    return measures.of_answers(true == 1, found == 1, seed=seed)


def times(given: Sequence[Reply], per_item: int, concurrency: int) -> dict[str, Any]:
    """Latency of items whose calls were made one at a time, throughput of calls made `concurrency` at once."""
    groups = [given[place : place + per_item] for place in range(0, len(given), per_item)]
    alone = [
        sum(one.seconds for one in group)
        for group in groups
        if all(one.error is None and one.at_once == 1 for one in group)
    ]
    together = [one for one in given if one.error is None and one.at_once == concurrency]
    seconds = float(np.mean([one.seconds for one in together])) if together else 0.0
    return {
        **(measures.milliseconds(alone, digits=2) if alone else {"p50_ms": None, "p95_ms": None}),
        "timed_items": len(alone),
        "per_second": round(concurrency / seconds / per_item, 3) if seconds else None,
    }


def money(
    model: str, calls: Sequence[str], given: Sequence[Reply], per_item: int, per_second: float | None
) -> dict[str, Any]:
    """Tokens of a call, by the service's count or as word pieces, and USD for a million items."""
    counts = [
        (one.prompt_tokens, one.completion_tokens, min(one.cached_tokens, one.prompt_tokens))
        if one.prompt_tokens is not None and one.completion_tokens is not None
        else (*pieces([prompt, one.text]), 0)
        for prompt, one in zip(calls, given, strict=True)
        if one.text is not None
    ]
    prompt_tokens, answer_tokens, cached_tokens = (float(value) for value in np.mean(counts, axis=0))
    usd: dict[str, float | None] = {"usd_per_million": None, "usd_per_million_gpu": None}
    if model in prices.load()["tokens"]:
        call = prices.tokens(model, prompt_tokens, answer_tokens, cached_tokens=cached_tokens)
        usd["usd_per_million"] = round(per_item * call, 2)
    elif per_second:
        usd["usd_per_million_gpu"] = round(prices.gpu_call(1 / per_second), 2)
    return {
        "prompt_tokens": round(prompt_tokens, 1),
        "answer_tokens": round(answer_tokens, 2),
        "cached_tokens": round(cached_tokens, 1),
        **usd,
    }


@lru_cache(maxsize=1)
def _tokenizer() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(artifacts.default_models() / "encoder" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def pieces(texts: Sequence[str]) -> list[int]:
    """Word pieces of texts, by the shipped encoder's tokeniser."""
    return [len(found.ids) for found in _tokenizer().encode_batch(list(texts), add_special_tokens=False)]


def prompt_tokens(task: str, data: str | Path, *, seed: int = 0, items: int = 100) -> dict[str, Any]:
    """Tokens of one call of a task, for models that were prompted elsewhere and kept no count."""
    made = TASKS[task](Path(data), seed=seed)
    counts = [
        pieces([prompt, made.words[label][0]])
        for item in made.items[:items]
        for prompt, label in zip(item.prompts, item.truth, strict=True)
        if label is not None
    ]
    prompt_count, answer_count = (float(value) for value in np.mean(counts, axis=0))
    return {
        "prompt": round(prompt_count, 1),
        "answer": round(answer_count, 2),
        "counted_with": "the shipped encoder's word pieces, on our prompt of the same structure",
    }


# -- what a language model is asked --------------------------------------------------------------------------------------


Words = Mapping[str, tuple[str, ...]]

TYPES: Words = {
    "ABBR": ("abbreviation", "abbr", "acronym"),
    "DESC": ("description", "desc", "definition", "explanation", "reason"),
    "ENTY": ("entity", "enty", "thing", "object"),
    "HUM": ("human", "hum", "person", "people", "group", "organisation", "organization"),
    "LOC": ("location", "loc", "place"),
    "NUM": ("number", "num", "numeric", "numerical", "quantity", "date"),
}
"""Words for a class; the first is the one that the prompts use."""

PER_TYPE, PER_ANSWER, PER_RELATION = 5, 5, 10
"""Examples of each label: 30 in the prompt for questions, 10 in each for passages, 20 in the one for entailment."""

SHORT = 600  # characters that a passage has at most if it is an example, so that ten of them leave room for the item


@dataclass(frozen=True)
class Item:
    """What is asked about."""

    prompts: tuple[str, ...]
    truth: tuple[str | None, ...]


@dataclass(frozen=True)
class Task:
    """A task for a prompted model."""

    items: tuple[Item, ...]
    words: Words
    shots: int
    what: str


def questions(data: Path, *, seed: int = 0) -> Task:
    """The six coarse classes of questions: TREC test, examples from the TREC training questions."""
    rng, ask = np.random.default_rng(seed), "Question: {}\nType:".format
    asked = read_tsv(data / "trec" / "test.tsv")
    held = {row["question"].casefold() for row in asked}
    known = [
        (row["question"], row["coarse"])
        for row in read_tsv(data / "trec" / "train.tsv")
        if row["question"].casefold() not in held
    ]
    head = "\n\n".join(
        [
            "Which type of answer does the question ask for? Reply with one of these six words and nothing else.\n"
            + "\n".join(f"{TYPES[name][0]}: {MEANINGS[name]}" for name in COARSE),
            *(f"{ask(text)} {TYPES[name][0]}" for text, name in _examples(known, COARSE, PER_TYPE, rng)),
        ]
    )
    items = [Item((f"{head}\n\n{ask(row['question'])}",), (row["coarse"],)) for row in asked]
    what = f"{PER_TYPE} TREC training questions of each class as examples, one call a question"
    return Task(_shuffled(items, rng), TYPES, PER_TYPE * len(COARSE), what)


def passages(data: Path, *, seed: int = 0) -> Task:
    """The six classes of passages, one yes or no each: examples from those read once, items those read twice."""
    rng, ask = np.random.default_rng(seed), "Passage: {}\nAnswer:".format
    texts = {row["_id"]: row["text"] for row in read_jsonl(data / "passages" / "wikipedia_flan_ul2.jsonl.gz")}
    gold = read_jsonl(data / "passages" / "gold.jsonl")
    once = [row for row in gold if row["readings"] == 1 and len(texts[row["_id"]]) <= SHORT]
    heads = []
    for name in COARSE:
        known = [(texts[row["_id"]], _yes_no(row["labels"][name])) for row in once if row["labels"][name] is not None]
        drawn = _examples(known, YES_NO, PER_ANSWER, rng)
        instruction = f"Does the passage tell {PROVIDED[name]}? Somebody who asks for it must find a clear answer. "
        examples = (f"{ask(text)} {answer}" for text, answer in drawn)
        heads.append("\n\n".join([f"{instruction}Reply with yes or no.", *examples]))
    items = [
        Item(
            tuple(f"{head}\n\n{ask(texts[row['_id']])}" for head in heads),
            tuple(_yes_no(row["labels"][name]) for name in COARSE),
        )
        for row in gold
        if row["readings"] == 2
    ]
    what = f"{PER_ANSWER} passages for yes and {PER_ANSWER} for no as examples, six calls a passage"
    return Task(_shuffled(items, rng), YES_NO, 2 * PER_ANSWER, what)


def _yes_no(value: int | None) -> str | None:
    return None if value is None else ("no", "yes")[value]


def entailment(data: Path, *, seed: int = 0) -> Task:
    """Whether a sentence answers a question: QNLI validation, examples from other articles."""
    rng, ask = np.random.default_rng(seed), "Question: {}\nSentence: {}\nAnswer:".format
    sentences, asked, answers = squad_train(data)
    drawn = rng.choice(len(asked), 2 * PER_RELATION, replace=False)
    examples = []
    for place, row in enumerate(drawn.tolist()):
        answering = answers[row]
        near = [i for i in range(max(answering - 3, 0), min(answering + 4, len(sentences))) if i != answering]
        yes = place < PER_RELATION
        sentence = sentences[answering if yes else int(rng.choice(near))]
        examples.append(f"{ask(asked[row], sentence)} {'yes' if yes else 'no'}")
    head = "\n\n".join(
        [
            "Does the sentence hold the answer to the question? Reply with yes or no.",
            *(examples[place] for place in rng.permutation(len(examples))),
        ]
    )
    items = [
        Item((f"{head}\n\n{ask(row['question'], row['sentence'])}",), (RELATIONS[row["label"]],))
        for row in read_jsonl(data / "qnli" / "validation.jsonl.gz")
    ]
    what = f"{PER_RELATION} SQuAD training pairs for yes and {PER_RELATION} for no as examples, one call a pair"
    return Task(_shuffled(items, rng), YES_NO, 2 * PER_RELATION, what)


RELATIONS = {"entailment": "yes", "not_entailment": "no"}


TASKS: dict[str, Callable[..., Task]] = {"questions": questions, "passages": passages, "entailment": entailment}
"""By name what makes each task of a data folder."""


def _examples(
    known: Sequence[tuple[str, str | None]], labels: Sequence[str] | Words, each: int, rng: np.random.Generator
) -> list[tuple[str, str]]:
    """`each` examples of every label, in an order that says nothing of the label."""
    drawn: list[tuple[str, str]] = []
    for name in labels:
        texts = [text for text, found in known if found == name]
        drawn += [(texts[place], name) for place in rng.choice(len(texts), each, replace=False)]
    return [drawn[place] for place in rng.permutation(len(drawn))]


def _shuffled(items: Sequence[Item], rng: np.random.Generator) -> tuple[Item, ...]:
    return tuple(items[place] for place in rng.permutation(len(items)))
