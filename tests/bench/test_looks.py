"""Looks at the sets that confirm."""

import json

from bench import looks


def test_each_look_is_a_line_with_its_date_and_models(tmp_path):
    for figure in (0.5, 0.6):
        looks.log("a set", {"ndcg": figure}, tmp_path / "looks.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "looks.jsonl").read_text().splitlines()]
    assert [line["figures"]["ndcg"] for line in lines] == [0.5, 0.6]
    assert all(line["models"]["encoder"] and len(line["date"]) == 10 for line in lines)
