"""The original encoder, all of it trained: for question classes, as int8 ONNX.

The recipe is the usual one: AdamW, warm-up over the first tenth, linear decay, a linear layer over the first token.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.systems import SEED, System, digest
from semclass.core.errors import import_extra

LENGTH = 64  # word pieces that are read
BATCH, EPOCHS, WARM_UP, WEIGHT_DECAY = 32, 3, 0.1, 0.01
INNER_RATE, HEAD_RATE = 3e-4, 1e-3  # learning rates of the encoder and of the layer over it


def tuned(original: str, texts: Sequence[str], outputs: int, loss: Callable[[Any, list[int]], Any]) -> tuple[Any, Any]:
    """Fine-tune the network in the folder `original`; gives it with its tokeniser."""
    torch, transformers = import_extra("torch", "bench"), import_extra("transformers", "bench")
    torch.manual_seed(SEED)
    tokenizer = transformers.AutoTokenizer.from_pretrained(original)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(
        original, num_labels=outputs, attn_implementation="eager"
    )
    inner, outer = network.base_model.parameters(), network.classifier.parameters()
    groups = [{"params": list(inner), "lr": INNER_RATE}, {"params": list(outer), "lr": HEAD_RATE}]
    network.train()
    optimiser = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
    steps = EPOCHS * -(-len(texts) // BATCH)
    pace = transformers.get_linear_schedule_with_warmup(optimiser, round(WARM_UP * steps), steps)
    for rows in _batches([len(text) for text in texts], random.Random(SEED)):
        some = [texts[row] for row in rows]
        fed = tokenizer(some, return_tensors="pt", padding=True, truncation=True, max_length=LENGTH)
        # many processors multiply bfloat16 about twice as fast; weights and optimiser stay float32
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(**fed).logits
        loss(logits.float(), rows).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        pace.step()
        optimiser.zero_grad()
    return network.eval(), tokenizer


def _batches(lengths: Sequence[int], rng: random.Random) -> Iterator[list[int]]:
    """Rows of each step, in a random order; those of like length together within stretches, as padding costs time."""
    for _ in range(EPOCHS):
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


def onnx_texts(folder: str) -> System:
    """The network as onnxruntime runs it, each text by itself: on few threads that is faster than padding."""
    import onnxruntime
    import tokenizers

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    files = [Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"]
    session = onnxruntime.InferenceSession(str(files[0]), options, providers=["CPUExecutionProvider"])
    tokenizer = tokenizers.Tokenizer.from_file(str(files[1]))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTH)
    wanted = {one.name for one in session.get_inputs()}

    def run(text: str) -> Any:
        read = tokenizer.encode(text)
        rows = {"input_ids": read.ids, "token_type_ids": read.type_ids, "attention_mask": read.attention_mask}
        fed = {name: np.array([row], np.int64) for name, row in rows.items() if name in wanted}
        return session.run(["logits"], fed)[0]

    names = json.loads((Path(folder) / "classes.json").read_text())

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        rows = np.concatenate([run(text) for text in texts])
        return {"label": coarse_names(rows, names), "fine": [names[place] for place in rows.argmax(axis=1)]}

    return System(lambda texts: everything(texts)["label"], files, everything)


def train_one(original: str, train: str, folder: str) -> dict[str, Any]:
    """Fine-tune, and keep the network as int8 ONNX.

    The loss is the cross entropy of the fine class plus that of the coarse class, whose probability is the sum over its
    fine classes.
    """
    torch = import_extra("torch", "bench")
    data = json.loads(Path(train).read_text(encoding="utf-8"))
    names = sorted(set(data["labels"]["fine"]))
    coarse = [name.partition(":")[0] for name in names]
    member = torch.tensor([[name == one for one in sorted(set(coarse))] for name in coarse])
    target = torch.tensor([names.index(label) for label in data["labels"]["fine"]])

    def loss(logits: Any, rows: list[int]) -> Any:
        logs, truth = logits.log_softmax(-1), target[rows]
        above = torch.stack([logs[:, column].logsumexp(-1) for column in member.T], 1)
        nll = torch.nn.functional.nll_loss
        return nll(logs, truth) + nll(above, member[truth].float().argmax(1))

    started = time.perf_counter()
    network, tokenizer = tuned(original, data["items"], len(names), loss)
    took = time.perf_counter() - started
    out = Path(folder)
    export(network, tokenizer, out)
    (out / "classes.json").write_text(json.dumps(names))
    return {"train_s": round(took, 1), "items": len(data["items"]), "made": digest(out)}


def coarse_names(logits: Any, names: Sequence[str]) -> list[str]:
    """The coarse class whose fine classes have the largest probability together."""
    above = sorted({name.partition(":")[0] for name in names})
    member = np.array([[name.partition(":")[0] == one for one in above] for name in names], float)
    rows = np.asarray(logits, np.float64)
    shares = np.exp(rows - rows.max(axis=1, keepdims=True)) @ member
    return [above[place] for place in shares.argmax(axis=1)]
