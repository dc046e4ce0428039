"""What was tried over documentation trees: what is searched of them, and how a table counts."""

from __future__ import annotations

from bench import document_tries, documents


def test_headings_that_are_asked_are_not_searched_but_tell_what_is_right(tmp_path):
    asked = next(
        one
        for source in document_tries.SOURCES
        for one in documents.questions_of(source, quick=False)
        if one.kind == "faq" and one.document.endswith(".md")
    )
    path = tmp_path / asked.source / asked.document
    path.parent.mkdir(parents=True)
    path.write_text(f"# Tea\n\n## {asked.heading}\n\nThe leaves of one shrub, which grows on hills.\n")
    found = {kind: document_tries.of_tree(asked.source, kind)(tmp_path, tmp_path) for kind in documents.KINDS}
    (searched,), (whole,) = found["faq"].passages, found["question"].passages
    assert searched.metadata["headings"] == whole.metadata["headings"][:-1]
    right = dict(found["faq"].questions)[asked.question]
    assert right == {searched.metadata["section"]}


def test_a_table_counts_the_questions_of_all_trees_together():
    places = {"a": {"x": [1, 3]}, "b": {"x": [0, 4]}}
    found = {"document_tries": {"sets_tried": dict.fromkeys(document_tries.SETS, places)}}
    assert document_tries.table(found).splitlines()[2] == f"| x |{' 25.0%, 50.0% |' * len(document_tries.SETS)}"
