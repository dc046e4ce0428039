"""Passages of many questions are re-ranked together: as each by itself, with every text read once."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass import InputError, InputTypeError, Models, Passage, Reranker
from semclass.core.errors import TruncationWarning

QUESTIONS = [
    "Who designed the lighthouse?",
    "When was the bridge opened?",
    "How long is the river",
    "Why is the sky blue?",
]

TOLERANCE = 1e-6
"""Up to which scores agree: the last bit of a mean depends on the longest text that is read beside it."""


@pytest.fixture(scope="module")
def reranker(models):
    return Reranker(models)


def agree(found, expected):
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=TOLERANCE)
    assert [hit.labels for hit in found] == [hit.labels for hit in expected]
    assert [hit.rank_before for hit in found] == [hit.rank_before for hit in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.components == pytest.approx(other.components, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"method": "class-integrated"}, {"method": "entail-stable", "k": 2}, {"explain": True}],
)
def test_many_questions_give_what_each_gives_alone(reranker, corpus, options):
    passages = [corpus[:5], corpus[3:9], corpus[20:21], corpus[::-3]]
    found = reranker.rerank_many(QUESTIONS, passages, **options)
    for question, items, hits in zip(QUESTIONS, passages, found, strict=True):
        agree(hits, reranker.rerank(question, items, **options))
        assert all((hit.explanation is not None) == ("explain" in options) for hit in hits)


@given(data=st.data())
def test_any_split_of_passages_gives_the_same(models, corpus, data):
    reranker = Reranker(models)
    items = st.lists(st.sampled_from(corpus[:8]), max_size=4, unique_by=lambda item: item.id)
    passages = data.draw(st.lists(items, min_size=1, max_size=4))
    found = reranker.rerank_many(QUESTIONS[: len(passages)], passages)
    for question, some, hits in zip(QUESTIONS, passages, found, strict=False):
        agree(hits, reranker.rerank(question, some))


def test_no_questions_no_passages_and_no_turn_taken_for_them(reranker):
    assert reranker.rerank_many([], []) == []
    assert reranker.rerank_many(QUESTIONS[:2], [[], []]) == [[], []]
    one = [Passage("only", "Ada designed it.")]
    assert [[hit.id for hit in hits] for hits in reranker.rerank_many(QUESTIONS[:3], [[], one, []])] == [
        [],
        ["only"],
        [],
    ]


def test_a_text_that_comes_again_is_read_once(models, monkeypatch):
    seen = []
    read = type(models.passage_encoder).read
    monkeypatch.setattr(
        type(models.passage_encoder), "read", lambda self, texts: seen.append(list(texts)) or read(self, texts)
    )
    same = [Passage("a", "Ada designed it."), Passage("b", "It is a lighthouse."), Passage("c", "Ada designed it.")]
    found = Reranker(models).rerank_many(QUESTIONS[:2], [same, same[:2]])
    assert seen == [["Ada designed it.", "It is a lighthouse."]]
    assert [sorted(hit.id for hit in hits) for hits in found] == [["a", "b", "c"], ["a", "b"]]


def test_more_passages_than_fit_into_memory_are_read_in_stretches(models, corpus, monkeypatch):
    monkeypatch.setattr("semclass.ranking.reranker.CHUNK", 6)
    passages = [corpus[:4], corpus[4:7], corpus[:9], []]
    stretched = Reranker(models).rerank_many(QUESTIONS, passages)
    monkeypatch.undo()
    for one, other in zip(stretched, Reranker(models).rerank_many(QUESTIONS, passages), strict=True):
        agree(one, other)


@pytest.mark.parametrize(
    ("questions", "passages", "error", "message"),
    [
        (["Who?"], [], InputError, "1 questions and 0 sequences"),
        (["Who?", " "], [[], []], InputError, r"questions\[1\] is empty"),
        ("Who?", [[]], InputTypeError, "one string"),
        (["Who?"], [Passage("a", "b")], InputTypeError, r"passages\[0\] must be a sequence of semclass.Passage"),
        (["Who?"], ["text"], InputTypeError, r"passages\[0\] must be a sequence of semclass.Passage"),
        (["Who?"], [[Passage("a", "b"), Passage("a", "c")]], InputError, "comes twice"),
        (["Who?"], [[Passage("a", " ")]], InputError, "text of passage 'a' is empty"),
    ],
)
def test_what_is_not_allowed_is_named(reranker, questions, passages, error, message):
    with pytest.raises(error, match=message):
        reranker.rerank_many(questions, passages)


def test_texts_that_were_cut_are_said_once_by_their_place_among_all(models: Models):
    long = Passage("long", "word " * 5000)
    given = [[Passage("a", "Short.")], [Passage("b", "Brief."), long], [long]]
    with pytest.warns(TruncationWarning, match="2 of 4 texts.*number 3") as caught:
        Reranker(models).rerank_many(QUESTIONS[:3], given)
    assert [item.message.rows for item in caught] == [(2, 3)]
    assert caught[0].filename == __file__


def test_many_can_be_awaited(reranker, corpus):
    found = asyncio.run(reranker.arerank_many(QUESTIONS[:2], [corpus[:3], corpus[:3]], k=1))
    assert found == reranker.rerank_many(QUESTIONS[:2], [corpus[:3], corpus[:3]], k=1)
