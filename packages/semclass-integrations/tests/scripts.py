"""What tests of adapters share: three texts, and running the examples of docs/, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from world import ROOT

from semclass import Models, Passage, PassageIndex

EXAMPLES = ROOT / "docs" / "examples"

WHEN = "When was the bridge opened?"
TEXTS = {
    "red": "The bridge is painted red, and can be seen from afar.",
    "when": "Work on it began in 1871; it was opened in October 1874.",
    "who": "The bridge was built of granite by the engineer Ada Merriweather.",
}


def save_index(path: Path, models: Models) -> str:
    """Save an index of the three texts."""
    passages = [Passage(name, text, {"page": page}) for page, (name, text) in enumerate(TEXTS.items())]
    PassageIndex.build(passages, passage_encoder=models.passage_encoder).save(path)
    return str(path)


def run_python(*command: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python: it finds this checkout, and no address or key of whoever runs the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        env={**environment, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=cwd,
    )
