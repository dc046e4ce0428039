from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.documents.sentences import split_sentences

WHOLE = [
    "Infection with E. coli strains is common among the cattle of the region.",
    "Patients (n = 12) vs. controls were seen, e.g. at night, by Dr. J. Smith et al. in the ward.",
    "The U.S. Army left the island in 1945 after three long winters.",
]


@pytest.mark.parametrize("sentence", WHOLE)
def test_abbreviations_and_initials_end_no_sentence(sentence):
    assert split_sentences(sentence) == [sentence]


def test_sentences_end_at_marks_and_at_lines():
    first, second, third = (
        "Did the lamp burn all night?",
        "The keeper said that it did.",
        "Stores of the lighthouse, 1874",
    )
    assert split_sentences(f"{first} {second}\n{third}") == [first, second, third]
    quoted = '"The lamp never burnt that night."'
    assert split_sentences(f"{quoted} So the keeper had written.") == [quoted, "So the keeper had written."]
    short = "Yes. The keeper lit the lamp at dusk."
    assert split_sentences(short) == [short], "short pieces belong to their neighbour"


@pytest.mark.parametrize(
    "sentences",
    [
        [
            "町の人々は、その橋を設計した技師のことを今でもよく覚えている。",
            "橋は一八七四年の秋、三度の嵐の冬を越えて開通したのである！",
        ],
        ["नदी के ऊपर बना यह पुराना पुल शहर के दोनों भागों को जोड़ता है।", "इसे बनाने में तीन सर्दियाँ लगीं।"],
        ["هل يعرف أحد في المدينة متى بُني الجسر القديم؟", "بُني الجسر بعد ثلاثة فصول شتاء عاصفة."],
        ["ስለ አሮጌው ድልድይ የከተማው ሰዎች ብዙ ታሪክ ይናገራሉ።", "ድልድዩ ከሦስት ዓመታት ሥራ በኋላ ለሕዝብ ተከፈተ።"],
    ],
    ids=["Japanese", "Hindi", "Arabic", "Amharic"],
)
def test_sentences_end_at_the_marks_of_other_scripts(sentences):
    assert split_sentences(" ".join(sentences)) == sentences
    if sentences[0][-1] != "؟":
        assert split_sentences("".join(sentences)) == sentences


@given(st.text(st.sampled_from("ab .?!\n\"')"), min_size=1).filter(str.strip))
def test_nothing_of_a_text_is_lost(text):
    assert " ".join(" ".join(split_sentences(text)).split()) == " ".join(text.split())


def test_a_stretch_without_a_full_stop_is_cut():
    table = " ".join(f"row {number}" for number in range(130))
    parts = split_sentences(table)
    assert [len(part.split()) for part in parts] == [86, 87, 87]
    assert " ".join(parts) == table
