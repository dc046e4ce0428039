"""One small manual, written in every format by the libraries that write it."""

from __future__ import annotations

import json
import zipfile
from urllib.parse import quote

BOILER = "The boiler is serviced every second year by the plumber."
PUMP = "The pump runs at night, when power is cheap and nobody is awake."
ROWS = [["part", "years"], ["valve", "5"], ["tank <old>", "2"]]

HTML = f"""<!DOCTYPE html><html><head><title>Site</title><style>p {{}}</style></head><body>
<nav><a href="/">Home</a></nav><header>Shop</header>
<main><h1>Manual<a href="#x">¶</a></h1><h2>Boiler</h2><p>The <b>boiler</b> is serviced every
second year by the plumber.</p><script>var x = 1;</script>
<table><tr><th>part</th><th>years</th></tr><tr><td>valve</td><td>5</td></tr>
<tr><td>tank &lt;old&gt;</td><td>2</td></tr></table>
<h2>Pump</h2><div>{PUMP}</div></main><footer>Imprint</footer></body></html>"""

MARKDOWN = f"""# Manual

## Boiler

{BOILER}

| part | years |
|---|---|
| valve | 5 |
| tank \\<old> | 2 |

## Pump

{PUMP}
"""


def html(path):
    path.write_text(HTML, encoding="utf-8")


def notebook(path):
    cells = [
        {"cell_type": "markdown", "source": MARKDOWN.splitlines(keepends=True)},
        {"cell_type": "code", "source": "run(5)", "outputs": [{"output_type": "stream", "text": ["5 years in all"]}]},
    ]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def epub_parts(names, spine=None):
    """The parts of a book beside its chapters: their order, in which some may not be there."""
    items = "".join(
        f'<item id="{name}" href="{quote(name)}.xhtml" media-type="application/xhtml+xml"/>' for name in names
    )
    places = "".join(f'<itemref idref="{name}"/>' for name in spine or names)
    return {
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="a.opf"/></rootfiles></container>',
        "a.opf": f"<package><manifest>{items}</manifest><spine>{places}</spine></package>",
    }


def epub(path):
    chapter = f'<?xml version="1.0" encoding="utf-8"?>{HTML}'
    with zipfile.ZipFile(path, "w") as book:
        for name, text in {**epub_parts(["one "]), "one .xhtml": chapter}.items():
            book.writestr(name, text)


def docx(path):
    from docx import Document

    document = Document()
    document.add_heading("Manual", 1)
    document.add_heading("Boiler", 2)
    document.add_paragraph(BOILER)
    table = document.add_table(0, 2)
    for row in ROWS:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    document.add_page_break()
    document.add_heading("Pump", 2)
    document.add_paragraph(PUMP)
    document.save(path)


def pptx(path):
    from pptx import Presentation
    from pptx.util import Cm

    deck = Presentation()
    for title, text in (("Boiler", BOILER), ("Pump", PUMP)):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
        if title == "Boiler":
            table = slide.shapes.add_table(len(ROWS), 2, Cm(1), Cm(9), Cm(9), Cm(4)).table
            for place, row in enumerate(ROWS):
                table.cell(place, 0).text, table.cell(place, 1).text = row
    deck.save(path)


def xlsx(path):
    from openpyxl import Workbook

    book = Workbook()
    book.active.title = "Boiler"
    for row in [[BOILER], [], *ROWS]:
        book.active.append([int(cell) if cell.isdigit() else cell for cell in row])
    book.create_sheet("Pump").append([PUMP])
    book.save(path)


def pdf(path):
    """Write four pages with a running header and page numbers; the table has lines."""
    first = [(18, "Manual", 700), (14, "Boiler", 670), *wrapped(BOILER, 650)]
    drawn = ""
    for place, row in enumerate(ROWS):
        top = 600 - 20 * place
        first += [(10, cell, top - 14, 75 + 100 * column) for column, cell in enumerate(row)]
        drawn += "".join(f"{70 + 100 * column} {top - 20} 100 20 re S " for column in range(2))
    pages = [first, [(14, "Pump", 700), *wrapped(PUMP, 680)], [(10, "Oil it.", 700)], [(10, "Call the plumber.", 700)]]
    contents = []
    for number, page in enumerate(pages, 4):
        lines = [(10, "Works of Heat", 780), *page, (10, str(number), 30)]
        contents.append(drawn + "".join(shown(*line) for line in lines))
        drawn = ""
    path.write_bytes(written(contents))


def wrapped(text, top):
    words = text.split()
    return [(10, " ".join(words[start : start + 5]), top - 12 * place) for place, start in enumerate(range(0, 15, 5))]


def shown(size, text, height, left=70):
    return f"BT /F {size} Tf {left} {height} Td ({text}) Tj ET "


HELVETICA = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def written(contents, font=HELVETICA, fields=""):
    """Write a PDF of these contents of pages, each of which has some fields."""
    kids = " ".join(f"{3 + 2 * place} 0 R" for place in range(len(contents)))
    font = f"<< /F {font} >>"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>"]
    for place, content in enumerate(contents):
        page = f"/Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font {font} >> /Contents {4 + 2 * place} 0 R {fields}"
        objects += [f"<< /Type /Page {page} >>", f"<< /Length {len(content)} >>\nstream\n{content}\nendstream"]
    return pdf_of([one.encode("latin-1") for one in objects])


def pdf_of(objects):
    """A PDF of these objects, the first of which is its catalogue."""
    body, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    size, start = len(objects) + 1, len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(body + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, start))


WRITERS = {
    ".docx": docx, ".epub": epub, ".htm": html, ".html": html, ".ipynb": notebook, ".pdf": pdf, ".pptx": pptx,
    ".xhtml": html, ".xlsx": xlsx,
}  # fmt: skip
