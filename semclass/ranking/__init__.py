"""From a question and an index to ranked passages."""
