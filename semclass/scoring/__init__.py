"""Scores of passages for a question, as functions over arrays."""
