"""A taxonomy of questions and passages drives class match: the question's label says which passages come first."""

from __future__ import annotations

import pytest

from semclass import HybridRetriever, InputError, InputTypeError, Models, Passage, PassageIndex, TextClassifier

KINDS = {
    "treatment": [
        "How is measles treated?", "What helps against the flu?", "Doctors prescribe antibiotics for ten days.",
        "Surgery removes the tumour.", "Rest and plenty of water relieve it.", "What is the therapy for asthma?",
    ],
    "cause": [
        "What causes measles?", "Why does one get the flu?", "A virus is passed on by coughing.",
        "It is due to a change in a gene.", "Smoke and dust lead to it.", "Where does asthma come from?",
    ],
}  # fmt: skip

PASSAGES = [
    Passage("cause", "Gout is due to crystals of uric acid, which come from meat and beer."),
    Passage("treatment", "Doctors prescribe tablets that relieve gout within a day."),
    Passage("other", "The ferry to the island leaves at noon."),
]


@pytest.fixture(scope="module")
def heads(tmp_path_factory, encoder):
    folder = tmp_path_factory.mktemp("heads")
    texts = [text for some in KINDS.values() for text in some]
    for name, labels in {"kind": [kind for kind, some in KINDS.items() for _ in some], "odd": ["a", "b"] * 6}.items():
        TextClassifier(encoder, views=("pooled",), kind="logistic").fit(texts, labels).save(folder / name)
    return {"kind": folder / "kind", "odd": folder / "odd"}


@pytest.fixture(scope="module")
def retriever(heads, encoder):
    models = Models.load(encoder=encoder, heads={"kind": heads["kind"]})
    return HybridRetriever(PassageIndex.build(PASSAGES, passage_encoder=models.passage_encoder), models)


def test_passages_of_the_questions_label_gain_by_both_probabilities(retriever):
    question = "How is gout treated?"
    plain = {hit.id: hit for hit in retriever.search(question)}
    found = {hit.id: hit for hit in retriever.search(question, boost={"kind": 2.0}, explain=True)}
    asked = retriever.models.heads["kind"].classify([question])[0]
    for name, hit in found.items():
        match = asked.probabilities[hit.metadata["kind"]] * hit.metadata["kind_probability"]
        assert hit.components["boost:kind"] == pytest.approx(match)
        assert hit.score == pytest.approx(plain[name].score + 2 * match)
        assert sum(hit.explanation.parts.values()) == pytest.approx(hit.score)
    assert next(iter(found)) == "treatment"
    strong = retriever.search("What causes gout?", 1, boost={"kind": 100.0})
    assert [hit.id for hit in strong] == ["cause"]
    assert retriever.search(question, boost={"kind": 0.0}) != []
    assert [hit.id for hit in retriever.search(question, boost=[])] == list(plain)


def test_one_boosted_candidate_may_come_from_behind_the_first_k(retriever):
    assert retriever.search("gout", 1, method="convex", boost={"kind": 1e3})[0].metadata["kind"] in KINDS


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"boost": "kind"}, InputTypeError, "names of heads"),
        ({"boost": ["tone"]}, InputError, "not loaded"),
        ({"boost": {"kind": -1}}, InputError, "at least 0"),
        ({"boost": ["kind"], "method": "entail-stable"}, InputError, "sum"),
    ],
)
def test_what_cannot_boost_is_refused(retriever, options, error, message):
    with pytest.raises(error, match=message):
        retriever.search("What causes gout?", **options)


def test_the_head_must_be_the_one_that_labelled_the_index(retriever, heads, encoder, models):
    other = Models.load(encoder=encoder, heads={"kind": heads["odd"]})
    with pytest.raises(InputError, match="by the head 'kind'"):
        HybridRetriever(retriever.index, other).search("gout", boost=["kind"])
    bare = PassageIndex.build(PASSAGES, passage_encoder=models.passage_encoder)
    with pytest.raises(InputError, match="no labels by head 'kind'"):
        HybridRetriever(bare, other).search("gout", boost=["kind"])
