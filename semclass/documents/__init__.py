"""From files to passages: readers, chunking, sentences, near-duplicates."""
