"""A head that compares the token vectors of a question and a sentence: in torch, to tune it, and in ONNX, to ship it."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from bert_torch import EXTRA, FAR, linear
from command import Array
from semclass.core.errors import import_extra

IDF_SCALE = 8.0  # what the head divides idf by
WINDOW = 9  # word pieces over which the head averages how well a sentence matches, centred
WIDTH = 128  # of the hidden layers
LAYERS = ("question", "sentence", "middle", "last")


def start(dim: int) -> dict[str, Any]:
    """Parameters to begin with, by name, for token vectors of so many dimensions."""
    torch = import_extra("torch", EXTRA)
    sizes = {
        "question": (WIDTH, 3 * dim + 3),
        "sentence": (WIDTH, 4 * dim + 4),
        "middle": (WIDTH, 4 * WIDTH + 2),
        "last": (1, WIDTH),
    }
    found = {"sharpness": torch.tensor(12.0), "match": torch.tensor(2.0), "direct": torch.tensor([4.0, 1.0])}
    for name, (rows, columns) in sizes.items():
        layer = torch.nn.Linear(columns, rows)
        found[f"{name}.weight"], found[f"{name}.bias"] = layer.weight.detach(), layer.bias.detach()
    return found


def logits(
    p: Mapping[str, Any],
    question: Mapping[str, Any],
    sentence: Mapping[str, Any],
    exact: Any,
    rarity: Any,
    drop: Callable[[Any], Any],
) -> Any:
    """Logits (n,) of n pairs.

    A question has ``tokens``, ``inside``, ``weights`` and ``expects``, a sentence the first two; `exact` (n, q, s) tells
    which pieces are the same, `rarity` (n, q) is the idf of the question's.
    """
    torch = import_extra("torch", EXTRA)
    functional = import_extra("torch.nn.functional", EXTRA)

    def hidden(columns: list[Any], name: str) -> Any:
        return drop(functional.gelu(linear(p, torch.cat(columns, -1), name)))

    asked, given = question["tokens"], sentence["tokens"]
    in_asked, in_given = question["inside"], sentence["inside"]
    cosines = asked @ given.transpose(1, 2)
    scores = p["sharpness"] * cosines + p["match"] * exact
    aligned = scores.masked_fill(~in_given[:, None, :], FAR).softmax(2) @ given
    covered = scores.masked_fill(~in_asked[:, :, None], FAR).softmax(1).transpose(1, 2) @ asked
    cosines = cosines.masked_fill(~(in_asked[:, :, None] & in_given[:, None, :]), -1.0)
    best, best_given, rarity = cosines.amax(2), cosines.amax(1), rarity / IDF_SCALE
    held, held_given = exact.amax(2), exact.amax(1)
    share = question["weights"]
    size = float(asked.shape[-1])
    columns = [asked * size**0.5, aligned * size**0.5, asked * aligned * size]
    columns += [value[..., None] for value in (best, held, rarity)]
    words = hidden(columns, "question")
    kind, target = question["expects"][:, 0], question["expects"][:, 1]
    near = functional.avg_pool1d((best_given * in_given)[:, None], WINDOW, 1, WINDOW // 2)[:, 0]
    columns = [given * size**0.5, covered * size**0.5, covered * given * size, given * kind[:, None] * size]
    columns += [given @ target[..., None], *(value[..., None] for value in (best_given, held_given, near))]
    pieces = hidden(columns, "sentence")
    cosine = (share * best).sum(1)
    overlap = (rarity * held).sum(1) / rarity.sum(1).clamp(min=1e-3)
    pooled = [
        (words * share[..., None]).sum(1),
        words.masked_fill(~in_asked[..., None], FAR).amax(1),
        pieces.masked_fill(~in_given[..., None], FAR).amax(1),
        (pieces * in_given[..., None]).sum(1) / in_given.sum(1, keepdim=True).clamp(min=1),
        cosine[:, None],
        overlap[:, None],
    ]
    middle = drop(functional.gelu(linear(p, torch.cat(pooled, -1), "middle")))
    logit = linear(p, middle, "last")[:, 0]
    return logit + p["direct"][0] * cosine + p["direct"][1] * overlap


INPUTS = ("question", "weights", "expects", "sentence", "exact", "idf")


def write_head(weights: Mapping[str, Array]) -> onnx.ModelProto:
    """The graph of the head, with a plain sigmoid; see :func:`export_entailment.calibrated`. Rows of zeros are padding.

    float32 inputs of n pairs: ``question`` (n, q, dim), ``weights`` (n, q) as logarithms, ``expects`` (n, 2 * dim),
    ``sentence`` (n, s, dim), ``exact`` (n, q, s), ``idf`` (n, q); ``probabilities`` (n, 1).
    """
    torch = import_extra("torch", EXTRA)
    dim = len(weights["tokens.bias"])
    names = ("sharpness", "match", "direct", *(f"{name}.{part}" for name in LAYERS for part in ("weight", "bias")))
    p = {name: torch.tensor(np.asarray(weights[name], np.float32)) for name in names}

    class Head(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.slope, self.bias = (torch.nn.Parameter(torch.tensor(value)) for value in (1.0, 0.0))

        def forward(self, question: Any, weights: Any, expects: Any, sentence: Any, exact: Any, idf: Any) -> Any:
            inside, given = question.abs().amax(2) > 0, sentence.abs().amax(2) > 0
            share = weights.masked_fill(~inside, FAR).softmax(1)
            asked = {"tokens": question, "inside": inside, "weights": share, "expects": expects.view(-1, 2, dim)}
            found = logits(p, asked, {"tokens": sentence, "inside": given}, exact, idf, lambda values: values)
            return torch.sigmoid(self.slope * found[:, None] + self.bias)

    axes: dict[str, tuple[Any, ...]] = {
        "question": ("q", dim), "weights": ("q",), "expects": (2 * dim,), "sentence": ("s", dim), "exact": ("q", "s"),
        "idf": ("q",), "probabilities": (1,),
    }  # fmt: skip
    some = [torch.rand(2, *({"q": 5, "s": 6}.get(size, size) for size in axes[name])) for name in INPUTS]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of dimensions is the same in all calls
        torch.onnx.export(
            Head(), tuple(some), file, input_names=list(INPUTS),
            output_names=["probabilities"], opset_version=17, dynamo=False,
            dynamic_axes={
                name: {0: "batch", **{place: size for place, size in enumerate(sizes, 1) if isinstance(size, str)}}
                for name, sizes in axes.items()
            },
        )  # fmt: skip
    return onnx.ModelProto.FromString(file.getvalue())
