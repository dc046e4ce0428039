"""The commands that ask a language model."""
