"""Filters of the Qdrant client as qdrant-edge-py takes them: the engine's own core, in this process."""

from typing import Any


def edge_filter(condition: Any) -> Any:
    """Translate what :func:`semclass.qdrant_filters.to_qdrant` gives."""
    from qdrant_client import models

    import qdrant_edge as edge

    if isinstance(condition, models.Filter):
        parts = {name: getattr(condition, name) for name in ("must", "should", "must_not")}
        return edge.Filter(
            **{name: [edge_filter(part) for part in part_list or ()] for name, part_list in parts.items()}
        )
    if isinstance(condition, models.HasIdCondition):
        return edge.HasIdCondition(set(condition.has_id))
    if isinstance(condition, models.IsEmptyCondition):
        return edge.IsEmptyCondition(condition.is_empty.key)
    if isinstance(condition.match, models.MatchAny):
        return edge.FieldCondition(condition.key, match=edge.MatchAny(condition.match.any))
    if isinstance(condition.match, models.MatchValue):
        raise NotImplementedError("qdrant-edge-py 0.9 takes true for 1")
    ends = {name: end for name, end in condition.range.model_dump().items() if end is not None}
    if isinstance(condition.range, models.DatetimeRange):
        return edge.FieldCondition(
            condition.key, range=edge.RangeDateTime(**{name: end.isoformat() for name, end in ends.items()})
        )
    return edge.FieldCondition(condition.key, range=edge.RangeFloat(**ends))
