"""Looks at the sets that confirm: every one is written down, as each look spends some of what such a set is worth."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import provenance

FILE = Path(__file__).parent / "results" / "looks.jsonl"


def log(what: str, figures: Mapping[str, Any], file: Path = FILE) -> None:
    """Add a line with the date, the figures and the fingerprints of the models that gave them."""
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    line = {"date": today, "what": what, "figures": figures, "models": provenance.shipped()}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line, sort_keys=True) + "\n")
