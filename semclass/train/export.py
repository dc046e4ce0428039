"""Write a fitted head as an ONNX network, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.heads.inputs import PIECES
from semclass.train.fitted import (
    BIGRAM_HASH,
    HASH_PRIME,
    NGRAM_POSITIONS,
    NGRAM_SLOTS,
    POSITION_HASH,
    UNIGRAM_HASH,
    FittedHead,
    Ngrams,
    Quantised,
)

OPSET, IR_VERSION = 18, 8


class _Writer:
    """Collects nodes and constants; each method gives the name of what it wrote."""

    def __init__(self, onnx: ModuleType) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        if name not in self.constants:
            self.constants[name] = self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def integer(self, value: int) -> str:
        return self.constant(f"int_{value}", np.array(value, np.int64))

    def integers(self, *values: int) -> str:
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def op(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def matrix(self, name: str, quantised: Quantised) -> str:
        """Write an 8-bit matrix; the runtime turns it into float32 once, when it loads the network."""
        values = self.op("Cast", [self.constant(f"{name}.values", quantised.values)], f"{name}.cast", to=1)
        return self.op("Mul", [values, self.constant(f"{name}.scale", quantised.scale)], name)


def head_to_onnx(head: FittedHead) -> bytes:
    """Write a fitted head as an ONNX network.

    Returns
    -------
    bytes
        A serialised model: one float32 input (n, dim) per view, named like it, and one float32 output ``probabilities``
        (n, classes). The same head gives the same bytes.

    Raises
    ------
    MissingExtraError
        If onnx is not installed.
    """
    onnx = import_extra("onnx", "train")
    import_extra("onnx.numpy_helper", "train")
    writer = _Writer(onnx)
    views = [name for name in head.inputs if name != PIECES]
    dense = writer.op("Concat", views, "dense", axis=1) if len(views) > 1 else views[0]
    weights = writer.constant("weights", head.weights.astype(np.float32))
    bias = writer.constant("bias", head.bias.astype(np.float32))
    features = dense if head.projection is None else _kernel(writer, head, dense)
    scores = writer.op("Gemm", [features, weights, bias], "linear_scores")
    if head.ngrams is not None:
        scores = writer.op("Add", [scores, _ngrams(writer, head.ngrams, head.inputs[PIECES])], "all_scores")
    if head.merge is not None:
        scores = writer.op(
            "ReduceMax", [_members(writer, scores, head.merge), writer.integers(2)], "merged", keepdims=0
        )
    slope = writer.constant("slope", np.array([head.slope], np.float32))
    intercept = writer.constant("intercept", np.array([head.intercept], np.float32))
    calibrated = writer.op("Add", [writer.op("Mul", [scores, slope], "scaled"), intercept], "calibrated")
    if head.link == "sigmoid":
        writer.op("Sigmoid", [calibrated], "probabilities")
    else:
        writer.op("Softmax", [calibrated], "probabilities", axis=1)
    return _serialise(writer, head.inputs, len(head.classes))


def _kernel(writer: _Writer, head: FittedHead, dense: str) -> str:
    """Write the Gaussian kernel between texts and landmarks.

    exp(-gamma |t - z|^2) is computed as exp(2 gamma t.z - gamma |z|^2 - gamma |t|^2): one matrix product, one sum.
    """
    if head.projection is None or head.landmarks is None:
        raise ValueError("a kernel head needs projection and landmarks")
    offset = writer.constant("projection.offset", -head.projection.offset)
    texts = writer.op("Gemm", [dense, writer.matrix("projection", head.projection.matrix), offset], "texts")
    points = head.landmarks.dense()
    norms = writer.constant("landmark_norms", (-head.gamma * (points**2).sum(axis=1)).astype(np.float32))
    inner = writer.op(
        "Gemm",
        [texts, writer.matrix("landmarks", head.landmarks), norms],
        "inner",
        alpha=2 * head.gamma,
        transB=1,
    )
    square = writer.op("ReduceSumSquare", [texts, writer.integers(1)], "text_norms", keepdims=1)
    gamma = writer.constant("gamma", np.array([head.gamma], np.float32))
    exponent = writer.op("Sub", [inner, writer.op("Mul", [square, gamma], "scaled_norms")], "exponent")
    return writer.op("Exp", [exponent], "kernel")


def _ngrams(writer: _Writer, ngrams: Ngrams, length: int) -> str:
    """Write :func:`semclass.train.fitted.ngram_slots` and the sum of the n-grams' weights."""
    op, integer = writer.op, writer.integer
    # padding is -1: word pieces are counted from 2, so that 1 is padding and 0 is "before the first"
    shifted = op("Add", [op("Cast", [PIECES], "piece_ids", to=7), integer(2)], "shifted")
    pads = writer.constant("pad_one_in_front", np.array([0, 1, 0, -1], np.int64))
    before = op("Pad", [shifted, pads, integer(0)], "before")
    first = op("Slice", [shifted, writer.integers(0), writer.integers(NGRAM_POSITIONS), writer.integers(1)], "first")
    offsets = np.arange(1, min(NGRAM_POSITIONS, length) + 1, dtype=np.int64)[None] * POSITION_HASH[1]
    unigram = op(
        "Add", [op("Mul", [shifted, integer(UNIGRAM_HASH[0])], "unigram.0"), integer(UNIGRAM_HASH[1])], "unigram"
    )
    left = op("Mul", [before, integer(BIGRAM_HASH[0])], "bigram.0")
    right = op("Mul", [shifted, integer(BIGRAM_HASH[1])], "bigram.1")
    bigram = op("Add", [op("Add", [left, right], "bigram.2"), integer(BIGRAM_HASH[2])], "bigram")
    position = op(
        "Add",
        [op("Mul", [first, integer(POSITION_HASH[0])], "position.0"), writer.constant("position.offsets", offsets)],
        "position",
    )
    hashes = op("Concat", [unigram, bigram, position], "hashes", axis=1)
    slots = op("Mod", [op("Mod", [hashes, integer(HASH_PRIME)], "hashes.prime"), integer(NGRAM_SLOTS)], "slots")
    valid = op("Greater", [op("Concat", [shifted, shifted, first], "grams", axis=1), integer(1)], "valid")
    row = op("Gather", [writer.constant("ngram_rows", ngrams.rows), slots], "rows")
    used = op("Where", [valid, row, writer.constant("no_row", np.array(0, np.int32))], "used_rows")
    found = op(
        "Cast",
        [op("Gather", [writer.constant("ngram_weights", ngrams.weights.values), used], "found")],
        "found32",
        to=1,
    )
    total = op("ReduceSum", [found, writer.integers(1)], "ngram_sum", keepdims=0)
    count = op("ReduceSum", [op("Cast", [valid], "valid32", to=1), writer.integers(1)], "ngram_count", keepdims=1)
    least = writer.constant("one", np.array([1], np.float32))
    mean = op("Div", [total, op("Sqrt", [op("Max", [count, least], "count")], "root")], "ngram_mean")
    return op("Mul", [mean, writer.constant("ngram_scale", ngrams.weights.scale)], "ngram_scores")


def _members(writer: _Writer, scores: str, merge: npt.NDArray[np.bool_]) -> str:
    """Gather (n, scores) to (n, classes, most members); a class with fewer members repeats its first."""
    groups = [np.flatnonzero(members) for members in merge.T]
    most = max(map(len, groups))
    places = np.stack([np.concatenate([group, np.repeat(group[:1], most - len(group))]) for group in groups])
    return writer.op("Gather", [scores, writer.constant("members", places.astype(np.int64))], "member_scores", axis=1)


def _serialise(writer: _Writer, inputs: Mapping[str, int], classes: int) -> bytes:
    """Check the network and give its bytes."""
    helper, kind = writer.onnx.helper, writer.onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        writer.nodes,
        "head",
        [helper.make_tensor_value_info(name, kind, ["n", dim]) for name, dim in inputs.items()],
        [helper.make_tensor_value_info("probabilities", kind, ["n", classes])],
        list(writer.constants.values()),
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="semclass",
    )
    writer.onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised
