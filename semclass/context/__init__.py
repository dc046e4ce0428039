"""From hits to the text that a language model is given.

Each step is a free function that takes hits and gives hits, so that steps can be chained or left out; ``rank`` says which
hit is best, and each step that drops or joins hits counts it anew. :func:`semclass.build_context` is the usual chain in
one call. Where a step needs a store, a mapping or a function will do, so that any store can serve; see
:data:`semclass.context.parents.Parents` and :data:`semclass.context.window.Documents`.
"""
