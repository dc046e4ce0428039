"""From hits to a context: what a language model is given to answer from.

Free functions, each of which takes hits and gives hits, so that they can be chained or left out; ``rank`` says what is
best, and is counted anew wherever hits go. :func:`semclass.build_context` is the usual chain in one call: duplicates
are dropped, passages expanded, a budget is kept, the best are put first and last, and one text with numbered sources is
written.

Wherever a store is needed, a mapping or a function will do, so that any store can serve; see :data:`Parents` and
:data:`Documents`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from semclass.core.checks import check_positive, check_probability, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Hit, Passage
from semclass.documents.chunking import count_words
from semclass.documents.duplicates import THRESHOLD, WORDS
from semclass.documents.sentences import Span, sentence_spans

Parents: TypeAlias = Mapping[str, Passage] | Callable[[Sequence[str]], Iterable[Passage]]
"""Where parents are: passages by id, or a function from ids to their passages, in any order."""

Documents: TypeAlias = Mapping[str, Sequence[Passage]] | Callable[[Sequence[str]], Iterable[Passage]]
"""Where neighbours are: the passages of each document by its name, or a function from names to all passages of these
documents, in any order."""

TEMPLATE = "[{number}] {source}\n{text}"
"""How a source is written by default."""

SEPARATOR = "\n\n"
"""What stands between two sources."""

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\b[^\W\d]*\d\w*")

_STOP = re.compile(r"[.?!:;]['\")\]”’]*$")
_NEW_ITEM = re.compile(r"\s*\n\s*(?:\n|[-*+•|]|\d+[.)]\s)")

_POSITIONS = ("start", "paragraph", "position")
"""Metadata that tell where in its document a passage stands; the first that all its passages have."""


@dataclass(frozen=True)
class Source:
    """What a number in a context stands for.

    Attributes
    ----------
    number
        From 1, in the order of the text.
    label
        As it is written in the text.
    id
        Of the passage; of passages that were merged, that of the best, or that of their parent.
    title, document, page, heading
        From the metadata of the passage; None where they have none.
    """

    number: int
    label: str
    id: str
    title: Any
    document: Any
    page: Any
    heading: Any


@dataclass(frozen=True)
class Context:
    """A text to answer from.

    Attributes
    ----------
    text
        All sources, one after another; empty if there are none.
    sources
        What each number stands for, in the order of the text.
    count
        How long the text is, by the function that counted.
    hits
        What was written, in the order of the text; their ranks say which was best.
    """

    text: str
    sources: tuple[Source, ...]
    count: int
    hits: tuple[Hit, ...]


def build_context(
    hits: Sequence[Hit],
    *,
    budget: int | None = None,
    count: Callable[[str], int] = count_words,
    documents: Documents | None = None,
    parents: Parents | None = None,
    before: int = 1,
    after: int = 1,
    template: str = TEMPLATE,
    cite: Callable[[Hit], str] | None = None,
) -> Context:
    """Make one text of hits, for a language model to answer from.

    Duplicates are dropped (:func:`~semclass.context.build.drop_duplicates`). Passages become windows
    (:func:`~semclass.context.build.expand_window`), from the best on as long as all hits fit, so that no neighbour
    takes the room of a hit; or their parents (:func:`~semclass.context.build.expand_parents`). The best that fit are
    taken, others cut to what room is left (:func:`~semclass.context.build.fit_budget`). The best are put first and last
    (:func:`~semclass.context.build.reorder_for_long_context`), and all are written with numbers
    (:func:`~semclass.context.build.as_prompt`).

    Parameters
    ----------
    hits
        As a search gives them.
    budget
        How long the whole text may be, numbers and sources included, as `count` counts; None for no limit.
    count
        Length of a text; words by default, see :func:`~semclass.context.build.fit_budget` for tokens.
    documents
        To add neighbours to each passage: where they are.
    parents
        To give parents in place of passages: where they are. Not together with `documents`.
    before, after
        Neighbours to add; with `documents` only.
    template, cite
        See :func:`~semclass.context.build.as_prompt`.

    Returns
    -------
    Context
        Never longer than `budget`; empty if nothing fits.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or a neighbour or parent is not where it should be.
    """
    if documents is not None and parents is not None:
        raise InputError(
            "documents and parents are both given; expand passages to windows or to their parents, not both"
        )
    _check_template(template)
    chosen = drop_duplicates(hits)
    if parents is not None:
        chosen = expand_parents(chosen, parents)
    most = len(chosen)  # no number in the text is longer than this one

    def written(hit: Hit) -> str:
        return _block(hit, most, template, cite or cite_hit) + SEPARATOR

    if documents is not None:
        room = None if budget is None else check_positive(budget, "budget")
        chosen = _widened(chosen, documents, before, after, room, lambda hit: _counted(count, written(hit)))
    if budget is not None:
        chosen = fit_budget(chosen, budget, count=count, cut=True, written=written)
    while True:
        context = as_prompt(reorder_for_long_context(chosen), template=template, cite=cite, count=count)
        # a tokenizer may see more tokens in a text than in its parts
        if budget is None or context.count <= budget or not chosen:
            return context
        chosen = chosen[:-1]


def _widened(
    hits: Sequence[Hit], documents: Documents, before: int, after: int, room: int | None, length: Callable[[Hit], int]
) -> list[Hit]:
    """Give windows from the best hit on, as long as all hits have room."""
    names = {hit.metadata["document"]: None for hit in hits if isinstance(hit.metadata.get("document"), str)}
    windows = partial(expand_window, hits, _known(documents, list(names)), before=before, after=after)
    if room is None:
        return windows()
    best = bisect_right(range(1, len(hits) + 1), room, key=lambda best: sum(map(length, windows(best=best))))
    return windows(best=best)


# -- duplicates -------------------------------------------------------------------------------------------------------


def drop_duplicates(hits: Sequence[Hit], *, threshold: float | None = THRESHOLD, words: int = WORDS) -> list[Hit]:
    """Keep the best of hits that say the same.

    Two hits are duplicates if they have one id; if one is marked as the other's, or both as a third's, by
    ``metadata["duplicate_of"]``; if their texts are equal but for case, white space and compatibility forms (Unicode NFKC);
    or if their resemblance is at least `threshold` and they hold the same numbers. Texts that differ in a number are not
    the same, however much they resemble each other: reports of two years often differ in nothing else.

    The resemblance of two texts is the Jaccard index of their shingles, ``|A & B| / |A | B|``, where A and B are the sets
    of all runs of `words` consecutive words; a shorter text is one shingle (Broder 1997, "On the resemblance and
    containment of documents"). Case and punctuation do not count. In scripts without spaces, what stands between two marks
    is a word.

    Parameters
    ----------
    hits
        n hits.
    threshold
        In [0, 1]; None: texts that merely resemble each other are kept. The default is that of
        :func:`semclass.documents.duplicates.mark_duplicates`, as is that of `words`.
    words
        Words of a shingle.

    Returns
    -------
    list of Hit
        Best first, ranks counted anew.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed.
    """
    ranked = _ranked(hits)
    check_positive(words, "words")
    if threshold is not None:
        check_probability(threshold, "threshold")
    marked = {hit.id: hit.metadata["duplicate_of"] for hit in ranked if hit.metadata.get("duplicate_of") is not None}
    kept: list[Hit] = []
    seen: set[tuple[str, str]] = set()
    read: list[_Shingles] = []
    for hit in ranked:
        plain = " ".join(unicodedata.normalize("NFKC", hit.text).casefold().split())
        names = {("id", _original(hit.id, marked)), ("text", plain)}
        if not seen.isdisjoint(names):
            continue
        if threshold is not None:
            shingles = _shingles(plain, words)
            if any(_nearly_equal(shingles, other, threshold) for other in read):
                continue
            read.append(shingles)
        kept.append(hit)
        seen |= names
    return _numbered(kept)


@dataclass(frozen=True)
class _Shingles:
    """The shingles of a text, and the words of it that hold a digit."""

    shingles: frozenset[tuple[str, ...]]
    numbers: frozenset[str]


def _shingles(plain: str, size: int) -> _Shingles:
    words = _WORD.findall(plain)
    runs = zip(*(words[start:] for start in range(min(size, len(words)) or 1)), strict=False)
    return _Shingles(frozenset(runs), frozenset(_NUMBER.findall(plain)))


def _nearly_equal(one: _Shingles, other: _Shingles, threshold: float) -> bool:
    few, many = sorted((len(one.shingles), len(other.shingles)))
    # what is common to both is at most the smaller set, so most pairs need no comparison
    if one.numbers != other.numbers or few < threshold * many or few == 0:
        return False
    common = len(one.shingles & other.shingles)
    return common >= threshold * (few + many - common)


def _original(name: str, marked: Mapping[str, Any]) -> str:
    """Follow the marks of duplicates to their end; marks in a circle lead to the least of its ids."""
    path = [name]
    while (following := marked.get(path[-1])) is not None:
        if not isinstance(following, str):
            raise InputTypeError(f"metadata 'duplicate_of' of {path[-1]!r} must be an id, not {short(following)}")
        if following in path:
            return min(path[path.index(following) :])
        path.append(following)
    return path[-1]


# -- expansion --------------------------------------------------------------------------------------------------------


def by_document(passages: Iterable[Passage]) -> dict[str, list[Passage]]:
    """Collect passages by ``metadata["document"]``, for :func:`expand_window`; those without one are left out."""
    found: defaultdict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        if (document := passage.metadata.get("document")) is not None:
            found[document].append(passage)
    return dict(found)


def expand_window(
    hits: Sequence[Hit], documents: Documents, *, before: int = 1, after: int = 1, best: int | None = None
) -> list[Hit]:
    """Give each passage with its neighbours: search finds sentences, but they are read in their surroundings.

    Known as sentence-window retrieval (Haystack's ``SentenceWindowRetriever``, LlamaIndex's
    ``SentenceWindowNodeParser``). Windows that overlap become one, which takes the place of its best hit; no
    passage is given twice. Passages are in the order of ``metadata["start"]``, else ``["paragraph"]``, else
    ``["position"]``, else as they are given.

    Where passages have ``start`` and ``end`` (characters in the document), texts that overlap are put together without the
    overlap, and what is between two is a space where it was one character, else an empty line. Where they have none, or a
    text is not what stands there, as with tables, each begins a new line.

    Parameters
    ----------
    hits
        n hits. One without ``metadata["document"]`` stays as it is.
    documents
        Where neighbours are, all of one level; :func:`by_document` makes it of a list of passages.
    before, after
        How many neighbours to add on each side, at least 0; fewer where the document begins or ends.
    best
        How many hits, from the best on, get neighbours, at least 0; None: all.

    Returns
    -------
    list of Hit
        Best first, ranks counted anew. The text of a window is that of its passages, id, score, components, labels and
        metadata, page and heading among them, are those of its best hit, but for ``start`` and ``end``. Its metadata also
        hold ``found`` (ids of the hits in it, best first), ``passages`` (ids of all passages in it) and ``core`` (where the
        best hit's text begins and ends in the text).

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or `documents` does not hold a hit.
    """
    ranked = _ranked(hits)
    before, after = _check_count(before, "before"), _check_count(after, "after")
    best = len(ranked) if best is None else _check_count(best, "best")
    members: defaultdict[str, list[int]] = defaultdict(list)
    placed: list[tuple[int, Hit]] = []
    for place, hit in enumerate(ranked):
        if (document := hit.metadata.get("document")) is None:
            placed.append((place, hit))
        else:
            members[_check_name(document, "document", hit)].append(place)
    found = _known(documents, list(members))
    for document, places in members.items():
        passages = _in_order(found.get(document, ()))
        position = {passage.id: number for number, passage in enumerate(passages)}
        if missing := [ranked[place].id for place in places if ranked[place].id not in position]:
            raise InputError(
                f"documents holds no passage {missing[0]!r} of the document {document!r}; hand in the passages that were "
                "searched"
            )
        windows = []
        for place in places:
            middle = position[ranked[place].id]
            first, last = (middle - before, middle + after) if place < best else (middle, middle)
            windows.append((max(first, 0), min(last + 1, len(passages)), place))
        for first, last, inside in _joined(sorted(windows), passages):
            placed.append((min(inside), _window([ranked[place] for place in sorted(inside)], passages[first:last])))
    return _numbered([hit for _, hit in sorted(placed, key=lambda item: item[0])])


def expand_parents(hits: Sequence[Hit], parents: Parents, *, threshold: float = 0.0, levels: int = 1) -> list[Hit]:
    """Give parents in place of their children: small passages are found best, larger ones are read best.

    A parent takes the place of its children where ``found children / children > threshold``. With 0 one child is enough, as
    in LangChain's ``ParentDocumentRetriever``; Haystack and LlamaIndex, both ``AutoMergingRetriever``, take 0.5.

    Parameters
    ----------
    hits
        n hits. A child names its parent's id in ``metadata["parent"]``; a hit that names none stays as it is.
    parents
        Where parents are. With a threshold above 0 their ``metadata["children"]`` must hold the ids of all children, or
        their number.
    threshold
        In [0, 1).
    levels
        How many times: with 2, parents that were put in may give way to parents of theirs.

    Returns
    -------
    list of Hit
        Best first, ranks counted anew. A parent has the place, score, components and labels of its best child, and an id,
        a text and metadata of its own. Its metadata also hold ``found`` (ids of the hits that it stands for, best first)
        and, where the best child's text is in its text, ``core`` (where it begins and ends).

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, `parents` does not hold a parent, or that does not say how many children it has.
    """
    ranked = _ranked(hits)
    if check_probability(threshold, "threshold") == 1:
        raise InputError(
            "threshold is 1; a parent is given where more than that share was found, so it must be below 1"
        )
    for _ in range(check_positive(levels, "levels")):
        children: defaultdict[str, list[Hit]] = defaultdict(list)
        for hit in ranked:
            if (parent := hit.metadata.get("parent")) is not None:
                children[_check_name(parent, "parent", hit)].append(hit)
        found = {passage.id: passage for passage in _looked_up(parents, list(children))}
        merged: dict[str, Hit] = {}
        for name, group in children.items():
            if name not in found:
                raise InputError(f"parents holds no passage {name!r}, which hit {group[0].id!r} names as its parent")
            if threshold == 0 or len({hit.id for hit in group}) > threshold * _n_children(found[name]):
                merged[name] = _parent(found[name], group + [hit for hit in ranked if hit.id == name])
        if not merged:
            break
        replaced: dict[str, Hit] = {}
        for hit in ranked:
            taken = merged.get(hit.id) or merged.get(hit.metadata.get("parent", "")) or hit
            replaced.setdefault(taken.id, taken)
        ranked = list(replaced.values())
    return _numbered(ranked)


def _parent(parent: Passage, group: Sequence[Hit]) -> Hit:
    ordered = sorted(group, key=lambda hit: hit.rank)
    best = ordered[0]
    begin = parent.text.find(best.text)
    core = {} if begin < 0 or best.id == parent.id else {"core": [begin, begin + len(best.text)]}
    metadata = {**parent.metadata, "found": _found(ordered), **core}
    return replace(best, id=parent.id, text=parent.text, metadata=metadata)


def _n_children(parent: Passage) -> int:
    children = parent.metadata.get("children")
    if isinstance(children, Sequence) and not isinstance(children, str):
        children = len(children)
    if isinstance(children, bool) or not isinstance(children, int) or children < 1:
        raise InputError(
            f"metadata 'children' of the parent {parent.id!r} is {short(children)}; with a threshold above 0 it must "
            "be the ids of all its children, or their number"
        )
    return children


def _looked_up(parents: Parents, names: Sequence[str]) -> Iterable[Passage]:
    if isinstance(parents, Mapping):
        return [parents[name] for name in names if name in parents]
    return parents(names) if names else ()


def _known(documents: Documents, names: Sequence[str]) -> Mapping[str, Sequence[Passage]]:
    if isinstance(documents, Mapping):
        return documents
    return by_document(documents(names) if names else ())


def _in_order(passages: Iterable[Passage]) -> list[Passage]:
    found = list(passages)
    for name in _POSITIONS:
        if all(isinstance(passage.metadata.get(name), (int, float)) for passage in found):
            return sorted(found, key=lambda passage: passage.metadata[name])
    return found


def _joined(windows: Sequence[tuple[int, int, int]], passages: Sequence[Passage]) -> list[tuple[int, int, list[int]]]:
    """Join windows that overlap: first passage, the one after the last, and the hits inside."""
    joined: list[tuple[int, int, list[int]]] = []
    for first, last, place in windows:
        if joined:
            begin, end, inside = joined[-1]
            # cut with a great overlap, passages share characters with others than the next, too
            stretch = _stretch(passages[first])
            covered = max((reach[1] for passage in passages[begin:end] if (reach := _stretch(passage))), default=0)
            if first < end or (stretch is not None and stretch[0] < covered):
                joined[-1] = (begin, max(end, last), [*inside, place])
                continue
        joined.append((first, last, [place]))
    return joined


def _window(hits: Sequence[Hit], passages: Sequence[Passage]) -> Hit:
    best = hits[0]
    if len(passages) == 1:
        return best
    text, begins = _merged(passages)
    core = begins[[passage.id for passage in passages].index(best.id)]
    metadata: dict[str, Any] = {key: value for key, value in best.metadata.items() if key not in ("start", "end")}
    known = [stretch for passage in passages if (stretch := _stretch(passage)) is not None]
    if len(known) == len(passages):
        metadata |= {"start": min(start for start, _ in known), "end": max(end for _, end in known)}
    metadata |= {
        "found": _found(hits),
        "passages": [passage.id for passage in passages],
        "core": [core, core + len(best.text)],
    }
    return replace(best, text=text, metadata=metadata)


def _merged(passages: Sequence[Passage]) -> tuple[str, list[int]]:
    """Put texts together, without what two have in common; also where each begins in the whole."""
    text, begins = passages[0].text, [0]
    reach, exact = _reach(passages[0])
    for passage in passages[1:]:
        stretch, (end, fits) = _stretch(passage), _reach(passage)
        shared = 0 if reach is None or stretch is None else reach - stretch[0]
        if shared < -1:
            joint = "\n\n"
        elif not (exact and fits) or shared > len(text) or not _agree(text, passage.text, shared):
            joint, shared = "\n", 0  # saying something twice is better than losing it
        else:
            joint = " " * -shared
        begins.append(len(text) + len(joint) - max(shared, 0))
        text += joint + passage.text[max(shared, 0) :]
        if shared > 0 and reach is not None and end is not None:
            end = max(reach, end)
        reach, exact = end, fits
    return text, begins


def _reach(passage: Passage) -> tuple[int | None, bool]:
    """Where a passage ends in its document, and whether its text is just what stands there."""
    stretch = _stretch(passage)
    return None if stretch is None else stretch[1], _is_exact(passage)


def _agree(text: str, following: str, shared: int) -> bool:
    """Whether the last characters of a text are those with which another begins."""
    return shared <= 0 or text[-shared:].startswith(following[:shared])


def _stretch(passage: Passage) -> tuple[int, int] | None:
    """Where a passage stands in its document, in characters, if that is known."""
    start, end = passage.metadata.get("start"), passage.metadata.get("end")
    return (start, end) if isinstance(start, int) and isinstance(end, int) else None


def _is_exact(passage: Passage) -> bool:
    """Whether a passage's text is just what stands there: a table, for one, is written differently."""
    stretch = _stretch(passage)
    return stretch is not None and stretch[1] - stretch[0] == len(passage.text)


def _found(hits: Iterable[Hit]) -> list[str]:
    names = [name for hit in hits for name in hit.metadata.get("found", [hit.id])]
    return list(dict.fromkeys(names))


# -- budget and order -------------------------------------------------------------------------------------------------


def fit_budget(
    hits: Sequence[Hit],
    budget: int,
    *,
    count: Callable[[str], int] = count_words,
    cut: bool = False,
    written: Callable[[Hit], str] | None = None,
) -> list[Hit]:
    """Take the best hits that fit: each, best first, that the budget still has room for.

    Parameters
    ----------
    hits
        n hits.
    budget
        Sum of the lengths of what is taken, at least 1.
    count
        Length of a text; by default its words, which are not tokens: models see more of those, how many more depends on the
        model and the language. For a budget in tokens give the tokenizer of the model that will read the text, ``lambda
        text: len(tokenizer.encode(text))``; ``lambda text: len(encoder.tokenize([text]).values)`` counts the word pieces
        of the shipped encoder.
    cut
        Whether a hit that does not fit is cut at the ends of sentences, around what was found (``metadata["core"]``, else
        its beginning). Such a hit has ``metadata["cut"]``, and no ``found`` and ``passages``, some of which may be gone. If
        not, or if not one sentence fits, it is left out.
    written
        What is counted of a hit; its text if None.

    Returns
    -------
    list of Hit
        Best first, ranks counted anew.

    Raises
    ------
    InputError, InputTypeError
        If the budget is not a whole number of at least 1, or `count` gives no whole number.
    """
    room = check_positive(budget, "budget")

    def length(hit: Hit) -> int:
        return _counted(count, hit.text if written is None else written(hit))

    chosen: list[Hit] = []
    for hit in _ranked(hits):
        size = length(hit)
        if size > room and cut and room > 0:
            hit = _cut(hit, room, length)
            size = length(hit)
        if size <= room:
            chosen.append(hit)
            room -= size
    return _numbered(chosen)


def _cut(hit: Hit, room: int, length: Callable[[Hit], int]) -> Hit:
    """The longest run of sentences around what was found that fits; the shortest there is if none does."""
    if not hit.text.strip():
        return hit
    parts = _parts(hit.text)
    core = hit.metadata.get("core") or [0, 1]
    low = next((number for number, (_, end) in enumerate(parts) if end > core[0]), len(parts) - 1)
    high = max([low, *(number for number, (start, _) in enumerate(parts) if start < core[1])])
    # from the first sentence of what was found to all of it, and from there to both sides
    runs = [(low, last) for last in range(low, high + 1)]
    runs += [(max(low - more, 0), min(high + more, len(parts) - 1)) for more in range(1, len(parts))]

    def shortened(run: tuple[int, int]) -> Hit:
        begin, end = parts[run[0]][0], parts[run[1]][1]
        kept = {key: value for key, value in hit.metadata.items() if key not in ("found", "passages")}
        metadata = {**kept, "cut": True}
        if _is_exact(Passage(hit.id, hit.text, hit.metadata)):
            metadata |= {"start": hit.metadata["start"] + begin, "end": hit.metadata["start"] + end}
        if "core" in metadata:
            inside = [min(max(place, begin), end) - begin for place in core]
            metadata["core"] = inside
        return replace(hit, text=hit.text[begin:end], metadata=metadata)

    fitting = bisect_right(runs, room, key=lambda run: length(shortened(run)))
    return shortened(runs[max(fitting - 1, 0)])


def _parts(text: str) -> list[Span]:
    """Between what a text may be cut: sentences, items of lists and rows of tables, but not wrapped lines."""
    spans = sentence_spans(text)
    stops = [
        place for place, (_, end) in enumerate(spans) if _STOP.search(text, end - 4, end) or _NEW_ITEM.match(text, end)
    ]
    # a text without full stops, such as rows of values, is cut at its lines
    if not stops:
        return spans
    stops = sorted({*stops, len(spans) - 1})
    return [(spans[before + 1][0], spans[last][1]) for before, last in pairwise([-1, *stops])]


def reorder_for_long_context(hits: Sequence[Hit]) -> list[Hit]:
    """Put the best first and last, and the worst in the middle, where language models read least closely.

    Ranks 1, 3, 5 ... from the front and 2, 4, 6 ... from the back, for what Liu et al. (2023) found, "Lost in the Middle:
    How Language Models Use Long Contexts". This is the order of Haystack's ``LostInTheMiddleRanker``. LangChain and
    LlamaIndex, both ``LongContextReorder``, give the same for odd numbers of hits and the reverse for even ones, with the
    best last; here it is always first.

    Parameters
    ----------
    hits
        n hits, in any order.

    Returns
    -------
    list of Hit
        The same hits; their ranks still say which is best.
    """
    ranked = _ranked(hits)
    return ranked[::2] + ranked[1::2][::-1]


# -- text -------------------------------------------------------------------------------------------------------------


def cite_hit(hit: Hit) -> str:
    """Name the source of a hit: title, document, page and heading, those that its metadata have; else its id.

    Examples
    --------
    >>> cite_hit(Hit("a#3", "...", {"document": "a.md", "page": 2}, 0.5, 1, 1, {}, (), {}))
    'a.md, p. 2'
    """
    title, document, page, heading = (hit.metadata.get(name) for name in ("title", "document", "page", "heading"))
    parts = [title, document, None if page is None else f"p. {page}", heading]
    return ", ".join(str(part) for part in parts if part not in (None, "")) or hit.id


def as_prompt(
    hits: Sequence[Hit],
    *,
    template: str = TEMPLATE,
    cite: Callable[[Hit], str] | None = None,
    count: Callable[[str], int] = count_words,
) -> Context:
    """Write hits as one text with numbered sources, in the order in which they are given.

    Texts are put in as they are: nothing in them is escaped, and what reads like an instruction or a number in brackets
    stays so. Where passages are not to be trusted, choose a template that sets them apart, and say so in the prompt.

    Parameters
    ----------
    hits
        n hits.
    template
        How a source is written: a format string of ``{number}`` (from 1), ``{source}`` and ``{text}``.
    cite
        What ``{source}`` stands for; :func:`cite_hit` if None.
    count
        Length of a text, for ``Context.count``.

    Returns
    -------
    Context
        The sources, with an empty line between two.

    Raises
    ------
    InputError, InputTypeError
        If the template lacks ``{text}`` or has other fields, or `count` gives no whole number.

    Examples
    --------
    >>> hit = Hit("a#3", "It opened in 1874.", {"document": "a.md"}, 0.5, 1, 1, {}, (), {})
    >>> print(as_prompt([hit]).text)
    [1] a.md
    It opened in 1874.
    """
    _check_template(template)
    given = _checked(hits)
    cite = cite or cite_hit
    text = SEPARATOR.join(_block(hit, number, template, cite) for number, hit in enumerate(given, 1))
    sources = tuple(
        Source(
            number,
            cite(hit),
            hit.id,
            hit.metadata.get("title"),
            hit.metadata.get("document"),
            hit.metadata.get("page"),
            hit.metadata.get("heading"),
        )
        for number, hit in enumerate(given, 1)
    )
    return Context(text, sources, _counted(count, text) if given else 0, tuple(given))


def _block(hit: Hit, number: int, template: str, cite: Callable[[Hit], str]) -> str:
    return template.format(number=number, source=cite(hit), text=hit.text)


# -- checks -----------------------------------------------------------------------------------------------------------


def _checked(hits: Sequence[Hit]) -> list[Hit]:
    if isinstance(hits, (str, bytes, Mapping)) or not isinstance(hits, Iterable):
        raise InputTypeError(f"hits must be a sequence of Hit, not {type(hits).__name__}")
    found = list(hits)
    for place, hit in enumerate(found):
        if not isinstance(hit, Hit):
            raise InputTypeError(f"hits[{place}] must be a Hit, as a search gives it, not {type(hit).__name__}")
    return found


def _ranked(hits: Sequence[Hit]) -> list[Hit]:
    """Best first; of hits with one rank, from several searches, the one that is given first."""
    return sorted(_checked(hits), key=lambda hit: hit.rank)


def _numbered(hits: Iterable[Hit]) -> list[Hit]:
    return [hit if hit.rank == rank else replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)]


def _check_count(value: object, name: str) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else check_positive(value, name)


def _check_name(value: object, name: str, hit: Hit) -> str:
    if not isinstance(value, str):
        raise InputTypeError(f"metadata {name!r} of hit {hit.id!r} must be a string, not {short(value)}")
    return value


def _counted(count: Callable[[str], int], text: str) -> int:
    size = count(text)
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise InputTypeError(
            f"count must give a whole number, not {type(size).__name__}; for a tokenizer write "
            "count=lambda text: len(tokenizer.encode(text))"
        )
    return int(size.__index__())


def _check_template(template: str) -> None:
    if not isinstance(template, str):
        raise InputTypeError(f"template must be a string, not {type(template).__name__}")
    probe = "\0"
    try:
        written = template.format(number=1, source="", text=probe)
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        raise InputError(
            f"template {short(template)} is no format string of {{number}}, {{source}} and {{text}} ({error}); double the "
            "braces that are to be written"
        ) from error
    if probe not in written:
        raise InputError(f"template {short(template)} has no {{text}}; without it the passages would be left out")
