"""Write the folders that ``test_stored.py`` reads: an index and a head of the present format.

    python tests/make_stored.py

They are written again only when the format changes, with a new protocol.
"""

from __future__ import annotations

import json
from pathlib import Path

from world import BOOKS, FakeEncoder, passage_encoder_of, passages, scores

from semclass import Passage, PassageIndex, change_index

STORED = Path(__file__).parent / "stored"
ENCODER = passage_encoder_of(FakeEncoder(provided=4), BOOKS)
QUESTION = "which red boat has green3 sails?"
TEXTS = ["red boat", "green hill", "a red lake", "green stone river"]


def ranked(index: PassageIndex) -> dict[str, float]:
    """Score of each passage for the question, by its id."""
    return scores(index, QUESTION, passage_encoder=ENCODER)


def main() -> None:
    from semclass import TextClassifier  # which needs an extra, as reading does not

    folder = STORED / "index-1.0"
    PassageIndex.build(passages(*range(12), page=3), passage_encoder=ENCODER).save(folder)
    new = Passage("new", "A green3 sail. Another sentence.", {"title": "Boats", "tags": ["red", "blue"], "price": 1.5})
    change_index(folder, add=[new], delete=["4"], passage_encoder=ENCODER)
    head = TextClassifier(ENCODER.encoder).fit(TEXTS * 6, ["red", "green"] * 12)
    head.save(STORED / "head-1.0")
    found = {name: round(score, 5) for name, score in ranked(PassageIndex.load(folder)).items()}
    expected = {"index": found, "head": head.predict_proba(TEXTS).round(5).tolist()}
    (STORED / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
