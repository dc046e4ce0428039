"""From hits to the text that a language model is given."""
