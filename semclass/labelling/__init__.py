"""Labels to train on: from a language model, from a person, and out of both (extra ``label``)."""
