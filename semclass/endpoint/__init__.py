"""Language models behind OpenAI-compatible addresses, asked once, and what labels of theirs are worth (extra ``label``)."""
