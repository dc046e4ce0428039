"""Makes a text for a language model from hits.

Each step is a function from hits to hits, so that steps can be chained or left out; ``rank`` tells which hit is best.
:func:`semclass.build_context` runs the usual steps in one call.
"""
