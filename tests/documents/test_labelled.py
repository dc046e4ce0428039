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
        ("a.csv", 'text,label\n"One, two",number\nA cat,animal\n'),
        ("a.csv", "question;intent\nOne, two;number\nA cat;animal\n"),
        ("a.txt", "text\tlabel\nOne, two\tnumber\nA cat\tanimal\n"),
        ("a.jsonl", '{"text": "One, two", "label": "number"}\n\n{"label": "animal", "text": "A cat", "id": 2}\n'),
    ],
)
def test_a_table_and_json_lines_say_the_same(tmp_path, name, text):
    found = read_labelled(written(tmp_path, name, text))
    assert (found.texts, found.targets()) == (["One, two", "A cat"], ["number", "animal"])
    assert not found.multi_label


def test_lines_of_texts_are_those_of_the_file(tmp_path):
    found = read_labelled(written(tmp_path, "a.csv", 'text,label\n"two\nlines",a\n\nb,b\n'))
    assert (found.texts, found.lines) == (["two\nlines", "b"], [2, 5])
    found = read_labelled(written(tmp_path, "a.tsv", 'text\tlabel\n"quoted ""so"""\ta\n"Hello" he said\tb\n'))
    assert (found.texts, found.lines) == (['quoted "so"', '"Hello" he said'], [2, 3])


def test_texts_may_have_several_labels_or_none(tmp_path):
    records = [{"text": "one", "labels": ["b", "a"]}, {"text": "two", "labels": []}, {"text": "three", "label": "a"}]
    lines = read_labelled(written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, records))))
    table = read_labelled(written(tmp_path, "a.tsv", "text\tlabels\none\tb, a\ntwo\t\nthree\ta\n"))
    asked = read_labelled(written(tmp_path, "b.tsv", "text\tlabel\none\tb, a\ntwo\t\nthree\ta\n"), multi_label=True)
    for found in (lines, table, asked):
        assert found.multi_label
        assert found.targets() == [("b", "a"), (), ("a",)]


def test_all_bad_lines_are_told_with_their_numbers(tmp_path):
    text = '{"text": "one", "label": 1}\n{"text": " ", "label": "a"}\n{"text": "b"}\n[1]\n{"text": "c", "label": 2.5}\n{x\n'
    with pytest.raises(InputError, match=r"5 of 6 lines") as error:
        read_labelled(written(tmp_path, "a.jsonl", text))
    assert all(f"line {number}:" in str(error.value) for number in (2, 3, 4, 5, 6))
    with pytest.raises(InputError, match=r"2 of 4 lines.*line 2: it has 1 column.*line 4: it has no label"):
        read_labelled(written(tmp_path, "a.tsv", "text\tlabel\nno tab\nb\ta\nc\t\nd\ta\n"))


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("a.tsv", "\n", {}, "no texts"),
        ("a.tsv", "one column\n", {}, "there is no column with a usual name .*; the columns are 'one column'"),
        ("a.tsv", "text\ta\tb\n1\t2\t3\n", {}, "the columns are 'text', 'a', 'b'"),
        ("a.tsv", "text\tlabel\n1\t2\n", {"text": "body"}, "there is no column 'body'"),
        ("a.tsv", "text\tlabel\n1\t2\n", {"label": "text"}, "column 'text' cannot be both"),
        ("a.tsv", "A cat\tanimal\n", {}, "name of a text \\(text, sentence,.*the columns are 'A cat', 'animal'"),
        ("a.csv", 'text,label\n"a,b\n', {}, "line 2"),
        ("a.json", '[{"text": "a", "label": "b"}]', {}, "jq -c"),
    ],
)
def test_files_that_cannot_be_used_say_what_to_do(tmp_path, name, text, options, said):
    with pytest.raises(InputError, match=said):
        read_labelled(written(tmp_path, name, text), **options)


def test_other_encodings_are_named(tmp_path):
    path = written(tmp_path, "a.tsv", "text\tlabel\ncaf\u00e9\ta\nth\u00e9\tb\n", "cp1252")
    with pytest.raises(InputError, match=r"line 2 is not UTF-8; name its encoding \(--encoding"):
        read_labelled(path)
    assert read_labelled(path, encoding="cp1252").texts == ["caf\u00e9", "th\u00e9"]


HEADS = {
    "text,category": "TL",  # BANKING77
    "text,intent": "TL",  # CLINC150
    "intent,text": "LT",  # ATIS, SNIPS
    "v1,v2": "LT",  # SMS spam
    "Category,Message": "LT",
    "Message,Category": "TL",
    "question,intent": "TL",
    "Class Index,Title,Description": "L-T",  # AG News
    "label,title,content": "L-T",  # DBpedia
    "label-coarse,label-fine,text": "L-T",  # TREC
    "review,sentiment": "TL",  # IMDB
    "id,label,tweet": "-LT",
    "Sentence,Emotion": "TL",
    "text,labels,id": "TL-",  # GoEmotions
}
"""First lines of public sets: where the text and the label are."""


@pytest.mark.parametrize("head", HEADS)
def test_first_lines_of_public_sets_are_names(tmp_path, head):
    row = {"T": "It is late", "L": "time", "-": "other"}
    (tmp_path / "a.csv").write_text(f"{head}\n{','.join(row[kind] for kind in HEADS[head])}\n")
    found = read_labelled(tmp_path / "a.csv")
    assert (found.texts, found.labels, found.lines) == (["It is late"], [("time",)], [2])
    fields = dict(zip(head.split(","), (row[kind] for kind in HEADS[head]), strict=True))
    (tmp_path / "a.jsonl").write_text(json.dumps(fields))
    assert read_labelled(tmp_path / "a.jsonl").labels == [("time",)]


@pytest.mark.parametrize("head", ["Consumer complaint,Product", "ham,Call me later", "0,Nice phone"])
def test_a_first_line_of_other_names_is_named(tmp_path, head):
    (tmp_path / "a.csv").write_text(f"{head}\nx,y\n")
    with pytest.raises(
        InputError, match=f"the columns are '{head.partition(',')[0]}'.*put a line with the names above"
    ):
        read_labelled(tmp_path / "a.csv")
