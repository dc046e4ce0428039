"""Scripts, such as the examples of docs/, run as a reader runs them: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

EXAMPLES = ROOT / "docs" / "examples"


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
