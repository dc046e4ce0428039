"""No pattern and no parser takes more than about linear time over text from outside."""

from __future__ import annotations

import ast
import gc
import importlib
import pkgutil
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time

import pytest

from semclass import Chunking
from semclass.core.errors import MissingExtraError
from semclass.documents import blocks, decoding, records, sentences, sheets
from semclass.documents.chunking import Document, cut_document

if sys.version_info >= (3, 11):
    from re import _constants as names
    from re import _parser as parser
else:
    import sre_constants as names
    import sre_parse as parser

PACKAGES = ("semclass", "semclass_documents", "semclass_serve", "semclass_llm", "semclass_integrations")
METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")
SMALL, LARGE, LARGEST = 4_000, 20_000, 80_000
SUSPICIOUS = 0.003  # seconds that no linear pattern takes for the smallest text
FLOOR, RATIO = 1.0, 12  # a quadratic pattern takes 16 times as long for a text of four times the length
UNITS = 10
CATEGORIES = {
    names.CATEGORY_SPACE: " ", names.CATEGORY_DIGIT: "7", names.CATEGORY_WORD: "w", names.CATEGORY_NOT_WORD: "-",
}  # fmt: skip


def imported(name):
    """Return a module, or None where a library that it needs is not installed."""
    try:
        return importlib.import_module(name)
    except (ModuleNotFoundError, MissingExtraError) as missing:
        if str(getattr(missing, "name", "")).startswith("semclass"):
            raise
        return None


def inner(name, value):
    """Yield the patterns in a value of a module, each with its name."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, (list, tuple, frozenset, dict)):
        for place, part in enumerate(value.values() if isinstance(value, dict) else value):
            yield from inner(f"{name}[{place}]", part)


def called(module, source):
    """Yield the patterns that a module gives to functions of `re`, with the lines where it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
            text, method = node.args[0], ast.unparse(node.func).removeprefix("re.")
            if isinstance(text, ast.Constant) and method in METHODS:
                yield f"{module}:{node.lineno}", re.compile(text.value), [method]


def patterns():
    """Yield the name of each pattern of a module, the pattern, and the methods that are called."""
    found_names = [
        found.name
        for package in filter(find_spec, PACKAGES)
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.", onerror=str)
        if not found.name.endswith("__main__")
    ]
    modules = [module for module in map(imported, found_names) if module]
    sources = {module.__name__: Path(str(module.__file__)).read_text("utf-8") for module in modules}
    for module in modules:
        source = sources[module.__name__]
        yield from called(module.__name__, source)
        own = (one for one in vars(module).items() if re.search(rf"^{one[0]}\b.*=", source, re.MULTILINE))
        for name, value in (found for one in own for found in inner(*one)):
            used = {*re.findall(rf"\b{name}\.(\w+)", source)} & {*METHODS}
            yield f"{module.__name__}.{name}", value, sorted(used) or ["search" if "[" in name else "fullmatch"]


def pieces(parsed, found):
    """Return a text that a parsed pattern matches in parts, and collect the characters that its parts take."""
    parts = []
    for kind, value in parsed:
        if kind is names.LITERAL:
            parts.append(chr(value))
        elif kind is names.IN:
            options = [
                CATEGORIES.get(one, "x") if what is names.CATEGORY else chr(one[0] if what is names.RANGE else one)
                for what, one in value
                if what is not names.NEGATE
            ]
            parts.append("x" if value[0][0] is names.NEGATE else options[0])
            found.extend(["x"] if value[0][0] is names.NEGATE else options)
        elif kind in (names.ANY, names.NOT_LITERAL):
            parts.append("x")
        elif kind in (names.MAX_REPEAT, names.MIN_REPEAT):
            parts += pieces(value[2], found) * min(max(value[0], 1), 4)
        elif kind is names.SUBPATTERN:
            parts += pieces(value[3], found)
        elif kind is names.BRANCH:
            parts += next(iter([pieces(branch, found) for branch in value[1]]))
        elif kind in (names.ASSERT, names.ASSERT_NOT):
            pieces(value[1], found)
    found.extend(parts)
    return parts


def hostile(pattern):
    """Yield texts of any length that may take a pattern long: each as what begins, repeats and ends it."""
    found = []
    parts = pieces(parser.parse(pattern.pattern, pattern.flags), found)
    units = list(dict.fromkeys([*"\n x", *found]))[:UNITS]
    for end in ("", "\0"):
        yield from (("", first + second, end) for first in units for second in ["", *units])
    yield from (("".join(parts[:place]), unit, "\0") for place in range(1, min(len(parts), 16)) for unit in units)


def written(begin, unit, end, length):
    return begin + unit * (length // len(unit)) + end


def seconds(job, tries=2):
    """The shortest of some times."""
    times = []
    gc.disable()  # its passes over all objects come at other times than the job's
    for _ in range(tries):
        start = process_time()
        job()
        times.append(process_time() - start)
    gc.enable()
    return min(times)


def applied(pattern, method, text):
    given = text.encode(errors="replace") if isinstance(pattern.pattern, bytes) else text
    if method == "sub":
        pattern.sub(given[:0], given)
    elif method == "finditer":
        list(pattern.finditer(given))
    else:
        getattr(pattern, method)(given)


def assert_linear(job, text, label):
    """Refuse a job that takes as if quadratic; more lengths are only tried if the first are no proof."""
    if any(seconds(partial(job, text(size)), 1) < most for size, most in ((SMALL, SUSPICIOUS), (LARGEST, FLOOR))):
        return
    less, more = (seconds(partial(job, text(length))) for length in (LARGE, LARGEST))
    assert more < max(FLOOR, RATIO * less), f"{label}: {less:.3f} s, then {more:.3f} s"


ALL = list(patterns())


@pytest.mark.parametrize(("name", "pattern", "methods"), ALL, ids=[name for name, *_ in ALL])
def test_no_pattern_is_worse_than_linear(name, pattern, methods):
    for method in methods:
        for shape in hostile(pattern):
            assert_linear(partial(applied, pattern, method), partial(written, *shape), f"{method} of {shape}")


def cut(text, *, markdown):
    cut_document("a", Document(text, markdown, size=10 * len(text)), Chunking())


PARSERS = {
    "headings": blocks.plain_headings, "contents": blocks.is_contents, "links": blocks.without_links,
    "directives": decoding.without_directives, "pages": decoding.page_spans,
    "sentences": sentences.sentence_spans, "lines": sentences.unwrapped_spans, "paragraph": records.paragraph,
    "csv": partial(sheets.read_csv, columns={}), "plain": partial(cut, markdown=False),
    "markdown": partial(cut, markdown=True),
}  # fmt: skip
SHAPES = [
    ("", "[", ""), ("- [a](", "x", ""), ("", "[a](b) ", ""), ("- ", "[a](b) ", ""), ("", "> ", ""), ("", "- ", ""),
    ("", "*a_", ""), ("", "`", ""), ("", "<!--", ""), ("", "<", ""), ("", "a. ", ""), ("", "\n", "x"), ("x", " \n", ""),
    ("", "\f", ""), ("", "\fa\n", ""), ("", ":::\n", ""), ("```\n", "x\n", ""), ("# ", "a ", ""), ("# ", "#", " x"),
    ("", "# a\n", ""), ("|a|\n|-|\n", "|b|\n", ""), ("", "|", "\n"), ("a\n", "=", ""), ("", "a\n===\n", ""),
    ("", "[a]: b\n", ""), ("", "1. a\n", ""), ("", "  ", "x"), ("", "!", ""), ("", "](", ""), ("", "a\n\n", ""),
    ("", '"', ""), ("", 'a,"', ""), ("", "字。", ""), ("", "(", ""), ("{a}`", "b<", ""), ("", "\\", ""),
    ("---\n", "a: b\n", ""), ("<script>", "<", ""), ("", "<b ", ""), ("", "&", ""), ("", "-\n", ""), ("-", " -", "x"),
]  # fmt: skip


@pytest.mark.parametrize("name", PARSERS)
def test_no_parser_is_worse_than_linear(name):
    for shape in SHAPES:
        assert_linear(PARSERS[name], partial(written, *shape), f"{shape}")
