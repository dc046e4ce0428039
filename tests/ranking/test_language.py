"""Passages in other languages: told by their word pieces, ranked by the words that they share with the question."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
from world import MODELS

from semclass import ArtifactError, HybridRetriever, Passage, PassageIndex, Reranker
from semclass.core import artifacts
from semclass.ranking.language import LanguageTest, LanguageWarning

GERMAN = [
    Passage("fahrplan", "Die Fähre verlässt den Hafen im Sommer viermal am Tag; die Überfahrt dauert 35 Minuten."),
    Passage(
        "turm",
        "Der Leuchtturm wurde von der Ingenieurin Ada Merriweather entworfen und im Oktober 1874 fertiggestellt.",
    ),
    Passage("museum", "Das Museum im alten Zollhaus ist außer montags täglich von zehn bis siebzehn Uhr geöffnet."),
    Passage("preis", "Eine Rückfahrkarte kostet 12,40 Euro für Erwachsene, Fahrräder werden kostenlos mitgenommen."),
]
QUESTION = "Wann wurde der Leuchtturm fertiggestellt?"


@pytest.fixture(scope="module")
def german(models):
    return HybridRetriever(PassageIndex.build(GERMAN, passage_encoder=models.passage_encoder), models)


def test_passages_in_another_language_are_ranked_by_words_and_said_to_be(german):
    with pytest.warns(LanguageWarning, match="English"):
        hits = german.search(QUESTION, explain=True)
    assert hits[0].id == "turm"
    assert (hits.language, hits.answerable, hits.certainty) == ("other", None, None)
    assert set(hits[0].explanation.parts) == {"dense", "bm25", "words", "meaning"}
    assert hits[0].explanation.total == pytest.approx(hits[0].score)


def test_several_searches_warn_once(german):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        german.search_many([QUESTION, "Was kostet eine Rückfahrkarte?"])
    assert [each.category for each in caught] == [LanguageWarning]


def test_passages_from_elsewhere_are_told_too(models):
    with pytest.warns(LanguageWarning):
        hits = Reranker(models).rerank(QUESTION, GERMAN)
    assert (hits[0].id, hits.language) == ("turm", "other")


def test_english_passages_are_english_whatever_asks(retriever, models):
    assert retriever.search("Who designed the lighthouse?").language == "en"
    # a name in every passage makes no other language of them
    named = [f"Hotel Kabuki, a Joie de Vivre Hotel, has {what}." for what in ("parking on site", "a pool", "no bar")]
    assert Reranker(models).rerank("Is there a pool?", named).language == "en"


def test_a_method_that_is_named_ranks_as_it_says(german):
    hits = german.search(QUESTION, method="convex")
    assert hits.language is None


def test_weights_that_were_tuned_on_an_index_hold_for_its_language(german):
    tuned = replace(german, index=replace(german.index, tuned={"weights": {"alpha": 0.3}}))
    assert tuned.search(QUESTION).language is None


def test_the_table_is_that_of_the_encoder(tmp_path, models):
    folder = shutil.copytree(MODELS / "language", tmp_path / "language")
    vocabulary = len(models.encoder.is_term)
    given = LanguageTest.load(folder, encoder_fingerprint=models.encoder.fingerprint, vocabulary=vocabulary)
    assert np.array_equal(given.logs, models.language.logs)
    with pytest.raises(ArtifactError, match="shape"):
        LanguageTest.load(folder, encoder_fingerprint=models.encoder.fingerprint, vocabulary=vocabulary + 1)
    manifest = json.loads((folder / artifacts.MANIFEST).read_text())
    (folder / artifacts.MANIFEST).write_text(json.dumps({**manifest, "encoder": "another"}))
    with pytest.raises(ArtifactError, match="another"):
        LanguageTest.load(folder, encoder_fingerprint=models.encoder.fingerprint, vocabulary=vocabulary)
