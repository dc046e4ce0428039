"""What the classical question head learns from."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import train_questions as training
from question_data import Questions, same_but_for_marks
from semclass import QuestionClassifier


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
