"""semclass predicts which type of answer a question asks for, and finds the passage that answers it, on a CPU.

Names are imported on first use, so that ``import semclass`` itself takes almost no time.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from semclass.core.tools import importer

if TYPE_CHECKING:
    from semclass.core.errors import (
        ArtifactError,
        EncoderMismatchError,
        InputError,
        InputTypeError,
        MissingExtraError,
        SemclassError,
        SkippedWarning,
        TruncationWarning,
    )
    from semclass.core.types import (
        ABSTAIN,
        Encoder,
        Encoding,
        Explanation,
        Hit,
        Label,
        Passage,
        QuestionLabel,
        SearchResult,
    )
    from semclass.documents.chunking import Chunking
    from semclass.encoders.onnx_encoder import OnnxEncoder
    from semclass.heads.entailment import EntailmentClassifier, EntailmentLabel
    from semclass.heads.passages import PassageClassifier
    from semclass.heads.questions import QuestionClassifier
    from semclass.heads.texts import TextModel
    from semclass.heads.zero_shot import ZeroShotClassifier, read_descriptions
    from semclass.index.passage_index import PassageIndex
    from semclass.index.writer import Report, build_index, change_index
    from semclass.ranking.ask import Answer
    from semclass.ranking.models import Models
    from semclass.ranking.options import SearchOptions
    from semclass.ranking.reranker import Reranker
    from semclass.ranking.retriever import HybridRetriever
    from semclass.train.estimators import TextClassifier

__version__ = "1.0.0"

_HOMES = {
    "documents.chunking": ("Chunking",),
    "encoders.onnx_encoder": ("OnnxEncoder",),
    "heads.zero_shot": ("ZeroShotClassifier", "read_descriptions"),
    "heads.entailment": ("EntailmentClassifier", "EntailmentLabel"),
    "core.errors": (
        "ArtifactError",
        "EncoderMismatchError",
        "InputError",
        "InputTypeError",
        "MissingExtraError",
        "SemclassError",
        "SkippedWarning",
        "TruncationWarning",
    ),
    "train.estimators": ("TextClassifier",),
    "index.passage_index": ("PassageIndex",),
    "heads.passages": ("PassageClassifier",),
    "heads.questions": ("QuestionClassifier",),
    "ranking.ask": ("Answer",),
    "ranking.models": ("Models",),
    "ranking.options": ("SearchOptions",),
    "ranking.reranker": ("Reranker",),
    "ranking.retriever": ("HybridRetriever",),
    "heads.texts": ("TextModel",),
    "core.types": (
        "ABSTAIN",
        "Encoder",
        "Encoding",
        "Explanation",
        "Hit",
        "Label",
        "Passage",
        "QuestionLabel",
        "SearchResult",
    ),
    "index.writer": ("Report", "build_index", "change_index"),
}

__all__: list[str] = [
    "ABSTAIN",
    "Answer",
    "ArtifactError",
    "Chunking",
    "Encoder",
    "EncoderMismatchError",
    "Encoding",
    "EntailmentClassifier",
    "EntailmentLabel",
    "Explanation",
    "Hit",
    "HybridRetriever",
    "InputError",
    "InputTypeError",
    "Label",
    "MissingExtraError",
    "Models",
    "OnnxEncoder",
    "Passage",
    "PassageClassifier",
    "PassageIndex",
    "QuestionClassifier",
    "QuestionLabel",
    "Report",
    "Reranker",
    "SearchOptions",
    "SearchResult",
    "SemclassError",
    "SkippedWarning",
    "TextClassifier",
    "TextModel",
    "TruncationWarning",
    "ZeroShotClassifier",
    "__version__",
    "build_index",
    "change_index",
    "read_descriptions",
]

_EXTRA = {"TextClassifier": "sklearn"}
for _name, _library in _EXTRA.items():
    if (
        find_spec(_library) is None
    ):  # `from semclass import *` gives what there is; asked for by name, the extra is told
        __all__.remove(_name)


__getattr__ = importer(__name__, __name__, _HOMES)


def __dir__() -> list[str]:
    """Public names, whether imported yet or not."""
    return sorted({*__all__, *(name for names in _HOMES.values() for name in names)})
