"""Rewrites questions with a language model behind an OpenAI-compatible address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from semclass.core.checks import check_choice, check_text, check_texts, short
from semclass_llm.endpoint.bill import NONSENSE, REFUSED, Bill
from semclass_llm.endpoint.client import Chat, Endpoint
from semclass_llm.endpoint.reading import declines, questions_of, spoken
from semclass_llm.rewriting import WAYS
from semclass_llm.rewriting.transform import Rewritten

PARTS, WORDINGS = 4, 3
"""Most parts of a question, and number of other wordings of a question."""

TURNS = 6
"""Most turns of a conversation in a prompt. The last turns are kept."""

LONG = 2_000
"""Most characters of an imagined answer, and of a turn in a prompt."""

STANDALONE = """Rewrite the last question of a conversation so that it is understood without the conversation. Put names \
in the place of words such as "it", "they" and "there", add what was left out, and change nothing else. Repeat it if it is \
clear as it is. Reply with the question alone, in its language.

Conversation:
{history}

Question: {question}
Rewritten:"""

STEP_BACK = """Step back from the question: which more general question asks for the background, the rule or the principle \
that its answer rests on? Reply with that question alone, in the same language.

Question: {question}
General:"""

SUB_QUESTIONS = f"""Split the question into the questions that must be answered to answer it, {PARTS} at most. Each must \
be understood alone: name in each what it is about. If there is nothing to split, repeat the question. Reply with one \
question a line and nothing else, in the same language.

Question: {{question}}
Parts:"""

OTHER_WORDINGS = f"""Word the question in {WORDINGS} other ways, with other words such as a document about it might use. \
Each must ask the same. Reply with one question a line and nothing else, in the same language.

Question: {{question}}
Wordings:"""

HYDE = """Imagine a passage of a document that answers the question, and write it in two or three sentences, in the same \
language. What it says need not be true: it is used to find passages that read alike. Reply with the passage alone.

Question: {question}
Passage:"""


class _Way(NamedTuple):
    """How a question is rewritten."""

    prompt: str
    tokens: int  #: that the answer may have
    most: int  #: questions that are taken from it; 0: it is a passage
    also: bool = False  #: whether the question is searched for, too


_WAYS: Mapping[str, _Way] = {
    "conversation": _Way(STANDALONE, 128, 1),
    "step-back": _Way(STEP_BACK, 128, 1, also=True),
    "sub-questions": _Way(SUB_QUESTIONS, 256, PARTS),
    "wordings": _Way(OTHER_WORDINGS, 256, WORDINGS, also=True),
    "hyde": _Way(HYDE, 256, 0),
}


def _read(way: _Way, question: str, said: str) -> Rewritten | None:
    """What a model's answer makes of a question; None for nonsense."""
    if not way.most:
        passage = " ".join(spoken(said).split())[:LONG]
        alike = passage.casefold().strip(" ?.!") == question.casefold().strip(" ?.!")
        return None if alike or len(passage.split()) < 4 else Rewritten(question, (question,), (passage,))
    # where a question has no mark, as keywords have none, any line may be one
    found = questions_of(said, marked=question.endswith(("?", "？")))
    found = [each for each in found if len(each) <= max(300, 2 * len(question))][: way.most]
    return Rewritten(question, tuple(dict.fromkeys([question, *found] if way.also else found))) if found else None


@dataclass(frozen=True)
class Rewriter:
    """Rewrites questions with a language model (extra ``label``).

    It is a :class:`~semclass_llm.rewriting.transform.QueryTransform`.

    A question takes one call. With a history, one more call makes a question that can be understood alone. After a
    failed call, a refusal or an answer that cannot be read, the question stays unchanged, and ``why`` holds the reason.
    Threads may share one instance.

    Attributes
    ----------
    way
        One of :data:`semclass_llm.rewriting.WAYS`.
    endpoint
        The model. Users wait for the answer, so use few retries and a short timeout, as in ``Endpoint(url, model,
        retries=1, timeout=10)``.
    chat
        The object that asks the model. ``chat.bill`` holds the cost of all questions so far.
    """

    way: str
    endpoint: Endpoint
    chat: Chat = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice(self.way, WAYS, "way")
        object.__setattr__(self, "chat", Chat(self.endpoint))

    def __call__(self, question: str, history: Sequence[str] = ()) -> Rewritten:
        """Rewrite a question.

        Parameters
        ----------
        question
            The question.
        history
            The conversation before it, questions and answers in turn, oldest first.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string.
        MissingExtraError
            If openai is not installed.
        """
        asked, turns = check_text(question, "question").strip(), check_texts(history, "history")
        alone, cost = Rewritten(question, (asked,)), Bill()
        if turns:
            told = "\n".join(f"- {' '.join(turn.split())[:LONG]}" for turn in turns[-TURNS:])
            alone = self._ask("conversation", asked, cost, history=told)
        if self.way == "conversation" or alone.why:
            return replace(alone, asked=question, cost=cost)
        return replace(self._ask(self.way, alone.questions[0], cost), asked=question, cost=cost)

    def _ask(self, name: str, question: str, cost: Bill, **fields: str) -> Rewritten:
        way = _WAYS[name]
        prompt = way.prompt.format(question=question, **fields)
        (reply,) = self.chat.ask([prompt], max_tokens=way.tokens)
        why, said = cost.add(prompt, reply), reply.text or ""
        found = None if why or declines(said) else _read(way, question, said)
        if found is not None:
            return found
        if not why:
            why = REFUSED if declines(said) else NONSENSE
            for bill in (cost, self.chat.bill):
                setattr(bill, why, getattr(bill, why) + 1)
        return Rewritten(question, (question,), why=why, said=reply.error or short(said, 200))
