"""Training data of the classical question head."""

import pytest

pytest.importorskip("sklearn")

import train_questions as training
from question_data import same_but_for_marks
from question_sets import BLOCKS, TRANSLATED, read_translations
from semclass import QuestionClassifier
from semclass.core.errors import InputError


def test_a_teacher_labels_what_nobody_labelled(data_folder):
    everything = training.unlabelled(data_folder, [])
    texts = training.unlabelled(data_folder, [everything[0].upper()])
    assert texts == everything[1:]
    assert len({*map(same_but_for_marks, texts)}) == len(texts) > 8000
    classifier = QuestionClassifier.load()
    found = training.taught(classifier, texts[:20])
    assert set(found.texts) <= set(texts[:20])
    for label in classifier.classify(found.texts):
        assert max(label.fine_probabilities.values()) >= training.SURE


def test_translations_are_read_with_their_languages(tmp_path, monkeypatch):
    monkeypatch.setitem(TRANSLATED, "es", BLOCKS)
    lines = [*["HUM\t¿Quién lo hizo?"] * BLOCKS, "NUM\t¿Cuántos son?"]
    (tmp_path / "es.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "de.tsv").write_text("LOC\tWo liegt Bern?\n", encoding="utf-8")
    (tmp_path / "en-more.tsv").write_text("LOC\tWhere is Bern?\n", encoding="utf-8")
    found = read_translations(tmp_path)
    assert found.languages == ("de", *["es"] * (BLOCKS + 1))
    assert (found.coarse[0], found.coarse[-1]) == ("LOC", "NUM")
    assert found.folds.tolist() == [BLOCKS, *range(BLOCKS), BLOCKS]
    assert found.times[:2] == [1, 2]


@pytest.mark.parametrize("line", ["WHO\tWer war das?", "HUM", "HUM\t "])
def test_a_line_that_is_no_class_and_question_is_refused(tmp_path, line):
    (tmp_path / "de.tsv").write_text(line, encoding="utf-8")
    with pytest.raises(InputError, match=r"de\.tsv"):
        read_translations(tmp_path)
