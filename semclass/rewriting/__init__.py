"""Rewriting of questions before a search, with or without a language model, and its cost."""

WAYS = ("conversation", "step-back", "sub-questions", "wordings", "hyde")
"""Names of the ways to rewrite a question:

- ``"conversation"``: a question and its conversation become one question that can be understood alone;
- ``"step-back"``: a more general question is searched too. Zheng et al., "Take a step back" (2023);
- ``"sub-questions"``: the parts of the question are searched separately;
- ``"wordings"``: other wordings of the question are searched too, as in Rackauckas, "RAG-Fusion" (2024);
- ``"hyde"``: the vector of an imagined answer is searched. Gao et al., "Precise zero-shot dense retrieval" (2022).
"""
