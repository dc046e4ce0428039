from __future__ import annotations

import json

import pytest

from semclass import InputError
from semclass.documents.labelled import read_labelled


def written(folder, name, text, encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "text\tlabel\nOne, two\tnumber\nA cat\tanimal\n"),
        ("a.tsv", "\ufefflabel\tid\tText\r\nnumber\t1\tOne, two\r\nanimal\t2\tA cat\r\n"),
        ("a.tsv", "topic\ttext\nnumber\tOne, two\n\nanimal\tA cat"),
        ("a.tsv", "One, two\tnumber\nA cat\tanimal\n"),
        ("a.csv", 'text,label\n"One, two",number\nA cat,animal\n'),
        ("a.csv", "One, two;number\nA cat;animal\n"),
        ("a.txt", "One, two\tnumber\nA cat\tanimal\n"),
        ("a.jsonl", '{"text": "One, two", "label": "number"}\n\n{"label": "animal", "text": "A cat", "id": 2}\n'),
    ],
)
def test_a_table_and_json_lines_say_the_same(tmp_path, name, text):
    found = read_labelled(written(tmp_path, name, text))
    assert (found.texts, found.targets()) == (["One, two", "A cat"], ["number", "animal"])
    assert not found.multi_label


def test_columns_are_named_or_numbered(tmp_path):
    path = written(tmp_path, "a.tsv", "coarse\tfine\tquestion\nHUM\tind\tWho?\nLOC\tcity\tWhere?\n")
    assert read_labelled(path, text="question", label="fine").targets() == ["ind", "city"]
    path = written(tmp_path, "b.tsv", "HUM\tind\tWho?\nLOC\tcity\tWhere?\n")
    assert read_labelled(path, text="3", label="1").targets() == ["HUM", "LOC"]


def test_lines_of_texts_are_those_of_the_file(tmp_path):
    found = read_labelled(written(tmp_path, "a.csv", 'text,label\n"two\nlines",a\n\nb,b\n'))
    assert (found.texts, found.lines) == (["two\nlines", "b"], [2, 5])
    found = read_labelled(written(tmp_path, "a.tsv", '"quoted ""so"""\ta\n"Hello" he said\tb\n'))
    assert (found.texts, found.lines) == (['quoted "so"', '"Hello" he said'], [1, 2])


def test_texts_may_have_several_labels_or_none(tmp_path):
    records = [{"text": "one", "labels": ["b", "a"]}, {"text": "two", "labels": []}, {"text": "three", "label": "a"}]
    lines = read_labelled(written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, records))))
    table = read_labelled(written(tmp_path, "a.tsv", "text\tlabels\none\tb, a\ntwo\t\nthree\ta\n"))
    asked = read_labelled(written(tmp_path, "b.tsv", "one\tb, a\ntwo\t\nthree\ta\n"), multi_label=True)
    for found in (lines, table, asked):
        assert found.multi_label
        assert found.targets() == [("b", "a"), (), ("a",)]


def test_all_bad_lines_are_told_with_their_numbers(tmp_path):
    text = '{"text": "one", "label": 1}\n{"text": " ", "label": "a"}\n{"text": "b"}\n[1]\n{"text": "c", "label": 2.5}\n{x\n'
    with pytest.raises(InputError, match=r"5 of 6 lines") as error:
        read_labelled(written(tmp_path, "a.jsonl", text))
    assert all(f"line {number}:" in str(error.value) for number in (2, 3, 4, 5, 6))
    with pytest.raises(InputError, match=r"2 of 4 lines.*line 2: it has 1 column.*line 4: its label is empty"):
        read_labelled(written(tmp_path, "a.tsv", "text\tlabel\nno tab\nb\ta\nc\t\nd\ta\n"))


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("a.tsv", "\n", {}, "no texts"),
        ("a.tsv", "one column\n", {}, "line 1 has one column"),
        ("a.tsv", "text\ta\tb\n1\t2\t3\n", {}, "there is no column 'label or labels'"),
        ("a.tsv", "text\tlabel\n1\t2\n", {"text": "body"}, "there is no column 'body'"),
        ("a.tsv", "text\tlabel\n1\t2\n", {"label": "3"}, "there is no column '3'"),
        ("a.tsv", "text\tlabel\n1\t2\n", {"label": "text"}, "column 1 cannot be both"),
        ("a.tsv", "a\tOne\na\tTwo\nb\tThree\n", {}, "--text 2 --label 1"),
        ("a.csv", 'text,label\n"a,b\n', {}, "line 2"),
        ("a.json", '[{"text": "a", "label": "b"}]', {}, "jq -c"),
    ],
)
def test_files_that_cannot_be_used_say_what_to_do(tmp_path, name, text, options, said):
    with pytest.raises(InputError, match=said):
        read_labelled(written(tmp_path, name, text), **options)


def test_other_encodings_are_named(tmp_path):
    path = written(tmp_path, "a.tsv", "caf\u00e9\ta\nth\u00e9\tb\n", "cp1252")
    with pytest.raises(InputError, match=r"line 1 is not UTF-8; name its encoding \(--encoding"):
        read_labelled(path)
    assert read_labelled(path, encoding="cp1252").texts == ["caf\u00e9", "th\u00e9"]
