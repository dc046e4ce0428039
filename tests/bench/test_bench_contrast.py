"""The contrast items: what is ranked, and what of a ranking is counted."""

import json

import pytest

from bench import contrast, report

TEXTS = ("The lamp goes dark.", "The bridge is long.", "Do not go there?")


@pytest.fixture
def items(tmp_path):
    """60 items of six domains."""
    (tmp_path / "contrast").mkdir()
    rows = [
        {
            "id": f"a{place}",
            "domain": f"domain {place % 6}",
            "question": f"Why {place}?",
            "answer": f"{TEXTS[place % 3]} {place}",
            "distractors": {kind: f"{kind} {place}" for kind in contrast.KINDS},
        }
        for place in range(60)
    ]
    (tmp_path / "contrast" / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return contrast.read_items(tmp_path)


def test_a_question_is_ranked_over_its_own_passages_and_four_other_answers(items):
    ten = list(contrast.tens(items))
    own = {f"a59/{kind}" for kind in ("answer", *contrast.KINDS)}
    assert {passage.id for passage in ten[59]} == own | {"a0/answer", "a18/answer", "a36/answer", "a54/answer"}
    assert ten == list(contrast.tens(items))
    assert len({[passage.id for passage in some].index(f"a{row}/answer") for row, some in enumerate(ten)}) > 5


def test_before_a_question_stand_texts_of_other_domains_that_ask_nothing(items):
    before = list(contrast.preambles(items))
    assert all(contrast.WORDS <= len(text.split()) < contrast.WORDS + 6 for text in before)
    assert not any("?" in text for text in before)
    own = {item.passages["answer"].text for item in items if item.domain == "domain 0"}
    assert not any(text in before[0] for text in own)


def test_what_is_counted_worked_out_by_hand(items):
    first = [f"a0/{kind}" for kind in ("answer", "echo", "mention", "unknown", "wrong_type", "near")]
    second = [f"a1/{kind}" for kind in ("echo", "near", "answer", "mention")]  # an index gives only the first
    found = contrast.figures(items[:2], [first, second])
    always = dict.fromkeys(("mention", "unknown", "wrong_type"), 1.0)
    assert found == {"first": 0.5, "echo": 0.5, "near": 0.5, **always, "mrr@10": 0.6667}
    results = {"contrast": {"models": {}, "settings": {"strings": {"default": found}}, "task": {"items": 2}}}
    row = "| `default` | 50.0% | 50.0% | 100.0% | 100.0% | 100.0% | 50.0% | 0.667 |"
    assert row in contrast.table(results)
    assert row in report.page("contrast", results)
