"""semclass predicts which type of answer a question asks for, and finds the passage that answers it, on a CPU.

Names are imported on first use, so that ``import semclass`` itself takes almost no time.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from semclass.core.tools import importer

if TYPE_CHECKING:
    from semclass.core.errors import ArtifactError as ArtifactError
    from semclass.core.errors import EncoderMismatchError as EncoderMismatchError
    from semclass.core.errors import InputError as InputError
    from semclass.core.errors import InputTypeError as InputTypeError
    from semclass.core.errors import MissingExtraError as MissingExtraError
    from semclass.core.errors import SemclassError as SemclassError
    from semclass.core.errors import SkippedWarning as SkippedWarning
    from semclass.core.errors import TruncationWarning as TruncationWarning
    from semclass.core.types import ABSTAIN as ABSTAIN
    from semclass.core.types import Encoder as Encoder
    from semclass.core.types import Encoding as Encoding
    from semclass.core.types import Explanation as Explanation
    from semclass.core.types import Hit as Hit
    from semclass.core.types import Label as Label
    from semclass.core.types import Passage as Passage
    from semclass.core.types import QuestionLabel as QuestionLabel
    from semclass.core.types import SearchResult as SearchResult
    from semclass.documents.chunking import Chunking as Chunking
    from semclass.encoders.onnx_encoder import OnnxEncoder as OnnxEncoder
    from semclass.heads.entailment import EntailmentClassifier as EntailmentClassifier
    from semclass.heads.entailment import EntailmentLabel as EntailmentLabel
    from semclass.heads.passages import PassageClassifier as PassageClassifier
    from semclass.heads.questions import QuestionClassifier as QuestionClassifier
    from semclass.heads.texts import TextModel as TextModel
    from semclass.heads.zero_shot import ZeroShotClassifier as ZeroShotClassifier
    from semclass.heads.zero_shot import read_descriptions as read_descriptions
    from semclass.index.passage_index import PassageIndex as PassageIndex
    from semclass.index.writer import Report as Report
    from semclass.index.writer import build_index as build_index
    from semclass.index.writer import change_index as change_index
    from semclass.ranking.ask import Answer as Answer
    from semclass.ranking.models import Models as Models
    from semclass.ranking.options import SearchOptions as SearchOptions
    from semclass.ranking.reranker import Reranker as Reranker
    from semclass.ranking.retriever import HybridRetriever as HybridRetriever
    from semclass.train.estimators import TextClassifier as TextClassifier

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

__all__ = ["__version__", *(name for names in _HOMES.values() for name in names)]

if find_spec("sklearn") is None:  # `from semclass import *` gives what there is; by name, the extra is told
    __all__.remove("TextClassifier")

__getattr__ = importer(__name__, __name__, _HOMES)


def __dir__() -> list[str]:
    """Public names, whether imported yet or not."""
    return sorted({*__all__, "TextClassifier"})
