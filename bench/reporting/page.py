"""A page of its own from the report's Markdown: pictures inside, no outside asset, no script, dark and light."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from semclass.core.errors import import_extra

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --band: #f6f8fa;
  --link: #0b57b0; --mark: #fff6d6; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --ink: #e2e6ea; --faint: #9aa4ae; --line: #353c44;
  --band: #1c2229; --link: #82b7ff; --mark: #3a3213; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.35rem; margin-top: 2.6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin-top: 1.8rem; }
p, li { max-width: 46rem; }
a { color: var(--link); }
.scroll { overflow-x: auto; margin: 1rem 0; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: .87rem; width: 100%; }
th, td { padding: .38rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
th { background: var(--band); font-weight: 600; vertical-align: bottom; min-width: 4.2rem; }
td.w { min-width: 14rem; overflow-wrap: anywhere; }
td.n { white-space: nowrap; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground); min-width: 8.5rem;
  max-width: 17rem; }
th:first-child { background: var(--band); }
img { display: block; max-width: 100%; height: auto; background: #ffffff; border: 1px solid var(--line);
  border-radius: 6px; padding: .5rem; margin: 1rem 0; }
code { font-size: .9em; background: var(--band); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere; }
pre { background: var(--band); border-radius: 6px; padding: .8rem; overflow-x: auto; }
pre code { padding: 0; }
blockquote { margin: 1rem 0; padding: .3rem 1rem; background: var(--mark); border-left: 4px solid #c9a227; }
td code { white-space: nowrap; }
@media (max-width: 40rem) { body { font-size: 15px; } .picture { overflow-x: auto; } .picture img { max-width: none; }
  th:first-child, td:first-child { min-width: 7rem; max-width: 9rem; } }
""".strip()

LONGEST = 26
"""Characters of a cell that is kept on one line."""

WIDE = 40
"""Characters from which a cell is given room, and may break anywhere, as addresses must."""

_NUMERIC = re.compile(r"(\*\*)?[-−–]?[\d,.]+(%| MB| ms| s|$| \(|\b)")


def _is_figure(cell: str) -> bool:
    """Whether a cell holds a figure, perhaps with its interval, and no more: it is then kept on one line."""
    return len(cell) <= LONGEST and _NUMERIC.match(cell) is not None


def slug(heading: str) -> str:
    """Name of a heading for links to it, as forges make them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def render(text: str, title: str, pictures: Mapping[str, bytes]) -> str:
    """Give a page.

    Parameters
    ----------
    text
        Markdown; raw HTML in it is shown as text.
    title
        Of the page.
    pictures
        PNG by file name: what the Markdown's images point to.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    MissingExtraError
        If markdown-it-py is not installed: ``pip install "semclass[bench]"``.
    """
    parser = import_extra("markdown_it", "bench").MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    names: Counter[str] = Counter()
    for place, (token, following) in enumerate(zip(tokens, [*tokens[1:], None], strict=True)):
        if token.type == "heading_open" and following is not None:
            name = slug(following.content)
            token.attrSet("id", f"{name}-{names[name]}" if names[name] else name)
            names[name] += 1
        elif token.type == "td_open" and following is not None and _is_figure(following.content):
            token.attrSet("class", "n")
        elif token.type == "td_open" and following is not None and len(following.content) > WIDE:
            token.attrSet("class", "w")
        elif token.type == "inline" and _embed(token, pictures):
            tokens[place - 1].attrSet("class", "picture")
    body = parser.renderer.render(tokens, parser.options, {})
    body = body.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _embed(token: Any, pictures: Mapping[str, bytes]) -> bool:
    """Put pictures in place of their names, and tell whether there are any; an unknown one keeps its words only."""
    images = [child for child in token.children or [] if child.type == "image"]
    for image in images:
        picture = pictures.get(str(image.attrs.get("src")), b"")
        image.attrs["src"] = "data:image/png;base64," + base64.b64encode(picture).decode()
    return bool(images)
