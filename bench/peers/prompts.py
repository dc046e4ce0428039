"""What a language model is asked, and how its answer is read: three tasks, in the structure of the reference.

Examples are drawn by a seed from training data, never from the items that are asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets_io import read_jsonl, read_tsv
from semclass.core.taxonomy import COARSE, MEANINGS, PROVIDED
from semclass.endpoint.reading import YES_NO

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
    rng = np.random.default_rng(seed)
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
            *(_question(text, name) for text, name in _examples(known, COARSE, PER_TYPE, rng)),
        ]
    )
    items = [Item((f"{head}\n\n{_question(row['question'])}",), (row["coarse"],)) for row in asked]
    what = f"{PER_TYPE} TREC training questions of each class as examples, one call a question"
    return Task(_shuffled(items, rng), TYPES, PER_TYPE * len(COARSE), what)


def _question(text: str, name: str | None = None) -> str:
    return f"Question: {text}\nType:" + ("" if name is None else f" {TYPES[name][0]}")


def passages(data: Path, *, seed: int = 0) -> Task:
    """The six classes of passages, one yes or no each: examples from those read once, items those read twice."""
    rng = np.random.default_rng(seed)
    texts = {row["_id"]: row["text"] for row in read_jsonl(data / "passages" / "wikipedia_flan_ul2.jsonl.gz")}
    gold = read_jsonl(data / "passages" / "gold.jsonl")
    once = [row for row in gold if row["readings"] == 1 and len(texts[row["_id"]]) <= SHORT]
    heads = []
    for name in COARSE:
        known = [(texts[row["_id"]], _yes_no(row["labels"][name])) for row in once if row["labels"][name] is not None]
        drawn = _examples(known, YES_NO, PER_ANSWER, rng)
        instruction = f"Does the passage tell {PROVIDED[name]}? Somebody who asks for it must find a clear answer. "
        heads.append("\n\n".join([f"{instruction}Reply with yes or no.", *(_passage(*pair) for pair in drawn)]))
    items = [
        Item(
            tuple(f"{head}\n\n{_passage(texts[row['_id']])}" for head in heads),
            tuple(_yes_no(row["labels"][name]) for name in COARSE),
        )
        for row in gold
        if row["readings"] == 2
    ]
    what = f"{PER_ANSWER} passages for yes and {PER_ANSWER} for no as examples, six calls a passage"
    return Task(_shuffled(items, rng), YES_NO, 2 * PER_ANSWER, what)


def _yes_no(value: int | None) -> str | None:
    return None if value is None else ("no", "yes")[value]


def _passage(text: str, answer: str | None = None) -> str:
    return f"Passage: {text}\nAnswer:" + ("" if answer is None else f" {answer}")


def entailment(data: Path, *, seed: int = 0) -> Task:
    """Whether a sentence answers a question: QNLI validation, examples from other articles."""
    rng = np.random.default_rng(seed)
    folder = data / "squad_sentences"
    sentences = [row["text"] for row in read_jsonl(folder / "train.corpus.jsonl.gz")]
    asked = read_jsonl(folder / "train.queries.jsonl.gz")
    drawn = rng.choice(len(asked), 2 * PER_RELATION, replace=False)
    examples = []
    for place, row in enumerate(asked[index] for index in drawn):
        answering = int(row["relevant"].removeprefix("s"))
        near = [i for i in range(max(answering - 3, 0), min(answering + 4, len(sentences))) if i != answering]
        yes = place < PER_RELATION
        examples.append((row["text"], sentences[answering if yes else int(rng.choice(near))], "yes" if yes else "no"))
    head = "\n\n".join(
        [
            "Does the sentence hold the answer to the question? Reply with yes or no.",
            *(_pair(*examples[place]) for place in rng.permutation(len(examples))),
        ]
    )
    items = [
        Item((f"{head}\n\n{_pair(row['question'], row['sentence'])}",), (RELATIONS[row["label"]],))
        for row in read_jsonl(data / "qnli" / "validation.jsonl.gz")
    ]
    what = f"{PER_RELATION} SQuAD training pairs for yes and {PER_RELATION} for no as examples, one call a pair"
    return Task(_shuffled(items, rng), YES_NO, 2 * PER_RELATION, what)


RELATIONS = {"entailment": "yes", "not_entailment": "no"}


def _pair(question: str, sentence: str, answer: str | None = None) -> str:
    return f"Question: {question}\nSentence: {sentence}\nAnswer:" + ("" if answer is None else f" {answer}")


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
