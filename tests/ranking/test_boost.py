"""A taxonomy of questions and passages drives class match: the question's label says which passages come first."""

from __future__ import annotations

import pytest

from semclass import HybridRetriever, InputError, InputTypeError, Models, Passage, TextClassifier

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
def models_with(tmp_path_factory, encoder):
    """Train a head of some labels, and load it with an encoder."""

    def load(labels):
        folder = tmp_path_factory.mktemp("head") / "kind"
        texts = [text for some in KINDS.values() for text in some]
        TextClassifier(encoder).fit(texts, labels).save(folder)
        return Models.load(encoder=encoder, heads={"kind": folder})

    return load


@pytest.fixture(scope="module")
def retriever(models_with):
    return HybridRetriever.from_passages(PASSAGES, models=models_with(["treatment"] * 6 + ["cause"] * 6))


def test_passages_of_the_label_gain_by_both_probabilities(retriever):
    question = "How is gout treated?"
    plain = {hit.id: hit for hit in retriever.search(question)}
    hits = retriever.search(question, boost={"kind": 2.0}, explain=True)
    label = retriever.models.heads["kind"].classify([question])[0]
    assert hits[0].id == "treatment"
    for hit in hits:
        match = label.probabilities[hit.metadata["kind"]] * hit.metadata["kind_probability"]
        assert hit.components["boost:kind"] == pytest.approx(match)
        assert hit.score == pytest.approx(plain[hit.id].score + 2 * match)
        assert sum(hit.explanation.parts.values()) == pytest.approx(hit.score)
    assert [hit.id for hit in retriever.search("What causes gout?", 1, boost={"kind": 100.0})] == ["cause"]
    assert [hit.id for hit in retriever.search(question, boost=[])] == list(plain)


def test_a_boosted_candidate_may_come_from_behind_the_first_k(retriever):
    assert retriever.search("gout", 1, method="convex", boost={"kind": 1e3})[0].metadata["kind"] in KINDS


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"boost": "kind"}, InputTypeError, "names of heads"),
        ({"boost": ["tone"]}, InputError, "not loaded; .*by the heads: "),
        ({"boost": {"kind": -1}}, InputError, "at least 0"),
        ({"boost": ["kind"], "method": "entail-stable"}, InputError, "sum"),
    ],
)
def test_what_cannot_boost_is_refused(retriever, options, error, message):
    with pytest.raises(error, match=message):
        retriever.search("What causes gout?", **options)


def test_the_head_must_be_the_one_that_labelled_the_index(retriever, models_with, models):
    other = models_with(["a", "b"] * 6)
    bare = HybridRetriever.from_passages(PASSAGES, models=models)
    for index, message in ((retriever.index, "by the head 'kind'"), (bare.index, "no labels by head 'kind'")):
        with pytest.raises(InputError, match=message):
            HybridRetriever(index, other).search("gout", boost=["kind"])
