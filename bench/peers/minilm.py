"""The original encoder, all of it trained: for question classes, in torch and as int8 ONNX, and with few labels.

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
    descend = descent(network.train(), groups, EPOCHS * -(-len(texts) // BATCH))
    for rows in _batches([len(text) for text in texts], random.Random(SEED)):
        some = [texts[row] for row in rows]
        fed = tokenizer(some, return_tensors="pt", padding=True, truncation=True, max_length=LENGTH)
        # many processors multiply bfloat16 about twice as fast; weights and optimiser stay float32
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(**fed).logits
        descend(loss(logits.float(), rows))
    return network.eval(), tokenizer


def descent(network: Any, groups: Any, steps: int) -> Callable[[Any], None]:
    """What makes one of so many steps down a loss: AdamW, with a warm-up and a linear decay of the rates."""
    torch, transformers = import_extra("torch", "bench"), import_extra("transformers", "bench")
    optimiser = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
    pace = transformers.get_linear_schedule_with_warmup(optimiser, round(WARM_UP * steps), steps)

    def step(loss: Any) -> None:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        pace.step()
        optimiser.zero_grad()

    return step


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

    return _of_logits(lambda texts: np.concatenate([run(text) for text in texts]), folder, files)


def train_one(original: str, train: str, folder: str) -> dict[str, Any]:
    """Fine-tune, and keep the network as a transformers folder and, beside it, as int8 ONNX.

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
    network, tokenizer = tuned(original, data["texts"], len(names), loss)
    took = time.perf_counter() - started
    out = Path(folder)
    network.save_pretrained(out / "torch")
    tokenizer.save_pretrained(out / "torch")
    export(network, tokenizer, out / "int8")
    for part in ("torch", "int8"):
        (out / part / "classes.json").write_text(json.dumps(names))
    return {"train_s": round(took, 1), "items": len(data["texts"]), "made": digest(out)}


def torch_texts(folder: str) -> System:
    """The network as transformers runs it."""
    torch, transformers = import_extra("torch", "bench"), import_extra("transformers", "bench")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()

    def logits(texts: Sequence[str]) -> Any:
        fed = tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True, max_length=LENGTH)
        with torch.inference_mode():
            return network(**fed).logits.float().numpy()

    return _of_logits(logits, folder, [Path(folder)])


def _of_logits(logits: Callable[[Sequence[str]], Any], folder: str, files: Sequence[Path]) -> System:
    """A network whose columns are fine classes; its label is the coarse class that is likeliest."""
    names = json.loads((Path(folder) / "classes.json").read_text())

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        rows = logits(texts)
        return {"label": coarse_names(rows, names), "fine": [names[place] for place in rows.argmax(axis=1)]}

    return System(lambda texts: coarse_names(logits(texts), names), files, everything)


def coarse_names(logits: Any, names: Sequence[str]) -> list[str]:
    """The coarse class whose fine classes have the largest probability together."""
    above = sorted({name.partition(":")[0] for name in names})
    member = np.array([[name.partition(":")[0] == one for one in above] for name in names], float)
    rows = np.asarray(logits, np.float64)
    shares = np.exp(rows - rows.max(axis=1, keepdims=True)) @ member
    return [above[place] for place in shares.argmax(axis=1)]


# -- few labels, as SetFit (Tunstall et al. 2022) learns from them --------------------------------------------------------
#
# SetFit tunes a sentence encoder on pairs of texts of one class and of two, and fits a logistic regression over what it
# gives then. Here all other texts of a batch are the pairs of two classes, as a softmax over the batch (Khosla et al.
# 2020), which takes fewer steps. Names of the classes are texts, too, in the same sentences that ``TextClassifier`` reads.


PAIRS, PASSES = 32, 5  # pairs of one class in a batch, and pairs that every text begins
RATE, TEMPERATURE, STRENGTH = 1e-4, 0.05, 1.0  # STRENGTH: scikit-learn's C, over vectors of length 1


def few_labels(data: str, dataset: str, size: str, classes: int | None) -> dict[str, Any]:
    """Figures of the first draw of so many examples a class."""
    from sklearn.linear_model import LogisticRegression  # processes of other peers must not hold these

    from bench import labels
    from bench.peers.rows import NO_ORIGINAL, original

    folder = original()
    if folder is None:
        return dict(NO_ORIGINAL)
    parts = [labels.read(Path(data), dataset, part, classes) for part in labels.SETS[dataset]]
    (texts, truth), (tried, wanted) = parts
    rows, names = labels.draw(truth, size, SEED), sorted(set(truth))
    some = [texts[row] for row in rows] + labels.readings(names)
    theirs = [truth[row] for row in rows] + [name for name in names for _ in labels.PHRASES]
    started = time.perf_counter()
    encode = drawn_together(folder, some, theirs)
    model = LogisticRegression(C=STRENGTH * len(some), max_iter=1000).fit(encode(some), theirs)
    seconds = time.perf_counter() - started
    return labels.mean([{"seconds": seconds, **labels.figures_of(model, encode(tried), wanted)}])


def drawn_together(folder: Path, texts: Sequence[str], classes: Sequence[str]) -> Any:
    """Tune the network in `folder`; gives what makes unit vectors, float32 (n, dim), of texts."""
    torch, transformers = import_extra("torch", "bench"), import_extra("transformers", "bench")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")

    def vectors(some: Sequence[str]) -> Any:
        fed = tokenizer(list(some), return_tensors="pt", padding=True, truncation=True, max_length=LENGTH)
        # many processors multiply bfloat16 about twice as fast; weights and optimiser stay float32
        with torch.autocast("cpu", torch.bfloat16):
            states = network(**fed).last_hidden_state
        there = fed["attention_mask"][..., None].float()
        return torch.nn.functional.normalize((states.float() * there).sum(1) / there.sum(1), dim=-1)

    rng = np.random.default_rng(SEED)
    groups = [{"params": list(network.parameters()), "lr": RATE}]
    descend = descent(network.train(), groups, PASSES * -(-len(texts) // PAIRS))
    numbers = np.unique(classes, return_inverse=True)[1]
    members = [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
    for _ in range(PASSES):
        order = rng.permutation(len(texts))
        for start in range(0, len(order), PAIRS):
            first = order[start : start + PAIRS]
            rows = np.concatenate([first, [rng.choice(members[number]) for number in numbers[first]]])
            found, same = vectors([texts[row] for row in rows]), torch.tensor(numbers[rows][:, None] == numbers[rows])
            # a text is no pair with itself
            alike = (found @ found.T / TEMPERATURE).fill_diagonal_(-1e4)
            same.fill_diagonal_(False)
            logs = alike.log_softmax(-1)
            descend((-(logs * same).sum(1) / same.sum(1)).mean())
    network.eval()

    def encode(some: Sequence[str]) -> Any:
        with torch.no_grad():
            return np.concatenate([vectors(some[start : start + 64]).numpy() for start in range(0, len(some), 64)])

    return encode
