"""Scores of passages for a question, as functions over arrays."""

FUSIONS = ("linear", "convex", "rrf")
"""Ways to fuse the scores of vectors and of BM25, see :mod:`semclass.scoring.fusion`."""
