"""The shape of the code: few modules at the root, one level of packages, imports that point one way."""

from __future__ import annotations

import ast
from collections import defaultdict

from world import ROOT

PACKAGE = ROOT / "semclass"
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))

AT_THE_ROOT, LEVELS = 8, 2
"""Modules at the root, and levels of folders with the module's own name counted, at most."""

README_LINES = 200

FLOORS, PAIRS = 10, 90
"""Packages that stand on one another, and pairs of packages of which one imports the other, at most."""


def imports():
    """By package of semclass: the packages that it imports, lazily or not; a module at the root counts as a package."""
    found = defaultdict(set)
    for path in FILES:
        package = path.parts[0].removesuffix(".py")
        if package == "__init__":  # gives every public name, on first use
            continue
        for node in ast.walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [item.name for item in node.names] if isinstance(node, ast.Import) else []
            found[package] |= {name.split(".")[1] for name in names if name.startswith("semclass.")} - {package}
    return found


def imports_within_packages():
    """By module: the modules of its own package that it imports, lazily, for types alone or not."""
    names = {f"semclass.{'.'.join(path.with_suffix('').parts)}": path for path in FILES if path.name != "__init__.py"}
    found = {}
    for module, path in names.items():
        nodes = list(ast.walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))))
        from_imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        imported = {node.module for node in from_imports}
        imported |= {f"{node.module}.{item.name}" for node in from_imports for item in node.names}
        imported |= {item.name for node in nodes if isinstance(node, ast.Import) for item in node.names}
        package = module.rpartition(".")[0]
        found[module] = {name for name in imported & names.keys() if name.rpartition(".")[0] == package}
    return found


def reached(module, found):
    """Modules that one imports, directly or by way of others."""
    below, new = set(), found[module]
    while new:
        below |= new
        new = set().union(*(found[name] for name in new)) - below
    return below


def floor(package, found, above=()):
    """Packages below one another from this one on, itself counted."""
    assert package not in above, f"a circle of imports: {' -> '.join([*above, package])}"
    return 1 + max((floor(name, found, (*above, package)) for name in found[package]), default=0)


def test_few_modules_stand_at_the_root_and_packages_have_one_level():
    assert len([path for path in FILES if len(path.parts) == 1]) <= AT_THE_ROOT
    assert max(len(path.parts) for path in FILES) <= LEVELS


def test_imports_point_one_way():
    found = imports()
    assert max(floor(package, found) for package in list(found)) <= FLOORS
    assert sum(map(len, found.values())) <= PAIRS


def test_modules_of_a_package_import_each_other_without_a_circle():
    found = imports_within_packages()
    assert not {module for module in found if module in reached(module, found)}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES
