"""Scores of passages as arrays: BM25, vectors, their fusion, and the best of them."""
