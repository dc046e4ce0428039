"""Find the cosine from which a sentence belongs to a question, :data:`semclass.heads.asked.NEAREST`.

    python training/tune_asked.py --data DATA --encoder models/encoder

Beside a question stand sentences of its own article, document or policy (``squad_sentences/train``, ``medquad``,
``policyqa/train``), which belong to it, and those of the other two domains, which do not. It prints, for each domain, the
share of its own sentences that are kept and the share of texts with 15 others, about 300 words, of which any is; and the
smallest cosine at which that share is at most a tenth, with each domain left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from command import make_parser, run
from datasets_io import read_jsonl, squad_train
from semclass.documents.sentences import split_sentences
from semclass.heads.texts import open_encoder

QUESTIONS, BESIDE = 250, 15
GRID = np.arange(0.1, 0.41, 0.025)
MOST = 0.1


def read(data: Path, rng: np.random.Generator) -> dict[str, list[tuple[str, list[str]]]]:
    """Questions of each domain, each with sentences of its own text."""
    sentences, questions, places = squad_train(data)
    squad = [
        (text, sentences[max(at - 2, 0) : at] + sentences[at + 1 : at + 3])
        for text, at in zip(questions, places, strict=True)
    ]
    medquad = []
    for document in read_jsonl(data / "medquad" / "documents.jsonl.gz"):
        first, *others = document["sections"]
        medquad += [
            (first["question"], split_sentences(other["answer"])[:4]) for other in others[:1] if other["answer"]
        ]
    policies = []
    for policy in read_jsonl(data / "policyqa" / "train.jsonl.gz"):
        texts = policy["passages"]
        for one in policy["questions"]:
            at = one["relevant"][0]
            beside = [part for text in texts[max(at - 1, 0) : at + 2] for part in split_sentences(text)[:2]]
            policies.append((one["question"], beside))
    found = {"squad": squad, "medquad": medquad, "policyqa": policies}
    return {name: [rows[i] for i in rng.permutation(len(rows))[:QUESTIONS]] for name, rows in found.items()}


def main(args: argparse.Namespace) -> None:
    rng, encoder = np.random.default_rng(args.seed), open_encoder(args.encoder, args.threads)
    domains = read(args.data, rng)
    asked = {name: encoder.encode([text for text, _ in rows]).rows("pooled") for name, rows in domains.items()}
    said = {
        name: encoder.encode([one for _, some in rows for one in some]).rows("pooled") for name, rows in domains.items()
    }
    spoilt = {}
    for name, rows in domains.items():
        own = np.repeat(asked[name], [len(some) for _, some in rows], axis=0)
        near = (own * said[name]).sum(axis=1)
        others = np.concatenate([said[other] for other in domains if other != name])
        drawn = others[rng.integers(len(others), size=(QUESTIONS, BESIDE))]
        highest = np.einsum("qd,qsd->qs", asked[name], drawn).max(axis=1)
        spoilt[name] = np.array([(highest >= cosine).mean() for cosine in GRID])
        for cosine, share in zip(GRID, spoilt[name], strict=True):
            print(f"{name:9} {cosine:.3f}: {(near >= cosine).mean():.1%} of its own kept, {share:.1%} of texts spoilt")
    for left in ("", *domains):
        mean = np.mean([shares for name, shares in spoilt.items() if name != left], axis=0)
        print(f"without {left or 'none':9} {GRID[np.argmax(mean <= MOST)]:.3f}")


if __name__ == "__main__":
    options = make_parser(__doc__, "encoder", "threads", "seed")
    options.add_argument("--data", type=Path, required=True)
    run(options, main)
