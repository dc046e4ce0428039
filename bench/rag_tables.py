"""Tables and the picture of the section ``rag``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import readme
from bench.measures import shown
from bench.rag_budget import BESIDE, PLACES
from bench.rag_encoders import ENCODERS, SHIPPED
from semclass.evaluation import figures

NO_MODEL = "language model: not measured, give --endpoint URL and --model NAME"
QUALITY = {
    "ndcg@10": "nDCG@10",
    "f1": "token F1",
    "rouge_l": "ROUGE-L",
    "exact": "exact match",
    "judged": "judged right",
}
COSTS = {
    "calls": "calls", "prompt_tokens": "tokens of prompts", "answer_tokens": "tokens of answers", "failed": "failed",
    "refused": "refused", "not_judged": "not judged",
}  # fmt: skip
HEAD = ("set", "encoder", "search", "generator", *QUALITY.values(), *COSTS.values())


def table(found: Mapping[str, Any]) -> str:
    """Encoder, search and generator on every set; columns without a figure are left out."""
    rows = [HEAD]
    for name, one in found["rag"]["on"].items():
        for encoder, part in one["by_encoder"].items():
            for row in part["systems"]:
                cells = [readme.with_interval(row, key, ".3f") for key in QUALITY]
                costs = [readme.number(row.get(key)) for key in COSTS]
                rows.append((name, encoder, row["search"], row.get("generator", readme.NONE), *cells, *costs))
        if "bill" not in one["by_encoder"][SHIPPED]:
            rows.append((name, "any", "any", NO_MODEL, *readme.NONE * (len(QUALITY) + len(COSTS))))
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} != {readme.NONE}]
    head, *cells = zip(*columns, strict=True)
    return readme.markdown(head, cells)


def table_of_similarities(found: Mapping[str, Any]) -> str:
    """Whether they give the same."""
    rows = [
        (name, f"{row['ndcg@10']:.3f}", f"{row['same_passages']:.1%}", f"{row['same_order']:.1%}")
        for name, row in found["rag"]["similarities"]["systems"].items()
    ]
    return readme.markdown(
        ("similarity", "nDCG@10", "of ten passages, as by cosine", "all ten, in the same order"), rows
    )


def table_of_abstaining(found: Mapping[str, Any]) -> str:
    """Half of the questions without their answers."""
    rows = [
        (
            name,
            way,
            f"{row['threshold']:.2f}",
            f"{row['precision']:.1%}",
            f"{row['recall']:.1%}",
            readme.with_interval(row, "all_first_is_right", ".3f"),
            readme.with_interval(row, "all_f1", ".3f"),
        )
        for name, one in found["rag"]["on"].items()
        for way, row in one["by_encoder"][SHIPPED]["abstaining"]["ways"].items()
    ]
    head = ("set", "abstains by", "threshold", "precision", "recall", "all questions: first passage right")
    return readme.markdown((*head, "all questions: token F1"), rows)


def table_of_kinds(found: Mapping[str, Any]) -> str:
    """Where the answers to each kind of question stand."""
    rows = [
        (kind, f"{row['questions']:,} of {row['sets']}", *(f"{share:.1%}" for share in row["shares"]))
        for of_kind in found["rag"]["budget"]["by_kind"].values()
        for kind, row in of_kind.items()
        if row["sets"]
    ]
    return readme.markdown(("kind", "questions, sets", *(f"first {place}" for place in PLACES)), rows)


def table_of_budgets(found: Mapping[str, Any]) -> str:
    """Budgets by kind against one for all."""
    rows = []
    for by, of_kind in found["rag"]["budget"]["budgets"].items():
        for mean, by_set in of_kind.items():
            for name, row in by_set.items():
                left, own = row["left out"], row["own"]
                words = ", ".join(f"{kind} {words}" for kind, words in sorted(left["budgets"].items()))
                cells = (f"{left['words']:.0f}", f"{left['one_for_all']:.3f}", shown(left), shown(own))
                rows.append((f"{by}, about {mean}", name, words, *cells))
    head = (
        "kind, words",
        "set",
        "words by kind",
        "mean words",
        "covered, one budget",
        "by kind, chosen on the other sets",
    )
    return readme.markdown((*head, "by kind, chosen on itself"), rows)


def table_of_documents(found: Mapping[str, Any]) -> str:
    """The document of the first hit, and its neighbours, against next hits."""
    rows = [
        (name, BESIDE[kind], f"{row['words']:.0f}", f"{row['beside']:.3f}", f"{row['hits']:.3f}", shown(row))
        for kind, by_set in found["rag"]["budget"]["documents"].items()
        for name, row in by_set.items()
    ]
    head = ("set", "beside the first hit", "words", "covered", "by next hits", "difference")
    return readme.markdown(head, rows)


MARKS = {"first sentence": "s", "best sentence": "o", "language model": "D"}
COLOURS = (figures.BLUE, figures.ORANGE)


def picture(found: Mapping[str, Any]) -> bytes:
    """The quality of answers against that of the search, a panel for each set with known answers."""
    sets = {
        name: one["by_encoder"]
        for name, one in found["rag"]["on"].items()
        if any("f1" in row for row in one["by_encoder"][SHIPPED]["systems"])
    }
    size = (4.6 * len(sets), 3.8)
    figure, panels = figures.load_pyplot().subplots(1, len(sets), figsize=size, squeeze=False)
    for place, (name, parts) in zip(panels.flat, sets.items(), strict=True):
        for colour, encoder in zip(COLOURS, ENCODERS, strict=True):
            part = parts.get(encoder, {"systems": []})
            for kind, mark in MARKS.items():
                rows = [row for row in part["systems"] if row.get("generator") == kind]
                if rows:
                    x, y = [row["ndcg@10"] for row in rows], [row["f1"] for row in rows]
                    place.plot(x, y, mark, color=colour, fillstyle="full" if mark == "o" else "none", markersize=5,
                               label=f"{encoder}: {kind}")  # fmt: skip
                for row in rows if kind == "best sentence" else ():
                    at = (row["ndcg@10"], row["f1"])
                    place.annotate(row["search"], at, xytext=(3, 4), textcoords="offset points", fontsize=6)
        place.set_title(name, fontsize=9, color=figures.INK, loc="left")
        place.margins(x=0.15, y=0.1)
        place.legend(fontsize=6.5, frameon=False)
        figures.plain(place, "nDCG@10 of the search", "token F1 of the answers")
    return figures.png(figure)


TABLES = {
    "": table,
    "similarities": table_of_similarities,
    "abstaining": table_of_abstaining,
    "kinds": table_of_kinds,
    "budgets": table_of_budgets,
    "documents": table_of_documents,
}
PICTURES = {"rag.png": picture}
