"""``python hostile_files.py``: small files that would take minutes or gigabytes, each indexed beside a good one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from docx import Document
from made_documents import epub_parts, pdf_of
from openpyxl import Workbook

GOOD = "# Tea\n\nTea is made of the leaves of one shrub.\n"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LAUGHS = (
    "<!DOCTYPE x [<!ENTITY a0 'ha'>"
    + "".join(f"<!ENTITY a{level} '{f'&a{level - 1};' * 10}'>" for level in range(1, 10))
    + "]>"
)
_STRETCH = 1 << 20
_MEASURED = """
import resource, sys
from semclass.cli.main import main
try:
    main(sys.argv[1:])
finally:
    use = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print("MB", sum(one.ru_maxrss for one in use) // 1000)
    print("CPU", round(sum(one.ru_utime + one.ru_stime for one in use)))
"""


def wide_xlsx(path: Path, rows: int = 20_000) -> None:
    """Each row has a cell in the first column and one in the last that there is."""
    cells = (
        f'<row r="{row}"><c r="A{row}"><v>1</v></c><c r="XFD{row}"><v>2</v></c></row>' for row in range(1, rows + 1)
    )
    _xlsx(path, ["<sheetData>", *cells, "</sheetData>"])


def wide_csv(path: Path, size: int = 20_000) -> None:
    """As many columns as rows, and all rows but the first have one cell."""
    path.write_text(",".join(f"c{number}" for number in range(size)) + "\n" + "1\n" * size)


def sparse_json(path: Path, size: int = 20_000) -> None:
    """Objects of which each has a field of its own: a table of as many columns as rows."""
    path.write_text(json.dumps([{f"c{number}": 1} for number in range(size)]))


def long_docx(path: Path, paragraphs: int = 6_000_000, text: str = "A line of a text that stands here again.") -> None:
    """Very many paragraphs of the same text."""
    line = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" if text else "<w:p/>"
    _docx(path, _repeated(line, paragraphs))


def large_docx(path: Path, size: int = 1_500_000_000) -> None:
    """A few paragraphs of a megabyte each."""
    line = f"<w:p><w:r><w:t>{'tea ' * (_STRETCH // 4)}</w:t></w:r></w:p>"
    _docx(path, _repeated(line, size // len(line)))


def entity_docx(path: Path) -> None:
    """A paragraph that would be two billion characters."""
    _docx(path, ["<w:p><w:r><w:t>&a9;</w:t></w:r></w:p>"], LAUGHS)


def large_epub(path: Path, size: int = 1_500_000_000) -> None:
    """A chapter of gigabytes."""
    line = f"<p>{'tea ' * (_STRETCH // 4)}</p>"
    _package(path, {**epub_parts(["a"]), "a.xhtml": _repeated(line, size // len(line))})


def long_pdf(path: Path, size: int = 200_000_000, pages: int = 1) -> None:
    """A page of very many letters, each set for itself."""
    _pdf(path, b"BT /F 10 Tf 70 700 Td (a) Tj ET\n", size, pages)


def large_pdf(path: Path, size: int = 900_000_000) -> None:
    """A page of blanks, which only take memory."""
    _pdf(path, b" " * 1000, size, 1)


def many_pages_pdf(path: Path) -> None:
    """Very many pages that all show the same."""
    _pdf(path, b"BT /F 10 Tf 70 700 Td (tea is made) Tj ET\n", 100_000, 10_000)


def deep_html(path: Path, depth: int = 300_000) -> None:
    """Elements within elements."""
    path.write_text("<div><b>" * depth + "tea")


def long_line_html(path: Path, size: int = 900_000) -> None:
    """Very many short elements in one line."""
    path.write_text("<p>a<b>b</b></p>" * (size // 16))


def spanning_html(path: Path, rows: int = 20_000) -> None:
    """Cells that each stand for a million."""
    path.write_text("<table>" + "<tr><td rowspan=1000 colspan=1000>tea" * rows)


def nested_md(path: Path, size: int = 500_000) -> None:
    """Quotations and lists within one another, and marks that are never closed."""
    path.write_text(
        "> " * (size // 8) + "\n\n" + "- " * (size // 8) + "\n\n" + "[" * (size // 4) + "*a_" * (size // 12)
    )


def named_table_md(path: Path, size: int = 300_000) -> None:
    """A table with one very long name of a column, which each row would repeat."""
    path.write_text(f"|{'name ' * (size // 5)}|\n|-|\n" + "|a|\n" * (size // 4))


def heading_md(path: Path, size: int = 300_000) -> None:
    """A very long heading, which each passage below it would repeat."""
    path.write_text(f"# {'Tea ' * (size // 4)}\n\n" + f"{'Green tea is drunk hot at noon. ' * 20}\n\n" * 200)


def long_headers_eml(path: Path, size: int = 300_000) -> None:
    """A very long subject and very many receivers, which each passage would repeat."""
    to = ", ".join(f"a{number}@example.org" for number in range(size // 20))
    body = f"{'Green tea is drunk hot at noon. ' * 20}\n\n" * 100
    path.write_text(f"From: a@example.org\nTo: {to}\nSubject: {'tea ' * (size // 4)}\n\n{body}")


def link_md(path: Path, size: int = 1_000_000) -> None:
    """A link that never ends, in a list."""
    path.write_text(f"- [a]({'x' * size}")


def sparse_pdf(path: Path, size: int = 390_000_000) -> None:
    """A file that claims many megabytes, none of which is written."""
    with path.open("wb") as file:
        file.write(b"%PDF-1.4\n")
        file.truncate(size)


def padded_epub(path: Path) -> None:
    """A packed chapter of 40 MB, and three megabytes that nobody reads."""
    large_epub(path, size=40_000_000)
    with zipfile.ZipFile(path, "a") as package:
        package.writestr("cover.jpg", bytes(3_000_000), zipfile.ZIP_STORED)


def infinite_json(path: Path) -> None:
    """A number that is larger than any."""
    path.write_text('[{"text": "Tea.", "size": 1e999}]')


def equal_ids(path: Path) -> None:
    """Two files that give passages with one id."""
    path.write_text("id,text\nb.csv#1,Tea.\n")
    path.with_name(f"{path.name}:b.csv").write_text("text\nCoffee.\n")


FILES: dict[str, Callable[[Path], None]] = {
    "wide.xlsx": wide_xlsx, "wide.csv": wide_csv, "sparse.json": sparse_json,
    "long.docx": long_docx, "large.docx": large_docx, "entity.docx": entity_docx, "large.epub": large_epub,
    "long.pdf": long_pdf, "large.pdf": large_pdf, "pages.pdf": many_pages_pdf, "deep.html": deep_html,
    "line.html": long_line_html, "spanning.html": spanning_html, "nested.md": nested_md,
    "table.md": named_table_md, "heading.md": heading_md, "headers.eml": long_headers_eml, "link.md": link_md,
    "sparse.pdf": sparse_pdf, "padded.epub": padded_epub, "infinite.json": infinite_json, "ids.csv": equal_ids,
}  # fmt: skip
"""The function that writes each file."""


def _repeated(line: str, times: int) -> Iterator[str]:
    step = max(1, _STRETCH // len(line))
    yield from (line * min(step, times - start) for start in range(0, times, step))


def _package(path: Path, parts: dict[str, Iterable[str]]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            with package.open(name, "w", force_zip64=True) as part:
                for text in content:
                    part.write(text.encode())


def _with_part(path: Path, name: str, content: Iterable[str]) -> None:
    """Put other content into a part of a package that a library wrote."""
    with zipfile.ZipFile(path) as package:
        names = [one for one in package.namelist() if not one.endswith(".jpeg")]
        parts: dict[str, Iterable[str]] = {one: [package.read(one).decode()] for one in names}
    _package(path, {**parts, name: content})


def _docx(path: Path, body: Iterable[str], head: str = "") -> None:
    Document().save(str(path))
    begin, end = f'{head}<w:document xmlns:w="{_WORD}"><w:body>', "</w:body></w:document>"
    _with_part(path, "word/document.xml", chain([begin], body, [end]))


def _xlsx(path: Path, sheet: Iterable[str]) -> None:
    Workbook().save(path)
    begin, end = f'<worksheet xmlns="{_SHEET}">', "</worksheet>"
    _with_part(path, "xl/worksheets/sheet1.xml", chain([begin], sheet, [end]))


def _pdf(path: Path, line: bytes, size: int, pages: int) -> None:
    """Write a PDF whose pages all have the same packed content."""
    packer, stretch = zlib.compressobj(9), line * max(1, min(size, _STRETCH) // len(line))
    content = b"".join(packer.compress(stretch) for _ in range(max(1, size // len(stretch)))) + packer.flush()
    page = "/Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 3 0 R /Resources << /Font << /F 4 0 R >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{5 + at} 0 R' for at in range(pages))}] /Count {pages} >>".encode(),
        f"<< /Length {len(content)} /Filter /FlateDecode >>\nstream\n".encode() + content + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *[f"<< {page} >>".encode()] * pages,  # a reader leaves out a page that comes twice
    ]
    path.write_bytes(pdf_of(objects))


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads that wait for each other would count
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, env=alone)


def main() -> None:
    print("| file | bytes | seconds | of CPU | MB of memory | index / file | good file found | message |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in sys.argv[1:] or FILES:
        with tempfile.TemporaryDirectory() as made:
            folder, index = Path(made) / "docs", Path(made) / "index"
            folder.mkdir()
            FILES[name](folder / name)
            (folder / "good.md").write_text(GOOD)
            start = time.perf_counter()
            done = _run("-c", _MEASURED, "index", "build", str(folder), "--out", str(index), "--partial")
            seconds = time.perf_counter() - start
            (_, memory), (_, cpu) = map(str.split, done.stdout.splitlines()[-2:])
            found = "good.md" in _run("-m", "semclass", "search", str(index), "leaves of one shrub").stdout
            size, stored = (folder / name).stat().st_size, sum(file.stat().st_size for file in index.rglob("*"))
            reason = next((line for line in done.stderr.splitlines() if name in line), done.stderr.strip())
            row = [name, f"{size:,}", f"{seconds:.1f}", cpu, memory, f"{stored / size:.1f}", str(found), reason]
            print(f"| {' | '.join(row)} |".replace(f"{folder}/", ""), flush=True)


if __name__ == "__main__":
    main()
