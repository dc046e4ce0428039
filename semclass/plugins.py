"""Names for packages that add commands, indices, readers or models to semclass.

Users of the library need none of them. They may change with any minor release; packages of semclass itself are released in
lock-step. Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semclass.cli.options import open_retriever as open_retriever
    from semclass.cli.output import echo as echo
    from semclass.cli.progress import progress as progress
    from semclass.core.checks import check_choice as check_choice
    from semclass.core.checks import check_positive as check_positive
    from semclass.core.checks import check_probability as check_probability
    from semclass.core.checks import check_text as check_text
    from semclass.core.checks import check_texts as check_texts
    from semclass.core.checks import counted as counted
    from semclass.core.checks import short as short
    from semclass.core.errors import import_extra as import_extra
    from semclass.core.errors import warn as warn

_HOMES = {
    "cli.options": ("open_retriever",),
    "cli.output": ("echo",),
    "cli.progress": ("progress",),
    "core.checks": (
        "check_choice",
        "check_positive",
        "check_probability",
        "check_text",
        "check_texts",
        "counted",
        "short",
    ),
    "core.errors": ("import_extra", "warn"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name from its module on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'semclass.plugins' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"semclass.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
