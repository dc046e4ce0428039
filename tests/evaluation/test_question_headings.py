"""Questions made of the headings of passages."""

import pytest

from semclass import HybridRetriever, Passage, PassageIndex
from semclass.evaluation.question_headings import Draft, sample_passages, write_from_headings


@pytest.mark.parametrize(
    ("metadata", "question"),
    [
        ({"headings": ["Boiler manual", "Warranty of the burner"]}, "Warranty of the burner"),
        ({"headings": ["4. Boiler manual", "4.1.2 Warranty of the burner"]}, "Warranty of the burner"),
        ({"headings": ["4. Boiler manual", "IV. Warranty"]}, "Boiler manual: Warranty"),
        ({"title": "7.20.1. Activating the burner"}, "How do I go about activating the burner?"),
        ({"title": "Chapter 3: What is a burner?"}, "What is a burner?"),
        ({"title": "1.5 litres of oil"}, "1.5 litres of oil"),
        ({"title": "3 parts of a burner"}, "3 parts of a burner"),
        ({"headings": ["Boiler manual", 7, " ", "Warranty"]}, "Boiler manual: Warranty"),
        ({"title": "How to clean the burner"}, "How do I clean the burner?"),
        ({"title": "What is a burner?"}, "What is a burner?"),
        ({"title": "4.2"}, None),
        ({}, None),
    ],
)
def test_what_a_heading_becomes(metadata, question):
    drafts = list(write_from_headings([Passage("p", "Two years.", metadata)]))
    assert drafts == ([] if question is None else [Draft(question, "p")])


def test_passages_are_drawn_by_a_seed(models, corpus):
    copies = [*corpus[:5], Passage("copy", corpus[0].text, {"duplicate_of": corpus[0].id})]
    retriever = HybridRetriever(PassageIndex.build(copies, passage_encoder=models.passage_encoder), models)
    assert sample_passages(retriever, 10) == copies[:5]
    drawn = [sample_passages(retriever, 3, seed=seed) for seed in range(9)]
    assert drawn[2] == sample_passages(retriever, 3, seed=2)
    assert len({tuple(passage.id for passage in some) for some in drawn}) > 1
