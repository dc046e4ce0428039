"""The package as a whole: the cost of importing, public names, missing extras, the README."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch

import blocks
import pytest
from world import ROOT

import semclass
from semclass.core.errors import MissingExtraError, SemclassError, import_extra

README = (ROOT / "README.md").read_text(encoding="utf-8")


def in_new_process(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_an_import_loads_nothing_heavy_and_opens_no_network():
    code = """
import sys, socket
def refuse(*a, **k): raise OSError("network")
socket.socket.connect = refuse
before = set(sys.modules)
import semclass
print(sorted({m.partition(".")[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""
    assert in_new_process(code) == "['semclass']"


def test_classifying_needs_no_training_library_and_no_network():
    code = """
import sys, socket
def refuse(*a, **k): raise OSError("network")
socket.socket.connect = refuse
import semclass
print(semclass.QuestionClassifier.load().classify(["Who wrote Hamlet?"])[0].label)
print([m for m in ("sklearn", "torch", "onnx", "joblib", "bm25s", "click") if m in sys.modules])
"""
    assert in_new_process(code).splitlines() == ["HUM", "[]"]


def test_all_names_at_once_are_those_that_the_base_install_has():
    code = """
import sys
sys.modules |= dict.fromkeys(("sklearn", "scipy", "joblib", "onnx", "qdrant_client", "fastapi", "torch"))
from semclass import *
print(HybridRetriever.__name__, "TextClassifier" in globals())
import semclass
print("TextClassifier" in dir(semclass))
try:
    semclass.TextClassifier
except MissingExtraError as error:
    print(error)
"""
    assert in_new_process(code).splitlines() == [
        "HybridRetriever False",
        "True",
        'this needs onnx, which is not installed; run: pip install "semclass[train]"',
    ]
    assert in_new_process("from semclass import *; print(TextClassifier.__name__)") == "TextClassifier"


def test_every_public_name_can_be_imported_and_is_documented():
    for name in semclass.__all__:
        value = getattr(semclass, name)
        assert name.startswith("__") or value.__doc__, name
    assert set(semclass.__all__) <= set(dir(semclass))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        semclass.Nothing  # noqa: B018


def test_a_missing_extra_is_named_with_its_command():
    with pytest.raises(MissingExtraError, match=re.escape('pip install "semclass[train]"')) as caught:
        import_extra("no_such_library.part", "train")
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, SemclassError)


def test_links_of_the_readme_lead_to_files_of_the_sdist():
    """Outside the repository a link works only if its file is in the distribution."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    included = re.findall(r'"/([^"]+)"', re.search(r"^include = \[(.*)\]$", project, re.M)[1])
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", README)]
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link
        assert link.partition("/")[0] in included or any(fnmatch(link, pattern) for pattern in included), link


def test_all_distributions_have_one_version():
    projects = [
        path.read_text(encoding="utf-8") for path in (ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml"))
    ]
    found = [re.findall(r'^version = "(.+)"$', text, re.M) for text in projects]
    pinned = re.findall(r'"semclass(?:\[\w+\])?==([\w.]+)"', "".join(projects))
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)[1]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)[1]
    assert found == [[semclass.__version__]] * 6
    assert set(pinned) | {cited, newest} == {semclass.__version__}


CODE = [block for block in blocks.read(ROOT / "README.md") if block.language == "python"]


@pytest.mark.parametrize("block", CODE, ids=lambda block: f"line {block.line}")
def test_each_block_of_the_readme_prints_what_it_says(block, tmp_path, monkeypatch):
    """Lines that begin with ``# `` are the expected output."""
    monkeypatch.chdir(tmp_path)  # a block may write
    blocks.run_python(block.text, {}, "README.md", block.line)
