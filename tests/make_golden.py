"""Write golden.json: what the shipped heads say of fixed texts. Run it when a change of these values is meant.

python tests/make_golden.py
"""

from __future__ import annotations

import json
from pathlib import Path

from semclass import Models

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
QUESTIONS = [
    "What does HTTP stand for?",
    "What is photosynthesis?",
    "How do bees make honey?",
    "Why do cats purr?",
    "What breed of dog is the smallest?",
    "What colour is amber?",
    "Who painted the ceiling of the chapel?",
    "Which company makes the engine?",
    "Where does the river rise?",
    "What is the largest city in Kenya?",
    "How many strings does a cello have?",
    "When was the bridge opened?",
    "how much does a ticket cost",
    "name the highest mountain in europe",
]


def main() -> None:
    models = Models.load(MODELS)
    lines = (HERE.parent / "semclass" / "demo_data" / "corpus.jsonl").read_text().splitlines()
    passages = [json.loads(line)["text"] for line in lines[::3]]
    golden: dict[str, object] = {"questions": QUESTIONS, "passages": passages}
    found = models.questions.classify(QUESTIONS)
    golden["coarse"] = {
        "labels": [item.label for item in found],
        "probabilities": [round(item.probability, 4) for item in found],
    }
    golden["fine"] = {
        "labels": [item.fine for item in found],
        "probabilities": [round(item.fine_probability, 4) for item in found],
    }
    golden["passage_probabilities"] = models.passages.predict_proba(passages).round(4).tolist()
    (HERE / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
