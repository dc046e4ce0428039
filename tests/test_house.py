"""The shape of the code, beyond the contracts of imports in pyproject.toml, which ``lint-imports`` checks."""

from __future__ import annotations

import ast
import re
import runpy
from collections import defaultdict
from functools import cache

from world import ROOT

PACKAGE = ROOT / "semclass"
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))

MODULES_AT_ROOT, LEVELS = 8, 2
"""Modules at the root, and levels of folders with the module's own name counted, at most."""

MODULES_WITH_ONE_IMPORTER = 30
"""Modules that a single other one imports, at most: each could be a part of its importer."""

CORE_LINES, README_LINES = 18_600, 180


@cache
def imports() -> dict[str, set[str]]:
    """By module of semclass: the modules of semclass that it imports, lazily, for types alone or not."""
    names = {".".join(("semclass", *path.with_suffix("").parts)): path for path in FILES if path.name != "__init__.py"}
    found = {}
    for module, path in names.items():
        nodes = list(ast.walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))))
        from_imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        imported = {str(node.module) for node in from_imports}
        imported |= {f"{node.module}.{item.name}" for node in from_imports for item in node.names}
        imported |= {item.name for node in nodes if isinstance(node, ast.Import) for item in node.names}
        found[module] = imported & names.keys() - {module}
    return found


def reached(module):
    """Modules of its own package that a module imports, directly or by way of others."""
    below, new = set(), {module}
    while new:
        package = module.rpartition(".")[0]
        new = {name for start in new for name in imports()[start] if name.rpartition(".")[0] == package} - below
        below |= new
    return below


def test_few_modules_stand_at_the_root():
    assert len([path for path in FILES if len(path.parts) == 1]) <= MODULES_AT_ROOT
    assert max(len(path.parts) for path in FILES) <= LEVELS


def test_modules_of_a_package_form_no_circle():
    assert not {module for module in imports() if module in reached(module)}


def test_few_modules_serve_one_other_alone():
    importers = defaultdict(set)
    for module, imported in imports().items():
        for name in imported:
            importers[name].add(module)
    alone = sorted(name for name, users in importers.items() if len(users) == 1)
    assert len(alone) <= MODULES_WITH_ONE_IMPORTER, alone


def test_the_core_and_the_readme_stay_small():
    assert sum(len((PACKAGE / path).read_text(encoding="utf-8").splitlines()) for path in FILES) <= CORE_LINES
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_no_docstring_begins_with_what():
    """A verb or a noun says sooner what comes."""
    folders = ("semclass", "packages", "training", "bench", "tests", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = [path for path in files if re.search(r'^\s*"""What ', path.read_text(encoding="utf-8"), re.M)]
    assert not found


def test_the_table_of_features_counts_every_line():
    lines = runpy.run_path(str(ROOT / "docs" / "decisions" / "lines.py"))
    text = lines["TABLE"].read_text(encoding="utf-8")
    assert lines["counted"](text) == text, "run: python docs/decisions/lines.py"
    listed = [path for row in lines["rows"](text) for path in row]
    assert sorted(listed) == sorted({path for pattern in lines["CODE"] for path in ROOT.glob(pattern)})
