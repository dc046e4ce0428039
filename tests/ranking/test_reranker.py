"""Passages from elsewhere are re-ranked, those of many questions together, as for each alone."""

import pytest

from semclass import HybridRetriever, InputError, InputTypeError, Passage, PassageIndex, Reranker
from semclass.core.errors import TruncationWarning
from semclass.index.passage_encoder import PassageEncoder
from semclass.ranking.reranker import TextCache

QUESTIONS = [
    "Who designed the lighthouse?", "When was the bridge opened?", "How long is the river", "Why is the sky blue?",
]  # fmt: skip


@pytest.fixture(scope="module")
def reranker(models):
    return Reranker(models)


def agree(found, expected):
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    # the last bits may depend on the texts that are read together
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
    for one, other in zip(found, expected, strict=True):
        assert (one.labels, one.rank_before) == (other.labels, other.rank_before)
        assert one.components == pytest.approx(other.components, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"method": "class-integrated"}, {"method": "entail-stable", "k": 2}])
def test_many_questions_give_what_each_gives_alone(reranker, corpus, options):
    passages = [corpus[:5], corpus[3:9], [], corpus[::-3]]
    found = reranker.rerank_many(QUESTIONS, passages, **options)
    for question, items, hits in zip(QUESTIONS, passages, found, strict=True):
        agree(hits, reranker.rerank(question, items, **options))


@pytest.mark.parametrize("method", ["default", "entail-stable"])
def test_relevance_depends_on_the_two_texts_alone(models, reranker, corpus, method):
    count = len(corpus)
    indices = [
        PassageIndex.build(corpus, passage_encoder=models.passage_encoder, small=small) for small in (False, True)
    ]
    indices.append(PassageIndex.build(corpus[:5], passage_encoder=models.passage_encoder))
    for question in QUESTIONS:
        results = [
            HybridRetriever(index, models).search(question, count, method=method, candidates=count) for index in indices
        ]
        results += [reranker.rerank(question, some, method=method) for some in (corpus, corpus[:3])]
        alone = {
            item.id: reranker.rerank(question, [item], method=method)[0].components["relevance"] for item in corpus
        }
        for result in results:
            found = {hit.id: hit.components["relevance"] for hit in result}
            assert found == pytest.approx({name: alone[name] for name in found}, abs=0.01)


def test_texts_are_encoded_again_only_if_they_were_dropped(models, corpus):
    reranker = Reranker(models, TextCache(0.03))
    first, *others = (item.text for item in corpus[:8])
    assert not reranker.rerank(QUESTIONS[0], [first], explain=True)[0].explanation.reused
    again = reranker.rerank(QUESTIONS[1], [first], explain=True)
    assert again[0].explanation.reused
    agree(again, Reranker(models).rerank(QUESTIONS[1], [first], explain=True))
    assert reranker.cache.usage[:2] == (1, 1)
    reranker.rerank(QUESTIONS[0], others, explain=True)
    assert reranker.cache.usage.bytes <= 30_000
    reranker.rerank(QUESTIONS[2], [first], explain=True)
    assert reranker.cache.usage[:2] == (1, 9)
    assert reranker.rerank(QUESTIONS[0], [first, *others])[0].probabilities == {}
    nothing = Reranker(models, TextCache(0))
    assert [nothing.rerank(QUESTIONS[0], others)[0].score for _ in range(2)] == [
        pytest.approx(reranker.rerank(QUESTIONS[0], others)[0].score)
    ] * 2
    assert nothing.cache.usage == (0, 2 * len(others), 0)


def test_places_before_are_kept_and_ties_keep_their_order(reranker):
    texts = ["Bread is sold here.", "The museum is in Harbour Street."] * 30  # numpy sorts 16 numbers stably anyway
    hits = reranker.rerank("Where is the museum?", texts)
    assert len({hit.score for hit in hits}) == 2
    assert [hit.rank_before for hit in hits] == [*range(2, 61, 2), *range(1, 61, 2)]


@pytest.mark.parametrize("method", ["default", "entail-stable", "class-integrated"])
def test_texts_that_are_empty_rank_last_without_relevance(reranker, method):
    texts = ["", "Bread is sold here.", " \n", "The museum is in Harbour Street."]
    hits = reranker.rerank("Where is the museum?", texts, method=method, explain=True)
    plain = reranker.rerank("Where is the museum?", [texts[1], texts[3]], method=method)
    assert [hit.score for hit in hits[:2]] == [hit.score for hit in plain]
    assert [(hit.id, hit.index, hit.rank) for hit in hits[2:]] == [("0", 0, 3), ("2", 2, 4)]
    assert {hit.id: hit.index for hit in hits} == {hit.id: int(hit.id) for hit in hits}
    assert {value for hit in hits[2:] for value in hit.components.values()} == {0.0}
    assert [hit.score for hit in hits[2:]] == [min(0.0, hits[1].score)] * 2
    assert len(reranker.rerank("Where?", texts, k=3, method=method)) == 3
    assert reranker.rerank("Where?", [" "], method=method)[0].components["relevance"] == 0


def test_a_text_that_comes_again_is_read_once(reranker, monkeypatch):
    texts, read = [], PassageEncoder.read

    def counting(self, some, **wanted):
        texts.append([passage.text for passage in some])
        return read(self, some, **wanted)

    monkeypatch.setattr(PassageEncoder, "read", counting)
    same = [Passage("a", "Ada designed it."), Passage("b", "It is a lighthouse."), Passage("c", "Ada designed it.")]
    found = reranker.rerank_many(QUESTIONS[:2], [same, same[:2]])
    assert texts == [["Ada designed it.", "It is a lighthouse."]]
    assert [sorted(hit.id for hit in hits) for hits in found] == [["a", "b", "c"], ["a", "b"]]


def test_many_passages_are_read_in_chunks(reranker, corpus, monkeypatch):
    passages = [corpus[:4], corpus[4:7], corpus[:9], []]
    whole = reranker.rerank_many(QUESTIONS, passages)
    monkeypatch.setattr("semclass.ranking.reranker.CHUNK", 6)
    for one, other in zip(reranker.rerank_many(QUESTIONS, passages), whole, strict=True):
        agree(one, other)


def test_a_long_passage_is_read_to_its_end(reranker):
    rest = "The mill at the river grinds oats and barley for the farms of the whole valley, in summer and in winter. "
    answer = "The lighthouse was designed by Ada Merriweather, who lived in the town."
    best, other = reranker.rerank(QUESTIONS[0], [rest * 60, rest * 30 + answer + rest * 30], explain=True)
    assert (best.index, other.index) == (1, 0)
    assert best.text[slice(*best.explanation.sentence)].startswith(answer)


@pytest.mark.parametrize(
    ("questions", "passages", "error", "message"),
    [
        (["Who?"], [], InputError, "1 questions and 0 sequences"),
        (["Who?", " "], [[], []], InputError, r"questions\[1\] is empty"),
        (["Who?"], [Passage("a", "b")], InputTypeError, r"passages\[0\] must be a sequence of semclass.Passage"),
        (["Who?"], [[Passage("a", "b"), Passage("a", "c")]], InputError, "comes twice"),
        ([""], [["a"]], InputError, r"questions\[0\] is empty"),
    ],
)
def test_wrong_arguments_are_refused(reranker, questions, passages, error, message):
    with pytest.raises(error, match=message):
        reranker.rerank_many(questions, passages)


def test_truncated_texts_are_numbered_through_all_questions(reranker):
    long = Passage("long", "\u4e00" * 4200)
    passages = [[Passage("a", "Short.")], [Passage("b", "Brief."), long], [long]]
    with pytest.warns(TruncationWarning, match="2 of 4 texts.*number 3") as caught:
        reranker.rerank_many(QUESTIONS[:3], passages, method="entail-integrated")
    assert [item.message.rows for item in caught] == [(2, 3)]
    assert caught[0].filename == __file__
