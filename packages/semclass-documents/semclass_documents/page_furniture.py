"""Recognises parts of a page beside its text: menus, contents lists, breadcrumbs, links to neighbouring pages."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

_Element: TypeAlias = Any  # of lxml, which has no types

_ROLES = frozenset(["navigation", "search", "banner", "contentinfo", "menu", "menubar", "doc-toc"])
_NAMES = frozenset([
    "breadcrumb", "breadcrumbs", "footer", "nav", "navbar", "navfooter", "navheader",
    "navigation", "pagination", "prev-next-area", "related",
    "rst-footer-buttons", "rst-versions", "sidebar-tree", "sidemenu", "site-footer", "skip-link", "sphinxsidebar",
    "sphinxsidebarwrapper", "table-of-contents", "toc", "toc-tree", "toctree-wrapper", "wy-breadcrumbs",
])  # fmt: skip
"""Classes that site generators give to such parts."""

_TEXTS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6", "pre", "table"])
_LISTS = ("ul", "ol", "dl", "p", "div")
_ELSEWHERE = re.compile(r"\w+:|//")
_WORD = re.compile(r"[^\W\d_]")


def is_furniture(element: _Element) -> bool:
    """Return whether an element is beside the text of its page, such as a menu."""
    names = {*(element.get("class") or "").lower().split()}  # an id may be that of a section on menus
    if element.get("role") in _ROLES or not names.isdisjoint(_NAMES) or {"contents", "topic"} <= names:
        return element.tag not in ("html", "body", "main", "article")
    return element.tag in _LISTS and (_links(element) or 0) > 1


def _links(element: _Element) -> int | None:
    """Count the links within the site in an element that has no other text; None if it has other text."""
    if element.tag == "a" and element.get("href") is not None:
        return None if _ELSEWHERE.match(element.get("href")) else 1
    if element.tag in _TEXTS or _WORD.search(element.text or ""):
        return None
    count = 0
    for part in element:
        held = _links(part) if isinstance(part.tag, str) else 0
        if held is None or _WORD.search(part.tail or ""):
            return None
        count += held
    return count
