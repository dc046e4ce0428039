"""Makes a text for a language model from hits.

Each step is a function from hits to hits, so you can chain steps or leave them out. ``rank`` tells which hit is best.
:func:`semclass.build_context` runs the usual steps in one call.
"""
