"""Passages in other languages: told by their word pieces, ranked by the words that they share with the question."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from world import MODELS, FakeEncoder

from semclass import ArtifactError, EncoderMismatchError, HybridRetriever, Passage, Reranker
from semclass.ranking.models import LanguageTest, LanguageWarning

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
    return HybridRetriever.from_passages(GERMAN, models=models)


def test_passages_in_another_language_are_ranked_by_words(german, models):
    with pytest.warns(LanguageWarning, match="English") as caught:
        hits, _ = german.search_many([QUESTION, "Was kostet eine Rückfahrkarte?"], explain=True)
    assert len(caught) == 1
    with pytest.warns(LanguageWarning):
        assert Reranker(models).rerank(QUESTION, GERMAN).language == "other"
    assert hits[0].id == "turm"
    assert (hits.language, hits.answerable, hits.certainty) == ("other", None, None)
    assert set(hits[0].explanation.parts) == {"dense", "bm25", "meaning"}
    assert hits[0].explanation.total == pytest.approx(hits[0].score)


def test_english_passages_are_english_whatever_asks(retriever, models):
    assert retriever.search("Who designed the lighthouse?").language == "en"
    # a name in every passage makes no other language of them
    named = [f"Hotel Kabuki, a Joie de Vivre Hotel, has {what}." for what in ("parking on site", "a pool", "no bar")]
    assert Reranker(models).rerank("Is there a pool?", named).language == "en"


def test_unknown_letters_are_found_by_words(models):
    """Of Thai, the encoder knows no word: all vectors are much the same, and words choose what is ranked."""
    animals = ["แมว", "หมา", "ช้าง", "ม้า", "วัว", "ควาย", "หมู", "ไก่", "เป็ด", "ปลา"]
    places = ["ภูเขา", "ทะเล", "แม่น้ำ", "โรงเรียน"]
    texts = {f"{animal} {place}": f"{animal}ตัวนี้อาศัยอยู่ที่{place}มานานแล้ว" for animal in animals for place in places}
    retriever = HybridRetriever.from_passages([Passage(*item) for item in texts.items()], models=models)
    with pytest.warns(LanguageWarning):
        result = retriever.search("ควายตัวไหนอาศัยอยู่ที่โรงเรียน")
    assert (result.language, result[0].id) == ("other", "ควาย โรงเรียน")


def test_other_methods_and_tuned_weights_are_of_any_language(german):
    assert german.search(QUESTION, method="convex").language is None
    tuned = replace(german, index=replace(german.index, tuned={"weights": {"alpha": 0.3}}))
    assert tuned.search(QUESTION).language is None


def test_the_table_is_that_of_the_encoder(tmp_path, models):
    folder = shutil.copytree(MODELS / "language", tmp_path / "language")
    assert np.array_equal(LanguageTest.load(folder, models.encoder).logs, models.language.logs)
    with pytest.raises(ArtifactError, match="shape"):
        LanguageTest.load(folder, FakeEncoder(models.encoder.fingerprint))
    with pytest.raises(EncoderMismatchError, match="fake"):
        LanguageTest.load(folder, FakeEncoder())
