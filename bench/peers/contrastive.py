"""Few labels as SetFit learns from them: the original encoder is drawn together within classes, then regressed over.

SetFit (Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts") tunes a sentence encoder on pairs of texts of
one class and of two, and fits a logistic regression over what it gives then. Here all other texts of a batch are the
pairs of two classes, as a softmax over the batch (Khosla et al. 2020, "Supervised Contrastive Learning"), which takes
fewer steps. Names of the classes are texts, too, in the same sentences that ``TextClassifier`` reads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench import labels
from bench.peers.fitted import SEED
from bench.peers.minilm import QUESTION_LENGTH
from bench.peers.rows import NO_ORIGINAL, original
from semclass.core.errors import import_extra

PAIRS, PASSES, WARM_UP = 32, 5, 0.1  # pairs of one class in a batch, and pairs that every text begins
RATE, TEMPERATURE, STRENGTH = 1e-4, 0.05, 1.0  # STRENGTH: scikit-learn's C, over vectors of length 1


def few_labels(data: str, dataset: str, size: str, classes: int | None) -> dict[str, Any]:
    """Figures of the first draw of so many examples a class."""
    folder = original()
    if folder is None:
        return dict(NO_ORIGINAL)
    parts = [labels.read(Path(data), dataset, part, classes) for part in labels.SETS[dataset]]
    (texts, truth), (tried, wanted) = parts
    rows, names = labels.draw(truth, size, SEED), sorted(set(truth))
    some = [texts[row] for row in rows] + labels.readings(names)
    theirs = [truth[row] for row in rows] + [name for name in names for _ in labels.PHRASES]
    started = time.perf_counter()
    encode = tuned(folder, some, theirs)
    model = LogisticRegression(C=STRENGTH * len(some), max_iter=1000).fit(encode(some), theirs)
    seconds = time.perf_counter() - started
    return labels.mean([{"seconds": seconds, **labels.figures_of(model, encode(tried), wanted)}])


def tuned(folder: Path, texts: Sequence[str], classes: Sequence[str]) -> Any:
    """Tune the network in `folder`; gives what makes unit vectors, float32 (n, dim), of texts."""
    torch, transformers = import_extra("torch", "bench"), import_extra("transformers", "bench")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")

    def vectors(some: Sequence[str]) -> Any:
        fed = tokenizer(list(some), return_tensors="pt", padding=True, truncation=True, max_length=QUESTION_LENGTH)
        # many processors multiply bfloat16 about twice as fast; weights and optimiser stay float32
        with torch.autocast("cpu", torch.bfloat16):
            states = network(**fed).last_hidden_state
        there = fed["attention_mask"][..., None].float()
        return torch.nn.functional.normalize((states.float() * there).sum(1) / there.sum(1), dim=-1)

    rng = np.random.default_rng(SEED)
    steps = PASSES * -(-len(texts) // PAIRS)
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
    pace = transformers.get_linear_schedule_with_warmup(optimiser, round(WARM_UP * steps), steps)
    numbers = np.unique(classes, return_inverse=True)[1]
    members = [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
    network.train()
    for _ in range(PASSES):
        order = rng.permutation(len(texts))
        for start in range(0, len(order), PAIRS):
            first = order[start : start + PAIRS]
            rows = np.concatenate([first, [rng.choice(members[number]) for number in numbers[first]]])
            found, same = vectors([texts[row] for row in rows]), torch.tensor(numbers[rows][:, None] == numbers[rows])
            # a text is no pair with itself
            alike = (found @ found.T / TEMPERATURE).fill_diagonal_(-1e4)
            same.fill_diagonal_(False)
            logs = alike.log_softmax(-1)
            (-(logs * same).sum(1) / same.sum(1)).mean().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            pace.step()
            optimiser.zero_grad()
    network.eval()

    def encode(some: Sequence[str]) -> Any:
        with torch.no_grad():
            return np.concatenate([vectors(some[start : start + 64]).numpy() for start in range(0, len(some), 64)])

    return encode
