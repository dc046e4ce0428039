"""Measure a cross-encoder beside the shipped re-ranker.

The option --cross-encoder names what ``train_cross_encoder.py`` wrote: a network that reads a question and a passage
together, once for each passage, where ``learned`` compares what the index holds of them. Both order the hybrid's first ten,
in the same run, on one thread, question by question. Lambda of score + lambda * cross-encoder is the one that training
found on held-out questions; nothing is chosen here. Needs the extra ``eval``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import tokenizers

from bench import readme, timing
from bench.steps import Bench, StepError
from semclass import HybridRetriever, Ranker, artifacts, evaluation
from semclass.index import searchable
from semclass.sessions import open_session

Array = npt.NDArray[Any]

ROOT = Path(__file__).parent.parent
SETS = ("squad4", "pubmedqa")

INPUTS = ("input_ids", "token_type_ids", "attention_mask")

FEW = 3
"""Of the passages that ``learned`` puts first, the cross-encoder reads so many in the cheaper combination."""


@dataclass(frozen=True)
class CrossEncoder:
    """A network that scores a question and a passage together.

    Attributes
    ----------
    session
        Takes `INPUTS`, int64 (batch, length), and gives ``logits``, float32 (batch,).
    tokenizer
        Makes pairs; cuts passages, never questions.
    manifest
        How it was made; ``weight`` is lambda of score + lambda * logit, and ``slope`` * logit is log-odds up to a constant:
        both found on training questions that it did not see.
    """

    session: onnxruntime.InferenceSession
    tokenizer: tokenizers.Tokenizer
    manifest: dict[str, Any]

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> CrossEncoder:
        """Load a folder that ``train_cross_encoder.py`` wrote."""
        artifact = artifacts.load(folder, "cross-encoder")
        tokenizer = pair_tokenizer(artifact.path("tokenizer.json"), int(artifact.field("max_length")))
        return cls(open_session(artifact.path("model.onnx"), threads), tokenizer, dict(artifact.manifest))

    def scores(self, question: str, passages: Sequence[str]) -> Array:
        """Logits of passages for a question, float32 (n,).

        Each pair is a run of its own: on one thread that is faster than a padded batch.
        """
        pairs = self.tokenizer.encode_batch([(question, passage) for passage in passages])
        return np.concatenate([self.session.run(["logits"], feed([pair]))[0] for pair in pairs])


def pair_tokenizer(path: Path, max_length: int) -> tokenizers.Tokenizer:
    """A tokeniser that makes pairs of `max_length` word pieces at most by cutting the second text."""
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy="only_second")
    return tokenizer


def feed(pairs: Sequence[tokenizers.Encoding]) -> dict[str, Array]:
    """Inputs of a run, padded to the longest pair."""
    lengths = np.array([len(pair.ids) for pair in pairs])
    inputs = {name: np.zeros((len(pairs), lengths.max()), np.int64) for name in INPUTS}
    for row, pair in enumerate(pairs):
        for name, values in zip(INPUTS, (pair.ids, pair.type_ids, pair.attention_mask), strict=True):
            inputs[name][row, : len(values)] = values
    return inputs


# -- measuring ------------------------------------------------------------------------------------------------------------


def log_odds(probabilities: Array) -> Array:
    """Logits of probabilities, within what float32 tells apart."""
    clipped = np.clip(probabilities, 1e-7, 1 - 1e-7)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def orders(score: Array, probabilities: Array, logits: Array, weight: float, slope: float) -> dict[str, Array]:
    """Order candidates by each method; equal values keep the order before.

    Parameters
    ----------
    score
        Of the hybrid, falling, float64 (n,).
    probabilities
        Of ``learned``, float64 (n,).
    logits
        Of the cross-encoder, float32 (n,).
    weight, slope
        lambda, and what makes log-odds of logits.

    Returns
    -------
    dict
        By method: places, best first. The last two add up the log-odds of ``learned`` and of the cross-encoder: for all
        candidates, or for the first `FEW` of ``learned`` alone.
    """
    both = log_odds(probabilities) + slope * logits
    keys = {
        "hybrid": score,
        "learned": probabilities,
        "cross-encoder": logits,
        "integrated": score + weight * logits,
        "learned+cross-encoder": both,
    }
    found = {name: np.argsort(-values, kind="stable") for name, values in keys.items()}
    first, rest = found["learned"][:FEW], found["learned"][FEW:]
    return {**found, "learned+few": np.concatenate([first[np.argsort(-both[first], kind="stable")], rest])}


def rank(
    dataset: evaluation.Dataset, retriever: HybridRetriever, network: CrossEncoder
) -> tuple[dict[str, list[list[str]]], dict[str, list[float]]]:
    """Order the candidates of each question; gives passage ids, and seconds, by method."""
    weight, slope = (float(network.manifest[name]) for name in ("weight", "slope"))
    rankings: dict[str, list[list[str]]] = {}
    rerank = timing.reranking(retriever)
    seconds: dict[str, list[float]] = {"learned": [], "cross-encoder": [], "learned+few": []}
    for query in retriever.encode(list(dataset.questions.values())):
        candidates = retriever.candidates(query, evaluation.DEPTH)
        passages = [retriever.index.passage(row) for row in candidates.rows.tolist()]
        texts = [searchable(passage) for passage in passages]
        clock = [time.perf_counter()]
        learned = rerank((query, candidates))
        clock.append(time.perf_counter())
        logits = np.zeros(len(texts), np.float32)
        # first those that the cheaper combination needs: their time counts for both
        for places in (learned.order[:FEW], learned.order[FEW:]):
            logits[places] = network.scores(query.text, [texts[place] for place in places])
            clock.append(time.perf_counter())
        for name, places in orders(candidates.score, learned.score, logits, weight, slope).items():
            rankings.setdefault(name, []).append([passages[place].id for place in places])
        seconds["learned"].append(clock[1] - clock[0])
        seconds["cross-encoder"].append(clock[3] - clock[1])
        seconds["learned+few"].append(clock[2] - clock[0])
    return rankings, {name: values[timing.WARM_UP :] for name, values in seconds.items()}


def compare(dataset: evaluation.Dataset, rankings: dict[str, list[list[str]]]) -> dict[str, dict[str, float]]:
    """Figures of each method, with p values of the test against the hybrid and against ``learned``."""
    results = evaluation.measure(dataset, rankings)
    against = evaluation.measure(dataset, {**rankings, "hybrid": rankings["learned"]})
    return {
        name: {
            "cond_mrr": result.cond_mrr,
            "mrr@10": result.mrr,
            "error_removed": result.error_removed,
            "p_against_hybrid": result.p_value,
            "p_against_learned": (results["learned"] if name == "hybrid" else against[name]).p_value,
        }
        for name, result in results.items()
    }


def shares(figures: dict[str, dict[str, float]], times: dict[str, float]) -> dict[str, float]:
    """What ``learned`` keeps of the cross-encoder's gain over the hybrid, and of its median time."""
    removed = {name: values["error_removed"] for name, values in figures.items()}
    return {
        "gain_kept_of_cross-encoder": round(removed["learned"] / removed["cross-encoder"], 3),
        "gain_kept_of_integrated": round(removed["learned"] / removed["integrated"], 3),
        "time_of_cross-encoder": round(times["learned_p50"] / times["cross-encoder_p50"], 5),
    }


def measure(folder: str, indices: str, cross_encoder: str) -> dict[str, Any]:
    """Everything about one BEIR folder."""
    ranker, network = Ranker.load(), CrossEncoder.load(Path(cross_encoder))
    dataset = evaluation.load_dataset(folder)
    retriever = HybridRetriever(evaluation.cached_index(folder, indices, ranker.reader), ranker)
    rankings, seconds = rank(dataset, retriever, network)
    figures, times = compare(dataset, rankings), timing.percentiles(seconds, 1e3, 3)
    return {
        "questions": len(dataset.questions),
        "methods": figures,
        "milliseconds": times,
        "learned": shares(figures, times),
    }


def made(folder: Path, network: CrossEncoder) -> dict[str, Any]:
    """How the network was made, its size, and what those that saw fewer questions reach on the held-out ones."""
    others = [artifacts.load(path, "cross-encoder").manifest for path in folder.parent.glob(f"{folder.name}-*")]
    return {
        "bytes": (folder / "model.onnx").stat().st_size,
        **{name: network.manifest[name] for name in ("training", "weight", "slope", "metrics")},
        "fewer_questions": {str(other["training"]["questions"]): other["metrics"] for other in others},
    }


ROWS = {
    "learned": ("`learned`", "learned"),
    "cross-encoder": ("cross-encoder alone", "cross-encoder"),
    "integrated": ("score + lambda * cross-encoder", "cross-encoder"),
    "learned+few": (f"`learned`, then the cross-encoder on its first {FEW}", "learned+few"),
    "learned+cross-encoder": ("`learned` and the cross-encoder on all ten", "cross-encoder"),
}
"""Rows of the README's table: method, what it is called there, and whose time it takes."""


def table(results: dict[str, Any]) -> str:
    """The README's table."""
    rows = []
    for name, (title, clock) in ROWS.items():
        row = [title]
        for data in SETS:
            found = results["sets"][data]
            row.append(f"{found['methods'][name]['error_removed']:.0%}")
            row.append(f"{found['milliseconds'][f'{clock}_p50']:.3g}")
        rows.append(row)
    head = [
        "re-ranking the hybrid's first ten",
        *(f"{data}: {what}" for data in SETS for what in ("error removed", "ms")),
    ]
    return readme.markdown(head, rows)


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set."""
    if bench.cross_encoder is None:
        raise StepError("give --cross-encoder FOLDER, which bench/train_cross_encoder.py writes")
    return {
        "sets": {
            name: bench.step(
                f"cross_encoder/{name}",
                "bench.cross_encoder:measure",
                folder=bench.beir(name),
                indices=bench.indices,
                cross_encoder=bench.cross_encoder,
            )
            for name in SETS
        },
        "cross_encoder": made(bench.cross_encoder, CrossEncoder.load(bench.cross_encoder)),
        "made_by": "python -m bench.train_cross_encoder --data DATA --out FOLDER --questions 3500 7000 20000",
    }
