"""Encoders of the section ``rag``: the shipped one, and one that is cheaper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semclass import Models, OnnxEncoder
from semclass.core.types import Encoding
from semclass.encoders.onnx_encoder import STATES
from semclass.scoring.topk import unit


@dataclass(frozen=True)
class LowerLayers:
    """The lower layers of the shipped encoder alone: the mean of their states is the vector."""

    whole: OnnxEncoder

    @property
    def fingerprint(self) -> str:
        """That of the whole encoder, marked."""
        return f"{self.whole.fingerprint[:24]}, lower"

    @property
    def views(self) -> Mapping[str, int]:
        """Views and their dimensions."""
        size = self.whole.views[STATES]
        return {"pooled": size, "tokens": size}

    @property
    def is_term(self) -> npt.NDArray[np.bool_]:
        """Those of the whole encoder."""
        return self.whole.is_term

    @property
    def vocabulary(self) -> Sequence[str]:
        """That of the whole encoder."""
        return self.whole.vocabulary

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        """Only ``pooled``, as an index without vectors of tokens asks for."""
        if not views:
            return self.whole.encode(texts, views=())
        read = self.whole.encode(texts, views=(STATES,))
        rows = [read.pieces(STATES).row(row).mean(axis=0) for row in range(len(read.terms))]
        return Encoding(read.terms, unit(np.array(rows, np.float32)), limit=read.limit)


SHIPPED = "shipped"

ENCODERS: Mapping[str, Callable[[], Models]] = {
    SHIPPED: lambda: Models.load(threads=1),
    "its lower layers": lambda: Models.load(encoder=LowerLayers(OnnxEncoder.load())),
}
"""What loads the models of each encoder. One without pair heads is searched without re-ranking."""
