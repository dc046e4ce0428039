"""ReStructuredText as Markdown, that of Sphinx included, whose directives and roles Docutils does not know."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import Directive, Parser, directives, roles, states
from docutils.writers.html5_polyglot import Writer

from semclass.documents.markup import html_to_markdown

_SETTINGS = {
    "_disable_config": True,
    "embed_stylesheet": False,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "raw_enabled": False,
    "report_level": 5,
    "stylesheet_path": "",
    "syntax_highlight": "none",
    "warning_stream": False,
}

_UNSEEN = frozenset([
    "cssclass", "currentmodule", "default-domain", "default-role", "highlight", "index", "module", "toctree",
])  # fmt: skip
_CODE = frozenset([
    "code", "code-block", "console", "doctest", "parsed-literal", "prompt", "sourcecode", "testcode", "testoutput",
])  # fmt: skip
_VERSIONS = frozenset(["deprecated", "deprecated-removed", "versionadded", "versionchanged", "versionremoved"])
_DIRECTIVE = re.compile(r"\.\. .*?::[ ]*|")
_FIELDS = re.compile(r"\A(?:\s*:[\w-]+:.*\n)+")  # by which Sphinx is told about a file
_TARGET = re.compile(r"\s*<[^<>]*>$")


def read_rst(path: Path) -> str:
    """Read reStructuredText as Markdown."""
    inliner = states.Inliner()
    inliner.interpreted = partial(_interpreted, inliner)
    parser = Parser(inliner=inliner)
    parser.state_classes = _states()
    source = _FIELDS.sub("", path.read_text(encoding="utf-8-sig"))
    parts = publish_parts(source, str(path), parser=parser, writer=Writer(), settings_overrides=_SETTINGS)
    return html_to_markdown(parts["html_body"].encode())


class _Options(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return directives.unchanged


class _Any(Directive):
    """What a directive holds, after what it is about."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _Options(name=directives.unchanged)

    def run(self) -> list[Any]:
        if self.name in _UNSEEN:
            return []
        if self.name in _CODE:
            code = "\n".join(self.content)
            return [nodes.literal_block(code, code)] if code.strip() else []
        if not self.content and (self.name.startswith("auto") or self.name == "literalinclude"):
            return []  # from another file
        body = nodes.definition()
        self.state.nested_parse(self.content, self.content_offset, body)
        about = [*([self.name] if self.name in _VERSIONS else []), *self.arguments]
        if not about:
            return list(body.children)
        named = self.state.inline_text(" ".join(about), self.lineno)[0]
        if not self.content:
            return [nodes.paragraph("", "", *named)]
        term = nodes.term("", "", *named)
        return [nodes.definition_list("", nodes.definition_list_item("", term, body))]


class _Tolerant:
    """A state of the parser that takes any directive."""

    nested_sm_cache: ClassVar[list[Any]] = []  # the parser's own would mix these states with others

    def __init__(self, machine: Any, debug: bool = False) -> None:
        super().__init__(machine, debug)  # type: ignore[call-arg]
        self.nested_sm_kwargs = {"state_classes": _states(), "initial_state": "Body"}

    def unknown_directive(self: Any, name: str) -> Any:
        return self.run_directive(_Any, _DIRECTIVE.match(self.state_machine.line), name, {})

    def run_directive(self: Any, known: Any, match: re.Match[str], name: str, presets: dict[str, Any]) -> Any:
        directive = _Any if name.lower() in _CODE else known  # those of Sphinx have more options
        return super().run_directive(directive, match, name, presets)  # type: ignore[misc]


@cache
def _states() -> tuple[type, ...]:
    return tuple(type(state.__name__, (_Tolerant, state), {}) for state in states.state_classes)


def _interpreted(inliner: Any, rawsource: str, text: str, role: str, lineno: int) -> Any:
    """Take any role: the name of what it links to, without the target."""
    if roles.role(role, inliner.language, lineno, inliner.reporter)[0]:
        return states.Inliner.interpreted(inliner, rawsource, text, role, lineno)
    name = _TARGET.sub("", text).lstrip("!")
    return [nodes.inline(rawsource, name.rpartition(".")[2] if name.startswith("~") else name)], []
