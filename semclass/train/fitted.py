"""A fitted head: plain arrays, its scores and calibrated probabilities in numpy, and its ONNX network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from scipy.optimize import minimize, minimize_scalar

from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.head import softmax

SMALLEST = 1e-12  # least scale, and least probability of which a logarithm is taken
FLAT = 0.003  # thresholds whose F1 is within this of the best count as equally good; the middle one is taken

BINS = 10  # equal ones of [0, 1], over which confidence is compared with accuracy

PRIOR = 10.0
"""Weight of calibrated probabilities in a precision, as a number of texts beside the texts with known labels. On halves of
the training texts of two intent sets, with a target of 0.95, values of 3 to 30 came nearest to the target. Trusting only
probabilities lost 1 to 3 points."""


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
        """Return the matrix, float64."""
        return self.values.astype(np.float64) * self.scale.astype(np.float64)


@dataclass(frozen=True)
class Projection:
    """Projects concatenated views (n, dim) to coordinates (n, components)."""

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
    # (n, classes): probabilities of training texts by heads that did not see them
    out_of_fold: DoubleArray | None = None
    # of the cross-validation, in JSON types: candidates, chosen, its accuracy, log_loss, calibration_error ...
    report: Mapping[str, Any] = field(default_factory=dict)


def head_scores(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """Compute a head's uncalibrated scores, float64 of shape (n, scores), from views (n, dim) by name."""
    dense = np.concatenate([views[name] for name in head.inputs], axis=1).astype(np.float64)
    if head.projection is None or head.landmarks is None:
        features: DoubleArray = dense
    else:
        features = np.exp(-head.gamma * squared_distances(head.projection(dense), head.landmarks.dense()))
    scores: DoubleArray = features @ head.weights.astype(np.float64) + head.bias
    return scores


def head_probabilities(head: FittedHead, views: Mapping[str, FloatArray]) -> DoubleArray:
    """Compute a head's calibrated probabilities, float64 of shape (n, classes), from views (n, dim) by name."""
    return probabilities_of(head.slope * head_scores(head, views) + head.intercept, head.link)


def squared_distances(left: DoubleArray, right: DoubleArray) -> DoubleArray:
    """Compute the squared Euclidean distances between rows, (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    distances: DoubleArray = np.maximum(squares - 2 * left @ right.T, 0.0)
    return distances


# -- from scores to probabilities and thresholds ----------------------------------------------------------------------


def probabilities_of(scores: DoubleArray, link: str) -> DoubleArray:
    """Turn calibrated scores into probabilities."""
    if link == "sigmoid":
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)), np.float64)  # the same as 1 / (1 + exp(-x)), never overflows
    return softmax(scores)


def log_loss(probabilities: DoubleArray, truth: IntArray, link: str) -> float:
    """Mean negative logarithm of the probability of the truth."""
    if link == "sigmoid":
        right = np.where(truth == 1, probabilities, 1 - probabilities)
    else:
        right = probabilities[np.arange(len(probabilities)), truth][:, None]
    return float(-np.log(np.maximum(right, SMALLEST)).mean())


def calibrate(scores: DoubleArray, truth: IntArray, link: str) -> tuple[DoubleArray, DoubleArray]:
    """Fit slope and intercept, which turn held-out scores into probabilities.

    Softmax gets one temperature (Guo et al. 2017, "On Calibration of Modern Neural Networks"). Each sigmoid gets a slope
    and an intercept (Platt 1999). Targets are smoothed as in Platt, so that a few right texts do not make a label certain.
    """
    if link == "sigmoid":
        pairs = [_platt(column, right) for column, right in zip(scores.T, truth.T, strict=True)]
        return np.array([slope for slope, _ in pairs]), np.array([intercept for _, intercept in pairs])
    # rule of succession: one of n + 2 would be wrong, of any other class
    slip = 1 / (len(truth) + 2)
    others = slip / max(scores.shape[1] - 1, 1)
    smoothed = np.full(scores.shape, others)
    smoothed[np.arange(len(truth)), truth] = 1 - slip

    def loss(log_slope: float) -> float:
        logs = np.log(np.maximum(probabilities_of(np.exp(log_slope) * scores, "softmax"), SMALLEST))
        return float(-(smoothed * logs).sum(axis=1).mean())

    found = minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-4})
    # digits behind the tolerance are noise, by which equal data in another order would differ
    return np.array([float(np.exp(round(float(found.x), 4)))]), np.zeros(1)


def _platt(scores: DoubleArray, truth: IntArray) -> tuple[float, float]:
    """Slope and intercept of one column."""
    positives = float(truth.sum())
    negatives = len(truth) - positives
    smoothed = np.where(truth == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    scale = max(float(scores.std()), SMALLEST)

    def loss(parameters: DoubleArray) -> float:
        # the slope is an exponential, so that a higher score never means a lower probability
        logits = np.exp(np.clip(parameters[0], -10, 10)) / scale * scores + parameters[1]
        return float((np.logaddexp(0.0, logits) - smoothed * logits).mean())

    start = np.array([0.0, np.log(max(positives, 0.5) / max(negatives, 0.5))])
    found = minimize(loss, start, method="BFGS")
    return float(np.exp(np.clip(found.x[0], -10, 10)) / scale), float(found.x[1])


def expected_calibration_error(probabilities: DoubleArray, right: npt.NDArray[np.bool_]) -> float:
    """Mean distance between confidence and accuracy (Guo et al. 2017, eq. 3)."""
    gaps = np.bincount(_bins(probabilities), weights=probabilities - right)
    return float(np.abs(gaps).sum() / len(probabilities))


def reliability(probabilities: DoubleArray, right: npt.NDArray[np.bool_]) -> list[dict[str, float]]:
    """Return confidence and accuracy in equal bins of [0, 1], for a reliability diagram."""
    places, rows = _bins(probabilities), list[dict[str, float]]()
    for place in np.unique(places).tolist():
        inside = places == place
        row = {"from": place / BINS, "to": (place + 1) / BINS, "count": int(inside.sum())}
        rows.append({**row, "probability": float(probabilities[inside].mean()), "share": float(right[inside].mean())})
    return rows


def _bins(probabilities: DoubleArray) -> IntArray:
    """Number of the bin that each probability falls into."""
    return np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)


def best_threshold(
    probabilities: DoubleArray, truth: npt.NDArray[np.bool_], weight: DoubleArray | None = None
) -> float:
    """Return the median of the thresholds whose F1 is within `FLAT` of the best. It varies least between samples."""
    order = np.argsort(-probabilities, kind="stable")
    falling = probabilities[order]
    said = np.ones(len(truth)) if weight is None else weight[order]
    right = said * truth[order]
    f1 = 2 * np.cumsum(right) / (np.cumsum(said) + right.sum())
    below = np.append(falling[1:], 0.0)
    possible = falling > below
    good = possible & (f1 >= f1[possible].max() - FLAT)
    return float(np.median((falling + below)[good] / 2))


def precision_thresholds(
    probabilities: DoubleArray,  # (n, n_classes), of texts that were not fitted on
    truth: npt.NDArray[np.bool_],  # (n, n_classes)
    target_precision: float,
    *,
    multi_label: bool,  # whether a text may have several classes; otherwise only its most probable one is looked at
) -> DoubleArray:
    """Find the lowest probability from which each class reaches the target precision, float64 of shape (n_classes,).

    The precision above a probability is the share of right texts above it, blended with their mean probability, which
    counts as `PRIOR` more texts. So a class with few texts is judged by its probabilities, and a class with many texts by
    its right texts. If no probability is high enough, the threshold lies above all probabilities.
    """
    best = probabilities.argmax(axis=1)
    found = np.zeros(probabilities.shape[1])
    for place, column in enumerate(probabilities.T):
        rows = np.arange(len(column)) if multi_label else np.flatnonzero(best == place)
        found[place] = _threshold(column[rows], truth[rows, place], target_precision)
    return found


def _threshold(probabilities: DoubleArray, right: npt.NDArray[np.bool_], target_precision: float) -> float:
    """Threshold of one class, from the texts that might get it."""
    order = np.argsort(-probabilities, kind="stable")
    falling, count = probabilities[order], np.arange(1, len(order) + 1)
    if not len(order):
        return target_precision  # calibrated: a text with this probability is right as often
    precision = (np.cumsum(right[order]) + PRIOR * np.cumsum(falling) / count) / (count + PRIOR)
    below = np.append(falling[1:], 0.0)
    good = np.flatnonzero((precision >= target_precision) & (falling > below))
    if not len(good):
        return float(min(max(target_precision, np.nextafter(falling[0], 2.0)), 1.0))
    last = int(good[-1])
    return 0.0 if last == len(order) - 1 else float((falling[last] + below[last]) / 2)


# -- the network --------------------------------------------------------------------------------------------------------

OPSET, IR_VERSION = 18, 8


class _Writer:
    """Collects nodes and constants; each method gives the name of what it wrote."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: npt.ArrayLike, kind: npt.DTypeLike = np.float32) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value, kind, ndmin=1), name)
        return name

    def op(self, kind: str, output: str, *inputs: str | int | tuple[int, ...], **attributes: Any) -> str:
        """Write a node; its inputs are names, whole numbers, or vectors of them."""
        names = [item if isinstance(item, str) else self.constant(_name(item), item, np.int64) for item in inputs]
        self.nodes.append(helper.make_node(kind, names, [output], name=output, **attributes))
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
        output ``probabilities`` (n, classes). The same head gives the same bytes.
    """
    writer = _Writer()
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
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        writer.nodes,
        "head",
        [helper.make_tensor_value_info(name, kind, ["n", dim]) for name, dim in inputs.items()],
        [helper.make_tensor_value_info("probabilities", kind, ["n", classes])],
        list(writer.constants.values()),
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="semclass")
    onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised
