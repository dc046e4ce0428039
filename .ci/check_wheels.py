"""Run the README's blocks and each package's screen with what the wheels installed: python check_wheels.py PAGES.

`PAGES` holds `README.md`, `packages/*/README.md` and `tests/blocks.py`, and nothing else of a checkout.
"""

import contextlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import semclass

pages = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(pages / "tests"))
import blocks  # noqa: E402

assert Path(semclass.__file__).is_relative_to(sysconfig.get_paths()["purelib"]), semclass.__file__


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Work in an empty folder."""
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        yield Path(name)
        os.chdir(home)


def run_readme(page: Path, here: Path) -> None:
    """Run the blocks of the README; the wheels stand in for its installing, a file for the reader's folder."""
    Path("mine").mkdir()
    Path("mine/bridge.txt").write_text("The bridge was opened in October 1874.\n", encoding="utf-8")
    for block in blocks.read(page):
        if block.language == "python":
            blocks.run_python(block.text, {"__name__": "__main__"}, page.name, block.line)
        elif "pytest" not in block.text:
            text = re.sub(r"python -m pip install [^&\n]+(&& )?", "", block.text).replace("FOLDER", "mine")
            subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=here, env=blocks._environment(), check=True)


with folder() as here:
    run_readme(pages / "README.md", here)
for page in sorted(pages.glob("packages/*/README.md")):
    assert version(page.parent.name) == semclass.__version__
    with folder() as here:
        blocks.run_page(page, here)
    print(f"{page.parent.name} {version(page.parent.name)}: its screen runs")
