"""How the documentation is built: ``sphinx-build -W --keep-going -n -b html docs OUT``.

The extra ``docs`` alone is enough. What other extras bring is replaced by stand-ins, whether it is installed or not, so
that the pages are the same everywhere.
"""

from typing import Any

import semclass

project = "semclass"
author = "The semclass developers"
project_copyright = "The semclass developers, Apache-2.0"
version = release = semclass.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["examples", "container/README.md"]
needs_sphinx = "8.0"
nitpicky = True
nitpick_ignore_regex = [
    # names of Python and of other projects: their inventories would come from the network
    (r"py:.*", r"(collections\.abc|contextlib|datetime|pathlib|threading|types)\..*"),
    (r"py:.*", r"(numpy|onnxruntime|pyarrow|pyspark|sklearn|tokenizers)\..*"),
    # what public classes are made of and no caller makes: how segments, statistics and small networks are kept
    (r"py:.*", r"semclass\.bm25\.(Postings|Removed|Statistics)"),
    (r"py:.*", r"semclass\.(branch\.Branch|dense\.(MANY|Reduced)|index\.Source|quantise\.Codebooks|reading\.FORMS)"),
    (r"py:.*", r"semclass\.(segment\.Segment(\.\w+)?|spelling\.Speller|words\.WordTable)"),
    # of a named tuple the annotations are kept as text
    (r"py:class", r"DoubleArray"),
]

# -- pages ------------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# -- reference from docstrings ----------------------------------------------------------------------------------------
autodoc_mock_imports = [
    "fastapi",
    "haystack",
    "ir_measures",
    "langchain_core",
    "llama_index",
    "onnx",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pydantic",
    "pyspark",
    "qdrant_client",
    "scipy",
    "sentence_transformers",
    "sklearn",
    "starlette",
    "usearch",
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
napoleon_preprocess_types = False

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


def _keep_first_line(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon in a property's first line for its type; ours are sentences."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def setup(app: Any) -> None:
    """Connect what must run before napoleon."""
    app.connect("autodoc-process-docstring", _keep_first_line, priority=100)
