"""Layers of the encoder as torch functions over weights by name, and the pace of tuning them: what both tunings share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra

EXTRA = "tune"
"""The extra that installs torch."""


def copied_layers(weights: Mapping[str, npt.NDArray[Any]], layers: range) -> dict[str, Any]:
    """Tensors of some layers, counted from 0, by their names in the encoder's weights file."""
    torch = import_extra("torch", EXTRA)
    prefixes = tuple(f"encoder.layer.{index}." for index in layers)
    return {name: torch.tensor(value) for name, value in weights.items() if name.startswith(prefixes)}


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
    """What follows attention in the layer `prefix`, as in BERT: its output, a norm, the feed-forward part, a norm.

    Parameters
    ----------
    parameters
        By the names of the weights file.
    prefix
        The layer's.
    states, context
        What the layer read, and what attention made of it, of the same shape.
    epsilon
        Of the norms.
    drop
        Dropout.
    """
    attended = drop(linear(parameters, context, f"{prefix}.attention.output.dense"))
    states = norm(parameters, states + attended, f"{prefix}.attention.output.LayerNorm", epsilon)
    gelu = import_extra("torch.nn.functional", EXTRA).gelu
    middle = gelu(linear(parameters, states, f"{prefix}.intermediate.dense"))
    added = drop(linear(parameters, middle, f"{prefix}.output.dense"))
    return norm(parameters, states + added, f"{prefix}.output.LayerNorm", epsilon)


def arrays(parameters: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Parameters as arrays, a copy."""
    return {name: value.detach().numpy().copy() for name, value in parameters.items()}


def set_rates(optimiser: Any, done: float) -> None:
    """Set each group's rate to its peak times the pace: warm-up over the first tenth, then linear decay."""
    pace = max(min(done / 0.1, (1 - done) / 0.9), 1e-3)
    for group in optimiser.param_groups:
        group["lr"] = group["peak"] * pace
