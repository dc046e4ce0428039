"""Writes questions to passages with a language model behind an OpenAI-compatible address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from semclass.core.types import Passage
from semclass.evaluation.made_questions import Draft
from semclass.index.passage_encoder import searchable
from semclass_llm.endpoint.client import Endpoint, replies, user
from semclass_llm.endpoint.reading import questions_of

READ = 4_000
"""Most characters of a passage in a prompt."""

TOKENS = 60
"""Most tokens of a question."""

PROMPT = """Below is a passage from a collection that people search. Write {count} different questions that somebody who \
has not seen the passage could ask, and that it answers.
- Each must be clear without the passage: name what it is about, and do not speak of "the passage" or "the text".
- Use your own words rather than those of the passage, and do not put the answer into the question.
- Write each question in a line of its own, in the language of the passage, and nothing else.

Passage:
{passage}"""


def write_by_model(
    passages: Sequence[Passage],
    endpoint: Endpoint,
    count: int,
    *,
    progress: Callable[[int], object] = lambda _: None,
) -> tuple[list[Draft], Counter[str]]:
    """Let a language model write questions to each passage.

    Parameters
    ----------
    passages
        The passages. A prompt holds the first 4,000 characters of a passage.
    endpoint
        The model.
    count
        Most questions to each passage.
    progress
        Function that is called with the number of passages done.

    Returns
    -------
    drafts, calls
        The questions, and the numbers of the calls. The calls are ``made``, read from the ``cached`` replies,
        ``refused``, ``failed``, or gave ``no question``. ``prompt_tokens`` and ``completion_tokens`` count the tokens
        of the calls that were made.

    Raises
    ------
    EndpointError
        If the service does not answer. The endpoint's cache keeps the replies so far.
    """
    conversations = (user(PROMPT.format(count=count, passage=searchable(passage)[:READ])) for passage in passages)
    drafts: list[Draft] = []
    calls = Counter(made=0, cached=0, refused=0, failed=0)
    for passage, reply in zip(passages, replies(endpoint, conversations, max_tokens=TOKENS * count), strict=True):
        progress(1)
        calls["cached" if reply.cached else "made"] += 1
        if not reply.cached:
            calls["prompt_tokens"] += reply.prompt_tokens or 0
            calls["completion_tokens"] += reply.completion_tokens or 0
        questions = questions_of(reply.text or "")[:count]
        if reply.refused:
            calls["refused"] += 1
        elif reply.error is not None:
            calls["failed"] += 1
        elif not questions:
            calls["no question"] += 1
        else:
            drafts += [Draft(text, passage.id) for text in questions]
    return drafts, calls
