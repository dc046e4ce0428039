"""Labels that heads of one's own give passages: fields of the metadata that follow from title and text.

A head reads a passage whole, as it reads any text, so its label is that of :meth:`semclass.TextModel.classify`. What the
index reads of it, sentence by sentence, would cost nothing more, but a head that was trained on whole texts is less often
right by the mean of sentences, most of all where few labels let it read ``pooled`` (``bench/results/heads.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.encoders.batching import quietly
from semclass.heads.texts import TextModel, classify_all
from semclass.index.passage_encoder import searchable

PROBABILITY = "_probability"
"""End of the name of the field with the probability of a label; the name of the head is before it."""


def fields_of(heads: Iterable[str]) -> tuple[str, ...]:
    """Fields that some heads fill: the label, and how probable it is."""
    return tuple(field for name in heads for field in (name, name + PROBABILITY))


def label(passages: Sequence[Passage], heads: Mapping[str, TextModel]) -> list[Passage]:
    """Give passages with the labels of heads; one encoder reads them once for all of its heads."""
    texts = [searchable(passage) for passage in passages]
    by_head, _ = quietly(lambda: classify_all(heads, texts))  # truncated texts are warned of by the index
    rows: list[dict[str, Any]] = [{} for _ in passages]
    for name, labels in by_head.items():
        multi_label = heads[name].multi_label
        for row, item in zip(rows, labels, strict=True):
            row[name] = list(item.labels) if multi_label else item.label
            row[name + PROBABILITY] = round(item.probability, 4)
    return [labelled(passage, row) for passage, row in zip(passages, rows, strict=True)]


def labelled(passage: Passage, labels: Mapping[str, Any]) -> Passage:
    """Give a passage with some labels; an InputError if it has a field of that name."""
    if taken := [field for field in labels if field in passage.metadata]:
        raise InputError(
            f"the metadata of passage {passage.id!r} have the field {taken[0]!r}, to which a head of the index writes; "
            "rename the field or the head"
        )
    return replace(passage, metadata={**passage.metadata, **labels}) if labels else passage


def labels_in(passage: Passage, heads: Iterable[str]) -> dict[str, Any]:
    """The labels of a passage of an index."""
    return {field: passage.metadata[field] for field in fields_of(heads) if field in passage.metadata}


def check_heads(index: object, known: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Refuse heads that are not those that labelled an index; both are fingerprints by name."""
    if known == given:
        return
    if others := [name for name in known if given.get(name, known[name]) != known[name]]:
        labelled_by = f"by the head {others[0]!r} with the fingerprint {known[others[0]]}, not {given[others[0]]}"
    else:
        before, now = (" and ".join(map(repr, names)) or "none" for names in (known, given))
        labelled_by = f"by the heads {before}, but the models have {now}"
    remedy = f"name the same heads ({' '.join(f'--head {name}=DIR' for name in known)})" if known else "name no heads"
    message = f"the passages of {index} were labelled {labelled_by}: {remedy}, or build the index again (--replace)"
    raise InputError(message)
