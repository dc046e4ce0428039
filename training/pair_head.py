"""A head that compares the token vectors of a question and a sentence: in torch, to tune it, and in ONNX, to ship it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import onnx_graphs
from bert_torch import EXTRA, FAR, linear
from semclass.core.errors import import_extra

Array = npt.NDArray[Any]

IDF_SCALE = 8.0  # what the head divides idf by
WINDOW = 9  # word pieces over which the head averages how well a sentence matches, centred
WIDTH = 128  # of the hidden layers


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


# the head in ONNX's text form, as in `logits`, with Platt's sigmoid. Rows of zeros are padding.
HEAD = """
head (float[batch, q, $dim] question, float[batch, q] weights, float[batch, $twice] expects, float[batch, s, $dim] sentence,
      float[batch, q, s] exact, float[batch, q] idf) => (float[batch, 1] probabilities)
<int64[1] axis1 = {1}, int64[1] axis2 = {2}, int64[1] axis_last = {-1}>
{
  question_size = Abs(question)
  question_largest = ReduceMax<keepdims = 0>(question_size, axis_last)
  question_in = Greater(question_largest, none)
  sentence_size = Abs(sentence)
  sentence_largest = ReduceMax<keepdims = 0>(sentence_size, axis_last)
  sentence_in = Greater(sentence_largest, none)
  sentence_mask = Cast<to = 1>(sentence_in)
  in_q = Unsqueeze(question_in, axis2)
  in_s = Unsqueeze(sentence_in, axis1)
  in_both = And(in_q, in_s)

  turned = Transpose<perm = [0, 2, 1]>(sentence)
  all_cosines = MatMul(question, turned)
  sharp = Mul(all_cosines, sharpness)
  bonus = Mul(exact, match)
  scores = Add(sharp, bonus)
  scores_q = Where(in_s, scores, far)
  along = Softmax<axis = 2>(scores_q)
  aligned = MatMul(along, sentence)
  scores_s = Where(in_q, scores, far)
  across = Softmax<axis = 1>(scores_s)
  across_turned = Transpose<perm = [0, 2, 1]>(across)
  covered = MatMul(across_turned, question)
  cosines = Where(in_both, all_cosines, least)
  best_q = ReduceMax<keepdims = 0>(cosines, axis2)
  best_s = ReduceMax<keepdims = 0>(cosines, axis1)
  held_q = ReduceMax<keepdims = 0>(exact, axis2)
  held_s = ReduceMax<keepdims = 0>(exact, axis1)
  rarity = Mul(idf, idf_scale)
  weights_in = Where(question_in, weights, far)
  share = Softmax<axis = 1>(weights_in)

  x_question = Mul(question, root)
  x_aligned = Mul(aligned, root)
  x_plain = Mul(question, aligned)
  x_product = Mul(x_plain, size)
  x_best = Unsqueeze(best_q, axis2)
  x_held = Unsqueeze(held_q, axis2)
  x_rarity = Unsqueeze(rarity, axis2)
  x = Concat<axis = -1>(x_question, x_aligned, x_product, x_best, x_held, x_rarity)
  words_product = MatMul(x, question_weight)
  words_plain = Add(words_product, question_bias)
  words = com.microsoft.Gelu(words_plain)

  kind, target = Split<axis = -1>(expects, halves)
  near_values = Mul(best_s, sentence_mask)
  near_row = Unsqueeze(near_values, axis1)
  near_mean = AveragePool<kernel_shape = [$window], pads = [$half, $half], count_include_pad = 1>(near_row)
  y_sentence = Mul(sentence, root)
  y_covered = Mul(covered, root)
  y_plain = Mul(covered, sentence)
  y_product = Mul(y_plain, size)
  kind_row = Unsqueeze(kind, axis1)
  kind_plain = Mul(sentence, kind_row)
  y_kind = Mul(kind_plain, size)
  target_column = Unsqueeze(target, axis2)
  y_suited = MatMul(sentence, target_column)
  y_best = Unsqueeze(best_s, axis2)
  y_held = Unsqueeze(held_s, axis2)
  y_near = Transpose<perm = [0, 2, 1]>(near_mean)
  y = Concat<axis = -1>(y_sentence, y_covered, y_product, y_kind, y_suited, y_best, y_held, y_near)
  pieces_product = MatMul(y, sentence_weight)
  pieces_plain = Add(pieces_product, sentence_bias)
  pieces = com.microsoft.Gelu(pieces_plain)

  share_column = Unsqueeze(share, axis2)
  words_weighed = Mul(words, share_column)
  words_sum = ReduceSum<keepdims = 0>(words_weighed, axis1)
  words_real = Where(in_q, words, far)
  words_largest = ReduceMax<keepdims = 0>(words_real, axis1)
  in_s_column = Unsqueeze(sentence_in, axis2)
  pieces_real = Where(in_s_column, pieces, far)
  pieces_largest = ReduceMax<keepdims = 0>(pieces_real, axis1)
  mask_column = Unsqueeze(sentence_mask, axis2)
  pieces_kept = Mul(pieces, mask_column)
  pieces_sum = ReduceSum<keepdims = 0>(pieces_kept, axis1)
  count = ReduceSum<keepdims = 1>(sentence_mask, axis1)
  count_floor = Max(count, one)
  pieces_mean = Div(pieces_sum, count_floor)
  best_weighed = Mul(share, best_q)
  cosine = ReduceSum<keepdims = 1>(best_weighed, axis1)
  held_weighed = Mul(rarity, held_q)
  matched = ReduceSum<keepdims = 1>(held_weighed, axis1)
  mass = ReduceSum<keepdims = 1>(rarity, axis1)
  mass_floor = Max(mass, mass_least)
  overlap = Div(matched, mass_floor)
  z = Concat<axis = -1>(words_sum, words_largest, pieces_largest, pieces_mean, cosine, overlap)
  middle_product = MatMul(z, middle_weight)
  middle_plain = Add(middle_product, middle_bias)
  middle = com.microsoft.Gelu(middle_plain)
  last_product = MatMul(middle, last_weight)
  last_plain = Add(last_product, last_bias)
  straight = Concat<axis = -1>(cosine, overlap)
  direct_sum = MatMul(straight, direct)
  logit = Add(last_plain, direct_sum)
  steep = Mul(logit, slope)
  moved = Add(steep, bias)
  probabilities = Sigmoid(moved)
}"""


def write_head(weights: Mapping[str, Array]) -> onnx.ModelProto:
    """The graph of the head, with a plain sigmoid; see ``calibrated`` of ``export_entailment.py``."""
    dim = len(weights["tokens.bias"])
    scalars = {
        "far": FAR, "none": 0.0, "least": -1.0, "one": 1.0, "mass_least": 1e-3, "idf_scale": 1 / IDF_SCALE,
        "root": dim**0.5, "size": float(dim), "slope": 1.0, "bias": 0.0,
        "sharpness": weights["sharpness"], "match": weights["match"], "direct": weights["direct"][:, None],
    }  # fmt: skip
    constants = {name: np.asarray(value, np.float32) for name, value in scalars.items()}
    constants["halves"] = np.array([dim, dim])
    for name in ("question", "sentence", "middle", "last"):
        constants |= {f"{name}_weight": weights[f"{name}.weight"].T, f"{name}_bias": weights[f"{name}.bias"]}
    sizes = {"dim": dim, "twice": 2 * dim, "window": WINDOW, "half": WINDOW // 2}
    return onnx_graphs.parse(Template(HEAD).substitute(sizes), constants)
