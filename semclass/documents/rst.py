"""ReStructuredText as Markdown, that of Sphinx included, whose directives and roles Docutils does not know."""

from __future__ import annotations

import re
from functools import cache, partial
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
_FIELDS = re.compile(r"\A(?:\s*:[\w-]+:.*\n)+|^:[\w-]+: *\|\w+\|[ \t]*$", re.MULTILINE)
"""Fields for Sphinx: about a file, or a version that it fills in."""

_TITLE = re.compile(r"(?:\s*\n|\.\. .*\n)*(?:([^\w\s])\1+[ \t]*\n)?[^\n]+\n([^\w\s])\2+[ \t]*(?:\n|$)")
_AHEAD = 12
"""Lines after a directive in which a title begins, if it is a target of it."""

_TARGET = re.compile(r"\s*<[^<>]*>$")


def rst_to_markdown(text: str) -> str:
    """Write reStructuredText as Markdown."""
    inliner = states.Inliner()
    inliner.interpreted = partial(_interpreted, inliner)
    parser = Parser(inliner=inliner)
    parser.state_classes = _states()
    parts = publish_parts(_FIELDS.sub("", text), parser=parser, writer=Writer(), settings_overrides=_SETTINGS)
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
        elsewhere = self.name.startswith("auto") or self.name == "literalinclude"
        if not self.content and (elsewhere or self._precedes_a_title()):
            return []
        body = nodes.definition()
        self.state.nested_parse(self.content, self.content_offset, body)
        if elsewhere and all(isinstance(part, (nodes.pending, nodes.system_message)) for part in body.children):
            return []
        about = [*([self.name] if self.name in _VERSIONS else []), *self.arguments]
        if not about:
            return list(body.children)
        named = self.state.inline_text(" ".join(about), self.lineno)[0]
        if not self.content:
            return [nodes.paragraph("", "", *named)]
        term = nodes.term("", "", *named)
        return [nodes.definition_list("", nodes.definition_list_item("", term, body))]

    def _precedes_a_title(self) -> bool:
        """Tell whether it only makes the title that follows a target of links."""
        place = self.state_machine.line_offset + 1
        following = "\n".join(self.state_machine.input_lines[place : place + _AHEAD])
        return self.name not in _VERSIONS and bool(_TITLE.match(following))


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
