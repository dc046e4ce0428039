"""Layers of the encoder as torch functions over weights by name, and the training loop: what both tunings share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bert_graph import PARTS, BertConfig
from command import Array, seconds_so_far
from semclass.core.errors import import_extra
from semclass.core.types import IntArray

EXTRA = "tune"  # the extra that installs torch
AVERAGE_EVERY = 10  # steps between two sets of weights that are averaged
SAY_EVERY = 100  # steps between two lines of progress
FAR = -1e4  # stands for minus infinity where padding must not win
ALIKE = {"cpu": 16}  # texts of like length that are read at a time
ALIKE_ELSEWHERE = 4000  # and on any other device


def copied_layers(weights: Mapping[str, Array], layers: range) -> dict[str, Any]:
    """Tensors of some layers, counted from 0, by their names in the encoder's weights file."""
    torch = import_extra("torch", EXTRA)
    prefixes = tuple(f"encoder.layer.{index}." for index in layers)
    return {
        name: torch.tensor(value, dtype=torch.float32) for name, value in weights.items() if name.startswith(prefixes)
    }


def tensor_of(values: Array, device: str) -> Any:
    """An array as a tensor on a device."""
    return import_extra("torch", EXTRA).from_numpy(np.asarray(values, order="C")).to(device)


def half_precision(device: str = "cpu") -> Any:
    """Products in bfloat16 where the processor has instructions for them; elsewhere they take many times as long."""
    torch = import_extra("torch", EXTRA)
    return torch.autocast(device, torch.bfloat16, enabled=device != "cpu" or torch.cpu._is_avx512_bf16_supported())


def linear(parameters: Mapping[str, Any], source: Any, name: str) -> Any:
    """The linear map `name` of the weights file."""
    functional = import_extra("torch.nn.functional", EXTRA)
    return functional.linear(source, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def norm(parameters: Mapping[str, Any], source: Any, name: str, epsilon: float) -> Any:
    """The layer norm `name` of the weights file."""
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return import_extra("torch.nn.functional", EXTRA).layer_norm(source, weight.shape, weight, bias, epsilon)


def feed_forward(
    parameters: Mapping[str, Any], prefix: str, states: Any, context: Any, epsilon: float, drop: Callable[[Any], Any]
) -> Any:
    """The part of BERT's layer `prefix` behind attention, which read `states` and made `context` of them."""
    attended = drop(linear(parameters, context, f"{prefix}.attention.output.dense"))
    states = norm(parameters, states + attended, f"{prefix}.attention.output.LayerNorm", epsilon)
    gelu = import_extra("torch.nn.functional", EXTRA).gelu
    middle = gelu(linear(parameters, states, f"{prefix}.intermediate.dense"))
    added = drop(linear(parameters, middle, f"{prefix}.output.dense"))
    return norm(parameters, states + added, f"{prefix}.output.LayerNorm", epsilon)


def alike(lengths: IntArray, device: str) -> list[IntArray]:
    """Rows of texts of like length that are read at a time, by length."""
    order = np.argsort(lengths, kind="stable")
    return np.array_split(order, -(-len(order) // ALIKE.get(device, ALIKE_ELSEWHERE)))


def padded(offsets: IntArray, rows: IntArray) -> tuple[Array, Array]:
    """Places of the items of some texts, padded with 0, and which are no padding, both (texts, longest)."""
    lengths = offsets[rows + 1] - offsets[rows]
    within = np.arange(lengths.max())
    inside = within < lengths[:, None]
    return np.where(inside, offsets[rows][:, None] + within, 0), inside


def padded_layer(
    parameters: Mapping[str, Any],
    config: BertConfig,
    index: int,
    states: Any,
    far: Any,
    drop: Callable[[Any], Any],
    unseen: float = 0.0,
) -> Any:
    """One transformer layer over padded texts, (texts, longest, hidden).

    `far` is added to scores of attention, or tells what takes part; of their shares so many are dropped, `unseen`.
    """
    torch, prefix = import_extra("torch", EXTRA), f"encoder.layer.{index}"
    shape = (*states.shape[:2], config.num_attention_heads, -1)
    names = (f"{prefix}.attention.self.{part}" for part in PARTS)
    query, key, value = (linear(parameters, states, name).view(shape).transpose(1, 2) for name in names)
    context = torch.nn.functional.scaled_dot_product_attention(query, key, value, far, unseen)
    context = context.transpose(1, 2).reshape(states.shape)
    return feed_forward(parameters, prefix, states, context, config.layer_norm_eps, drop)


def answers_loss(logits: Any, right: Any, owner: Any, overlap: Any, hardness: float) -> Any:
    """Cross entropy of answers among the pairs of their question, and log loss with half of the weight for answers.

    Of n pairs, `right` tells which answer, `owner` the question, `overlap` the share of its idf that the passage has.
    """
    functional = import_extra("torch.nn.functional", EXTRA)
    others = (owner[:, None] == owner) & ~right
    against = logits[None, :].masked_fill(~others, FAR).logsumexp(1)
    listwise = functional.softplus(against - logits)[right].mean()
    hard = (hardness * overlap).exp() * ~right
    share = (right / right.sum() + hard / hard.sum()) / 2
    pointwise = functional.binary_cross_entropy_with_logits(logits, right.float(), reduction="none")
    return listwise + (pointwise * share).sum()


def two_rates(parameters: Mapping[str, Any], inner: float, outer: float) -> list[dict[str, Any]]:
    """Groups for the optimiser: layers of the encoder with one peak rate, all else with another."""
    groups: dict[float, list[Any]] = {inner: [], outer: []}
    for name, value in parameters.items():
        groups[inner if name.startswith("encoder.") else outer].append(value)
    return [{"params": values, "peak": rate} for rate, values in groups.items()]


def fit(
    network: Any,
    recipe: Any,
    groups: list[dict[str, Any]],
    steps: int,
    batches: Iterable[Any],
    loss_of: Callable[[Any], Any],
) -> dict[str, Array]:
    """Minimise a loss over batches with AdamW; gives the weights, averaged over the last steps.

    The rate of each of the `groups` of parameters warms up over the first tenth of the steps, then decays linearly.
    """
    torch = import_extra("torch", EXTRA)
    optimiser = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=recipe.weight_decay)
    network.training = True
    total: dict[str, Any] = {}
    count, losses = 0, []
    for step, batch in enumerate(batches):
        pace = max(min(step / steps / 0.1, (1 - step / steps) / 0.9), 1e-3)
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * pace
        loss = loss_of(batch)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(network.parameters.values()), 1.0)
        optimiser.step()
        losses.append(loss.detach())
        if len(losses) % SAY_EVERY == 0:
            mean = torch.stack(losses[-SAY_EVERY:]).mean()
            print(f"  step {len(losses)} of {steps}: loss {mean:.4f}, {seconds_so_far()} s", flush=True)
        if len(losses) > steps * (1 - recipe.averaged) and len(losses) % AVERAGE_EVERY == 0:
            count += 1
            total = {name: value.detach() + total.get(name, 0.0) for name, value in network.parameters.items()}
    network.training = False
    found = {name: value / count for name, value in total.items()} or network.parameters
    return {name: value.detach().cpu().numpy().copy() for name, value in found.items()}
