"""What the classical question head learns from."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import train_questions as training
from question_data import Questions, same_but_for_marks
from question_sets import BLOCKS, TRANSLATED, Translations, english_folds, read_translations
from semclass import QuestionClassifier
from semclass.core.errors import InputError


def test_labelled_questions_alone_are_scored_and_what_is_alike_shares_a_fold():
    texts = tuple(f"Who wrote book {name}{mark}" for name in "abcdefghij" for mark in ("?", " ?"))
    questions = Questions((*texts, "Where is it?"), ("HUM:ind", "NUM:date") * 10 + ("LOC:other",))
    folds = training.folds_of(questions, len(texts), 0)
    assert sorted(np.concatenate([scored for _, scored in folds])) == list(range(len(texts)))
    for fitted, scored in folds:
        assert len(texts) in fitted
        groups = [{same_but_for_marks(questions.texts[row]) for row in rows} for rows in (fitted, scored)]
        assert not groups[0] & groups[1]


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


def test_translations_are_read_with_their_languages_and_what_they_translate(tmp_path, monkeypatch):
    monkeypatch.setitem(TRANSLATED, "es", BLOCKS)
    lines = [*["HUM\t¿Quién lo hizo?"] * BLOCKS, "NUM\t¿Cuántos son?"]
    (tmp_path / "es.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "de.tsv").write_text("LOC\tWo liegt Bern?\n", encoding="utf-8")
    (tmp_path / "en-more.tsv").write_text("LOC\tWhere is Bern?\n", encoding="utf-8")
    found = read_translations(tmp_path)
    assert found.languages == ("de", *["es"] * (BLOCKS + 1))
    assert (found.coarse[0], found.coarse[-1]) == ("LOC", "NUM")
    assert found.folds.tolist() == [BLOCKS, *range(BLOCKS), BLOCKS]
    assert found.weights[0] < found.weights[1] == 1


@pytest.mark.parametrize("line", ["WHO\tWer war das?", "HUM", "HUM\t "])
def test_a_line_that_is_no_class_and_question_is_refused(tmp_path, line):
    (tmp_path / "de.tsv").write_text(line, encoding="utf-8")
    with pytest.raises(InputError, match=r"de\.tsv"):
        read_translations(tmp_path)


def test_other_languages_are_scored_unseen_and_trec_without_its_translations():
    english = english_folds([f"Question {number}?" for number in "abcdefghij"], trec=BLOCKS)
    others = Translations(("x",) * 7, ("HUM",) * 7, ("es",) * 6 + ("de",), np.array([*range(BLOCKS), BLOCKS, BLOCKS]))
    first, *blocks = training.across_languages(english, 2, others)
    assert first[1].tolist() == [17, 18]
    assert sorted(np.concatenate([scored for _, scored in (first, *blocks)])) == [*range(10), *range(12, 19)]
    for block, (fitted, scored) in enumerate(blocks):
        assert {block, 12 + block} <= set(scored)
        assert {10, 11, 17, 18} <= set(fitted)
