"""The report: what it says is what the files of results say, whichever of them there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench import report, retrieval
from bench.reporting.answers import Contest, statement
from bench.reporting.tables import anything, front, with_interval

MADE = {
    "commands": ["python -m bench questions --data DATA"],
    "machine": {"processor": "a processor", "cores": 2, "memory_gb": 25.3, "system": "Linux", "python": "3.11.7"},
    "versions": {"numpy": "2.4.6"},
    "threads": [1, 2],
    "date": "2026-11-20",
    "commit": "0123456789ab",
    "seconds_of_section": 120.0,
    "steps": [],
}


def system(name: str, kind: str, accuracy: float, p50: float | None, **more: Any) -> dict[str, Any]:
    """A row of results."""
    row = {
        "name": name, "kind": kind, "what": f"What {name} is.", "threads": 1,
        "accuracy": accuracy, "accuracy_ci": [round(accuracy - 0.02, 4), round(accuracy + 0.01, 4)],
        "macro_f1": round(accuracy - 0.01, 4), "macro_f1_ci": [round(accuracy - 0.04, 4), accuracy],
        "p50_ms": p50, "p95_ms": None if p50 is None else 2 * p50, "peak_mb": 150.25, "usd_per_million": 0.0151,
    }  # fmt: skip
    return {**row, **more}


def questions(*systems: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A file of results."""
    task = {"what": "Which of six?", "items": 500, "protocol": "Accuracy.", "sources": "TREC test"}
    return {"task": task, "systems": list(systems), "ratios": {}, **MADE, **more}


SYSTEMS = (
    system("semclass", "semclass", 0.978, 1.224),
    system("semclass, 2 threads", "semclass", 0.978, 0.9, threads=2),
    system("ten lines", "peer", 0.958, 9.51, train_s=22.4),
    system("words alone", "peer", 0.872, 0.4),
    {
        "name": "fine-tuned",
        "kind": "peer",
        "what": "Takes <long>.",
        "threads": 1,
        "skipped": "torch | is not installed",
    },
    system("flan-ul2", "prompted", 0.97, 1000.0, recorded=True, peak_mb=None, usd_per_million=1020.3, threads=None),
)

RETRIEVAL = {
    "task": {"what": "ten passages"},
    "sets": {
        "squad4": {
            "what": "Wikipedia", "questions": 40, "passages": 1699,
            "systems": [
                {"name": "BM25", "kind": "semclass", "what": "words", "mrr@10": 0.8708, "mrr@10_ci": [0.77, 0.95],
                 "error_removed": -0.087, "error_removed_ci": [-0.31, 0.0], "p50_ms": 0.144, "questions": 40},
                {"name": "cross-encoder", "kind": "peer", "what": "reads both", "mrr@10": 0.93, "p50_ms": 120.0,
                 "questions": 20, "sample": {"mrr@10": 0.95}},
            ],
        }
    },
    "ratios": {"cross_encoder_over_learned": 114.2},
    **MADE, "commands": ["python -m bench retrieval --data DATA --quick"],
}  # fmt: skip


def put(folder: Path, **files: Any) -> Path:
    """Write files of results."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def told(folder: Path) -> str:
    """The report's Markdown."""
    return report.markdown(report.read(folder), folder)


def rows_below(text: str, heading: str) -> dict[str, list[str]]:
    """Cells of the first table below a heading, by their first; a name's marks are left out."""
    lines = text[text.index(heading) :].split("\n")
    first = next(place for place, line in enumerate(lines) if line.startswith("|"))
    found = {}
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        found[name.strip("| *")] = [cell.strip("| ") for cell in cells]
    return found


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_every_number_in_the_table_is_that_of_the_results(tmp_path: Path) -> None:
    rows = rows_below(told(put(tmp_path, questions=questions(*SYSTEMS))), "\n## Questions")
    head = rows.pop("system")
    keys = {"accuracy": "accuracy", "macro F1": "macro_f1", "p50, ms": "p50_ms", "p95, ms": "p95_ms"}
    keys |= {"memory, MB": "peak_mb", "USD per million": "usd_per_million", "to train, s": "train_s"}
    for given in SYSTEMS:
        if "skipped" in given:
            continue
        cells = dict(zip(head, rows[given["name"] + " (recorded)" * ("recorded" in given)], strict=True))
        for column, key in keys.items():
            value, cell = given.get(key), cells[column]
            if value is None:
                assert cell == "–"
                continue
            scale = 100 if column in ("accuracy", "macro F1") else 1
            figures = [float(number) for number in re.findall(r"-?[\d,]*\.?\d+", cell.replace(",", ""))]
            expected = [value * scale, *(end * scale for end in given.get(f"{key}_ci", []))]
            assert figures == pytest.approx(expected, rel=0.006), (given["name"], column)


@pytest.mark.parametrize("best", ["semclass", "ten lines"])
def test_the_winner_comes_from_the_results(tmp_path: Path, best: str) -> None:
    ours = system("semclass", "semclass", 0.978 if best == "semclass" else 0.90, 1.2)
    text = told(put(tmp_path, questions=questions(ours, system("ten lines", "peer", 0.93, 9.5))))
    assert f"**{best}** has the highest accuracy" in text
    assert ("a clear lead of semclass" in text) == (best == "semclass")
    assert ("here a peer is clearly better" in text) == (best != "semclass")


def test_at_a_glance_each_side_shows_its_best(tmp_path: Path) -> None:
    rows = rows_below(told(put(tmp_path, questions=questions(*SYSTEMS))), "## What should I use?")
    assert rows["Questions"] == [
        "**97.8%**, 1.22 ms, 0.0151 USD (semclass)",
        "95.8%, 9.51 ms, 0.0151 USD (ten lines)",
        "97.0%, 1,000 ms (assumed), 1,020 USD (flan-ul2 (recorded))",
    ]


def test_within_the_interval_nobody_is_called_better() -> None:
    rivals = [system("semclass", "semclass", 0.97, 1.0), system("ten lines", "peer", 0.96, 9.0)]
    assert "quality alone does not decide" in statement(Contest("task", rivals, "accuracy", "accuracy", with_interval))


def test_the_front_holds_what_nothing_beats_on_one_thread() -> None:
    assert front(SYSTEMS, "accuracy") == ["words alone", "semclass"]
    text = report.section("questions", {"questions": questions(*SYSTEMS)}, [])
    assert "| **semclass** |" in text
    assert "| ten lines |" in text


# -- what is missing, marked or wrong ---------------------------------------------------------------------------------


def test_what_was_skipped_is_shown_with_the_reason(tmp_path: Path) -> None:
    text = told(put(tmp_path, questions=questions(*SYSTEMS)))
    assert "fine-tuned: not measured" in text
    assert r"*Not measured here: torch \| is not installed.*" in text
    assert "flan-ul2 (recorded)" in text


def test_calls_of_prompted_models_are_counted(tmp_path: Path) -> None:
    model = system("a model", "prompted", 0.9, 300.0, calls=500, failed=2, unparsed=7, usd_per_million=None)
    text = told(put(tmp_path, questions=questions(model | {"usd_per_million_gpu": 88.5})))
    assert "| system | calls | failed | unparsed |\n|---|---|---|---|\n| a model | 500 | 2 | 7 |" in text
    assert "| 88.5 (GPU) |" in text


def test_a_recorded_prompt_is_priced_at_other_prices(tmp_path: Path) -> None:
    counted = {"prompt": 512.4, "answer": 2.0, "shared": 490.0, "counted_with": "word pieces"}
    prices = {"usd_per_million_at": {"a cheap model": 25.5, "flan-ul2": 1020.3}, "tokens_per_call": counted}
    text = told(put(tmp_path, questions=questions(SYSTEMS[0], {**SYSTEMS[-1], **prices, "calls_per_item": 6})))
    priced = rows_below(text, "The same prompt at other prices")
    assert [priced[model] for model in list(priced)[2:]] == [["1,020"], ["25.5"]]
    assert (
        "- flan-ul2 (recorded): 512 tokens of prompt, of which 490 are the same in every call, and 2 of answer" in text
    )
    assert "; 6 calls an item. Counted with word pieces." in text
    assert "The same prompt at other prices" not in told(put(tmp_path, questions=questions(*SYSTEMS)))


def test_it_is_said_while_no_language_model_was_asked(tmp_path: Path) -> None:
    assert "No current language model was measured here" in told(put(tmp_path, questions=questions(*SYSTEMS)))
    asked = system("a model", "prompted", 0.9, 300.0)
    assert "No current language model" not in told(put(tmp_path, questions=questions(*SYSTEMS, asked)))


def test_the_cross_encoders_training_is_shown(tmp_path: Path) -> None:
    network = {"training": {"questions": 7000, "data": "squad_sentences/train"}, "weight": 0.316, "slope": 0.745}
    text = told(put(tmp_path, retrieval={**RETRIEVAL, "cross_encoder": network}))
    assert "| questions | 7,000 |" in text
    assert "| weight | 0.316 |" in text
    assert "trained for this benchmark, on so many" not in told(put(tmp_path, retrieval=RETRIEVAL))


def test_both_re_rankers_training_is_told_from_their_manifests(tmp_path: Path) -> None:
    made = {"training": {"questions": 7000, "data": "squad_sentences/train"}}
    (tmp_path / "manifest.json").write_text(json.dumps(made), encoding="utf-8")
    text = retrieval.trained(tmp_path)
    assert text.startswith("learned: ")
    assert text.endswith("; cross-encoder: 7,000 questions (squad_sentences/train)")
    assert "cross-encoder" not in retrieval.trained(None)


def test_the_limits_name_what_beats_the_baseline(tmp_path: Path) -> None:
    rows = [
        {"name": name, "kind": "semclass", "mrr@10": value, "p50_ms": 1.0, **more}
        for name, value, more in (
            ("hybrid", 0.8, {}), ("dense", 0.7, {}), ("RRF", 0.82, {}), ("convex", 0.9, {}),
            ("learned", 0.85, {"rerank_p50_ms": 0.5}),
            ("cross-encoder", 0.7, {"sample": {"mrr@10": 0.95}, "rerank_p50_ms": 100.0}),
        )
    ]  # fmt: skip
    text = told(put(tmp_path, retrieval={**RETRIEVAL, "sets": {"pubmedqa": {"what": "PubMedQA", "systems": rows}}}))
    line = "PubMedQA: hybrid 0.800; better: convex 0.900, RRF 0.820. Better than `learned` (0.850), too: convex."
    assert f"\n  - {line}" in text
    assert "the thesis's baseline" not in told(put(tmp_path, retrieval=RETRIEVAL))  # which has no hybrid


def test_missing_figures_and_sections_are_fine(tmp_path: Path) -> None:
    assert "There are no results yet" in told(tmp_path)
    bare = {"name": "semclass", "kind": "semclass", "accuracy": 0.9}
    text = told(put(tmp_path, questions={"systems": [bare, {"name": "other", "skipped": "no network"}]}))
    assert "90.0%" in text
    assert "Retrieval" not in text


def test_quick_results_are_named_as_such(tmp_path: Path) -> None:
    full = told(put(tmp_path, questions=questions(*SYSTEMS)))
    assert "quick run" not in full
    mixed = told(put(tmp_path, retrieval=RETRIEVAL))
    assert "**The results of retrieval are of a quick run**" in mixed
    assert mixed.count("Of a quick run: not to be quoted") == 1


def test_slow_systems_are_compared_on_the_questions_that_all_were_asked(tmp_path: Path) -> None:
    text = told(put(tmp_path, retrieval=RETRIEVAL))
    assert "**cross-encoder** has the highest MRR@10, 0.950" in text
    assert rows_below(text, "### Wikipedia\n\n40")["cross-encoder"][0] == "0.930"


def test_strange_files_are_named(tmp_path: Path) -> None:
    put(tmp_path, questons={})
    with pytest.raises(report.ReportError, match=r"questons\.json is no section's file of results; the report knows"):
        report.read(tmp_path)
    (tmp_path / "questons.json").rename(tmp_path / "questions.json")
    (tmp_path / "questions.json").write_text("{", encoding="utf-8")
    with pytest.raises(report.ReportError, match=r"questions\.json is damaged .it cannot be read as JSON"):
        report.read(tmp_path)
    put(tmp_path, retrieval={**RETRIEVAL, "sets": {"squad4": {"systems": [{"name": "BM25", "mrr@10": "high"}]}}})
    with pytest.raises(
        report.ReportError, match=r"retrieval\.json is not what bench/retrieval\.py writes \(ValueError"
    ):
        report.section_of(tmp_path, "retrieval", {"retrieval": json.loads((tmp_path / "retrieval.json").read_text())})


# -- aims and sources -------------------------------------------------------------------------------------------------


def test_targets_are_met_missed_or_open(tmp_path: Path) -> None:
    ratios = {
        "sentence_transformers_over_semclass": {"p50_ratio": 4.9, "accuracy": 0.958, "semclass_accuracy": 0.978},
        "assumed_second_over_semclass": {"p50_ratio": 1100, "p50_ratio_among_peers": 640},
    }
    end_to_end = {"cross_encoder_over_learned": 114.2, "end_to_end": {"pubmedqa": 14.2, "squad4": 16.3}}
    text = told(
        put(tmp_path, questions=questions(*SYSTEMS, ratios=ratios), retrieval={**RETRIEVAL, "ratios": end_to_end})
    )
    aims = text[text.index("## Targets") : text.index("## Where each figure")]
    rows = [line.strip("| ").split(" | ") for line in aims.split("\n") if " | " in line]
    met = {row[0].partition(":")[0]: row[3] for row in rows}
    assert [row[2:4] for row in rows if "scikit-learn" in row[0]] == [["4.9 x", "**no**"]]
    assert met["the same, accuracy of semclass less theirs"] == "yes"
    assert met["BM25 over 100,000 passages"] == "not measured"
    found = [row[2:4] for row in rows]
    alone = found.index(["1,100 x", "yes"])
    assert found[alone + 1] == ["640 x", "**no**"]  # the same with semclass among the runs of peers
    assert found[found.index(["114 x", "yes"]) + 1] == ["14.2 x", "–"]  # the least of all sets, without a bound


def test_of_several_figures_the_worst_meets_the_target_and_some_are_only_told(tmp_path: Path) -> None:
    engines = {
        name: {
            "questions": 1000,
            "rust_core": {"questions": 1000, "largest_difference": {"score": found}},
        }
        for name, found in (("squad4", 2e-7), ("pubmedqa", 3e-5))
    }
    living = {
        "builds": [], "changes": [], "kills": {"kills": 700, "survived": 700}, "add_over_encoding": 1.2,
        "share_of_encoding": {"standard": 0.93}, "share_of_pooled": {"standard": 0.41},
    }  # fmt: skip
    text = told(put(tmp_path, engines={**engines, **MADE}, living={**living, **MADE}))
    aims = text[text.index("## Targets") : text.index("## Where each figure")]
    rows = [line.strip("| ").split(" | ") for line in aims.split("\n") if line.startswith("| ")]
    found = [row[1:4] for row in rows]
    scores = "scores of the embedded index, Qdrant's local mode and its Rust core: largest difference"
    assert [row[1:4] for row in rows if row[0] == scores] == [["≤ 1e-05", "3e-05", "**no**"]]
    assert ["≥ 0.9", "0.93", "yes"] in found
    assert ["shown", "0.41", "–"] in found
    assert ["≥ 200", "700", "yes"] in found
    assert "| pubmedqa | Rust core | 1,000 | 3e-05 |" in text


def test_what_was_kept_counts_as_long_as_it_took(tmp_path: Path) -> None:
    steps = [{"step": "questions/semclass", "seconds": 3000.0}, {"step": "questions/svm", "seconds": 900.0}]
    text = told(put(tmp_path, questions=questions(*SYSTEMS, seconds_of_section=2.0, steps=steps)))
    assert "| ≤ 60 minutes | 65.0 minutes | **no** |" in text


# -- the page ---------------------------------------------------------------------------------------------------------


def test_every_picture_is_shown_with_what_it_shows(tmp_path: Path) -> None:
    for name in ("retrieval_pareto.png", "retrieval_by_hand.png"):
        (tmp_path / name).write_bytes(b"")
    text = told(put(tmp_path, retrieval=RETRIEVAL))
    assert "![Quality against time for each set" in text
    assert "](retrieval_pareto.png)" in text
    assert "![retrieval by hand](retrieval_by_hand.png)" in text


def test_figures_of_any_shape_become_tables() -> None:
    value = {
        "seed": 0,
        "by_size": {"10": {"ms": 1.5}, "20": {"ms": 2.5}},
        "rows": [{"ms": 1, "form": "lean", "ci": [1, 2]}],
    }
    assert anything(value).split("\n\n") == [
        "| figure | value |\n|---|---|\n| seed | 0 |",
        "*by size*",
        "|  | ms |\n|---|---|\n| 10 | 1.5 |\n| 20 | 2.5 |",
        "*rows*",
        "| form | ms | ci |\n|---|---|---|\n| lean | 1 | 1 to 2 |",
    ]
