"""A fitted head: plain arrays, its scores in numpy, and its ONNX network, written node by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, FloatArray
from semclass.train.calibration import probabilities_of

SMALLEST = 1e-12  # least scale, so that a column of zeros can be divided by its own


@dataclass(frozen=True)
class Quantised:
    """A matrix of shape (rows, columns) in 8 bits, ``values * scale``."""

    values: npt.NDArray[np.int8]
    scale: FloatArray  # (columns,)

    @classmethod
    def of(cls, matrix: npt.NDArray[np.floating[Any]]) -> Quantised:
        """Round each column to levels symmetric about 0."""
        scale = np.maximum(np.abs(matrix).max(axis=0) / 127, SMALLEST).astype(np.float32)
        return cls(np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8), scale)

    def dense(self) -> DoubleArray:
        """The matrix, float64."""
        return self.values.astype(np.float64) * self.scale.astype(np.float64)


@dataclass(frozen=True)
class Projection:
    """From the concatenated views (n, dim) to coordinates (n, components)."""

    matrix: Quantised
    offset: FloatArray

    def __call__(self, dense: FloatArray | DoubleArray) -> DoubleArray:
        """Project (n, dim) views to float64 (n, components)."""
        return np.asarray(dense, np.float64) @ self.matrix.dense() - self.offset


@dataclass(frozen=True)
class FittedHead:
    """A fitted head as plain arrays; :func:`head_to_onnx` writes it as a network."""

    link: str  # "softmax" or "sigmoid"
    classes: tuple[str, ...]  # names of the output columns
    inputs: Mapping[str, int]  # dimension of each view, in the order in which they are concatenated
    weights: FloatArray | DoubleArray  # (dim, scores), of a kernel head (landmarks, scores)
    bias: FloatArray | DoubleArray  # (scores,)
    # probabilities are link(slope * scores + intercept); several sigmoid columns have theirs in weights and bias
    slope: float = 1.0
    intercept: float = 0.0
    # kernel head: coordinates of a text, those of the training texts, and the kernel's width
    projection: Projection | None = None
    landmarks: Quantised | None = None
    gamma: float = 0.0
    # (n, classes): probabilities of training texts by heads that did not see them; nan for texts that were fitted on only
    out_of_fold: DoubleArray | None = None
    # of the cross-validation, in JSON types: candidates, chosen, its accuracy, log_loss, calibration_error ...
    report: Mapping[str, Any] = field(default_factory=dict)


def head_scores(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """A head's uncalibrated scores, float64 of shape (n, scores), from views (n, dim) by name."""
    dense = np.concatenate([views[name] for name in head.inputs], axis=1).astype(np.float64)
    if head.projection is None or head.landmarks is None:
        features: DoubleArray = dense
    else:
        features = np.exp(-head.gamma * squared_distances(head.projection(dense), head.landmarks.dense()))
    scores: DoubleArray = features @ head.weights.astype(np.float64) + head.bias
    return scores


def head_probabilities(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """A head's calibrated probabilities, float64 of shape (n, classes), from views (n, dim) by name."""
    return probabilities_of(head.slope * head_scores(head, views) + head.intercept, head.link)


def squared_distances(left: DoubleArray, right: DoubleArray) -> DoubleArray:
    """Squared Euclidean distances between rows, (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    distances: DoubleArray = np.maximum(squares - 2 * left @ right.T, 0.0)
    return distances


# -- the network --------------------------------------------------------------------------------------------------------

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

    Raises a MissingExtraError if onnx is not installed.

    Returns
    -------
    bytes
        A serialised model. It has one float32 input (n, dim) per view, with the name of the view, and the float32
        output ``probabilities`` (n, classes). The same head gives the same bytes.
    """
    onnx = import_extra("onnx", "train")
    import_extra("onnx.numpy_helper", "train")
    writer = _Writer(onnx)
    op, constant = writer.op, writer.constant
    views = list(head.inputs)
    dense = op("Concat", "dense", *views, axis=1) if len(views) > 1 else views[0]
    weights, bias = constant("weights", head.weights), constant("bias", head.bias)
    features = dense if head.projection is None else _kernel(writer, head, dense)
    scores = op("Gemm", "linear_scores", features, weights, bias)
    slope, intercept = constant("slope", [head.slope]), constant("intercept", [head.intercept])
    calibrated = op("Add", "calibrated", op("Mul", "scaled", scores, slope), intercept)
    if head.link == "sigmoid":
        op("Sigmoid", "probabilities", calibrated)
    else:
        op("Softmax", "probabilities", calibrated, axis=1)
    return _serialise(writer, head.inputs, len(head.classes))


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
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="semclass")
    writer.onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised
