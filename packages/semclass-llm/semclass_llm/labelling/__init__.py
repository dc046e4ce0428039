"""Collects labels to train on, from a language model, from a person, or from both (extra ``label``)."""
