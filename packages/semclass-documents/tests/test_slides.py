"""Slides: their charts, and slides without text or title."""

from __future__ import annotations

import pytest

from semclass.documents.readers import read_passages


@pytest.fixture
def deck():
    from pptx import Presentation

    return Presentation()


def slide(deck, title=""):
    found = deck.slides.add_slide(deck.slide_layouts[5 if title else 6])
    if title:
        found.shapes.title.text = title
    return found


def read(deck, folder):
    deck.save(folder / "a.pptx")
    return [(one.metadata.get("heading"), one.text) for one in read_passages(folder / "a.pptx")]


def chart(slide, kind, data):
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Cm

    return slide.shapes.add_chart(getattr(XL_CHART_TYPE, kind), Cm(1), Cm(4), Cm(9), Cm(9), data).chart


@pytest.mark.parametrize("kind", ["COLUMN_CLUSTERED", "LINE", "PIE", "AREA", "RADAR"])
def test_a_chart_is_a_table_of_its_categories(deck, tmp_path, kind):
    from pptx.chart.data import CategoryChartData

    data = CategoryChartData()
    data.categories = ["North", "South"]
    data.add_series("2025", (40, 55))
    shown = chart(slide(deck, "Fees"), kind, data)
    shown.has_title = True
    shown.chart_title.text_frame.text = "Crowns a night"
    assert read(deck, tmp_path) == [("Fees", "Crowns a night\nNorth; 2025: 40\nSouth; 2025: 55")]


def test_a_chart_without_categories_is_a_table_of_its_points(deck, tmp_path):
    from pptx.chart.data import XyChartData

    data = XyChartData()
    series = data.add_series("depth")
    for point in ((1, 7.5), (2, 8)):
        series.add_data_point(*point)
    chart(slide(deck, "Depth of the quay"), "XY_SCATTER", data)
    assert read(deck, tmp_path)[0][1].endswith("1; depth: 7.5\n2; depth: 8")


def test_a_text_with_an_equation_is_read(deck, tmp_path):
    from lxml import etree
    from pptx.util import Cm

    text = slide(deck, "Force").shapes.add_textbox(Cm(1), Cm(5), Cm(9), Cm(2))
    text.text_frame.text = "So "
    names = "http://schemas.openxmlformats.org/{}/2006"
    math = f'<m:oMath xmlns:m="{names.format("officeDocument")}/math"><m:r><m:t>F=2</m:t></m:r></m:oMath>'
    text.text_frame.paragraphs[0]._p.append(etree.fromstring(f"<a>{math}</a>"))
    versions = f'<c:AlternateContent xmlns:c="{names.format("markup-compatibility")}"><c:Choice/></c:AlternateContent>'
    text._element.addprevious(versions := etree.fromstring(versions))
    versions[0].append(text._element)
    assert read(deck, tmp_path) == [("Force", "Force\n\nSo F=2")]


def test_slides_without_text_or_title_are_kept_apart(deck, tmp_path):
    from pptx.util import Cm

    chapter = slide(deck, "Beware of swans")
    text = slide(deck, "Ropes").shapes.add_textbox(Cm(1), Cm(5), Cm(9), Cm(2)).text_frame
    text.text = "Hemp ropes hold 10"
    raised = text.paragraphs[0].add_run()
    raised.text = "6"
    raised.font._element.set("baseline", "30000")
    slide(deck).shapes.add_textbox(Cm(1), Cm(1), Cm(9), Cm(2)).text_frame.text = "Pay at the kiosk."
    chapter.notes_slide.notes_text_frame.text = ""
    found = read(deck, tmp_path)
    assert found == [
        (None, "Beware of swans"),
        ("Ropes", "Ropes\n\nHemp ropes hold 10^6"),
        (None, "Pay at the kiosk."),
    ]
