"""Rewrites questions before a search, with or without a language model, and counts the cost."""

WAYS = ("conversation", "step-back", "sub-questions", "wordings", "hyde")
"""Names of the ways to rewrite a question:

- ``"conversation"`` turns a question and its conversation into one question that can be understood alone.
- ``"step-back"`` also searches for a more general question. See Zheng et al., "Take a step back" (2023).
- ``"sub-questions"`` searches for the parts of the question separately.
- ``"wordings"`` also searches for other wordings of the question, as in Rackauckas, "RAG-Fusion" (2024).
- ``"hyde"`` searches with the vector of an imagined answer. See Gao et al., "Precise zero-shot dense retrieval" (2022).
"""
