"""Peers that tell whether a sentence answers a question: logistic regression over vectors of both."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.peers import loaders
from bench.peers.training import digest, fit
from semclass.core.errors import import_extra


def train(kind: str, model: str | None, hows: Sequence[str], train: str, folder: str, of: str) -> dict[str, Any]:
    """Fit a logistic regression for each way to combine the vectors of a pair."""
    del of
    data = json.loads(Path(train).read_text(encoding="utf-8"))
    asked, given = zip(*data["pairs"], strict=True)
    out, took, chosen = Path(folder), {}, {}
    out.mkdir(parents=True, exist_ok=True)
    joblib = import_extra("joblib", "bench")
    started = time.perf_counter()
    if kind == "tfidf":
        text = import_extra("sklearn.feature_extraction.text", "bench")
        joblib.dump(text.TfidfVectorizer(sublinear_tf=True).fit(sorted({*asked, *given})), str(model))
    embed = loaders.vectors(kind, model)
    first, second = _once(embed, asked), _once(embed, given)
    encoding = time.perf_counter() - started
    for how in hows:
        started = time.perf_counter()
        fitted, chosen[how] = fit("logistic", loaders.combined(first, second, how), data["labels"])
        took[how] = round(encoding + time.perf_counter() - started, 1)
        joblib.dump(fitted, out / f"{how}.joblib")
    return {"train_s": took, "chosen": chosen, "made": digest(out)}


def _once(embed: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> Any:
    """Vectors of texts, each text read once."""
    distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return embed(list(distinct))[[distinct[text] for text in texts]]
