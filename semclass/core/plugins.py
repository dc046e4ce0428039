"""Installed packages that add to semclass: commands, indices, readers and models, found by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semclass.core.errors import ArtifactError, MissingExtraError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS = "semclass.commands"
"""Group of entry points for commands. Each loads a :class:`click.Command`."""

INDICES = "semclass.indices"
"""Group of entry points for indices in other engines. Each is named by the scheme of an address, and loads a function that
opens the address with the given models.
"""

MODELS = "semclass.models"
"""Group of entry points for models. Each loads the path of their folder."""

READERS = "semclass.readers"
"""Group of entry points for readers of documents. Each loads a class like :class:`semclass.documents.readers.Reader`."""

STEPS = "semclass.steps"
"""Group of entry points for steps between files and an index. Each loads a function of documents or passages."""

_RICH = ".docx .eml .epub .htm .html .ipynb .mbox .pdf .pptx .xhtml .xlsx"
_BY_PANDOC = ".adoc .asciidoc .man .odt .org .rst .rtf .tex .1 .2 .3 .4 .5 .6 .7 .8"

PACKAGES: Mapping[str, Mapping[str, str]] = {
    COMMANDS: {
        **dict.fromkeys(("serve", "mcp"), "semclass-serve"),
        "upload": "semclass-integrations",
        **dict.fromkeys(("ask", "cascade", "label"), "semclass-llm"),
    },
    INDICES: dict.fromkeys(("http", "https"), "semclass-integrations"),
    MODELS: {"multilingual": "semclass-multilingual"},
    READERS: {
        **dict.fromkeys(_RICH.split(), "semclass-documents"),
        **dict.fromkeys(_BY_PANDOC.split(), "semclass-documents[pandoc]"),
    },
    STEPS: dict.fromkeys(("boilerplate", "duplicates", "threads"), "semclass-documents"),
}
"""Known names of each group, and the package that provides each. The names of readers are the endings of files."""


def missing(package: str, name: str) -> str:
    """Return a message that something needs a package, with the command that installs the package."""
    local = f"./packages/{package}" if "[" not in package else f"'./packages/{package}'"
    install = f"pip install {package} (in a checkout: pip install {local})"
    return f"{name} needs {package}, which is not installed; run: {install}"


def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by their names."""
    from importlib.metadata import entry_points  # takes a while, and few need it

    return {point.name: point for point in entry_points(group=group)}


def is_known(group: str, name: str) -> bool:
    """Return whether a name is installed, or is known to be in a package."""
    return name in PACKAGES[group] or name in installed(group)


def find(group: str, name: str) -> Any:
    """Load the object that a package provides by a name. If the package is missing, the error has its pip command."""
    points = installed(group)
    if name in points:
        try:
            return points[name].load()
        except MissingExtraError:
            raise
        except Exception as error:  # whatever a package raises when it is imported
            raise ArtifactError(f"the package of {name!r} cannot be opened: {error}; install it again") from error
    package = PACKAGES[group].get(name)
    if package is None:
        known = ", ".join(sorted({*points, *PACKAGES[group]}))
        raise MissingExtraError(f"no installed package provides {name!r}; known names: {known}")
    raise MissingExtraError(missing(package, repr(name)))


def find_installed(group: str, name: str) -> Any | None:
    """Load the object that an installed package provides by a name. Returns None if no package does."""
    return find(group, name) if name in installed(group) else None
