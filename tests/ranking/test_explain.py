from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner
from conftest import MODELS

from semclass import HybridRetriever, PassageIndex, Reranker
from semclass.cli.main import cli
from semclass.ranking.methods import METHODS

QUESTION = "When was the lighthouse finished?"


@pytest.fixture(scope="module")
def retriever(models, corpus):
    return HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)


@pytest.mark.parametrize("method", METHODS)
def test_parts_add_up_to_the_score(retriever, method):
    for hit in retriever.search(QUESTION, 5, explain=True, method=method):
        total = sum(hit.explanation.parts.values())
        assert hit.explanation.total == pytest.approx(total, abs=1e-9)
        score = total if hit.explanation.link == "identity" else 1 / (1 + math.exp(-total))
        assert hit.score == pytest.approx(score, abs=1e-5)


def test_passages_from_elsewhere_are_explained_too(models, corpus):
    hits = Reranker(models).rerank(QUESTION, corpus[:5], explain=True)
    for hit in hits:
        assert hit.score == pytest.approx(1 / (1 + math.exp(-sum(hit.explanation.parts.values()))), abs=1e-5)


def test_words_show_what_met_them(retriever):
    (hit,) = retriever.search(QUESTION, 1, explain=True)
    words = {item.word: item for item in hit.explanation.words}
    assert hit.id == "lighthouse-2"
    assert words["lighthouse"].exact
    assert words["lighthouse"].match == "lighthouse"
    assert sum(item.weight for item in hit.explanation.words) <= 1 + 1e-6
    assert all(-1.01 <= item.cosine <= 1.01 for item in hit.explanation.words)


def test_a_word_that_is_asked_for_twice_comes_once_with_the_weight_of_both(retriever):
    once, twice = (
        {item.word: item for item in retriever.search(question, 1, explain=True)[0].explanation.words}
        for question in ("Which lighthouse was finished?", "Which lighthouse was finished, the old lighthouse or not?")
    )
    words = retriever.search("Which lighthouse, the old lighthouse?", 1, explain=True)[0].explanation.words
    assert len({item.word for item in words}) == len(words)
    assert twice["lighthouse"].weight / twice["finished"].weight == pytest.approx(
        2 * once["lighthouse"].weight / once["finished"].weight
    )
    assert sum(item.weight for item in words) == pytest.approx(1)


def test_classes_stand_side_by_side(retriever):
    (hit,) = retriever.search(QUESTION, 1, explain=True)
    first = hit.explanation.classes[0]
    assert first.name == "NUM"
    assert first.provided == pytest.approx(hit.probabilities["NUM"])


@pytest.mark.parametrize("method", METHODS)
def test_a_search_that_finds_nothing_has_nothing_to_explain(retriever, method):
    assert retriever.search(QUESTION, explain=True, where={"page": 7}, method=method) == []


def test_nothing_is_explained_unasked(retriever):
    assert all(hit.explanation is None for hit in retriever.search(QUESTION, 3))


def test_the_command_line_explains(retriever, tmp_path):
    retriever.index.save(tmp_path / "index")
    command = ["search", str(tmp_path / "index"), QUESTION, "-k", "2", "--method", "learned", "--models", str(MODELS)]
    text = CliRunner().invoke(cli, [*command, "--explain"])
    assert "the log-odds of the score" in text.output
    assert "words:" in text.output
    lines = CliRunner().invoke(cli, [*command, "--explain", "--json"]).output.splitlines()
    record = json.loads(lines[0])
    assert record["score"] == pytest.approx(1 / (1 + math.exp(-record["explanation"]["total"])), abs=1e-5)
    plain = json.loads(CliRunner().invoke(cli, [*command, "--json"]).output.splitlines()[0])
    assert "explanation" not in plain
