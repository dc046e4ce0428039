"""Re-ranks passages with a prompted language model, the baseline for the trained heads.

As in the reference thesis, the prompt asks for every candidate whether the passage answers the question. Candidates
with a yes come first, in their original order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from semclass.core.asynchronous import in_thread
from semclass.core.checks import check_choice, check_positive, check_text, check_texts
from semclass.core.errors import InputError
from semclass.core.types import Hit, Passage
from semclass.endpoint.client import Chat, Endpoint
from semclass.endpoint.reading import ENTAILS, YES_NO, numbers_of, one_of
from semclass.index.passage_encoder import searchable
from semclass.ranking.methods import PROMPTED
from semclass.ranking.reranker import check_passages
from semclass.ranking.result import SearchResult

POINTWISE, LISTWISE = PROMPTED

READ = 2_000
"""Characters of a passage that a prompt shows to the model."""

TOGETHER = 20
"""Most passages that one call lists. The passages after them stay behind."""

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
        One of :data:`semclass.ranking.methods.PROMPTED`. ``"pointwise"`` makes a call per passage, ``"listwise"`` one
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
        ask = self._judge if self.way == POINTWISE else self._list
        return [
            SearchResult(tuple(_hits(some, scores)[:limit]), text)
            for text, some, scores in zip(texts, items, ask(texts, items), strict=True)
        ]

    arerank = in_thread(rerank)
    arerank_many = in_thread(rerank_many)

    def _judge(self, questions: list[str], items: list[list[Passage]]) -> Iterator[list[float]]:
        """Scores of each question's passages by yes or no."""
        head = "\n\n".join([ENTAILS, *_judged(self.shots)])
        prompts = [
            f"{head}\n\n{_pair(text, searchable(item))}"
            for text, some in zip(questions, items, strict=True)
            for item in some
        ]
        scores = iter([self._yes(reply.said) for reply in self.chat.ask(prompts, max_tokens=16)])
        return ([next(scores) for _ in some] for some in items)

    def _yes(self, said: str | None) -> float:
        if said is None:
            return UNKNOWN
        found = one_of(said, YES_NO)
        self.chat.bill.nonsense += found is None
        return UNKNOWN if found is None else float(found == "yes")

    def _list(self, questions: list[str], items: list[list[Passage]]) -> Iterator[list[float]]:
        """Scores of each question's passages by their places in the model's list."""
        head = "\n\n".join([BEST, *(_listed(shot.question, shot.passages, shot.answers) for shot in self.shots)])
        asked = [
            (text, [searchable(item) for item in some[:TOGETHER]]) for text, some in zip(questions, items, strict=True)
        ]
        prompts = [f"{head}\n\n{_listed(*each)}" for each in asked if each[1]]
        given = iter(self.chat.ask(prompts, max_tokens=64))
        for some in items:
            scores = [0.0] * len(some)
            said = next(given).said if some else None
            if said is not None:
                found = numbers_of(said, min(len(some), TOGETHER))
                self.chat.bill.nonsense += not found and one_of(said, {"none": ("none",)}) is None
                for rank, number in enumerate(found, 1):
                    scores[number - 1] = 1 / rank
            yield scores


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
