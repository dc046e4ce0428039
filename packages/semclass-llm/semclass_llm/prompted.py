"""Re-ranks passages with a prompted language model, the baseline for the trained heads.

As in the reference thesis, the prompt asks for every candidate whether the passage answers the question. Candidates
with a yes come first, in their original order. It can also be asked only where a search is unsure of its first hit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from semclass.core.checks import check_choice, check_positive, check_probability, check_text, check_texts
from semclass.core.errors import InputError
from semclass.core.tools import in_thread
from semclass.core.types import Hit, Passage
from semclass.index.passage_encoder import searchable
from semclass.ranking.reranker import check_passages
from semclass.ranking.result import SearchResult
from semclass_llm.endpoint.bill import Bill
from semclass_llm.endpoint.client import Chat, Endpoint
from semclass_llm.endpoint.kept import Reply
from semclass_llm.endpoint.reading import ENTAILS, YES_NO, numbers_of, one_of

PROMPTED = ("pointwise", "listwise")
"""How a language model re-ranks. ``"pointwise"`` asks for yes or no to each passage. ``"listwise"`` asks for a list of
the passages that answer, in one call.
"""

POINTWISE, LISTWISE = PROMPTED

READ = 2_000
"""Characters of a passage that a prompt shows to the model."""

TOGETHER = 20
"""Most passages that one call lists. The passages after them stay behind."""

FIRST = 5
"""Number of first hits that the model is asked about if the search is unsure which of them answers."""

UNKNOWN = 0.5
"""Score of a passage whose call failed, was refused, or gave neither yes nor no."""


@dataclass(frozen=True)
class Shot:
    """An example for a prompt: a question, passages, and the place of the passage that answers, from 0."""

    question: str
    passages: tuple[str, ...]
    answers: int

    def __post_init__(self) -> None:
        if not 0 <= self.answers < len(self.passages):
            raise InputError(
                f"answers is {self.answers}; it must be the position, from 0, of one of {len(self.passages)} passages"
            )


@dataclass(frozen=True)
class PromptedReranker:
    """Re-ranks passages by asking a language model (extra ``label``). Threads may share one instance.

    Attributes
    ----------
    endpoint
        The model.
    way
        One of :data:`semclass_llm.prompted.PROMPTED`. ``"pointwise"`` makes a call per passage, ``"listwise"`` one
        call per question.
    shots
        Examples at the beginning of each prompt. ``"pointwise"`` shows a passage that answers, and a passage that does
        not. Draw the examples from the searched texts, but not from the questions that you measure.
    chat
        The object that asks the model. ``chat.bill`` holds the cost so far, and how many calls gave no answer.
    """

    endpoint: Endpoint
    way: str = POINTWISE
    shots: Sequence[Shot] = ()
    chat: Chat = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice(self.way, PROMPTED, "way")
        object.__setattr__(self, "chat", Chat(self.endpoint))

    def rerank(self, question: str, passages: Sequence[Passage | str], *, k: int | None = None) -> SearchResult:
        """Re-rank passages for a question.

        Parameters
        ----------
        question, passages, k
            See :meth:`semclass.Reranker.rerank`.

        Returns
        -------
        SearchResult
            The hits, best first. Hits with equal scores keep their order. ``score`` and the component ``entails`` are 1
            for yes, 0 for no and 0.5 if a call gave no answer. With ``"listwise"``, the score is 1 / rank for passages
            that the model names, and 0 for the other passages. If the call gave no answer, passages keep their order.

        Raises
        ------
        InputError, InputTypeError
            For the same reasons as in :meth:`semclass.Reranker.rerank`.
        MissingExtraError
            If openai is not installed.
        """
        return self.rerank_many([check_text(question, "question")], [passages], k=k)[0]

    def rerank_many(
        self, questions: Sequence[str], passages: Sequence[Sequence[Passage | str]], *, k: int | None = None
    ) -> list[SearchResult]:
        """Re-rank the passages of several questions.

        `endpoint` limits the number of calls at a time. See :meth:`rerank`.
        """
        texts = check_texts(questions, "questions")
        items = [check_passages(some, f"passages[{row}]") for row, some in enumerate(passages)]
        if len(items) != len(texts):
            raise InputError(
                f"there are {len(texts)} questions and {len(items)} sequences of passages; give one sequence per question"
            )
        limit = None if k is None else check_positive(k, "k")
        return [
            SearchResult(tuple(_hits(some, scores)[:limit]), text)
            for text, some, scores in zip(texts, items, self._ask(texts, items), strict=True)
        ]

    arerank = in_thread(rerank)
    arerank_many = in_thread(rerank_many)

    def rerank_unsure(self, results: Sequence[SearchResult], below: float, first: int = FIRST) -> list[SearchResult]:
        """Re-rank the first hits of the results in which a search is unsure of its first hit.

        Parameters
        ----------
        results
            Results of a search by one method, each with at least `first` hits if the index holds as many.
        below
            Lead of the first hit below which the model is asked, see :func:`lead` and :func:`lead_below`.
        first
            Number of first hits that the model is asked about.

        Returns
        -------
        list of SearchResult
            All results. Hits that the model was asked about have what it said as the component ``entails``, as in
            :meth:`rerank`. They keep the scores of the search. ``certainty`` is None if another hit has become the first.

        Raises
        ------
        InputError
            If `first` is not positive.
        MissingExtraError
            If openai is not installed.
        """
        questions, items = _unsure(results, below, first)
        given = self._ask(questions, items)
        return [_moved(one, next(given)) if lead(one) < below else one for one in results]

    def estimate(self, results: Sequence[SearchResult], below: float, first: int = FIRST) -> Bill:
        """Count the calls that :meth:`rerank_unsure` would make, and the tokens of their prompts. Nothing is asked."""
        bill = Bill()
        for prompt in self._prompts(*_unsure(results, below, first)):
            bill.add(prompt, Reply(""))
        return bill

    def _ask(self, questions: list[str], items: list[list[Passage]]) -> Iterator[list[float]]:
        return (self._judge if self.way == POINTWISE else self._list)(questions, items)

    def _prompts(self, questions: list[str], items: list[list[Passage]]) -> list[str]:
        asked = zip(questions, items, strict=True)
        if self.way == POINTWISE:
            head = [ENTAILS, *_judged(self.shots)]
            made = [_pair(text, searchable(item)) for text, some in asked for item in some]
        else:
            head = [BEST, *(_listed(shot.question, shot.passages, shot.answers) for shot in self.shots)]
            made = [_listed(text, list(map(searchable, some[:TOGETHER]))) for text, some in asked if some]
        return ["\n\n".join([*head, each]) for each in made]

    def _judge(self, questions: list[str], items: list[list[Passage]]) -> Iterator[list[float]]:
        """Scores of each question's passages by yes or no."""
        given = self.chat.ask(self._prompts(questions, items), max_tokens=16)
        scores = iter([self._yes(reply.said) for reply in given])
        return ([next(scores) for _ in some] for some in items)

    def _yes(self, said: str | None) -> float:
        if said is None:
            return UNKNOWN
        found = one_of(said, YES_NO)
        self.chat.bill.nonsense += found is None
        return UNKNOWN if found is None else float(found == "yes")

    def _list(self, questions: list[str], items: list[list[Passage]]) -> Iterator[list[float]]:
        """Scores of each question's passages by their places in the model's list."""
        given = iter(self.chat.ask(self._prompts(questions, items), max_tokens=64))
        for some in items:
            scores = [0.0] * len(some)
            said = next(given).said if some else None
            if said is not None:
                found = numbers_of(said, min(len(some), TOGETHER))
                self.chat.bill.nonsense += not found and one_of(said, {"none": ("none",)}) is None
                for rank, number in enumerate(found, 1):
                    scores[number - 1] = 1 / rank
            yield scores


def lead(result: SearchResult) -> float:
    """Return how far the first hit is ahead of the second, in units of the method's score; infinite with no second hit."""
    return result[0].score - result[1].score if len(result) > 1 else math.inf


def lead_below(results: Sequence[SearchResult], share: float) -> float:
    """Return the lead below which a share of results is, those in which the search is the least sure of its first hit.

    Give the results of some hundreds of your questions, all by the method that you search by. No answers are needed.
    """
    leads = sorted(map(lead, results))
    return [*leads, math.inf][round(check_probability(share, "share") * len(leads))]


BEST = """Name the passages that answer the question, the one that answers it best first. Reply with their numbers and \
nothing else, such as: 3, 1. Reply with none if none of them does."""


def _pair(question: str, passage: str, answer: str | None = None) -> str:
    return f"Question: {question}\nPassage: {_cut(passage)}\nAnswer:" + ("" if answer is None else f" {answer}")


def _judged(shots: Sequence[Shot]) -> Iterator[str]:
    """A yes of every shot, and a no of those with another passage, in turns that do not always begin with yes."""
    for place, shot in enumerate(shots):
        pairs = [_pair(shot.question, shot.passages[shot.answers], "yes")]
        if others := [text for row, text in enumerate(shot.passages) if row != shot.answers]:
            pairs.append(_pair(shot.question, others[0], "no"))
        yield from pairs if place % 2 else pairs[::-1]


def _listed(question: str, passages: Sequence[str], answers: int | None = None) -> str:
    lines = "\n".join(f"[{number}] {_cut(text)}" for number, text in enumerate(passages, 1))
    return f"Question: {question}\n{lines}\nAnswer:" + ("" if answers is None else f" {answers + 1}")


def _cut(text: str) -> str:
    return " ".join(text[:READ].split())


def _unsure(results: Sequence[SearchResult], below: float, first: int) -> tuple[list[str], list[list[Passage]]]:
    """The questions to ask the model, and the passages to ask about."""
    some, limit = [one for one in results if lead(one) < below], check_positive(first, "first")
    return [one.query_used for one in some], [
        [Passage(hit.id, hit.text, hit.metadata) for hit in one[:limit]] for one in some
    ]


def _moved(result: SearchResult, said: list[float]) -> SearchResult:
    """The hits in the order of what was said of the first ones."""
    order = sorted(range(len(said)), key=lambda place: -said[place])  # stable
    moved = [replace(result[place], components={**result[place].components, "entails": said[place]}) for place in order]
    hits = (replace(hit, rank=rank) for rank, hit in enumerate((*moved, *result[len(said) :]), 1))
    return replace(result, hits=tuple(hits), certainty=None if order[0] else result.certainty)


def _hits(passages: Sequence[Passage], scores: Sequence[float]) -> list[Hit]:
    order = sorted(range(len(passages)), key=lambda place: -scores[place])  # stable
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
