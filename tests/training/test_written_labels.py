import gzip
import json

import labels
from semclass.core.types import COARSE


def test_originals_are_searched_in_whatever_files_they_come(tmp_path):
    nested = {"data": [{"paragraphs": [{"qas": [{"question": "Who built it?"}]}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(nested))
    (tmp_path / "qa.xml").write_text('<QAPairs><Question qid="1">What causes it &amp; why?</Question></QAPairs>')
    (tmp_path / "table.csv").write_text('id,question\n1,"How far, if at all?"\n')
    (tmp_path / "simple.txt").write_text("url\tname\tWhere is the lake?\n")
    with gzip.open(tmp_path / "lines.jsonl.gz", "wt") as file:
        file.write('{"text": "When did it open?"}\n\n')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "image.bin").write_bytes(b"\xff\xfe\x00\x80")
    (tmp_path / "no.txt.gz").write_bytes(b"not compressed")
    found = set(labels.harvest(tmp_path))
    assert {"Who built it?", "What causes it & why?", "How far, if at all?", "Where is the lake?"} <= found
    assert "When did it open?" in found
    assert (
        labels.text_hash("Who built  it ?") == labels.text_hash("who built it") != labels.text_hash("Who built them?")
    )


def test_questions_of_our_own_have_classes_of_the_taxonomy():
    found = labels.written_questions()
    assert len(found.texts) == len(set(found.texts)) >= 1000
    assert set(found.labels("coarse")) == set(COARSE)
    assert len(set(found.fine)) == 50
    assert len(labels.no_questions()) == len(set(labels.no_questions())) >= 100


def test_every_labelled_text_is_found_in_the_data_folder(data_folder):
    assert len(labels.natural_questions(data_folder, "train").texts) == 4049
    assert len(labels.squad_questions(data_folder).texts) == 1000
    texts, classes = labels.labelled_passages(data_folder)
    assert classes.shape == (len(texts), 6) == (1859, 6)
