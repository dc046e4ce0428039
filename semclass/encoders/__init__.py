"""From texts to vectors: the shipped encoder, others, token vectors, words."""
