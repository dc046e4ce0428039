"""From texts to vectors: the shipped encoder, other encoders, token vectors, words."""
