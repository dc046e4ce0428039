"""Slices the questions of a data set, by their class and by the kind of passage that answers them."""

from __future__ import annotations

import re

from semclass.evaluation.dataset import Dataset
from semclass.ranking.retriever import HybridRetriever

_CELLS = re.compile(r"\||\t")
_ITEM = re.compile(r"(?:[-*+\u2022\u2013\u00b7]|\(?(?:\d{1,3}|[a-z])[.)])\s+\S")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s*(?:\[\d+\]\s*)*$")

_ITEM_WORDS = 12
"""Most words of a line that counts as an item without a bullet. Such a line must not end a sentence."""


def passage_kind(text: str) -> str:
    """Return ``"table"``, ``"list"`` or ``"text"`` for a text, by the look of its lines.

    A line is a row if it holds at least two bars or tabs, and an item if it begins with a bullet, a number or a letter,
    or if it is short and does not end a sentence. A table has at least two rows, and a list at least three items. At
    least half of the lines must be rows of the table, or items of the list.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    rows = sum(len(_CELLS.findall(line)) >= 2 for line in lines)
    if rows >= 2 and 2 * rows >= len(lines):
        return "table"
    items = sum(
        bool(_ITEM.match(line)) or (len(line.split()) <= _ITEM_WORDS and not _SENTENCE_END.search(line))
        for line in lines
    )
    return "list" if items >= 3 and 2 * items >= len(lines) else "text"


def slices_of(dataset: Dataset, retriever: HybridRetriever) -> dict[str, list[str]]:
    """Return the slice of each question, by the kind of slice.

    ``"question class"`` is the coarse class that the question head gives, if there is a head. ``"passage kind"`` is the
    kind of the most relevant passage in the index, or ``"absent"``. If several passages are the most relevant, the
    first in the judgements counts.
    """
    by_class = {}
    if retriever.models.has_classes:
        found = retriever.models.questions.classify(list(dataset.questions.values()))
        by_class["question class"] = [label.label for label in found]
    wanted = {passage for relevant in dataset.relevance.values() for passage in relevant}
    kinds = {passage.id: passage_kind(passage.text) for passage in retriever.local_index.by_ids(sorted(wanted))}
    answered = []
    for question in dataset.questions:
        held = {name: value for name, value in dataset.relevance[question].items() if name in kinds}
        answered.append(kinds[max(held, key=lambda name: held[name])] if held else "absent")
    return {**by_class, "passage kind": answered}
