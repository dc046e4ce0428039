"""Chooses and cuts the best hits for a budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace

from semclass.core.checks import check_positive
from semclass.core.types import Hit
from semclass.documents.chunking import count_words
from semclass.documents.sentences import unwrapped_spans
from semclass_llm.context.hits import best_first, is_verbatim, length, renumbered


def fit_budget(
    hits: Sequence[Hit],
    budget: int,
    *,
    count: Callable[[str], int] = count_words,
    cut: bool = False,
    written: Callable[[Hit], str] | None = None,
) -> list[Hit]:
    """Keep the best hits that fit into a budget, chosen best first, with new ranks.

    Parameters
    ----------
    hits
        n hits.
    budget
        Greatest total length of the kept hits, at least 1.
    count
        Function that counts the length of a text, in words by default. For a budget in tokens, use the tokenizer of the
        model that will read the text, ``lambda text: len(tokenizer.encode(text))``.
    cut
        Whether to cut a hit that does not fit. The hit is cut at the ends of sentences, around the found text
        (``metadata["core"]``, or else its beginning). A cut hit has ``metadata["cut"]``, but not ``found`` or
        ``passages``. If `cut` is false, or not even one sentence fits, the hit is left out.
    written
        Function that returns the text of a hit whose length counts. Defaults to the text of the hit.

    Raises
    ------
    InputError, InputTypeError
        If the budget is not a whole number of at least 1, or `count` does not return a whole number.
    """
    room = check_positive(budget, "budget")

    def size_of(hit: Hit) -> int:
        return length(count, hit.text if written is None else written(hit))

    chosen: list[Hit] = []
    for hit in best_first(hits):
        size = size_of(hit)
        if size > room and cut and room > 0:
            hit = _cut(hit, room, size_of)
            size = size_of(hit)
        if size <= room:
            chosen.append(hit)
            room -= size
    return renumbered(chosen)


def _cut(hit: Hit, room: int, size_of: Callable[[Hit], int]) -> Hit:
    """Keep the longest run of sentences around the core that fits, or the shortest if none does."""
    if not hit.text.strip():
        return hit
    parts = unwrapped_spans(hit.text)
    begin, end = hit.metadata.get("core") or (0, 1)
    low = next((number for number, (_, after) in enumerate(parts) if after > begin), len(parts) - 1)
    high = max([low, *(number for number, (start, _) in enumerate(parts) if start < end)])
    # from the first sentence of the core to all of it, and from there to both sides
    runs = [(low, last) for last in range(low, high + 1)]
    runs += [(max(low - more, 0), min(high + more, len(parts) - 1)) for more in range(1, len(parts))]
    spans = [(parts[first][0], parts[last][1]) for first, last in runs]
    fitting = bisect_right(spans, room, key=lambda span: size_of(_shortened(hit, *span)))
    return _shortened(hit, *spans[max(fitting - 1, 0)])


def _shortened(hit: Hit, begin: int, end: int) -> Hit:
    metadata = {key: value for key, value in hit.metadata.items() if key not in ("found", "passages")}
    metadata["cut"] = True
    if is_verbatim(hit):
        metadata |= {"start": hit.metadata["start"] + begin, "end": hit.metadata["start"] + end}
    if "core" in metadata:
        metadata["core"] = [min(max(place, begin), end) - begin for place in hit.metadata["core"]]
    return replace(hit, text=hit.text[begin:end], metadata=metadata)
