"""Rows of tables as records: what is a passage, what is metadata, and which tables stay tables."""

from __future__ import annotations

import json

import made_tickets
import pytest

from semclass import Chunking, HybridRetriever, InputError, Models, PassageIndex
from semclass.documents.readers import iter_passages, read_passages

LONG = "The pump under the roof runs at night, and nobody knows why."
OTHER = "The valve of the boiler drips since it was cleaned on Monday."


def csv(folder, *lines, name="a.csv"):
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_each_ticket_is_a_passage_that_answers_its_question(tmp_path):
    tickets = made_tickets.made()
    made_tickets.as_csv(tmp_path / "tickets.csv", tickets)
    passages = read_passages(tmp_path / "tickets.csv")
    assert len(passages) == len(tickets)
    models = Models.load()
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    first = [hits[0].id for hits in retriever.search_many(made_tickets.questions(), k=1)]
    right = sum(passage.id == found for passage, found in zip(passages, first, strict=True))
    assert right >= 0.9 * len(first), f"{right} of {len(first)} questions find their ticket first"
    new = retriever.search("printer", k=60, where={"date": {"$gte": "2026-01-01"}})
    assert len(new) == sum(ticket["date"] >= "2026-01-01" for ticket in tickets)


@pytest.mark.parametrize("ending", [".csv", ".json", ".jsonl"])
def test_columns_are_typed_metadata_in_every_form(tmp_path, ending):
    ticket = made_tickets.made()[0]
    made_tickets.FORMS[ending](tmp_path / f"a{ending}", [ticket])
    (found,) = read_passages(tmp_path / f"a{ending}")
    assert found.text == ticket.pop("description")
    assert found.id == f"a{ending}:T-100"
    place = {"document": found.id, "file": f"a{ending}", "row": 1}
    assert found.metadata == {**place, **ticket, "title": ticket["subject"]}


def test_a_column_of_a_csv_has_one_type_and_codes_stay_texts(tmp_path):
    names = ["zip", "size", "price", "version", "open"]
    rows = (f"01234;3;2.5;1.10;TRUE;{LONG}", f"80331;;-1;1.10.2;false;{OTHER}")
    first, second = (one.metadata for one in read_passages(csv(tmp_path, ";".join([*names, "note"]), *rows)))
    assert [first[name] for name in names] == ["01234", 3, 2.5, "1.10", True]
    assert [second.get(name) for name in names] == ["80331", None, -1, "1.10.2", False]


def test_other_prose_follows_the_column_of_the_text(tmp_path):
    path = csv(tmp_path, "name,cause,Description", f'pump,"{LONG}","{LONG} {OTHER}"', f'valve,,"{OTHER}"')
    assert [one.text for one in read_passages(path)] == [f"{LONG} {OTHER}\n\ncause: {LONG}", OTHER]
    named = read_passages(path, Chunking(text_column="cause", title_column="name"))
    assert [one.text for one in named] == [f"{LONG}\n\nDescription: {LONG} {OTHER}", f"Description: {OTHER}"]
    assert [one.metadata["title"] for one in named] == ["pump", "valve"]


def test_a_line_above_the_names_of_columns_is_a_passage(tmp_path):
    rows = ["id,boat,text", f'1,Heron,"{LONG}"', f'2,Kite,"{OTHER}"']
    title, row, _ = read_passages(csv(tmp_path, "Harbour report", "", *rows))
    assert (title.text, row.text, row.metadata["boat"]) == ("Harbour report", LONG, "Heron")


def test_ids_are_those_of_a_column_or_else_numbers_of_rows(tmp_path):
    lines = [f"7;Ann;{LONG}", f"8;Bo;{OTHER}"]
    assert [one.id for one in read_passages(csv(tmp_path, "no;id;text", *lines))] == ["a.csv:Ann", "a.csv:Bo"]
    assert [one.id for one in read_passages(csv(tmp_path, "ticket_id;by;text", *lines))] == ["a.csv:7", "a.csv:8"]
    assert [one.id for one in read_passages(csv(tmp_path, "age;by;text", *lines))] == ["a.csv#1", "a.csv#2"]
    assert [one.id for one in read_passages(tmp_path / "a.csv", Chunking(id_column="by"))] == ["a.csv:Ann", "a.csv:Bo"]
    some = csv(tmp_path, "id;by;text", *(f"{number};;{LONG}" for number in (*range(20), 3, "")))
    assert [one.id for one in read_passages(some)][-3:] == ["a.csv:19", "a.csv#21", "a.csv#22"]
    again = csv(tmp_path, "id;by;text", *lines, lines[0])
    assert [one.id for one in read_passages(again)] == ["a.csv:7", "a.csv:8", "a.csv#3"]
    with pytest.raises(InputError, match=r"a\.csv: row 3: .* '7' comes twice"):
        read_passages(again, Chunking(id_column="id"))


@pytest.mark.parametrize(
    "lines",
    [
        ("part,years", "valve,5", "tank,2"),
        ("place;2024;2025", f"{LONG};5;6", f"{OTHER};7;8"),
        (f"Ann;{LONG}", f"Bo;{OTHER}"),
        ("name;fault", f"Ann;{LONG}", f"Bo;{OTHER}"),
        ("text;text", f"Ann;{LONG}"),
    ],
    ids=["no prose", "figures", "no names", "no usual names", "a name twice"],
)
def test_a_table_that_is_no_list_of_records_stays_a_table(tmp_path, lines):
    assert all(one.metadata["table"] for one in read_passages(csv(tmp_path, *lines)))


def test_a_column_with_a_long_name_is_not_lost(tmp_path):
    long = "What do you like about the pumps and valves that we sell here?"
    (row,) = read_passages(csv(tmp_path, f"by;age;{long}", f"Ann;30;{LONG}"))
    assert row.text == f"by; age; {long}\nby: Ann; age: 30; {LONG}"
    (record,) = read_passages(tmp_path / "a.csv", Chunking(text_column=long))
    assert (record.text, record.metadata["age"]) == (LONG, 30)


def test_columns_without_names_are_numbered(tmp_path):
    (found,) = read_passages(csv(tmp_path, ";text", f"0;{LONG}"))
    assert (found.text, found.metadata["column_1"]) == (LONG, 0)


def test_prose_inside_objects_follows_the_text(tmp_path):
    rows = [{"description": LONG, "notes": [{"by": "Ann", "note": OTHER}]}, {"description": OTHER, "size": {"mm": 3}}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    first, second = read_passages(tmp_path / "a.json")
    assert (first.text, second.text) == (f"{LONG}\n\nnotes: {OTHER}", OTHER)
    assert second.metadata["size"] == {"mm": 3}


@pytest.mark.parametrize("alone", [True, False])
def test_numbers_that_json_does_not_have(tmp_path, alone):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "The pump.", "size": NaN}\n')
    (found,) = read_passages(path if alone else tmp_path)
    assert found.metadata.get("size") is None
    path.write_text('{"text": "The pump.", "size": 1e999}\n')
    with pytest.raises(InputError, match=r"a\.jsonl.*1e999"):
        read_passages(path if alone else tmp_path)


def test_json_lines_of_another_form_are_records_and_stream(tmp_path):
    lines = [json.dumps({"key": number, "note": f"{LONG} {number}"}) for number in range(1500)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "broken"]))
    stream = iter_passages(tmp_path / "a.jsonl")
    assert [next(stream).id for _ in range(1500)][-1] == "a.jsonl:1499"
    with pytest.raises(InputError, match="line 1501: broken JSON"):
        next(stream)
    (tmp_path / "b.jsonl").write_text('{"text": "Tea.", "by": "Ann"}\n')
    assert read_passages(tmp_path / "b.jsonl")[0].id == "1", "passages of the usual form"
    assert read_passages(tmp_path / "b.jsonl", Chunking(text_column="by"))[0].text == "Ann"


def test_rows_are_cut_if_it_is_said_how(tmp_path):
    path = csv(tmp_path, "id,note", f'a,"{LONG} {OTHER}"')
    found = read_passages(path, Chunking("window", 12))
    assert [(one.id, one.text) for one in found] == [("a.csv:a#1", LONG), ("a.csv:a#2", OTHER)]
    assert [(one.metadata["document"], one.metadata["file"]) for one in found] == [("a.csv:a", "a.csv")] * 2


def test_a_column_that_is_not_there_is_named(tmp_path):
    path = csv(tmp_path, "id;note", f"a;{LONG}")
    with pytest.raises(InputError, match=r"a\.csv: there is no column 'body'; the columns are 'id', 'note'"):
        read_passages(path, Chunking(text_column="body"))
    (tmp_path / "b.csv").write_text("part,body\nvalve,old\n")
    skipped = []
    found = list(iter_passages(tmp_path, Chunking(text_column="body"), skipped=skipped.append))
    assert ([one.text for one in found], [one.document for one in skipped]) == (["old"], ["a.csv"])
    (tmp_path / "c.jsonl").write_text('{"by": "Ann"}\n')
    with pytest.raises(InputError, match=r"line 1: text is missing; .* --text-column"):
        read_passages(tmp_path / "c.jsonl")


def test_each_object_of_nested_json_has_its_heading(tmp_path):
    rows = [
        {"name": "Pump", "tags": ["old"]},
        {"name": "Tank", "parts": [{"id": 5, "in": {"mm": 3}}]},
        {"tags": ["new"]},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"things": rows}))
    found = {one.text.rpartition("\n")[2]: one.metadata["headings"] for one in read_passages(tmp_path / "a.json")}
    assert found == {
        "name: Pump": ["things", "Pump"],
        "- old": ["things", "Pump", "tags"],
        "name: Tank": ["things", "Tank"],
        "id: 5": ["things", "Tank", "parts", "5"],
        "mm: 3": ["things", "Tank", "parts", "5", "in"],
        "- new": ["things", "3", "tags"],
    }
