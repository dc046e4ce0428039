"""Scores of passages: vectors, BM25, their fusion, and selecting the best."""
