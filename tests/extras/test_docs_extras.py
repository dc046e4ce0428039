"""Pages that need more than the extra ``test``: their code blocks run. And the site builds without warnings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import blocks
import pytest
from world import ROOT

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

DOCS = ROOT / "docs"
LOADING = re.compile(
    r"<(?:script|img|iframe|source|embed)\b[^>]*?\bsrc=.(?:https?:)?//|<link\b[^>]*?href=.(?:https?:)?//"
)
"""Elements that make a browser contact another server."""

STYLE = re.compile(r"url\([\"']?(?:https?:)?//|@import")
"""The same in a style sheet."""

PAGES = [page for page in (*blocks.pages(DOCS), *sorted(ROOT.glob("packages/*/docs/*.md"))) if blocks.extras_of(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_does_what_the_page_says(page, tmp_path, monkeypatch):
    for module in blocks.extras_of(page):
        pytest.importorskip(module)
    if "pyspark" in blocks.extras_of(page) and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    monkeypatch.chdir(tmp_path)
    blocks.run_page(page, tmp_path)


def test_the_site_builds_without_warnings_and_loads_nothing_from_other_servers(tmp_path):
    pytest.importorskip("sphinx")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-b", "html", DOCS, tmp_path]
    subprocess.run(build, cwd=ROOT, check=True)
    pages = sorted(tmp_path.rglob("*.html"))
    assert pages
    for page in pages:
        assert not LOADING.search(page.read_text(encoding="utf-8")), page
    for style in tmp_path.rglob("*.css"):
        assert not STYLE.search(style.read_text(encoding="utf-8")), style
