"""Evidence that an index keeps of passages for re-ranking."""

from __future__ import annotations

import numpy as np
import pytest
from world import BOOKS, FAKE, FakeEncoder, passage_encoder_of, passages

from semclass import ArtifactError, PassageIndex
from semclass.index.passage_encoder import check_types
from semclass.scoring.vectors import SCALE_BYTES

PROVIDING = passage_encoder_of(FakeEncoder(provided=8), BOOKS)
EXACT = passage_encoder_of(FakeEncoder(provided=8))
TWO = "the boat on the lake is painted {0} all over. " * 9 + "nobody on the hill has ever seen a boat."
ROWS = np.array([3, 0])


def provided(passage_encoder, texts):
    """The encoder's vectors of what the excerpts of some passages provide."""
    return passage_encoder.read(texts)[0].provides.take(ROWS)


@pytest.mark.parametrize(("encoder", "small"), [(PROVIDING, False), (EXACT, False), (PROVIDING, True)])
def test_each_form_gives_what_each_excerpt_provides(tmp_path, encoder, small):
    texts = passages(*range(5), text=TWO)
    PassageIndex.build(texts, passage_encoder=encoder, small=small).save(tmp_path / "index")
    index = PassageIndex.load(tmp_path / "index")
    check_types(index.types, encoder, small=small)
    found, wanted = index.evidence(ROWS, encoder), provided(encoder, texts)
    coded = encoder.codebooks is not None  # a small index encodes again, as precise as an index stores
    assert found.provides.lengths().tolist() == found.excerpts.lengths().tolist() == [2, 2]
    if coded:  # quarter bytes keep the product of a vector with itself, and directions roughly
        products = np.einsum("nd,nd->n", found.provides.values, wanted.values)
        np.testing.assert_allclose(products, np.einsum("nd,nd->n", wanted.values, wanted.values), rtol=1e-3)
    atol = 0.5 * np.abs(wanted.values).max() if coded else 1e-6
    np.testing.assert_allclose(found.provides.values, wanted.values, atol=atol)


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_a_scale_without_numbers_is_refused(scale):
    index = PassageIndex.build(passages(*range(5)), passage_encoder=PROVIDING)
    values = index.segments[0].provides.values
    values[0, -SCALE_BYTES:] = np.array([scale], "<f2").view(np.uint8)
    with pytest.raises(ArtifactError, match=r"provides\.npy .* NaN or infinity"):
        index.evidence(ROWS, PROVIDING)


def test_an_index_of_other_columns_is_refused():
    index = PassageIndex.build(passages(1), passage_encoder=FAKE)
    with pytest.raises(ArtifactError, match="provides of the index have the type"):
        check_types(index.types, EXACT, small=False)
