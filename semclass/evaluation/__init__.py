"""Measuring rankings, and tuning their weights (extra ``eval``)."""
