"""How the documentation is built: ``sphinx-build -W --keep-going -n -b html docs OUT``.

The extra ``docs`` alone is enough. What other extras bring is replaced by stand-ins, whether it is installed or not, so
that the pages are the same everywhere.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import semclass

project = "semclass"
author = "The semclass developers"
project_copyright = "The semclass developers, Apache-2.0"
version = release = semclass.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["examples", "packages/*/examples"]
needs_sphinx = "8.0"
nitpicky = True
default_role = "literal"
nitpick_ignore_regex = [
    # names of Python and of other projects: their inventories would come from the network
    (r"py:.*", r"(collections(\.abc)?|contextlib|datetime|pathlib|threading|types)\..*"),
    (r"py:.*", r"(click|fastapi|haystack|langchain_core|llama_index|pyarrow|pyspark|sklearn|starlette)\..*"),
    (r"py:.*", r"(numpy|onnxruntime|tokenizers)\..*"),
    # parts inside semclass, which have no page
    (r"py:.*", r"semclass\.(core|scoring|encoders|heads|train|documents|index|ranking|evaluation|cli|plugins)\..*"),
    # annotations of modules whose imports are stand-ins or for types alone are kept as text
    (r"py:.*", r"~?[A-Za-z_]+(\[[^]]*)?"),
]

# -- pages ------------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# -- reference from docstrings ----------------------------------------------------------------------------------------
autodoc_mock_imports = [
    "fastapi",
    "haystack",
    "ir_measures",
    "joblib",
    "langchain_core",
    "llama_index",
    "lxml",
    "mammoth",
    "markdownify",
    "onnx",
    "openai",
    "openpyxl",
    "pandas",
    "pdfplumber",
    "pptx",
    "prometheus_client",
    "pyarrow",
    "pydantic",
    "pydantic_core",
    "pypandoc",
    "pyspark",
    "qdrant_client",
    "rensa",
    "scipy",
    "sentence_transformers",
    "sklearn",
    "starlette",
    "uvicorn",
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False  # the signature has them

# -- pages of packages, which lie beside them -------------------------------------------------------------------------
HERE = Path(__file__).parent
PACKAGES = HERE / "packages"
REPOSITORY = "https://github.com/semclass/semclass/blob/main"
shutil.rmtree(PACKAGES, ignore_errors=True)
for folder in sorted(HERE.parent.glob("packages/*/docs")):
    shutil.copytree(folder, PACKAGES / folder.parent.name)
    sys.path.insert(0, str(folder.parent))


def _link(app: Any, docname: str, source: list[str]) -> None:
    """Let links between pages and packages lead to the copies."""
    page = HERE / docname
    home = HERE.parent / "packages" / page.parent.name / "docs" if page.is_relative_to(PACKAGES) else page.parent

    def moved(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(home / found[1]))
        if target.exists() and not target.is_relative_to(HERE) and not target.is_relative_to(HERE.parent / "packages"):
            return f"]({REPOSITORY}/{target.relative_to(HERE.parent).as_posix()}"
        if target.is_relative_to(HERE.parent / "packages"):
            package, _, *rest = target.relative_to(HERE.parent / "packages").parts
            target = PACKAGES.joinpath(package, *rest)
        return f"]({os.path.relpath(target, page.parent)}"

    source[0] = re.sub(r"\]\((?!\w+:|#|/)([^)#\s]+)", moved, source[0])


# -- the look ---------------------------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"semclass {release}"
html_static_path = ["_static"]
html_css_files = ["semclass.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"


class _Component:
    """Haystack's decorator; a common stand-in would put itself in the place of what it decorates."""

    def __call__(self, decorated: Any) -> Any:
        return decorated

    def output_types(self, **_: Any) -> Any:
        return self


haystack: Any = ModuleType("haystack")
haystack.__path__ = []  # what is below it is found as any stand-in is
haystack.__getattr__ = lambda name: type(name, (), {"__module__": "haystack"})
haystack.component = _Component()
sys.modules["haystack"] = haystack


def _keep_first_line(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon in a property's first line for its type; ours are sentences."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def _by_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Follow ``semclass.ranking.models.Models.load`` to ``semclass.Models.load``, where it is documented."""
    target = str(node.get("reftarget"))
    for module, names in semclass._HOMES.items():
        for name in names:
            home = f"semclass.{module}.{name}"
            if node.get("refdomain") == "py" and (target == home or target.startswith(f"{home}.")):
                public = f"semclass.{name}{target[len(home) :]}"
                python = env.domains.python_domain
                return python.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], public, node, contnode)
    return None


def _escape(_app: Any, _context: Any, lines: list[str]) -> None:
    """Help of options is no markup: a star is a star."""
    lines[:] = [line.replace("*", r"\*") for line in lines]


def setup(app: Any) -> None:
    """Connect what mends lines before they are parsed, and what finds names where they live."""
    app.connect("source-read", _link)
    app.connect("autodoc-process-docstring", _keep_first_line, priority=100)
    app.connect("missing-reference", _by_public_name)
    app.connect("sphinx-click-process-options", _escape)
