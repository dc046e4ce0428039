"""AsciiDoc, Org and manual pages as Markdown."""

from __future__ import annotations

import pytest

from semclass.documents.outlines import asciidoc_to_markdown, org_to_markdown, roff_to_markdown


def lines(markdown: str) -> list[str]:
    return [line for line in markdown.splitlines() if line]


def test_asciidoc_keeps_code_and_lists_and_leaves_out_what_is_not_shown():
    text = (
        "tool(1)\n=======\n:toc:\n\nSee link:https://x.org[the site] and <<run,how it runs>>.\n\n[source,sh]\n----\n"
        "== no heading\n----\n////\nhidden\n////\n.Steps\n. first\n** below\n\n--all::\n\tTakes <file> too.\n"
    )
    assert lines(asciidoc_to_markdown(text)) == [
        "# tool(1)", "See the site and how it runs.", "```", "== no heading", "```", "Steps", "1. first", "   - below",
        "**--all**", r"Takes \<file> too.",
    ]  # fmt: skip


@pytest.mark.parametrize("cells", ["|a |b\n\n|1 |2", "|a |b\n\n|1\n|2", "|a\n|b\n\n|1\n|2"])
def test_a_table_of_asciidoc_may_have_a_cell_in_each_line(cells):
    assert lines(asciidoc_to_markdown(f"|===\n{cells}\n|===")) == ["| a | b |", "|---|---|", "| 1 | 2 |"]


def test_org_leaves_out_tasks_drawers_and_dates():
    text = (
        "#+title: Notes\n* DONE [#A] Call Ann :home:\nSCHEDULED: <2026-01-01>\n:LOGBOOK:\n- x\n:END:\n"
        "By [[tel:1][phone]].\n# hidden\n#+begin_src sh\n* no heading\n#+end_src\n"
    )
    assert lines(org_to_markdown(text)) == ["# Notes", "## Call Ann", "By phone.", "```", "* no heading", "```"]


def test_both_kinds_of_manual_pages_have_their_sections_and_terms():
    man = (
        '.TH TOOL 1 "May 2026"\n.SH NAME\ntool \\- does \\fIit\\fR\n.SH OPTIONS\n.TP\n\\fB\\-a\\fR, \\fB\\-\\-all\\fR\n'
        "Takes\n.I all\n.nf\n.x\ntool  -a\n.fi\n"
    )
    assert lines(roff_to_markdown(man)) == [
        "# tool(1)", "## NAME", "tool - does it", "## OPTIONS", "**-a, --all**", "Takes", "all", "```", "tool  -a", "```",
    ]  # fmt: skip
    mdoc = ".Dt TOOL 1\n.Sh NAME\n.Nm tool\n.Nd does it\n.Sh OPTIONS\n.Bl -tag\n.It Fl a Ar file\nTakes it.\n.El\n"
    assert lines(roff_to_markdown(mdoc)) == [
        "# tool(1)", "## NAME", "tool", "– does it", "## OPTIONS", "**-a file**", "Takes it.",
    ]  # fmt: skip


def test_what_is_no_manual_page_stays():
    assert roff_to_markdown("12:01 started\n.hidden\n") == "12:01 started\n.hidden\n"
