"""Everything about passages that does not depend on the question, stored in a folder."""
