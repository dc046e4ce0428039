"""AsciiDoc, Org and manual pages in roff as Markdown: headings, lists, code and what stands between them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

_FENCE = "```"

_ADOC_HEADING = re.compile(r"(={1,6})[ \t]+(\S.*?)(?:[ \t]+=+)?$")
_ADOC_BLOCK = re.compile(r"(?:-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|--)$")
_ADOC_RULES = "=-~^+"
_ADOC_LITERAL = ("----", "....", "++++", "////")
_ADOC_UNSEEN = re.compile(
    r":!?[\w-]+!?:(?:\s.*)?$|//(?!/).*$|\[.*\]$|(?:include|image|toc|ifdef|ifndef|ifeval|endif)::.*$"
)
_ADOC_ITEM = re.compile(r"([*.]{1,5}|-)[ \t]+(?=\S)")
_ADOC_TERM = re.compile(r"(\S.*?):{2,4}(?:[ \t]+(.*))?$")
_ADOC_LINK = re.compile(r"(?:link:|xref:)?(?P<url>[\w./#:?=&%~+-]+)\[(?P<text>[^\]]+)\]")
_ADOC_REFERENCE = re.compile(r"<<(?P<id>[^,>]+)(?:,\s*(?P<text>[^>]+))?>>")

_ORG_HEADING = re.compile(
    r"(\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAITING)[ \t]+)?(?:\[#\w\][ \t]+)?(.*?)(?:[ \t]+:[\w:@]+:)?$"
)
_ORG_LINK = re.compile(r"\[\[[^\]]*\]\[(?P<text>[^\]]*)\]\]|\[\[(?P<url>[^\]]*)\]\]")
_ORG_UNSEEN = re.compile(r"(?:#\+|#(?:\s|$)|(?:SCHEDULED|DEADLINE|CLOSED):)", re.IGNORECASE)
_ORG_RULE = re.compile(r"\|-[-+]*\|?$")

_ROFF_ESCAPE = re.compile(r"\\(?:f(?:\(..|\[[^\]]*\]|.)|s[+-]?\d+|\*(?:\(..|\[[^\]]*\]|.)|[&/,|^:%])")
_ROFF_NAMED = re.compile(r"\\(?:\((..)|\[(\w+)\])")
_ROFF_CHARACTERS = {
    "bu": "•", "em": "—", "en": "–", "hy": "-", "aq": "'", "cq": "’", "oq": "‘", "dq": '"', "lq": "“", "rq": "”",
    "co": "©", "rg": "®", "tm": "™", "ha": "^", "ti": "~", "rs": "\\", "mu": "×", "->": "→", "<-": "←", "ga": "`",
}  # fmt: skip
_ROFF_PAGE = re.compile(r"^\.(?:TH|Dt|SH|Sh)\b", re.MULTILINE)
_ROFF_FONTS = frozenset("B I R BR RB BI IB IR RI SM SB".split())  # noqa: SIM905
_ROFF_BREAKS = frozenset("PP P LP sp br Pp RS RE HP".split())  # noqa: SIM905
_MDOC = frozenset(
    "Ad An Ao Ac Aq Ar Bc Bo Bq Bx Cd Cm Dc Do Dq Dv Em Er Ev Fa Fl Fn Ft Fx Ic In Li Lk Ms Mt Nm No Ns Ox Pa Pc Pf Po Pq "  # noqa: SIM905
    "Qc Ql Qo Qq Sc So Sq St Sy Tn Ux Va Vt Xr Ap".split()
)


def asciidoc_to_markdown(text: str) -> str:
    """Write AsciiDoc as Markdown. Comments, attributes and what is included from elsewhere are left out."""
    return "\n".join(_asciidoc(text.splitlines()))


def _asciidoc(lines: list[str]) -> Iterator[str]:
    literal = above = ""  # the delimiter of the block that is read, and the line before
    table: list[str] | None = None  # the lines of the table that is read
    ruled = False  # whether the line underlines a heading
    for line, after in pairwise([*map(str.rstrip, lines), ""]):
        if ruled:
            ruled = False
            continue
        if literal:
            if line == literal:
                yield from () if literal.startswith("/") else (_FENCE,)
                literal = ""
            elif not literal.startswith("/"):
                yield line
        elif line.startswith("|==="):
            yield from () if table is None else _adoc_table(table)
            table = [] if table is None else None
        elif table is not None:
            table.append(line)
        elif not above and (level := _adoc_level(line, after)):
            yield f"{'#' * level} {_adoc_inline(line)}"
            ruled = True
        elif line[:4] in _ADOC_LITERAL and _ADOC_BLOCK.match(line):
            literal = line
            yield from () if literal.startswith("/") else (_FENCE,)
        else:
            yield from _adoc_outside(line)
        above = line


def _adoc_outside(line: str) -> Iterator[str]:
    """Write a line outside of blocks of code; nothing for one that says nothing."""
    if heading := _ADOC_HEADING.match(line):
        yield f"{'#' * len(heading[1])} {_adoc_inline(heading[2])}"
    elif line == "+" or _ADOC_BLOCK.match(line):
        yield ""
    elif not _ADOC_UNSEEN.match(line):
        yield _adoc_inline(_adoc_line(line.lstrip()))


def _adoc_table(lines: list[str]) -> Iterator[str]:
    """Write a table; the first row, or the lines up to an empty one, has as many cells as it has columns."""
    text = "\n".join(lines).strip()
    first = text.partition("\n\n")[0]
    width = max(text.partition("\n")[0].count("|"), 1)
    width = first.count("|") if width == 1 else width
    cells = [_adoc_inline(" ".join(cell.split())) for cell in text.split("|")[1:]]
    rows = [cells[place : place + width] for place in range(0, len(cells), max(width, 1))]
    for place, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if not place:
            yield "|" + "---|" * width


def _adoc_level(line: str, after: str) -> int:
    """Level of a heading that the next line underlines; 0 if it is none."""
    rule = after[:1] in _ADOC_RULES and after == after[:1] * len(after) and len(after) > 1
    fits = rule and line[:1].strip() and abs(len(line) - len(after)) <= 2 and re.search(r"\w", line)
    return _ADOC_RULES.index(after[0]) + 1 if fits else 0


def _adoc_line(line: str) -> str:
    """Write a line outside of blocks of code: items of lists, terms, cells, titles of blocks."""
    if item := _ADOC_ITEM.match(line):
        mark = "1. " if "." in item[1] else "- "
        return "   " * (len(item[1]) - 1) + mark + line[item.end() :]
    if re.match(r"\.\w", line):
        return line[1:]
    term = _ADOC_TERM.match(line)
    return f"\n**{term[1].strip()}** {term[2] or ''}".rstrip() if term else line


def _adoc_inline(line: str) -> str:
    line = _ADOC_REFERENCE.sub(lambda found: found["text"] or found["id"], line)
    return _escaped(_ADOC_LINK.sub(lambda found: found["text"], line) if "[" in line else line)


def _escaped(line: str) -> str:
    """Escape what Markdown takes for a tag of HTML."""
    return re.sub(r"<(?=[\w/!?])", r"\\<", line)


def org_to_markdown(text: str) -> str:
    """Write Org as Markdown. Drawers, dates of planning, marks of tasks and comments are left out."""
    return "\n".join(_org(text.splitlines()))


def _org(lines: list[str]) -> Iterator[str]:
    block, drawer, below = "", False, 0
    for line in map(str.rstrip, lines):
        lower = line.strip().lower()
        if drawer:
            drawer = lower != ":end:"
        elif block:
            ends = lower.startswith(f"#+end_{block}")
            block = "" if ends else block
            yield _FENCE if ends else line
        elif begin := re.match(r"#\+begin_(src|example)\b", lower):
            block = begin[1]
            yield _FENCE
        elif lower.startswith("#+title:"):
            below = 1
            yield f"# {line.split(':', 1)[1].strip()}"
        elif heading := _ORG_HEADING.match(line):
            yield f"{'#' * min(len(heading[1]) + below, 6)} {_org_inline(heading[2])}"
        elif re.fullmatch(r":[\w-]+:", lower):
            drawer = True
        elif _ORG_RULE.match(line.strip()):
            yield "|" + "---|" * (line.count("+") + 1)
        elif not _ORG_UNSEEN.match(line.strip()):
            yield _org_inline(line)


def _org_inline(line: str) -> str:
    return _escaped(_ORG_LINK.sub(lambda found: found["text"] or found["url"] or "", line))


def roff_to_markdown(text: str) -> str:
    """Write a manual page, of the macros ``man`` or ``mdoc``, as Markdown; other text, such as an old log, stays."""
    return "\n".join(_roff(text.splitlines())) if _ROFF_PAGE.search(text) else text


def _roff(lines: list[str]) -> Iterator[str]:
    code = tagged = skipping = False
    for line in lines:
        macro, _, rest = line[1:].strip().partition(" ") if line[:1] in (".", "'") else ("", "", "")
        if skipping or macro in ("ig", "de"):  # definitions and comments, up to ".."
            skipping = line.strip() != ".."
        elif macro in ("nf", "EX", "fi", "EE") or (macro in ("Bd", "Ed") and ("literal" in rest or code)):
            opens = macro in ("nf", "EX", "Bd")
            if opens != code:
                yield _FENCE
            code = opens
        elif not macro:
            said = _roff_text(line) if not line.startswith((".", "'")) else ""
            written = said if code else _escaped(said.strip())
            yield f"**{written}**" if tagged and written else written
            tagged = False
        elif said := _escaped(_roff_macro(macro, rest)):
            yield f"\n**{said.strip()}**\n" if tagged and not said.startswith(("\n", "#")) else said
            tagged = False
        tagged = tagged or macro in ("TP", "TQ")


def _roff_macro(macro: str, rest: str) -> str:
    """Write the line of a macro; empty for what only sets."""
    words = _roff_words(rest)
    if macro in ("TH", "Dt") and words:
        return f"# {words[0].lower()}({words[1]})" if len(words) > 1 else f"# {words[0].lower()}"
    if macro in ("SH", "Sh", "SS", "Ss"):
        return f"\n{'##' if macro in ('SH', 'Sh') else '###'} {' '.join(words)}\n"
    if macro in ("IP", "It"):
        said = _mdoc_words(words) if macro == "It" else words[0] if words else ""
        return f"\n**{said}**\n" if said.strip(" •-*·") else "\n- "
    if macro in _ROFF_BREAKS:
        return "\n"
    if macro in _ROFF_FONTS:
        return ("" if len(macro) == 2 and macro not in ("SM", "SB") else " ").join(words)
    if macro == "Nd":
        return f"– {' '.join(words)}"
    return _mdoc_words([macro, *words]) if macro in _MDOC else ""


def _mdoc_words(words: list[str]) -> str:
    """Write the arguments of a macro of ``mdoc``, which may be macros themselves."""
    said = []
    for place, word in enumerate(words):
        if word not in _MDOC:
            said.append(f"-{word}" if place and words[place - 1] == "Fl" else word)
    return " ".join(said)


def _roff_words(rest: str) -> list[str]:
    """Split arguments at spaces; those in quotes stay whole."""
    splitter = shlex.shlex(_roff_text(rest).replace("\\", "\\\\"), posix=True)
    splitter.whitespace_split, splitter.commenters, splitter.quotes = True, "", '"'
    try:
        return list(splitter)
    except ValueError:  # a quote that nothing closes
        return rest.replace('"', "").split()


def _roff_text(line: str) -> str:
    line = re.sub(r'\\["#].*', "", line)
    line = _ROFF_NAMED.sub(lambda found: _ROFF_CHARACTERS.get(found[1] or found[2], ""), line)
    return _ROFF_ESCAPE.sub("", line).replace("\\-", "-").replace("\\e", "\\").replace("\\ ", " ").replace("\\~", " ")
