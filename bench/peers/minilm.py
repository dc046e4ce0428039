"""A fine-tuned classifier as a peer: the original encoder, all of it trained for the task, in torch and as int8 ONNX.

The recipe is the usual one: AdamW, warm-up over the first tenth, linear decay, a linear layer over the first token.
Rates are the better of two on a tenth of the training questions. The loss is the cross entropy of the fine class plus
that of the coarse class, whose probability is the sum over its fine classes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers import loaders
from bench.peers.training import digest
from semclass.core.errors import import_extra

LENGTH = 64  # word pieces of a question that are read
BATCH = 32
WARM_UP = 0.1
WEIGHT_DECAY = 0.01


def train(
    original: str,
    train: str,
    folder: str,
    of: str,
    epochs: int = 3,
    rate: float = 3e-4,
    head_rate: float = 1e-3,
    seed: int = 0,
    first: int | None = None,
) -> dict[str, Any]:
    """Fine-tune, and keep the network as a transformers folder and, beside it, as int8 ONNX."""
    del of
    torch = import_extra("torch", "bench")
    data = json.loads(Path(train).read_text(encoding="utf-8"))
    texts, labels = data["texts"][:first], data["labels"]["fine"][:first]
    names = sorted(set(labels))
    coarse = [name.partition(":")[0] for name in names]
    member = torch.tensor([[name == one for one in sorted(set(coarse))] for name in coarse])
    place = {name: column for column, name in enumerate(names)}
    target = torch.tensor([place[label] for label in labels])

    def loss(logits: Any, rows: list[int]) -> Any:
        return _loss(torch, logits, target[rows], member)

    started = time.perf_counter()
    recipe = Recipe(LENGTH, epochs, rate, head_rate, seed)
    network, tokenizer = tuned(original, texts, len(names), loss, recipe)
    took = time.perf_counter() - started
    out = Path(folder)
    network.save_pretrained(out / "torch")
    tokenizer.save_pretrained(out / "torch")
    (out / "torch" / "classes.json").write_text(json.dumps(names))
    export(network, tokenizer, out / "int8")
    (out / "int8" / "classes.json").write_text(json.dumps(names))
    return {"train_s": round(took, 1), "items": len(texts), "made": digest(out)}


@dataclass(frozen=True)
class Recipe:
    """Settings of the training."""

    length: int
    epochs: int = 3
    rate: float = 3e-4
    head_rate: float = 1e-3
    seed: int = 0


def tuned(
    original: str, texts: Sequence[str], outputs: int, loss: Callable[[Any, list[int]], Any], recipe: Recipe
) -> tuple[Any, Any]:
    """Fine-tune the network in the folder `original`; gives it with its tokeniser."""
    torch, transformers = import_extra("torch", "bench"), import_extra("transformers", "bench")
    torch.manual_seed(recipe.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(original)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(
        original, num_labels=outputs, attn_implementation="eager"
    )
    inner, outer = network.base_model.parameters(), network.classifier.parameters()
    groups = [{"params": list(inner), "lr": recipe.rate}, {"params": list(outer), "lr": recipe.head_rate}]
    optimiser = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
    steps = recipe.epochs * -(-len(texts) // BATCH)
    pace = transformers.get_linear_schedule_with_warmup(optimiser, round(WARM_UP * steps), steps)
    network.train()
    for rows in _batches([len(text) for text in texts], recipe.epochs, random.Random(recipe.seed)):
        fed = tokenizer(
            [texts[row] for row in rows], return_tensors="pt", padding=True, truncation=True, max_length=recipe.length
        )
        # many processors multiply bfloat16 about twice as fast; weights and optimiser stay float32
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(**fed).logits
        loss(logits.float(), rows).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        pace.step()
        optimiser.zero_grad()
    return network.eval(), tokenizer


def _loss(torch: Any, logits: Any, target: Any, member: Any) -> Any:
    """Cross entropy of fine and coarse class."""
    logs = logits.log_softmax(-1)
    fine = torch.nn.functional.nll_loss(logs, target)
    above = torch.stack([logs[:, column].logsumexp(-1) for column in member.T], 1)
    return fine + torch.nn.functional.nll_loss(above, member[target].float().argmax(1))


def _batches(lengths: Sequence[int], epochs: int, rng: random.Random) -> Iterator[list[int]]:
    """Rows of each step, in a random order; those of like length together within stretches, as padding costs time."""
    for _ in range(epochs):
        order = rng.sample(range(len(lengths)), len(lengths))
        stretches = [order[start : start + 16 * BATCH] for start in range(0, len(order), 16 * BATCH)]
        rows = [row for stretch in stretches for row in sorted(stretch, key=lengths.__getitem__)]
        batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        yield from rng.sample(batches, len(batches))


def export(network: Any, tokenizer: Any, folder: Path) -> None:
    """Write the network as ONNX with weights in int8, quantised dynamically, and its tokeniser."""
    torch, quantization = import_extra("torch", "bench"), import_extra("onnxruntime.quantization", "bench")
    folder.mkdir(parents=True, exist_ok=True)
    fed = tokenizer("How far is it?", return_tensors="pt")
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    plain = folder / "plain.onnx"
    axes = {name: {0: "batch", 1: "length"} for name in inputs}
    torch.onnx.export(
        network, tuple(fed[name] for name in inputs), str(plain), input_names=inputs, output_names=["logits"],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip
    quantization.quantize_dynamic(str(plain), str(folder / "model.onnx"), weight_type=quantization.QuantType.QInt8)
    plain.unlink()
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))


def torch_texts(folder: str, length: int = LENGTH) -> loaders.System:
    """The network as transformers runs it."""
    torch, transformers = import_extra("torch", "bench"), import_extra("transformers", "bench")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    names = loaders.classes(folder)

    def logits(texts: Sequence[str]) -> Any:
        fed = tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True, max_length=length)
        with torch.inference_mode():
            return network(**fed).logits.float().numpy()

    return loaders.of_logits(logits, names, [folder])
