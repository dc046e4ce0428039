"""semclass tells which type of answer a question asks for and which passage gives it, on a CPU.

Names are imported when they are first used, so that ``import semclass`` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semclass.build import build_index
    from semclass.context import Context, build_context
    from semclass.encoder import OnnxEncoder
    from semclass.entailment import EntailmentClassifier, EntailmentLabel
    from semclass.errors import (
        ArtifactError,
        EncoderMismatchError,
        InputError,
        InputTypeError,
        MissingExtraError,
        SemclassError,
        TruncationWarning,
    )
    from semclass.estimators import HeadClassifier, TextClassifier
    from semclass.index import PassageIndex
    from semclass.passages import PassageClassifier
    from semclass.qdrant import QdrantIndex
    from semclass.questions import QuestionClassifier
    from semclass.ranker import Ranker
    from semclass.rerank import Reranker
    from semclass.retriever import HybridRetriever
    from semclass.taxonomy import ABSTAIN
    from semclass.texts import TextLabels, TextModel
    from semclass.types import Encoder, Encoding, Explanation, Hit, Passage, PassageLabels, QuestionLabel
    from semclass.writer import IndexWriter

__version__ = "0.1.0"

_HOMES = {
    "build": ("build_index",),
    "context": ("Context", "build_context"),
    "encoder": ("OnnxEncoder",),
    "entailment": ("EntailmentClassifier", "EntailmentLabel"),
    "errors": (
        "ArtifactError",
        "EncoderMismatchError",
        "InputError",
        "InputTypeError",
        "MissingExtraError",
        "SemclassError",
        "TruncationWarning",
    ),
    "estimators": ("HeadClassifier", "TextClassifier"),
    "index": ("PassageIndex",),
    "passages": ("PassageClassifier",),
    "qdrant": ("QdrantIndex",),
    "questions": ("QuestionClassifier",),
    "ranker": ("Ranker",),
    "rerank": ("Reranker",),
    "retriever": ("HybridRetriever",),
    "taxonomy": ("ABSTAIN",),
    "texts": ("TextLabels", "TextModel"),
    "types": ("Encoder", "Encoding", "Explanation", "Hit", "Passage", "PassageLabels", "QuestionLabel"),
    "writer": ("IndexWriter",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__: list[str] = [
    "ABSTAIN",
    "ArtifactError",
    "Context",
    "Encoder",
    "EncoderMismatchError",
    "Encoding",
    "EntailmentClassifier",
    "EntailmentLabel",
    "Explanation",
    "HeadClassifier",
    "Hit",
    "HybridRetriever",
    "IndexWriter",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "OnnxEncoder",
    "Passage",
    "PassageClassifier",
    "PassageIndex",
    "PassageLabels",
    "QdrantIndex",
    "QuestionClassifier",
    "QuestionLabel",
    "Ranker",
    "Reranker",
    "SemclassError",
    "TextClassifier",
    "TextLabels",
    "TextModel",
    "TruncationWarning",
    "__version__",
    "build_context",
    "build_index",
]

_EXTRA = {"HeadClassifier": "sklearn", "TextClassifier": "sklearn"}
for _name, _library in _EXTRA.items():
    if (
        find_spec(_library) is None
    ):  # `from semclass import *` gives what there is; asked for by name, the extra is told
        __all__.remove(_name)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'semclass' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"semclass.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, whether imported yet or not."""
    return sorted({*__all__, *_HOME_OF})
