"""A language model as teacher, judge, rewriter and reader beside semclass."""
