"""From hits to the text that a language model is given.

Each step is a function from hits to hits, so that steps can be chained or left out; ``rank`` says which hit is best.
:func:`semclass.build_context` is the usual chain in one call.
"""
