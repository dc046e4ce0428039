"""Slices of a data set's questions: by the class of the question and by the kind of passage that answers it."""

from __future__ import annotations

import re

from semclass.evaluation.dataset import Dataset
from semclass.ranking.retriever import HybridRetriever

KINDS = ("text", "list", "table")
"""Kinds of passages."""

_CELLS = re.compile(r"\||\t")
_ITEM = re.compile(r"(?:[-*+\u2022\u2013\u00b7]|\(?(?:\d{1,3}|[a-z])[.)])\s+\S")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s*(?:\[\d+\]\s*)*$")

_ITEM_WORDS = 12
"""A line of at most so many words that ends no sentence reads as an item, though it has no bullet."""

_LIST_LINES = 3
"""A list has at least so many items."""


def passage_kind(text: str) -> str:
    """Tell prose from lists and tables by the look of the lines.

    A line is a row if at least two bars or tabs stand in it. It is an item if it begins with a bullet or with a number or
    letter and ``.`` or ``)``, or if it has at most 12 words and does not end a sentence.

    Parameters
    ----------
    text
        A passage, with its line breaks.

    Returns
    -------
    str
        ``"table"`` if at least half of the lines that are not empty are rows, and two of them; else ``"list"`` if at least
        half are items, and three of them; else ``"text"``. A text without line breaks is ``"text"``.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    rows = sum(len(_CELLS.findall(line)) >= 2 for line in lines)
    if rows >= 2 and 2 * rows >= len(lines):
        return "table"
    items = sum(
        bool(_ITEM.match(line)) or (len(line.split()) <= _ITEM_WORDS and not _SENTENCE_END.search(line))
        for line in lines
    )
    return "list" if items >= _LIST_LINES and 2 * items >= len(lines) else "text"


def slices_of(dataset: Dataset, retriever: HybridRetriever) -> dict[str, list[str]]:
    """Slice of each question, by kind of slice.

    Parameters
    ----------
    dataset
        Questions and judgements.
    retriever
        Over the data set's passages.

    Returns
    -------
    dict
        ``"question class"``: the coarse class that the question head gives, if there is one. ``"passage kind"``: see
        :func:`passage_kind`, of the most relevant passage that the index holds (of several, of the first in the
        judgements), or ``"absent"`` if it holds none.
    """
    questions = list(dataset.questions.values())
    by_class = {}
    if retriever.models.has_classes:
        by_class["question class"] = [found.label for found in retriever.models.questions.predict(questions)]
    wanted = {passage for relevant in dataset.relevance.values() for passage in relevant}
    kinds = {}
    index = retriever.embedded
    for row in index.rows.tolist():
        passage = index.passage(row)
        if passage.id in wanted:
            kinds[passage.id] = passage_kind(passage.text)
    answered = []
    for question in dataset.questions:
        held = {name: value for name, value in dataset.relevance[question].items() if name in kinds}
        answered.append(kinds[max(held, key=lambda name: held[name])] if held else "absent")
    return {**by_class, "passage kind": answered}
