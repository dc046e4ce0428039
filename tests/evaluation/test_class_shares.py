"""Which classes are asked for and provided."""

import numpy as np
import pytest

from semclass import HybridRetriever, InputError, Models, PassageIndex
from semclass.evaluation.class_shares import class_shares

ASKED = {"Who built the bridge?": "HUM", "When was it opened?": "NUM", "How long is the bridge?": "NUM"}


def test_shares_are_counted_over_passages_questions_and_hits(retriever):
    found = class_shares(retriever, list(ASKED), list(ASKED.values()), k=100)
    assert (found.questions, found.passages) == (3, len(retriever.index))
    assert dict(zip(found.classes, found.asked, strict=True))["NUM"] == pytest.approx(2 / 3)
    every = [hit.labels for hit in retriever.search("bridge", k=100)]
    for name, share in zip(found.classes, found.provided, strict=True):
        assert share == pytest.approx(np.mean([name in labels for labels in every]))
    first = [retriever.search(text)[0].labels for text in ASKED]
    met = [name in labels for name, labels in zip(ASKED.values(), first, strict=True)]
    assert found.met["default"][0] == pytest.approx(np.mean(met))
    assert len(found.met["default"]) == len(retriever.index)
    assert found.confusion.trace() == found.confusion.sum() == 3


def test_a_class_that_there_is_not_and_models_without_classes_are_refused(retriever, fake_encoder, corpus):
    with pytest.raises(InputError, match="PERSON"):
        class_shares(retriever, ["Who?"], ["PERSON"])
    with pytest.raises(InputError, match="3 questions and 1"):
        class_shares(retriever, list(ASKED), ["NUM"])
    bare = Models.load(encoder=fake_encoder)
    index = PassageIndex.build(corpus, passage_encoder=bare.passage_encoder)
    with pytest.raises(InputError, match="class heads"):
        class_shares(HybridRetriever(index, bare), ["Who?"])


def test_shares_as_a_picture(retriever):
    pytest.importorskip("matplotlib")
    from semclass.evaluation.figures import class_picture

    found = class_shares(retriever, list(ASKED), list(ASKED.values()))
    picture = class_picture(found)
    assert picture.startswith(b"\x89PNG")
    assert class_picture(found) == picture
