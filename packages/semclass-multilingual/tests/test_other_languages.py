"""Search with the models of other languages, which are a package of their own beside semclass."""

from __future__ import annotations

import pytest
from world import ROOT

from semclass import HybridRetriever, Models, Passage, ZeroShotClassifier

FOLDER = ROOT / "packages" / "semclass-multilingual" / "semclass_multilingual" / "models"

PASSAGES = {
    "de-bridge": "Die Eisenbahnbrücke über den Fluss entwarf der Ingenieur Karl Stein; sie wurde 1911 eröffnet.",
    "de-bread": "Der Teig ruht eine Nacht im Kühlschrank, danach wird das Brot bei starker Hitze gebacken.",
    "fr-bridge": "Le viaduc fut dessiné par l'ingénieure Marie Laval et inauguré en 1932.",
    "fr-bread": "La pâte repose une nuit au froid, puis le pain cuit à four très chaud.",
    "ja-bridge": "鉄道橋は技師の田中一郎が設計し、1925年に開通した。",
    "ja-bread": "生地は一晩冷蔵庫で休ませ、そのあと高温の窯でパンを焼く。",
    "ar-bridge": "صمّم المهندس سامي حداد جسر السكة الحديدية، وافتُتح عام 1950.",
    "ar-bread": "ترتاح العجينة ليلة في الثلاجة، ثم يُخبز الخبز على نار قوية.",
    "th-bridge": "สะพานรถไฟออกแบบโดยวิศวกรสมชาย และเปิดใช้ในปี พ.ศ. 2470",
    "th-bread": "พักแป้งไว้ในตู้เย็นหนึ่งคืน แล้วจึงอบขนมปังด้วยไฟแรง",
}


@pytest.fixture(scope="module")
def models():
    if not (FOLDER / "encoder").is_dir():
        pytest.skip("the models of other languages are not in this checkout")
    return Models.load(FOLDER)


@pytest.fixture(scope="module")
def retriever(models):
    return HybridRetriever.from_passages([Passage(name, text) for name, text in PASSAGES.items()], models=models)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Wer hat die Brücke entworfen?", "de-bridge"),
        ("Wie lange ruht der Teig?", "de-bread"),
        ("Qui a dessiné le viaduc ?", "fr-bridge"),
        ("Combien de temps la pâte repose-t-elle ?", "fr-bread"),
        ("鉄道橋を設計したのは誰ですか。", "ja-bridge"),
        ("من صمّم جسر السكة الحديدية؟", "ar-bridge"),
        ("ใครออกแบบสะพานรถไฟ", "th-bridge"),
    ],
)
def test_a_question_finds_its_passage_in_its_language(retriever, question, wanted):
    assert retriever.search(question, 3)[0].id == wanted


@pytest.mark.parametrize(
    "question", ["How long does the dough rest before baking?", "¿Cuánto tiempo reposa la masa antes de hornear?"]
)
def test_a_question_finds_what_answers_it_in_other_languages(retriever, question):
    assert {hit.id.split("-")[1] for hit in retriever.search(question, 5)} == {"bread"}


def test_words_that_are_cut_in_different_ways_are_found(models):
    passages = ["北京大學的圖書館", "上海的港口", "廣州的市場"]
    retriever = HybridRetriever.from_passages(passages, models=models)
    [query] = retriever.models.encode(["京大"])
    assert retriever.search("京大", method="bm25")[0].text == passages[0]
    assert retriever.local_index.scores(query)[1].tolist()[1:] == [0, 0]


@pytest.mark.parametrize(
    ("question", "label"),
    [
        ("Wer hat die Brücke entworfen?", "HUM"),
        ("Pourquoi le ciel est-il bleu ?", "DESC"),
        ("¿En qué ciudad nació Cervantes?", "LOC"),
        ("鉄道橋はいつ開通しましたか。", "NUM"),
        ("من صمّم الجسر", "HUM"),
        ("पुल कब बनाया गया था?", "NUM"),
        ("Milloin silta avattiin?", "NUM"),
    ],
)
def test_what_a_question_asks_for_is_told_in_its_language(models, question, label):
    assert models.questions.predict([question]) == [label]


def test_a_class_described_in_another_language_is_probable(models):
    described = {"money": "Where is my money?", "food": "What can I eat here?", "way": "How do I get to the station?"}
    classifier = ZeroShotClassifier.from_descriptions(described, encoder=models.encoder)
    for text, label in (("Wie komme ich zum Bahnhof?", "way"), ("¿Dónde está mi dinero?", "money")):
        found = classifier.classify([text])[0]
        assert found.label == label
        assert found.probabilities[label] > 0.7
