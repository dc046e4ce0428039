"""Re-ranks passages by prompts to a language model, as a baseline for the trained heads.

As in the reference thesis, a prompt asks for each candidate whether the passage answers the question. Candidates with
"yes" come first, in their original order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from semclass import Hit, InputError, InputTypeError, Passage, SearchResult
from semclass.plugins import check_choice, check_positive, check_text, check_texts, has_text, searchable, short
from semclass_llm.endpoint import Chat, Endpoint
from semclass_llm.label import ENTAILS
from semclass_llm.quoting import GUARD, quoted
from semclass_llm.reading import YES_NO, numbers_of, one_of

POINTWISE, LISTWISE = PROMPTED = ("pointwise", "listwise")
"""Ways to re-rank. ``"pointwise"`` asks for yes or no about each passage. ``"listwise"`` asks in one call for a list
of the passages that answer.
"""

MAX_CHARACTERS = 2_000  # characters of a passage that a prompt shows to the model
MAX_LISTED = 20  # most passages that one call lists; the passages after them stay behind
UNKNOWN = 0.5  # score of a passage whose call failed, was refused, or gave neither yes nor no

BEST = f"""Name the passages that answer the question, the one that answers it best first. Reply with their numbers and \
nothing else, such as: 3, 1. Reply with none if none of them does. \
{GUARD}"""


@dataclass(frozen=True)
class PromptedReranker:
    """Re-ranks passages by asking a language model. Threads may share one instance.

    Attributes
    ----------
    endpoint
        The model.
    way
        One of :data:`PROMPTED`. ``"pointwise"`` makes a call per passage, ``"listwise"`` one call per question.
    chat
        Calls the model. ``chat.bill`` is the cost so far, and counts calls without an answer.
    """

    endpoint: Endpoint
    way: str = POINTWISE
    chat: Chat = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice(self.way, PROMPTED, "way")
        object.__setattr__(self, "chat", Chat(self.endpoint))

    def rerank(self, question: str, passages: Sequence[Passage | str], *, k: int | None = None) -> SearchResult:
        """Re-rank passages for a question, with the arguments and errors of :meth:`semclass.Reranker.rerank`.

        Hits with equal scores keep their order. ``score`` and the component ``entails`` are 1 for yes, 0 for no and
        0.5 if a call gave no answer. With ``"listwise"``, the score is 1 / rank for passages that the model names, and
        0 for the other passages. If the call gave no answer, passages keep their order. Passages without text are not
        sent to the model, and come last among the passages with the score 0.
        """
        return self.rerank_many([check_text(question, "question")], [passages], k=k)[0]

    def rerank_many(
        self, questions: Sequence[str], passages: Sequence[Sequence[Passage | str]], *, k: int | None = None
    ) -> list[SearchResult]:
        """Re-rank the passages of several questions. `endpoint` limits the calls at a time. See :meth:`rerank`."""
        texts = check_texts(questions, "questions")
        items = [_passages(some, f"passages[{row}]") for row, some in enumerate(passages)]
        if len(items) != len(texts):
            raise InputError(
                f"there are {len(texts)} questions and {len(items)} sequences of passages; give one sequence per question"
            )
        limit = None if k is None else check_positive(k, "k")
        read = [[searchable(item) if has_text(item) else "" for item in some] for some in items]
        scored = (self._pointwise if self.way == POINTWISE else self._listwise)(texts, read)
        rows = zip(texts, items, read, scored, strict=True)
        return [SearchResult(tuple(_hits(some, own, scores)[:limit]), text) for text, some, own, scores in rows]

    def _pointwise(self, questions: list[str], items: list[list[str]]) -> Iterator[list[float]]:
        """Return the scores of each question's passages by yes or no."""
        pairs = [
            _pair(question, text) for question, some in zip(questions, items, strict=True) for text in some if text
        ]
        replies = self.chat.ask([f"{ENTAILS}\n\n{pair}" for pair in pairs], max_tokens=16)
        scores = iter([UNKNOWN if reply.why else self._yes(reply.text or "") for reply in replies])
        return ([next(scores) if text else 0.0 for text in some] for some in items)

    def _yes(self, text: str) -> float:
        answer = one_of(text, YES_NO)
        self.chat.bill.unreadable += answer is None
        return UNKNOWN if answer is None else float(answer == "yes")

    def _listwise(self, questions: list[str], items: list[list[str]]) -> Iterator[list[float]]:
        """Return the scores of each question's passages by their places in the model's list."""
        listed = [[place for place, text in enumerate(some) if text][:MAX_LISTED] for some in items]
        rows = zip(questions, items, listed, strict=True)
        lists = [_listed(question, [some[place] for place in places]) for question, some, places in rows if places]
        replies = self.chat.ask([f"{BEST}\n\n{one}" for one in lists], max_tokens=64)
        for some, places in zip(items, listed, strict=True):
            scores = [0.0] * len(some)
            if places and not (reply := next(replies)).why:
                numbers = numbers_of(reply.text or "", len(places))
                self.chat.bill.unreadable += not numbers and one_of(reply.text or "", {"none": ("none",)}) is None
                for rank, number in enumerate(numbers, 1):
                    scores[places[number - 1]] = 1 / rank
            yield scores


def _passages(passages: Sequence[Passage | str], name: str) -> list[Passage]:
    items = [Passage(str(row), item) if isinstance(item, str) else item for row, item in enumerate(passages)]
    if isinstance(passages, str) or not all(isinstance(item, Passage) for item in items):
        raise InputTypeError(f"{name} must be a sequence of passages or texts, not {short(passages)}")
    return items


def _pair(question: str, passage: str) -> str:
    return f"Question: {quoted(question)}\nPassage: {quoted(passage, MAX_CHARACTERS)}\nAnswer:"


def _listed(question: str, passages: Sequence[str]) -> str:
    lines = "\n".join(f"[{number}] {quoted(text, MAX_CHARACTERS)}" for number, text in enumerate(passages, 1))
    return f"Question: {quoted(question)}\n{lines}\nAnswer:"


def _hits(passages: Sequence[Passage], texts: Sequence[str], scores: Sequence[float]) -> list[Hit]:
    order = sorted(range(len(passages)), key=lambda place: (-scores[place], not texts[place]))  # stable
    return [
        Hit(
            id=passages[place].id,
            text=passages[place].text,
            metadata=passages[place].metadata,
            score=scores[place],
            rank=rank,
            rank_before=place + 1,
            components={"entails": scores[place]},
            labels=(),
            probabilities={},
        )
        for rank, place in enumerate(order, 1)
    ]
