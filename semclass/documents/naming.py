"""Ids of passages that stay when others come and go."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from semclass.core.types import Passage


def named_by_content(passages: Iterable[Passage]) -> Iterator[Passage]:
    """Name passages that were cut by what they say, and not by their number.

    ``document#number`` becomes ``document#digest``, of the headings and the text; the second passage of a document that
    says the same ends in ``-2``, and so on. Other ids stay.

    Parameters
    ----------
    passages
        As :func:`semclass.documents.chunking.cut` gives them, those of a document one after another.
    """
    document, seen = None, Counter[str]()
    for passage in passages:
        name = passage.metadata.get("document")
        if not isinstance(name, str) or not passage.id.startswith(f"{name}#"):
            yield passage
            continue
        if name != document:
            document, seen = name, Counter()
        content = json.dumps([passage.metadata.get("headings", []), passage.text])
        digest = hashlib.blake2b(content.encode(), digest_size=5).hexdigest()
        seen[digest] += 1
        number = seen[digest]
        yield replace(passage, id=f"{name}#{digest}" if number == 1 else f"{name}#{digest}-{number}")
