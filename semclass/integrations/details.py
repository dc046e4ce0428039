"""What the metadata of a framework's documents tell of a hit, where that is asked for: written here, and read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semclass.core.types import Hit

DETAILS = "semclass"
"""Field of the metadata under which details of a hit stand."""


def write_details(hit: Hit) -> dict[str, Any]:
    """Give what a framework's documents have no field for, as JSON can hold it."""
    return {
        "labels": list(hit.labels),
        "probabilities": dict(hit.probabilities),
        "components": dict(hit.components),
        "rank": hit.rank,
        "rank_before": hit.rank_before,
    }


def read_details(metadata: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Give the fields of a hit that an earlier step wrote; where it wrote none, those of a hit of which no more is known.

    Parameters
    ----------
    metadata
        Of a document. Anyone may have written what stands there: what is no mapping counts as absent.
    rank
        The document's place, from 1, which is also where it was before if nothing else is known.

    Returns
    -------
    dict
        Arguments of :class:`semclass.Hit`.
    """
    told = metadata.get(DETAILS)
    known: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    return {
        "rank": rank,
        "rank_before": known.get("rank_before", rank),
        "components": known.get("components", {}),
        "labels": tuple(known.get("labels", ())),
        "probabilities": known.get("probabilities", {}),
    }
