"""Writes a fitted head as an ONNX network, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.heads.inputs import PIECES
from semclass.train import fitted
from semclass.train.fitted import FittedHead, Ngrams, Quantised

OPSET, IR_VERSION = 18, 8


class _Writer:
    """Collects nodes and constants; each method gives the name of what it wrote."""

    def __init__(self, onnx: ModuleType) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: npt.ArrayLike, kind: npt.DTypeLike = np.float32) -> str:
        if name not in self.constants:
            self.constants[name] = self.onnx.numpy_helper.from_array(np.array(value, kind, ndmin=1), name)
        return name

    def op(self, kind: str, output: str, *inputs: str | int | tuple[int, ...], **attributes: Any) -> str:
        """Write a node; its inputs are names, whole numbers, or vectors of them."""
        names = [item if isinstance(item, str) else self.constant(_name(item), item, np.int64) for item in inputs]
        self.nodes.append(self.onnx.helper.make_node(kind, names, [output], name=output, **attributes))
        return output

    def matrix(self, name: str, quantised: Quantised) -> str:
        """Write an 8-bit matrix; the runtime turns it into float32 once, when it loads the network."""
        values = self.op("Cast", f"{name}.cast", self.constant(f"{name}.values", quantised.values, np.int8), to=1)
        return self.op("Mul", name, values, self.constant(f"{name}.scale", quantised.scale))


def _name(item: int | tuple[int, ...]) -> str:
    return f"int_{item}" if isinstance(item, int) else "ints_" + "_".join(map(str, item))


def head_to_onnx(head: FittedHead) -> bytes:
    """Write a fitted head as an ONNX network.

    Returns
    -------
    bytes
        A serialised model. It has one float32 input (n, dim) per view, with the name of the view, and the float32
        output ``probabilities`` (n, classes). If the head can reject texts, it also has the output ``support`` (n,).
        The same head gives the same bytes.

    Raises
    ------
    MissingExtraError
        If onnx is not installed.
    """
    onnx = import_extra("onnx", "train")
    import_extra("onnx.numpy_helper", "train")
    writer = _Writer(onnx)
    op, constant = writer.op, writer.constant
    views = [name for name in head.inputs if name != PIECES]
    dense = op("Concat", "dense", *views, axis=1) if len(views) > 1 else views[0]
    weights, bias = constant("weights", head.weights), constant("bias", head.bias)
    features = dense if head.projection is None else _kernel(writer, head, dense)
    scores = op("Gemm", "linear_scores", features, weights, bias)
    if head.ngrams is not None:
        scores = op("Add", "all_scores", scores, _ngrams(writer, head.ngrams, head.inputs[PIECES]))
    slope, intercept = constant("slope", [head.slope]), constant("intercept", [head.intercept])
    calibrated = op("Add", "calibrated", op("Mul", "scaled", scores, slope), intercept)
    if head.link == "sigmoid":
        op("Sigmoid", "probabilities", calibrated)
    else:
        op("Softmax", "probabilities", calibrated, axis=1)
    if head.ood_threshold is not None:
        op("ReduceLogSumExp", "support", calibrated, (1,), keepdims=0)
    return _serialise(writer, head.inputs, len(head.classes), head.ood_threshold is not None)


def _kernel(writer: _Writer, head: FittedHead, dense: str) -> str:
    """Write the Gaussian kernel between texts and landmarks.

    exp(-gamma |t - z|^2) is computed as exp(2 gamma t.z - gamma |z|^2 - gamma |t|^2): one matrix product, one sum.
    """
    if head.projection is None or head.landmarks is None:
        raise ValueError("a kernel head needs projection and landmarks")
    op, constant = writer.op, writer.constant
    offset = constant("projection.offset", -head.projection.offset)
    texts = op("Gemm", "texts", dense, writer.matrix("projection", head.projection.matrix), offset)
    norms = constant("landmark_norms", -head.gamma * (head.landmarks.dense() ** 2).sum(axis=1))
    landmarks = writer.matrix("landmarks", head.landmarks)
    inner = op("Gemm", "inner", texts, landmarks, norms, alpha=2 * head.gamma, transB=1)
    square = op("ReduceSumSquare", "text_norms", texts, (1,), keepdims=1)
    scaled = op("Mul", "scaled_norms", square, constant("gamma", [head.gamma]))
    return op("Exp", "kernel", op("Sub", "exponent", inner, scaled))


def _ngrams(writer: _Writer, ngrams: Ngrams, length: int) -> str:
    """Write `ngram_slots` and the sum of the n-grams' weights."""
    op, constant = writer.op, writer.constant
    one, two, at = fitted.UNIGRAM_HASH, fitted.BIGRAM_HASH, fitted.POSITION_HASH
    # padding is -1: word pieces are counted from 2, so that 1 is padding and 0 is "before the first"
    shifted = op("Add", "shifted", op("Cast", "piece_ids", PIECES, to=7), 2)
    before = op("Pad", "before", shifted, constant("pad_one_in_front", [0, 1, 0, -1], np.int64), 0)
    first = op("Slice", "first", shifted, (0,), (fitted.NGRAM_POSITIONS,), (1,))
    unigram = op("Add", "unigram", op("Mul", "unigram.0", shifted, one[0]), one[1])
    left, right = op("Mul", "bigram.0", before, two[0]), op("Mul", "bigram.1", shifted, two[1])
    bigram = op("Add", "bigram", op("Add", "bigram.2", left, right), two[2])
    offsets = np.arange(1, min(fitted.NGRAM_POSITIONS, length) + 1)[None] * at[1]
    placed = op("Mul", "position.0", first, at[0])
    position = op("Add", "position", placed, constant("position.offsets", offsets, np.int64))
    hashes = op("Concat", "hashes", unigram, bigram, position, axis=1)
    slots = op("Mod", "slots", op("Mod", "hashes.prime", hashes, fitted.HASH_PRIME), fitted.NGRAM_SLOTS)
    valid = op("Greater", "valid", op("Concat", "grams", shifted, shifted, first, axis=1), 1)
    row = op("Cast", "rows", op("Gather", "rows16", constant("ngram_rows", ngrams.rows, np.uint16), slots), to=6)
    used = op("Where", "used_rows", valid, row, constant("no_row", 0, np.int32))
    found = op("Gather", "found", constant("ngram_weights", ngrams.weights.values, np.int16), used)
    total = op("ReduceSum", "ngram_sum", op("Cast", "found32", found, to=1), (1,), keepdims=0)
    count = op("ReduceSum", "ngram_count", op("Cast", "valid32", valid, to=1), (1,), keepdims=1)
    root = op("Sqrt", "root", op("Max", "count", count, constant("one", [1])))
    return op(
        "Mul", "ngram_scores", op("Div", "ngram_mean", total, root), constant("ngram_scale", ngrams.weights.scale)
    )


def _serialise(writer: _Writer, inputs: Mapping[str, int], classes: int, support: bool) -> bytes:
    """Check the network and give its bytes."""
    helper, kind = writer.onnx.helper, writer.onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        writer.nodes,
        "head",
        [helper.make_tensor_value_info(name, kind, ["n", dim]) for name, dim in inputs.items()],
        [
            helper.make_tensor_value_info("probabilities", kind, ["n", classes]),
            *([helper.make_tensor_value_info("support", kind, ["n"])] if support else []),
        ],
        list(writer.constants.values()),
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="semclass")
    writer.onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised
