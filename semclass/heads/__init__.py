"""From vectors to class probabilities: questions, passages, entailment, and taxonomies of your own."""
