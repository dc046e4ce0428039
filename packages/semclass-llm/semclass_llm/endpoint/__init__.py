"""Asks language models behind OpenAI-compatible addresses, and pays for each call once (extra ``label``)."""
