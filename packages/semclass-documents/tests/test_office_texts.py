"""Text documents of office programs: no text of them is lost, doubled, glued or left at two places."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec

import pytest

from semclass.documents.readers import read_passages

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_NAMES = {
    "w": _WORD, "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main", "v": "urn:schemas-microsoft-com:vml",
    "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
}  # fmt: skip


def docx(path, *parts):
    from docx import Document
    from docx.oxml import parse_xml

    document = Document()
    declared = " ".join(f'xmlns:{name}="{uri}"' for name, uri in _NAMES.items())
    for part in parse_xml(f"<w:body {declared}>{''.join(parts)}</w:body>"):
        document.element.body.insert(len(document.element.body) - 1, part)
    document.save(path)


def read(folder, *parts):
    docx(folder / "a.docx", *parts)
    return "\n".join(one.text for one in read_passages(folder / "a.docx"))


def run(text, look=""):
    return f'<w:r><w:rPr>{look}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*runs):
    return f"<w:p>{''.join(runs)}</w:p>"


def control(inner):
    return f"<w:sdt><w:sdtContent>{inner}</w:sdtContent></w:sdt>"


def cell(text):
    return f"<w:tc>{paragraph(run(text))}</w:tc>"


def box(*lines):
    inside = f"<w:txbxContent>{''.join(paragraph(run(line)) for line in lines)}</w:txbxContent>"
    shape = f"<wps:wsp><wps:txbx>{inside}</wps:txbx></wps:wsp>"
    drawn = (
        f"<w:drawing><wp:anchor><a:graphic><a:graphicData>{shape}</a:graphicData></a:graphic></wp:anchor></w:drawing>"
    )
    old = f"<w:pict><v:shape><v:textbox>{inside}</v:textbox></v:shape></w:pict>"
    choice = f'<mc:Choice Requires="wps">{drawn}</mc:Choice><mc:Fallback>{old}</mc:Fallback>'
    return f"<w:r><mc:AlternateContent>{choice}</mc:AlternateContent></w:r>"


def test_content_controls_are_read_at_every_level(tmp_path):
    rows = control(f"<w:tr>{cell('Heron')}{cell('17')}</w:tr>") + f"<w:tr>{control(cell('Kite'))}{cell('23')}</w:tr>"
    table = f"<w:tbl><w:tr>{cell('Boat')}{cell('Berth')}</w:tr>{rows}</w:tbl>"
    text = read(
        tmp_path,
        control(paragraph(run("The key."))),
        paragraph(run("It "), control(run("hangs")), run(" there.")),
        table,
    )
    assert text == "The key.\n\nIt hangs there.\nBoat: Heron; Berth: 17\nBoat: Kite; Berth: 23"


def test_text_boxes_stand_once_and_apart(tmp_path):
    text = read(tmp_path, paragraph(run("The harbour"), box("Swans bite.", "Feed them."), run(" is open.")))
    assert text == "The harbour is open.\n\nSwans bite.\n\nFeed them."
    drawn = box("Swans bite.").partition("<mc:Fallback>")[0] + "</mc:AlternateContent></w:r>"
    assert read(tmp_path, paragraph(run("The harbour"), drawn)) == "The harbour\n\nSwans bite."


def test_changes_are_read_as_accepted(tmp_path):
    moved = run("Moved here.")
    out, into = (f'<w:{name} w:id="1" w:author="a">{moved}</w:{name}>' for name in ("moveFrom", "moveTo"))
    gone = '<w:del w:id="2" w:author="a"><w:r><w:delText>Deleted.</w:delText></w:r></w:del>'
    new = f'<w:ins w:id="3" w:author="a">{run("Inserted.")}</w:ins>'
    assert read(tmp_path, paragraph(run("One."), out), paragraph(into, gone, new)) == "One.\n\nMoved here.Inserted."


def test_hyphens_fields_and_raised_signs_are_read(tmp_path):
    raised = run("6", '<w:vertAlign w:val="superscript"/>')
    number = f"<w:fldSimple w:instr='SEQ F'>{run('3')}</w:fldSimple>"
    hard = "<w:r><w:t>KX</w:t><w:noBreakHyphen/><w:t>20</w:t></w:r>"
    text = read(
        tmp_path, paragraph(run("Figure "), number, run(": "), hard, run(", a gas\u00adket, KX\u201121, 10"), raised)
    )
    assert text == "Figure 3: KX-20, a gasket, KX-21, 10^6"


@pytest.mark.parametrize(
    ("equation", "written"),
    [
        ("<m:sSup><m:e>c</m:e><m:sup>2</m:sup></m:sSup>", "c^2"),
        ("<m:sSubSup><m:e>x</m:e><m:sub>1</m:sub><m:sup>n+1</m:sup></m:sSubSup>", "x_1^(n+1)"),
        ("<m:f><m:fPr/><m:num>a+b</m:num><m:den>2</m:den></m:f>", "(a+b)/2"),
        ("<m:rad><m:deg>3</m:deg><m:e>x</m:e></m:rad>", "3√x"),
        ("<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val=']'/></m:dPr><m:e>k</m:e></m:d>", "[k]"),
        ("<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>1</m:sub><m:sup>n</m:sup><m:e>i</m:e></m:nary>", "∑_1^n i"),
        ("<m:func><m:fName>sin</m:fName><m:e>x</m:e></m:func>", "sin x"),
        ("<m:m><m:mr><m:e>a</m:e><m:e>b</m:e></m:mr><m:mr><m:e>c</m:e><m:e>d</m:e></m:mr></m:m>", "a b; c d"),
    ],
)  # fmt: skip
def test_equations_are_read_in_their_order(tmp_path, equation, written):
    for text in ("a+b", "n+1", "sin", *"abcdeiknx123"):
        equation = equation.replace(f">{text}<", f"><m:r><m:t>{text}</m:t></m:r><")
    inside = f"<m:oMath>{equation}</m:oMath>"
    alone = paragraph(f"<m:oMathPara>{inside}</m:oMathPara>")
    assert (
        read(tmp_path, paragraph(run("Here "), inside, run(" holds.")), alone) == f"Here {written} holds.\n\n{written}"
    )


def test_notes_are_read_with_their_numbers(tmp_path):
    from docx import Document
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    document = Document()
    for kind in ("footnote", "endnote"):
        mark = document.add_paragraph(f"See the {kind}.").runs[0]._element
        mark.append(mark.makeelement(f"{{{_WORD}}}{kind}Reference", {f"{{{_WORD}}}id": "2"}))
        note = paragraph(run(f"The {kind}: KX"), "<w:r><w:noBreakHyphen/></w:r>")
        notes = f'<w:{kind}s xmlns:w="{_WORD}"><w:{kind} w:id="2">{note}'
        name = PackURI(f"/word/{kind}s.xml")
        kind_of = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}s+xml"
        part = Part(name, kind_of, f"{notes}</w:{kind}></w:{kind}s>".encode(), document.part.package)
        document.part.relate_to(part, getattr(RELATIONSHIP_TYPE, f"{kind.upper()}S"))
    document.save(tmp_path / "a.docx")
    text = "\n".join(one.text for one in read_passages(tmp_path / "a.docx"))
    assert "See the footnote.[1]" in text
    assert "The footnote: KX-" in text
    assert "The endnote: KX-" in text


# -- odt ---------------------------------------------------------------------------------------------------------------

needs_pandoc = pytest.mark.skipif(find_spec("pypandoc") is None, reason="needs pandoc")


def odt(path, body):
    kinds = {"office": "office", "text": "text", "table": "table", "draw": "drawing", "style": "style"}
    names = " ".join(f'xmlns:{a}="urn:oasis:names:tc:opendocument:xmlns:{b}:1.0"' for a, b in kinds.items())
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        package.writestr("styles.xml", f"<office:document-styles {names}><office:styles/></office:document-styles>")
        text = f"<office:body><office:text>{body}</office:text></office:body>"
        package.writestr("content.xml", f"<office:document-content {names}>{text}</office:document-content>")
    return "\n".join(one.text for one in read_passages(path))


@needs_pandoc
def test_notes_and_text_boxes_of_an_odt_are_read(tmp_path):
    body = "<text:note-body><text:p>In winter.</text:p></text:note-body>"
    note = f'<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>{body}</text:note>'
    box = "<draw:frame><draw:text-box><text:p>Swans bite.</text:p></draw:text-box></draw:frame>"
    text = odt(tmp_path / "a.odt", f"<text:p>The fee is low.{note}</text:p><text:p>The quay{box} is open.</text:p>")
    assert text == "The fee is low.[1]\n\nThe quay is open.\n\nSwans bite.\n\n1. In winter."


@needs_pandoc
def test_tables_in_cells_of_an_odt_are_read_once(tmp_path):
    def table(*rows):
        cells = ("".join(f"<table:table-cell>{one}</table:table-cell>" for one in row) for row in rows)
        lines = "".join(f"<table:table-row>{row}</table:table-row>" for row in cells)
        return f"<table:table><table:table-column/>{lines}</table:table>"

    def text(line):
        return f"<text:p>{line}</text:p>"

    inner = table([text("17"), text("18")], [text("19"), text("20")])
    found = odt(tmp_path / "a.odt", table([text("Boat"), text("Berths")], [text("Heron"), text("North:") + inner]))
    assert found == "Boat: Heron; Berths: North: 17; 18 19; 20"
