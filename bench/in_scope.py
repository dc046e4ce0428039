"""Does a text ask something of a corpus: texts written for this test alone, and the queries of the sets for development.

``in_scope.tsv`` was used for nothing else, neither to train nor to choose the threshold. The peer is the question head: how
probable its best coarse class is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import labels
from bench import readme
from bench.steps import Bench
from datasets_io import read_jsonl, read_tsv
from semclass import QuestionClassifier, ScopeClassifier
from semclass.heads.in_scope import IN_SCOPE

QUERIES = ("squad4", "pubmedqa", "vaswani", "cacm", "cranfield", "codebase", "docs")


def run(bench: Bench) -> dict[str, Any]:
    limit = 50 if bench.quick else None
    return dict(bench.step("in_scope/shipped", "bench.in_scope:shipped", data=bench.data, limit=limit))


def shipped(data: str, limit: int | None) -> dict[str, Any]:
    """Area under the curve on the written texts, and shares in scope by kind and by set of queries."""
    folder, classifier = Path(data), ScopeClassifier.load()
    rows = read_tsv(Path(__file__).parent / "in_scope.tsv")
    texts, truth = [row["text"] for row in rows], np.array([row["scope"] == "in" for row in rows])
    given = classifier.predict_proba(texts)[:, 1]
    peer = QuestionClassifier.load(encoder=classifier.encoder).predict_proba(texts).max(axis=1)
    sets = {"natural dev": list(labels.natural_questions(folder / "questions", "dev").texts)}
    sets |= {name: [row["text"] for row in read_jsonl(folder / "beir" / name / "queries.jsonl")] for name in QUERIES}

    def share(flags: Any) -> dict[str, Any]:
        return {"items": len(flags), "in_scope": round(float(np.mean(flags)), 4)}

    kept, both = given >= classifier.threshold, {"semclass": given, "peer": peer}
    kinds = {
        scope: list(dict.fromkeys(row["kind"] for row in rows if row["scope"] == scope)) for scope in ("in", "out")
    }
    return {
        "threshold": classifier.threshold,
        "auc": {name: round(float(roc_auc_score(truth, said)), 4) for name, said in both.items()},
        "written": {
            scope: {
                "all": share(kept[truth == (scope == "in")]),
                **{kind: share(kept[[row["kind"] == kind for row in rows]]) for kind in some},
            }
            for scope, some in kinds.items()
        },
        "queries": {
            name: share([one == IN_SCOPE for one in classifier.predict(some[:limit])]) for name, some in sets.items()
        },
    }


def table(found: Mapping[str, Any]) -> str:
    results = found["in_scope"]
    rows = [
        ("area under the curve, written texts", f"{results['auc']['semclass']:.3f}"),
        ("the same by the question head's best class", f"{results['auc']['peer']:.3f}"),
    ]
    for scope, some in results["written"].items():
        rows += [(f"written, {scope} of scope: {kind}" if scope == "out" else f"written, in scope: {kind}",
                  f"{one['in_scope']:.1%} of {one['items']}") for kind, one in some.items()]  # fmt: skip
    rows += [
        (f"queries of {name}", f"{one['in_scope']:.1%} of {one['items']:,}") for name, one in results["queries"].items()
    ]
    return readme.markdown(("texts", "kept as in scope"), rows)


TABLES = {"": table}
