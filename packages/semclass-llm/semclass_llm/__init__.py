"""Adds a language model to semclass, to label texts, write and judge answers, and rewrite questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from semclass.plugins import importer

if TYPE_CHECKING:
    from semclass_llm.answer import AnswerWriter as AnswerWriter
    from semclass_llm.cascade import Cascade as Cascade
    from semclass_llm.cascade import CascadeLabels as CascadeLabels
    from semclass_llm.choose import choose_texts as choose_texts
    from semclass_llm.context import Context as Context
    from semclass_llm.context import build_context as build_context
    from semclass_llm.endpoint import KEY_VARIABLE as KEY_VARIABLE
    from semclass_llm.endpoint import Bill as Bill
    from semclass_llm.endpoint import Chat as Chat
    from semclass_llm.endpoint import Endpoint as Endpoint
    from semclass_llm.endpoint import EndpointError as EndpointError
    from semclass_llm.judge import WrittenAnswer as WrittenAnswer
    from semclass_llm.judge import judge_answers as judge_answers
    from semclass_llm.label import LabelTask as LabelTask
    from semclass_llm.label import estimate_cost as estimate_cost
    from semclass_llm.label import label_texts as label_texts
    from semclass_llm.prompted import PromptedReranker as PromptedReranker
    from semclass_llm.rewrite import Rewriter as Rewriter
    from semclass_llm.rewrite import RewriteWarning as RewriteWarning
    from semclass_llm.rewrite import RewritingRetriever as RewritingRetriever
    from semclass_llm.rewrite import Rewritten as Rewritten

_HOMES = {
    "answer": ("AnswerWriter",),
    "cascade": ("Cascade", "CascadeLabels"),
    "choose": ("choose_texts",),
    "context": ("Context", "build_context"),
    "endpoint": ("KEY_VARIABLE", "Bill", "Chat", "Endpoint", "EndpointError"),
    "judge": ("WrittenAnswer", "judge_answers"),
    "label": ("LabelTask", "estimate_cost", "label_texts"),
    "prompted": ("PromptedReranker",),
    "rewrite": ("RewriteWarning", "Rewriter", "RewritingRetriever", "Rewritten"),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


__getattr__ = importer(__name__, __name__, _HOMES)
