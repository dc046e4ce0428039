"""Questions as a search asks them: what rewrites them, with a language model or without, and what that cost."""

WAYS = ("conversation", "step-back", "sub-questions", "wordings", "hyde")
"""Names of the ways to rewrite a question:

- ``"conversation"``: a question and what was said before become one question that is understood alone;
- ``"step-back"``: a more general question is searched for, too. Zheng et al., "Take a step back" (2023);
- ``"sub-questions"``: its parts are searched for, each by itself;
- ``"wordings"``: the same in other words is searched for, too, as in Rackauckas, "RAG-Fusion" (2024);
- ``"hyde"``: an imagined answer stands in for the question. Gao et al., "Precise zero-shot dense retrieval" (2022).
"""
