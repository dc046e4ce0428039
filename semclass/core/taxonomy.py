"""The answer types of Li and Roth (2002), "Learning Question Classifiers", with 6 coarse and 50 fine classes."""

from __future__ import annotations

COARSE_NAMES: dict[str, str] = {
    "ABBR": "abbreviation",
    "DESC": "description",
    "ENTY": "entity",
    "HUM": "human",
    "LOC": "location",
    "NUM": "number",
}
"""Names of the coarse classes in words."""

COARSE: tuple[str, ...] = tuple(COARSE_NAMES)
"""The coarse classes, in the column order of every coarse probability matrix in semclass."""

MEANINGS: dict[str, str] = {
    "ABBR": "what letters stand for, or the short form of a name",
    "DESC": "what something is or means, why it is so, or how it is done",
    "ENTY": "a thing that has a name: an animal, a plant, a product, a work, an event, a disease, a colour, a word",
    "HUM": "a person, a group or an organisation",
    "LOC": "a place",
    "NUM": "a count, a date, a sum, a measure, a rank or a code",
}
"""What a question of each coarse class asks for, in words for a language model."""

PROVIDED: dict[str, str] = {
    "ABBR": "what an abbreviation stands for, or how something is abbreviated",
    "DESC": "what something is or means, how it works or is done, or why it happened",
    "ENTY": "a certain thing by its name, such as a product, a work, an award, an animal or a substance, and neither a "
    "person, an organisation nor a place",
    "HUM": "who did, owns or is something: a person, a group or an organisation by its name",
    "LOC": "where something is or happened: a place by its name",
    "NUM": "when, how many or how much: a date, a count, a sum, a measure or a code",
}
"""What a passage of each coarse class tells, in words for a language model."""

ABSTAIN = "ABSTAIN"
"""The label of a text whose best class is less probable than the requested minimum. No class has this name."""


def coarse_of(label: str) -> str:
    """Return the coarse class of a label: ``"NUM"`` for ``"NUM:date"`` and for ``"NUM"``."""
    return label.partition(":")[0]
