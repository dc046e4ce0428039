"""Features of spelling: each example shows the meaning of one feature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.heads.surface import SURFACE_FEATURES, surface_features


def feature(name: str, text: str) -> float:
    return float(surface_features([text])[0, SURFACE_FEATURES.index(name)])


def count(name: str, text: str) -> int:
    """Undo ln(1 + count)."""
    value = np.expm1(feature(name, text))
    assert value == pytest.approx(round(value), abs=1e-4)
    return round(value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("words", "IBM was founded in 1911.", 4),
        ("sentences", "It rained. Then it stopped! Why?", 3),
        ("sentences", "It costs 3.50 dollars, i.e. little", 0),
        ("lines", "one\ntwo\nthree", 2),
        ("bars", "| Born | 1925 |", 3),
        ("items", "1. Sum the digits\n2. Multiply\n- Done", 3),
        ("colons", "Founded: 1911; Headquarters: Armonk", 3),
        ("links", "Retrieved from https://example.org", 2),
        ("numbers", "It has 1,400 units, 3.83 of them new, and 16-bit words", 3),
        ("numbers", "the first of its kind [12][a]", 0),
        ("years", "from 1914 to 1956, 3000 people", 2),
        ("months", "In September 1997 or may be later", 1),
        ("number_words", "Two dozen eggs", 2),
        ("percents", "50% or 12 percent", 2),
        ("money", "$40 million, about €3 or 5 dollars", 4),
        ("measures", "16 GB, 27 MW, 3 days", 3),
        ("capitalised", "The system was sold to Sabre, Delta and others", 2),
        ("names", "Thomas Watson met Grace Hopper", 2),
        ("initials", "George J. Laurer and J. R. Opel", 3),
        ("mixed_case", "The iPhone and YouTube ran on POWER8", 3),
        ("acronyms", "IBM sold PCs to NASA; a test", 3),
        ("acronyms_in_parentheses", "the Universal Product Code (UPC)", 1),
        ("abbreviation_words", "UPC stands for something; an acronym", 2),
        ("in_name", "in New York, near Lyon, at the Louvre, in September", 3),
        ("name_comma_name", "Armonk, New York", 1),
        ("place_words", "located in the city", 2),
        ("by_name", "invented by James Logan and by others", 1),
        ("person_words", "she married the founder", 3),
        ("organisation_words", "a company called Microtouch Inc.", 2),
        ("reason_words", "because it allows more", 2),
        ("is_a", "A memex is a device. Its parts are the desk and the film.", 2),
    ],
)
def test_counts(name, text, expected):
    assert count(name, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("International Business Machines (IBM) was founded", 1),
        ("IBM (International Business Machines) was founded", 1),
        ("the Ministry of Internal Affairs (MIA)", 1),
        ("Random-Access Memory (RAM) and Read Only Memory (ROM)", 2),
        ("random-access memory (ram)", 1),
        ("the national aeronautics and space administration (nasa)", 1),
        ("a machine of IBM (in New York)", 0),
        ("the system (also) failed (NYT)", 0),
        ("(IBM)", 0),
    ],
)
def test_acronyms_are_compared_with_the_words_beside_them(text, expected):
    assert count("acronyms_spelt_out", text) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("function_word_rate", "the end of the line", 3 / 6),  # the end of a text is a token
        ("number_rate", "7 and 1999", 2 / 4),
        ("capital_rate", "Paris and ROME", 2 / 4),
        ("bar_rate", "a | b", 1 / 4),
        ("line_rate", "a\nb", 1 / 4),
        ("word_length", "four legs", np.log1p(4)),
        ("line_words", "one two\nthree", np.log1p(5 / 2)),
        ("characters", "12345", np.log(6)),
        ("any_number", "in 1999", 1),
        ("any_number", "as they say [12]", 0),
        ("any_quantity", "two of them", 1),
        ("any_quantity", "some of them [12]", 0),
    ],
)
def test_rates_and_sizes(name, text, expected):
    assert feature(name, text) == pytest.approx(expected, rel=1e-6)


def test_every_feature_has_its_example(request):
    """The examples above are the documentation: none may be missing."""
    source = request.path.read_text()
    assert [name for name in SURFACE_FEATURES if f'"{name}"' not in source] == []


PIECES = st.lists(
    st.sampled_from(
        ["IBM", "(", ")", "[1]", "[", "1911", "3.5", "-", "\n", "|", "a", "Oslo", "'", "É", "٣", "…", "\ud800"]
    )
)


@given(st.text() | PIECES.map("".join) | PIECES.map(" ".join))
def test_any_text_gives_finite_values(text):
    features = surface_features([text])
    assert np.isfinite(features).all()
    assert (features >= 0).all()
