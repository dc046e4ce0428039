"""Retrievers over passages and folders that no index holds yet."""

from __future__ import annotations

import pytest

from semclass import HybridRetriever, InputError, InputTypeError, Passage, SkippedWarning


def test_strings_get_their_places_as_ids_and_passages_keep_theirs(models):
    passages = ["The tower is open at noon.", Passage("built", "The tower was built in 1890.")]
    retriever = HybridRetriever.from_passages(passages, models=models)
    assert sorted(hit.id for hit in retriever.search("When was the tower built?")) == ["0", "built"]
    assert retriever.search("When was the tower built?")[0].id == "built"


@pytest.mark.parametrize(("passages", "said"), [("one text", "sequence"), ([3], r"passages\[0\]"), (None, "sequence")])
def test_what_is_no_sequence_of_passages_is_refused(models, passages, said):
    with pytest.raises(InputTypeError, match=said):
        HybridRetriever.from_passages(passages, models=models)


def test_no_passages_are_refused(models):
    with pytest.raises(InputError):
        HybridRetriever.from_passages([], models=models)


def test_a_folder_is_read_and_what_cannot_be_read_is_named(models, tmp_path):
    (tmp_path / "tower.md").write_text("# Tower\n\nThe tower was built in 1890 by a fisherman.\n")
    (tmp_path / "broken.json").write_text("{")
    with pytest.warns(SkippedWarning, match=r"broken\.json"):
        retriever = HybridRetriever.from_folder(tmp_path, models=models)
    assert "1890" in retriever.search("When was the tower built?")[0].text
