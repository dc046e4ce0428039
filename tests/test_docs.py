"""The documentation: its code blocks run, its claims are what was measured, and it is complete."""

from __future__ import annotations

import json
import pkgutil
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution

import blocks
import pytest
from world import ROOT

import semclass
from semclass.cli.main import cli
from semclass.core.plugins import COMMANDS, PACKAGES

DOCS = ROOT / "docs"
PAGES = [*blocks.pages(DOCS), *sorted(ROOT.glob("packages/*/docs/*.md"))]


NOT_RUN = {
    "a file of the assistant",
    "a sketch",
    "asks questions",
    "downloads a model and torch",
    "installs from a checkout",
    "needs a Qdrant server",
    "needs a container engine",
    "needs a data set",
    "needs a language model",
    "needs an account of the hub",
    "needs an index of your documents",
    "needs data sets and a model",
    "needs nginx",
    "needs the multilingual models",
    "waits for changes",
}
"""Why blocks do not run."""

RESULTS = {path.stem: path for path in sorted((ROOT / "bench" / "results").glob("*.json"))}


def name_of(page):
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT / "packages").as_posix()


TEXTS = {name_of(page): page.read_text(encoding="utf-8") for page in PAGES}


def marked(page):
    """A page, as a test of extras if it needs modules beyond the extra ``test``."""
    marks = [pytest.mark.extras, pytest.mark.filterwarnings("default")] if blocks.extras_of(page) else []
    return pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_the_code_of_a_page_does_what_the_page_says(page, tmp_path, monkeypatch):
    for module in blocks.extras_of(page):
        pytest.importorskip(module)
    if "pyspark" in blocks.extras_of(page) and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    monkeypatch.chdir(tmp_path)
    blocks.run_page(page, tmp_path)


@pytest.mark.parametrize("package", sorted(path.parent.name for path in ROOT.glob("packages/*/README.md")))
def test_the_screen_of_a_package_runs(package, tmp_path, monkeypatch):
    """Its README, for which the package itself has to be installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if package == "semclass-integrations":
        pytest.importorskip("langchain_core")
    monkeypatch.chdir(tmp_path)
    blocks.run_page(ROOT / "packages" / package / "README.md", tmp_path)


def test_output_of_a_page_may_differ_by_rounding_alone():
    page = "repair  12  0.923  0.778"
    assert blocks.text_alike("repair  12  0.923  0.777\n", page)
    for printed in ("repair  12  0.923  0.740", "repair  13  0.923  0.778", "price  12  0.923  0.778", page + "\nmore"):
        assert not blocks.text_alike(printed, page)


def test_blocks_that_do_not_run_are_listed():
    found = {block.not_run for page in PAGES for block in blocks.read(page) if block.not_run is not None}
    assert found <= NOT_RUN


def test_pages_install_from_a_checkout():
    """No registry has the package yet: its name alone installs nothing."""
    named = {name: re.findall(r"pip install (?:-\S+ )*\"?semclass\b.*", text) for name, text in TEXTS.items()}
    examples = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "examples").glob("*.py")}
    named |= {name: re.findall(r"pip install (?:-\S+ )*\"?semclass\b.*", text) for name, text in examples.items()}
    assert {name: found for name, found in named.items() if found} == {}


@pytest.mark.parametrize("folder", ["howto", "explanation", "reference"])
def test_the_first_page_of_a_folder_can_be_read_without_the_site(folder):
    """Links to all of its pages stand in it, a line each."""
    linked = re.findall(r"^\* \[.+\]\((\w[\w-]*\.md)\): \S+", TEXTS[f"{folder}/index.md"], re.M)
    assert sorted(linked) == sorted(path.name for path in (DOCS / folder).glob("*.md") if path.name != "index.md")


def test_the_list_of_commands_is_that_of_the_program():
    def listed(group, words):
        for name, command in group.commands.items():
            yield f"| `{' '.join((*words, name))}` | {command.help.strip().partition(chr(10))[0]} |"
            yield from listed(command, (*words, name)) if hasattr(command, "commands") else ()

    rows = [line for line in TEXTS["reference/cli.md"].splitlines() if line.startswith("| `")]
    assert rows == [*listed(cli, ("semclass",))]


def test_extras_named_in_pages_exist():
    projects = [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]
    known = [
        name for path in projects for name in re.findall(r"^([a-z-]+) = \[", path.read_text(encoding="utf-8"), re.M)
    ]
    lists = [found for text in TEXTS.values() for found in re.findall(r"install\s'[./\w]*\[([\w,-]+)\]'", text)]
    named = {name for found in lists for name in found.split(",")}
    assert named
    assert named <= set(known)


def test_claims_about_classes_are_what_was_measured():
    """docs/explanation/classes.md."""
    unsure = ("match-soft", "match-hard", "class-integrated", "class-integrated-hard")
    found = json.loads(RESULTS["thesis"].read_text())
    squad, pubmed = found["squad4"]["methods"], found["pubmedqa"]["methods"]

    def sure(method):
        return method["p_value"] < 0.01

    for name in unsure:
        assert not sure(squad[name])
        assert pubmed[name]["error_removed"] < 0
    for methods in (squad, pubmed):
        assert methods["class-stable"]["error_removed"] < 0
        assert sure(methods["default"])
    assert sure(squad["class-stable"])
    assert not sure(pubmed["class-stable"])
    assert sure(squad["entail-integrated"])
    assert squad["entail-integrated"]["error_removed"] == pytest.approx(1 / 3, abs=0.07)
    assert not sure(pubmed["entail-integrated"])


def test_ten_jobs_take_six_lines_each_and_public_names_alone():
    code = [block.text for block in blocks.read(DOCS / "howto" / "jobs.md") if block.language == "python"]
    assert len(code) == 10
    for text in code:
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert len(lines) <= 6
        assert not re.search(r"semclass\.\w+", text.replace("from semclass import", ""))


def test_every_public_name_is_in_the_reference():
    shown = re.findall(r"^\.\. auto\w+:: semclass\.(\w+)$", TEXTS["reference/python.md"], re.M)
    assert sorted(shown) == sorted(set(semclass.__all__) - {"__version__"})


def test_commands_named_in_pages_exist():
    shell = "\n".join(block.text for page in PAGES for block in blocks.read(page) if block.language == "sh")
    named = re.findall(r"^semclass ([a-z]+)(?: ([a-z]+))?", shell, re.M)
    assert named
    for first, second in named:
        if first not in PACKAGES[COMMANDS]:
            assert second in getattr(cli.commands[first], "commands", {second})


def test_environment_variables_are_documented():
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "packages").glob("*/semclass_*/*.py"))
    read = set(re.findall(r'"(SEMCLASS_[A-Z_]+)"', code))
    assert read
    assert all(f"`{name}`" in TEXTS["reference/environment.md"] for name in read)


def test_what_contributing_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names, paths = (set(re.findall(form, text)) for form in (r"`(semclass[.\w]+)`", r"`(\w+/[\w/]+\.(?:py|js))`"))
    assert all(map(pkgutil.resolve_name, names))
    assert [path for path in paths if not (ROOT / path).is_file()] == []


LOADING = re.compile(
    r"<(?:script|img|iframe|source|embed)\b[^>]*?\bsrc=.(?:https?:)?//|<link\b[^>]*?href=.(?:https?:)?//"
)
"""Elements that make a browser contact another server."""

STYLE = re.compile(r"url\([\"']?(?:https?:)?//|@import")
"""The same in a style sheet."""


@pytest.mark.extras
def test_the_site_builds_and_loads_nothing_from_other_servers(tmp_path):
    pytest.importorskip("sphinx")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-b", "html", DOCS, tmp_path]
    subprocess.run(build, cwd=ROOT, check=True)
    pages = sorted(tmp_path.rglob("*.html"))
    assert pages
    for page in pages:
        assert not LOADING.search(page.read_text(encoding="utf-8")), page
    for style in tmp_path.rglob("*.css"):
        assert not STYLE.search(style.read_text(encoding="utf-8")), style
