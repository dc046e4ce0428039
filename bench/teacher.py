"""Labels from a language model, once: heads that learn from flan-ul2's recorded answers, and from few labels by hand.

Labels come through ``semclass label``, from an address on this machine that says what flan-ul2 said. Which passages a
person labels is what ``semclass labels next`` proposes, and the person is the gold label. A head never sees the fold that
it is scored on: neither its passages, nor what flan-ul2 says of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import measures, readme
from bench.labels import Kept, kept, read
from bench.peers.prompts import PROVIDED
from bench.steps import Bench
from bench.stub_endpoint import CUT, FILTERED, STALL, stub_endpoint
from datasets_io import read_jsonl, read_tsv
from semclass.core.taxonomy import COARSE
from semclass.labelling.combine import Labels, combine
from semclass.labelling.compare import head_of, labels_of
from semclass.labelling.doubts import doubts
from semclass.labelling.order import next_to_label

Array = npt.NDArray[Any]
TEACHER = "flan-ul2, the teacher"
FOLDS, BY_HAND, SHOWN = 5, 100, 50
SEEDS = (0, 1, 2)
HOW = (
    "alone",
    "random",
    "proposed",
)  # labels of the teacher alone, and with those of passages that were drawn or proposed
POOL = 3000  # messages of BANKING77 that each seed draws, to choose from
TEXTS, QUICK = 10_000, 300  # of the stub endpoint


def run(bench: Bench) -> dict[str, Any]:
    few, folder = bench.quick, bench.work / "teacher"
    data = {"data": bench.data}
    seeds = SEEDS[:1] if few else SEEDS
    taught = folder / "passages.jsonl"
    said = bench.step("teacher/label", "bench.teacher:label", folder=folder, wrote=taught, **data)
    passages = [
        bench.step(f"teacher/passages/{how}", "bench.teacher:passages", taught=taught, how=how, seeds=seeds, **data)
        for how in HOW
    ]
    errors = bench.step("teacher/errors", "bench.teacher:errors", limit=600 if few else None, **data)
    order = bench.step("teacher/order", "bench.teacher:order", seeds=seeds, **data)
    texts = QUICK if few else TEXTS
    stub = bench.step("teacher/stub", "bench.teacher:stub", texts=texts, folder=folder / "stub")
    systems = {name: row for one in passages for name, row in one["systems"].items()}
    return {"taught": said, "passages": systems, "errors": errors, "order": order["systems"], "stub": stub}


# -- passages ---------------------------------------------------------------------------------------------------------


def gold_and_texts(data: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    texts = {row["_id"]: row["text"] for row in read_jsonl(data / "passages" / "wikipedia_flan_ul2.jsonl.gz")}
    return read_jsonl(data / "passages" / "gold.jsonl"), texts


def label(data: str, folder: str) -> dict[str, Any]:
    """Let ``semclass label`` ask flan-ul2's recorded answers, yes or no for each class."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    rows = read_jsonl(Path(data) / "passages" / "wikipedia_flan_ul2.jsonl.gz")
    recorded = {row["text"]: row["labels"] for row in rows}
    (out / "texts.jsonl").write_text("".join(json.dumps({"text": row["text"]}) + "\n" for row in rows))
    (out / "labels.json").write_text(json.dumps(PROVIDED))

    def rule(prompt: str, before: int) -> str | int:
        name = prompt.partition("Label: ")[2].partition(":")[0]
        text = prompt.partition("\n\nText: ")[2].removesuffix("\nAnswer:")
        answer = recorded[text][name]
        return 400 if answer is None else ("no", "yes")[answer]  # the prompt overflowed

    with stub_endpoint(rule) as served:
        done = _command("label", out, served.url, "--ask", "yes-no", "--labels", str(out / "labels.json"))
    return dict(json.loads(done.stdout))


def _command(name: str, out: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "semclass", name, str(out / "texts.jsonl"), "--out", str(out / "passages.jsonl")]
    command += ["--endpoint", url, "--model", "flan-ul2", "--json", *options]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)


def passages(data: str, taught: str, how: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Macro F1 on the passages that were read twice, by where labels come from; labels of both by the first seed alone."""
    gold, texts = gold_and_texts(Path(data))
    said = {row["text"]: tuple(row["labels"]) for row in read_jsonl(Path(taught))}
    labels = {texts[row["_id"]]: tuple(name for name in COARSE if row["labels"][name]) for row in gold}
    read_twice = [row for row in gold if row["readings"] == 2]
    twice = [texts[row["_id"]] for row in read_twice]
    truth = np.array([[row["labels"][name] for name in COARSE] for row in read_twice], float)  # None becomes nan
    encoder = kept(sorted(labels))
    found: dict[str, list[Array]] = {}
    for seed in seeds[:1] if how == "alone" else seeds:
        made: dict[str, dict[str, Labels]] = {}
        parts = np.random.default_rng(seed).permutation(len(twice)) % FOLDS
        for part in range(FOLDS):
            held = [text for text, number in zip(twice, parts, strict=True) if number == part]
            pool = {text: row for text, row in said.items() if text not in set(held)}
            for name, model in _heads(encoder, pool, labels, how, seed, both=seed == seeds[0]).items():
                made.setdefault(name, {}).update(zip(held, labels_of(model.predict(held)), strict=True))
        for name, rows in made.items():
            found.setdefault(name, []).append(_matrix([rows[text] for text in twice]))
    systems = {name: {**measures.of_several(truth, rows), "seeds": len(rows)} for name, rows in found.items()}
    if how == "alone":
        teacher = np.array(
            [_matrix([said[text]])[0] if text in said else np.full(len(COARSE), np.nan) for text in twice]
        )
        floor = {"always yes": measures.of_several(truth, [np.ones_like(truth)])}
        systems = {TEACHER: measures.of_several(truth, [teacher]), **floor, **systems}
    return {"systems": systems}


def _heads(
    encoder: Kept, pool: Mapping[str, Labels], labels: Mapping[str, Labels], how: str, seed: int, *, both: bool
) -> dict[str, Any]:
    """Heads of a training part, by where their labels come from."""
    if how == "alone":
        return {"head of the teacher's labels": head_of(pool, True, encoder)}
    free = list(pool)
    if how == "proposed":
        places = next_to_label(free, BY_HAND, encoder=encoder, seed=seed)
    else:
        places = np.random.default_rng(seed).permutation(len(free))[:BY_HAND].tolist()
    checked = {free[place]: labels[free[place]] for place in places}
    by_hand = head_of(checked, True, encoder)
    found = {f"head of labels by hand, {how}": by_hand}
    if both:
        found[f"head of both, {how}"] = head_of(combine(pool, checked, by_hand), True, encoder)
    return found


def _model(fitted: Any) -> Any:
    """A fitted classifier in place of a saved head."""
    return type("Head", (), {"predict_proba": staticmethod(fitted.predict_proba), "thresholds": fitted.thresholds_})()


def _matrix(rows: Sequence[Labels]) -> Array:
    return np.array([[float(name in row) for name in COARSE] for row in rows])


# -- errors in labels -------------------------------------------------------------------------------------------------


def errors(data: str, limit: int | None) -> dict[str, Any]:
    """Of flan-ul2's wrong answers on TREC test: how many are among those that ``semclass labels errors`` shows first."""
    asked = read_tsv(Path(data) / "trec" / "test.tsv")
    held = {row["question"] for row in asked}
    train = [row for row in read_tsv(Path(data) / "trec" / "train.tsv") if row["question"] not in held][:limit]
    encoder = kept(sorted(held | {row["question"] for row in train}))
    model = head_of({row["question"]: (row["coarse"],) for row in train}, False, encoder)
    probabilities = model.predict_proba([row["question"] for row in asked])
    found = doubts([(row["flan_ul2"],) for row in asked], model.classes_.tolist(), probabilities)
    wrong = {place for place, row in enumerate(asked) if row["flan_ul2"] != row["coarse"]}
    ranks = [rank for rank, one in enumerate(found, 1) if one.place in wrong]
    right = np.mean([one.labels[0] == asked[one.place]["coarse"] for one in found])
    return {
        "texts": len(asked),
        "wrong": len(wrong),
        "shown": SHOWN,
        "wrong_among_shown": sum(rank <= SHOWN for rank in ranks),
        "by_chance": round(len(wrong) * SHOWN / len(asked), 2),
        "ranks": ranks,
        "accuracy_of_head": round(float(right), 4),
    }


# -- order of labelling -----------------------------------------------------------------------------------------------


def order(data: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Accuracy on BANKING77 test by 100 labels: drawn, proposed at once, and in two rounds, the second with a head."""
    (texts, labels), (tried, truth) = (read(Path(data), "banking77", part, None) for part in ("train", "test"))
    encoder, known = kept(sorted({*texts, *tried})), dict(zip(texts, labels, strict=True))
    found: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        pool = [texts[place] for place in np.random.default_rng(seed).permutation(len(texts))[:POOL]]
        pool = list(dict.fromkeys(pool))
        first = [pool[place] for place in next_to_label(pool, BY_HAND // 2, encoder=encoder, seed=seed)]
        head = _model(_fitted(first, known, encoder))
        rest = next_to_label(pool, BY_HAND // 2, encoder=encoder, head=head, labelled=first, seed=seed)
        chosen = {
            "random": pool[:BY_HAND],
            "proposed at once": [pool[place] for place in next_to_label(pool, BY_HAND, encoder=encoder, seed=seed)],
            "proposed in two rounds": [*first, *(pool[place] for place in rest)],
        }
        for name, some in chosen.items():
            right = np.mean(_fitted(some, known, encoder).predict(tried) == np.array(truth))
            row = {"accuracy": round(float(right), 4), "classes": len({known[text] for text in some})}
            found.setdefault(name, []).append(row)
    return {
        "systems": {
            name: {
                "accuracy": round(float(np.mean([row["accuracy"] for row in rows])), 4),
                "classes": round(float(np.mean([row["classes"] for row in rows])), 1),
                "by_seed": rows,
            }
            for name, rows in found.items()
        }
    }


def _fitted(texts: Sequence[str], known: Mapping[str, str], encoder: Kept) -> Any:
    return head_of({text: (known[text],) for text in texts}, False, encoder)


# -- a service that fails ---------------------------------------------------------------------------------------------


def stub(texts: int, folder: str) -> dict[str, Any]:
    """Label texts by a service that fails, stalls, refuses and talks nonsense; kill the command half way, and run again."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for path in out.iterdir():
        path.unlink()
    (out / "texts.jsonl").write_text("".join(json.dumps({"text": f"Text number {n}."}) + "\n" for n in range(texts)))
    (out / "labels.json").write_text('{"even": "the number is even", "odd": "it is not"}')
    half, answered, again = threading.Event(), set(), 0

    def rule(prompt: str, before: int) -> str | int:
        nonlocal again
        number = int(prompt.rpartition("number ")[2].partition(".")[0])
        if len(answered) > texts // 2:
            half.set()
        kind = zlib.crc32(str(number).encode()) % 100
        passing: dict[int, str | int] = {**dict.fromkeys(range(5), 503), 5: 429, 6: CUT}
        passing |= {7: STALL} if kind == 7 and number % 5 == 0 else {}
        if before == 0 and kind in passing:
            return passing[kind]
        if kind == 8:
            return FILTERED
        if kind == 9:
            return "As a language model I would rather talk of something else."
        if kind == 10 and number % 2:
            return 500
        again += number in answered
        answered.add(number)
        return ("even", "odd")[number % 2]

    with stub_endpoint(rule) as served:
        command = [sys.executable, "-m", "semclass", "label", str(out / "texts.jsonl"), "--json"]
        command += ["--labels", str(out / "labels.json"), "--out", str(out / "out.jsonl"), "--endpoint", served.url]
        command += ["--model", "stub", "--timeout", "1", "--concurrency", "16", "--prices", "0.05", "0.4"]
        started = time.perf_counter()
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while first.poll() is None and not half.wait(0.1):
            pass
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        killed_at, requests = len(answered), sum(served.asked.values())
        done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
        seconds = time.perf_counter() - started
        requests_after = sum(served.asked.values()) - requests
    labelled, problems = (read_jsonl(out / f"out{name}.jsonl") for name in ("", ".problems"))
    right = sum(row["label"] == ("even", "odd")[int(row["text"].split()[-1][:-1]) % 2] for row in labelled)
    return {
        "texts": texts,
        "labelled": len(labelled),
        "right": right,
        "problems": len(problems),
        "lost": texts - len({row["text"] for row in [*labelled, *problems]}),
        "killed_after": killed_at,
        "answered_texts_asked_again": again,
        "requests": [requests, requests_after],
        "seconds": round(seconds, 1),
        "report": json.loads(done.stdout),
    }


# -- tables -----------------------------------------------------------------------------------------------------------


def table(found: Mapping[str, Any]) -> str:
    """Passages: heads against their teacher."""
    rows = []
    for name, row in found["teacher"]["passages"].items():
        rows.append((name, readme.with_interval(row, "macro_f1"), *(f"{value:.2f}" for value in row["f1_by_class"])))
    return readme.markdown(("labels, 100 by hand", "macro F1", *COARSE), rows)


def table_of_order(found: Mapping[str, Any]) -> str:
    """Accuracy by 100 labels, by how they were chosen."""
    rows = [
        (name, f"{row['accuracy']:.1%}", f"{row['classes']:.0f}") for name, row in found["teacher"]["order"].items()
    ]
    return readme.markdown(("100 messages of BANKING77", "accuracy on test", "intents among them"), rows)


def table_of_errors(found: Mapping[str, Any]) -> str:
    """Wrong labels among the first that are shown, and what a bad service does."""
    results = found["teacher"]
    wrong, served = results["errors"], results["stub"]
    counts = {name: served["report"][name] for name in ("failed", "refused", "nonsense")}
    rows = [
        (f"flan-ul2's wrong labels on TREC test among the first {wrong['shown']} shown, of {wrong['wrong']}",
         f"{wrong['wrong_among_shown']} (by chance {wrong['by_chance']:.1f})"),
        (f"{served['texts']:,} texts, a service that fails, killed after {served['killed_after']:,}: lost", served["lost"]),
        ("labelled; failed for good, refused, nonsense",
         f"{served['labelled']:,}; {', '.join(map(str, counts.values()))}"),
        ("texts asked again though answered: when it was killed, or too late", served["answered_texts_asked_again"]),
    ]  # fmt: skip
    return readme.markdown(("", "found"), [(name, str(value)) for name, value in rows])


TABLES = {"": table, "order": table_of_order, "errors": table_of_errors}
