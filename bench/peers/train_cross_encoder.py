"""Make the cross-encoder that the shipped re-ranker is compared with.

    python -m bench.peers.train_cross_encoder --data DATA --out FOLDER

It learns from the questions that the pair head learns from (``training/pair_domains.py``), with the hybrid's first ten
passages, starting from the encoder's original weights, in one pass. The learning rate was found on few of the questions, of
5e-5, 1e-4 and 2e-4. A tenth of each domain is held out: it gives lambda of score + lambda * logit. Needs torch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tokenizers

import bert_graph
import onnx_graphs
from bench.peers.rows import SOURCE
from bench.peers.systems import INPUTS, CrossEncoder, feed, pair_tokenizer
from bert_torch import EXTRA, FAR, arrays, linear, norm, padded_layer
from command import make_parser, run
from export_encoder import SMOOTHING, find_source
from pair_domains import Domain, read_domains
from pair_fits import LAMBDAS
from semclass import HybridRetriever
from semclass.core import artifacts
from semclass.core.errors import import_extra
from semclass.encoders.batching import batches_by_length
from semclass.evaluation.tune import ranks_along
from semclass.ranking.methods import METHODS
from train_pairs import N_CANDIDATES

Array = npt.NDArray[Any]
SEED = 0
RECIPE: dict[str, Any] = {
    "batch": 16, "negatives": 3, "rate": 1e-4, "head_rate": 1e-3, "warm_up": 10, "decay": 0.3, "weight_decay": 0.01,
    "length": 192,
}  # fmt: skip
CALIBRATION = 400  # pairs that the scales of the int8 activations are found on
MAX_LENGTH = 384  # word pieces of a pair that the exported network reads


class Network:
    """The encoder's network over pairs of texts, as torch parameters."""

    def __init__(self, weights: Mapping[str, Array], config: bert_graph.BertConfig) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(SEED)
        self.config = config
        found = {
            name: torch.tensor(value)
            for name, value in weights.items()
            if name.startswith(("encoder.", "embeddings.")) and value.dtype == np.float32
        }
        first = torch.nn.Linear(config.hidden_size, 1)
        found["score.weight"], found["score.bias"] = first.weight.detach(), first.bias.detach()
        for name, value in found.items():
            value.requires_grad_(name != "embeddings.word_embeddings.weight")
        self.parameters = found

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimiser, each with its peak rate."""
        trained = [name for name, value in self.parameters.items() if value.requires_grad]
        return [
            {"params": [self.parameters[name] for name in trained if name.startswith("score.") == outer], "peak": rate}
            for outer, rate in ((False, RECIPE["rate"]), (True, RECIPE["head_rate"]))
        ]

    def logits(self, pairs: Sequence[tokenizers.Encoding], group: int = 16) -> Any:
        """Score pairs, float32 (n,); pairs of like length run together."""
        torch = self.torch
        batches = batches_by_length(np.array([len(pair.ids) for pair in pairs]), group)
        with torch.autocast("cpu", torch.bfloat16):
            found = [self.run(feed([pairs[row] for row in batch])) for batch in batches]
        return torch.cat(found)[torch.from_numpy(np.argsort(np.concatenate(batches)))]

    def run(self, inputs: Mapping[str, Array]) -> Any:
        """One batch of padded pairs."""
        p, inside = self.parameters, inputs["attention_mask"] > 0
        ids, types = (self.torch.from_numpy(inputs[name]) for name in ("input_ids", "token_type_ids"))
        far = self.torch.where(self.torch.from_numpy(inside), 0.0, FAR)[:, None, None, :]
        states = p["embeddings.word_embeddings.weight"][ids] + p["embeddings.token_type_embeddings.weight"][types]
        states = states + p["embeddings.position_embeddings.weight"][: ids.shape[1]]
        states = norm(p, states, "embeddings.LayerNorm", self.config.layer_norm_eps)
        for index in range(self.config.num_hidden_layers):
            states = padded_layer(p, self.config, index, states, far, lambda values: values)
        return linear(p, states[:, 0], "score")[:, 0].float()


def batches_of(rows: Array, length: Array, size: int, rng: np.random.Generator) -> list[Array]:
    """Questions of each step of one pass, in random order; those of a step mostly have passages of like length."""
    mixed = rng.permutation(rows)
    parts = [
        part[np.argsort(length[part], kind="stable")] for part in np.array_split(mixed, -(-len(mixed) // (16 * size)))
    ]
    batches = [part[start : start + size] for part in parts for start in range(0, len(part), size)]
    return [batches[place] for place in rng.permutation(len(batches))]


def pace(step: int, steps: int) -> float:
    """Share of the peak rate: it rises over the first steps, stays, and falls to 0 in the last part of all `steps`."""
    return max(min((step + 1) / RECIPE["warm_up"], 1.0, (steps - step) / (RECIPE["decay"] * steps)), 1e-3)


def tune(network: Network, task: Task, rows: Array, tokenizer: tokenizers.Tokenizer) -> None:
    """Train the network on each of the questions."""
    torch, rng = network.torch, np.random.default_rng(SEED)
    groups = network.groups()
    optimiser = torch.optim.AdamW(
        groups, lr=RECIPE["rate"], betas=(0.9, 0.98), eps=1e-6, weight_decay=RECIPE["weight_decay"]
    )
    trained = [value for group in groups for value in group["params"]]
    length = np.array([sum(len(task.passages[row]) for row in places) for places in task.rows])
    order = batches_of(rows, length, RECIPE["batch"], rng)
    started = time.perf_counter()
    losses: list[float] = []
    for step, batch in enumerate(order):
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * pace(step, len(order))
        pairs = [pair for row in batch for pair in task.pairs(row, drawn(task, row, RECIPE["negatives"], rng))]
        logits = network.logits(tokenizer.encode_batch(pairs)).view(len(batch), -1)
        share = torch.from_numpy(task.weight[batch]).float()
        loss = -(share * logits.log_softmax(1)[:, 0]).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        if len(losses) % 20 == 0:
            minutes = (time.perf_counter() - started) / 60
            print(f"  step {step + 1} of {len(order)}: loss {np.mean(losses[-20:]):.4f}, {minutes:.1f} min", flush=True)


def write_graph(
    weights: Mapping[str, Array], config: bert_graph.BertConfig, ranges: dict[str, onnx_graphs.ActivationRange] | None
) -> tuple[onnx.ModelProto, list[str]]:
    """Write the network: `INPUTS` of shape (batch, length) to ``logits`` of shape (batch,)."""
    writer = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING)
    g = writer.graph
    writer.mask("attention_mask")
    state, last = writer.embeddings(segments=True), config.num_hidden_layers
    for index in range(1, last + 1):
        state = writer.feed_forward(index, writer.attention(index, state, first=index == last))
    product = g.op("MatMul", [state, g.const("score.weight", weights["score.weight"].T)], "score.product")
    total = g.op("Add", [product, g.const("score.bias", weights["score.bias"])], "score.sum")
    g.op("Reshape", [total, g.const("flat", np.array([-1], np.int64))], "logits")
    value = onnx.helper.make_tensor_value_info
    inputs = [value(name, onnx.TensorProto.INT64, ["batch", "length"]) for name in INPUTS]
    probes = list(dict.fromkeys(writer.probes))
    outputs = [value("logits", onnx.TensorProto.FLOAT, ["batch"])]
    outputs += [value(name, onnx.TensorProto.FLOAT, None) for name in probes]
    return g.model("cross-encoder", inputs, outputs), probes


def int8_network(
    weights: Mapping[str, Array], config: bert_graph.BertConfig, pairs: Sequence[tokenizers.Encoding]
) -> bytes:
    """The int8 network; the scales of its activations are found on `pairs`."""
    model, probes = write_graph(weights, config, None)
    ranges = onnx_graphs.calibrate(model, probes, (feed([pair]) for pair in pairs))
    model, _ = write_graph(weights, config, ranges)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def _mrr(keys: np.ndarray, answers: np.ndarray) -> float:
    """MRR@10 of questions by the keys of their candidates, (q, d)."""
    pairs = zip(keys, answers, strict=True)
    return float(np.mean([ranks_along(row, row, relevant, np.zeros(1)) for row, relevant in pairs]))


def on_held_out(task: Task, folder: Path) -> dict[str, Any]:
    """Find lambda on held-out questions; gives it with figures."""
    held, network = np.flatnonzero(task.held_out), CrossEncoder.load(folder)
    asked = [(task.questions[row], [task.passages[place] for place in task.rows[row]]) for row in held]
    scores = np.stack([network.scores(*one) for one in asked]).astype(np.float64)
    answers, score = task.answers[held], task.score[held]
    weight = max(LAMBDAS, key=lambda weight: _mrr(score + weight * scores, answers))
    metrics = {
        "questions": len(held),
        **{
            f"mrr_{name}": round(_mrr(keys, answers), 4)
            for name, keys in (("hybrid", score), ("alone", scores), ("integrated", score + weight * scores))
        },
    }
    return {"weight": weight, "metrics": {"held_out": metrics}}


def export(folder: Path, network: Network, task: Task, rows: Array, source: Path, training: dict[str, Any]) -> None:
    """Quantise, write, measure on held-out questions, write what was found there."""
    rng = np.random.default_rng(SEED)
    some = [task.pairs(row, [int(rng.integers(N_CANDIDATES))])[0] for row in rng.choice(rows, CALIBRATION).tolist()]
    tokenizer = pair_tokenizer((source / "tokenizer.json").read_bytes(), MAX_LENGTH)
    model = int8_network(arrays(network.parameters), network.config, tokenizer.encode_batch(some))
    files = {"model.onnx": model, "tokenizer.json": (source / "tokenizer.json").read_bytes()}
    fields: dict[str, Any] = {"max_length": MAX_LENGTH, "training": training}
    artifacts.save(folder, "cross-encoder", files, fields)
    found = on_held_out(task, folder)
    artifacts.save(folder, "cross-encoder", files, {**fields, **found})
    print(f"{folder}: {len(model) / 1e6:.1f} MB, {training}, {found}", flush=True)


def train(arguments: argparse.Namespace) -> None:
    """Read, train, export; seconds are the processor's."""
    import_extra("torch", EXTRA).set_num_threads(2)
    source = find_source(SOURCE)
    tokenizer = pair_tokenizer((source / "tokenizer.json").read_bytes(), RECIPE["length"])
    domains = read_domains(arguments.data, SEED)
    task = joined(domains, [find_candidates(domain) for domain in domains])
    rows = np.random.default_rng(SEED).permutation(np.flatnonzero(~task.held_out))
    print(f"{len(rows)} questions, {task.held_out.sum()} held out", flush=True)
    started, network = time.process_time(), Network(*bert_graph.read_model(source))
    tune(network, task, rows, tokenizer)
    training = {
        "data": task.data, "questions": len(rows), "candidates": N_CANDIDATES, "seed": SEED, **RECIPE,
        "train_s": round(time.process_time() - started, 1),
    }  # fmt: skip
    export(arguments.out, network, task, rows, source, training)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data folder, as training/train_pairs.py reads it")
    parser.add_argument("--out", type=Path, required=True, help="folder for the network, outside of the models")
    run(parser, train)


# -- what it learns from -------------------------------------------------------------------------------------------------


STRETCHES, HELD_OUT = 50, (3, 13, 23, 33, 43)
"""The passages of a domain are cut into stretches; questions that these answer are held out."""


@dataclass(frozen=True)
class Task:
    """Questions whose answer is among their candidates."""

    data: str
    questions: list[str]
    passages: list[str]
    rows: Array
    score: Array
    answers: Array
    weight: Array
    held_out: Array

    def pairs(self, question: int, places: Sequence[int]) -> list[tuple[str, str]]:
        """A question with some of its candidates."""
        return [(self.questions[question], self.passages[self.rows[question, place]]) for place in places]


def find_candidates(domain: Domain) -> tuple[Array, Array]:
    """Ask the questions of a domain of its passages; gives rows, int64 (n, 10), and scores, float64 (n, 10)."""
    retriever, how = HybridRetriever.from_passages(domain.passages), METHODS["hybrid"]
    queries = retriever.models.encode(domain.questions, classes=False, tokens=False)
    found = [retriever.candidates(query, N_CANDIDATES, how, evidence=False) for query in queries]
    print(f"{domain.name}: {len(domain.passages)} passages, {len(domain.questions)} questions", flush=True)
    return np.stack([one.rows for one in found]), np.stack([one.score for one in found]).astype(np.float64)


def joined(domains: Sequence[Domain], found: Sequence[tuple[Array, Array]]) -> Task:
    """Put the questions of all domains together, and leave out those without an answer among their candidates."""
    questions: list[str] = []
    passages: list[str] = []
    parts: list[tuple[Array, ...]] = []
    for domain, (rows, score) in zip(domains, found, strict=True):
        answers = np.array([np.isin(row, list(right)) for row, right in zip(rows, domain.answers, strict=True)])
        known = np.flatnonzero(answers.any(axis=1))
        first = np.array([min(domain.answers[row]) for row in known])
        held_out = np.isin(first * STRETCHES // len(domain.passages), HELD_OUT)
        weight = np.full(len(known), 1 / np.sqrt(len(known)))
        parts.append((rows[known] + len(passages), score[known], answers[known], weight, held_out))
        questions += [domain.questions[row] for row in known]
        passages += domain.passages
    rows, score, answers, weight, held_out = (np.concatenate(values) for values in zip(*parts, strict=True))
    data = ", ".join(domain.name for domain in domains)
    return Task(data, questions, passages, rows, score, answers, weight / weight.mean(), held_out)


def drawn(task: Task, question: int, negatives: int, rng: np.random.Generator) -> list[int]:
    """Places of a question's candidates for one step: the first one that answers, and others that do not."""
    others = np.flatnonzero(~task.answers[question])
    chance = 1 / (1 + others)
    chosen = rng.choice(others, negatives, replace=False, p=chance / chance.sum())
    return [int(task.answers[question].argmax()), *chosen.tolist()]


if __name__ == "__main__":
    main()
