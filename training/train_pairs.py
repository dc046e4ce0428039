"""Make ``models/pairs/entailment``: the head that judges a question and a passage together, and weights of re-ranking.

    python training/train_pairs.py --data DATA --encoder models/encoder --out models/pairs
    python training/train_pairs.py --data DATA --multilingual --encoder MULTILINGUAL/encoder --out MULTILINGUAL/pairs

The domains of ``pair_domains.py`` each become an index, and every question is asked of its own; its candidates are the
retriever's own first 10. The head sees the two texts alone, and its probability can be compared between questions.
Penalty, calibration, weights and thresholds are chosen on questions of a domain that the fit did not see. Questions that
the encoder was tuned on, see ``tune_encoder.py``, take part in fits alone.

Domains weigh as the square root of their number of questions. Models beside --out are used as they are: ``codebooks`` round
token vectors as an index does, and the class heads (``questions``, ``passages``) give the class match, whose weights are
found here.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answer_groups import read_groups
from command import language_of, make_parser, npy_bytes, run, save_artifact, seconds_so_far
from pair_domains import Domain, read_domains, read_multilingual
from pair_fits import (
    Examples,
    best_threshold,
    best_weight,
    calibrated,
    choose,
    fit_pointwise,
    log_loss,
    mean_rank,
)
from section_sets import learnt_by
from semclass.core import artifacts
from semclass.core.errors import TruncationWarning, import_extra
from semclass.core.types import Passage
from semclass.encoders.words import CONTINUES, ENDING, WordTable, mark_of
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import open_encoder
from semclass.index.candidates import Candidates, Query, Scoring
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.ranking.features import PAIR_FEATURES, pair_features
from semclass.ranking.models import BM25_WEIGHT, read_questions
from semclass.ranking.thesis import class_match
from semclass.scoring.bm25 import idf as idf_of
from semclass.train.fitted import FittedHead, expected_calibration_error, head_to_onnx
from tuning_texts import held_out

Array = npt.NDArray[Any]

CHUNK = 512  # questions encoded at a time
# last pieces that are but an ending of the word before them, as word pieces cut English
ENDINGS = frozenset("a al ally ation d e ed er ers es ia ic ical ies ing ity ive ly ment n ous s tion y".split())  # noqa: SIM905
N_CANDIDATES = 10


def load_classifier(root: Path, passage_encoder: PassageEncoder) -> QuestionClassifier | None:
    if not (root / "questions" / artifacts.MANIFEST).is_file() or passage_encoder.classifier.head is None:
        print("no class heads beside --out: the class match stays 0")
        return None
    return QuestionClassifier.load(root, encoder=passage_encoder.encoder)


def build_index(texts: Sequence[str], passage_encoder: PassageEncoder) -> PassageIndex:
    passages = [Passage(str(place), text) for place, text in enumerate(texts)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)  # a few long passages
        return PassageIndex.build(passages, passage_encoder=passage_encoder)


def encode(texts: list[str], passage_encoder: PassageEncoder, classifier: QuestionClassifier | None) -> Iterator[Query]:
    for start in range(0, len(texts), CHUNK):
        part = texts[start : start + CHUNK]
        yield from read_questions(passage_encoder.encoder, classifier, part)


def word_table(pieces: Sequence[str]) -> Array:
    """Make the table that :meth:`semclass.encoders.words.WordTable.of` reads, int32 (2, vocabulary).

    Pieces that go on with a word are marked ``##`` (WordPiece) or lack the mark of a beginning, ``\u2581`` (SentencePiece)
    or ``\u0120`` (byte-level BPE). Stems are those of the Snowball stemmer for English (Porter 2001).
    """
    stemmer = import_extra("Stemmer", "train").Stemmer("english")
    mark = mark_of(pieces)
    first: dict[str, int] = {}
    table = np.zeros((2, len(pieces)), np.int32)
    for place, piece in enumerate(pieces):
        begins = piece.startswith(mark) if mark else not piece.startswith("##")
        text = piece.removeprefix(mark if mark else "##")
        if begins:
            table[0, place] = first.setdefault(stemmer.stemWord(text.lower()), place)
        else:
            table[0, place] = ENDING if text in ENDINGS else CONTINUES
        table[1, place] = any(character.isdigit() for character in text)
    return table


def learnt_questions(data: Path, seed: int) -> set[str]:
    """Questions that ``tune_encoder.py`` learns from, all but those that it holds out."""
    groups = read_groups(data, seed)
    return {group.question for group, out in zip(groups, held_out(groups), strict=True) if not out}


def candidates_of(index: PassageIndex, passage_encoder: PassageEncoder, query: Query) -> Candidates:
    return index.candidates(
        query, N_CANDIDATES, Scoring({"dense": 1.0, "bm25": BM25_WEIGHT}), passage_encoder=passage_encoder
    )


def general_idf(domains: Sequence[Domain], passage_encoder: PassageEncoder) -> Array:
    """Idf of word pieces in text of any of some languages: each piece is as frequent as where it is most frequent."""
    encoder = passage_encoder.encoder
    rates, count = np.zeros(len(encoder.is_term)), 0
    for domain in domains:
        terms = encoder.encode(domain.passages, views=()).terms
        own = np.unique(np.stack([np.repeat(np.arange(len(terms)), terms.lengths()), terms.values]), axis=1)[1]
        rates = np.maximum(rates, np.bincount(own, minlength=len(rates)) / len(terms))
        count += len(terms)
    return idf_of(np.round(rates * count).astype(np.int64), count) * encoder.is_term


def collect(
    domains: list[Domain],
    passage_encoder: PassageEncoder,
    classifier: QuestionClassifier | None,
    words: WordTable,
    idf: Array,
    learnt: set[str],
) -> Examples:
    """Build the indices, ask the questions; `learnt` are those that the encoder was tuned on."""
    rows: list[tuple[Array, Array, Array, Array, int, bool]] = []
    for number, domain in enumerate(domains):
        index = build_index(domain.passages, passage_encoder)
        before = len(rows)
        for query, answers in zip(encode(domain.questions, passage_encoder, classifier), domain.answers, strict=True):
            found = candidates_of(index, passage_encoder, query)
            right = np.isin(found.rows, list(answers))
            if right.any() and len(right) == N_CANDIDATES:
                features = pair_features(query, found, words, idf[query.terms])
                match = np.zeros(len(right))
                if len(query.probabilities):
                    match = class_match(query.probabilities, found.probabilities, found.thresholds, "soft")
                rows.append((features, right, found.score, match, number, query.text not in learnt))
        print(
            f"{domain.name}: {len(index)} passages, {len(domain.questions)} questions, {len(rows) - before} with the "
            "answer among the candidates",
            flush=True,
        )
    features, right, score, match, number, unseen = zip(*rows, strict=True)
    place = np.array(number)
    weight = 1 / np.sqrt(np.bincount(place, minlength=len(domains)))[place]
    return Examples(
        np.stack(features).astype(np.float64),
        np.stack(right),
        np.stack(score),
        np.stack(match),
        place,
        weight / weight.sum(),
        np.array(unseen),
    )


def train(arguments: argparse.Namespace) -> None:
    encoder = open_encoder(arguments.encoder, threads=arguments.threads)
    table_of_words = word_table(encoder.vocabulary)
    passage_encoder = PassageEncoder.load(arguments.out.parent, encoder=encoder)
    classifier = load_classifier(arguments.out.parent, passage_encoder)
    domains = (
        read_multilingual(arguments.data, learnt_by(Path(arguments.encoder)))
        if arguments.multilingual
        else read_domains(arguments.data, arguments.seed)
    )
    learnt = learnt_questions(arguments.data, arguments.seed) if "provides" in encoder.views else set()
    idf = general_idf(domains if arguments.multilingual else domains[:1], passage_encoder)
    everything = collect(domains, passage_encoder, classifier, WordTable.of(table_of_words), idf, learnt)
    data = everything.take(everything.unseen)

    text_ridge, text_scores = choose(fit_pointwise, everything, log_loss)
    text_head = fit_pointwise(everything, text_ridge)
    entailment, text_probabilities = calibrated(text_head, text_scores[everything.unseen], data)
    threshold = best_threshold(text_probabilities, data)
    hard = (text_probabilities >= threshold).astype(float)
    found = {"entailment": best_weight(text_probabilities, data), "class": best_weight(data.match, data)}
    text_figures = {
        "questions": float(len(data.answers)),
        "conditional_mrr_hybrid": mean_rank(data.score, data),
        "conditional_mrr_stable": mean_rank(hard, data),
        "conditional_mrr_integrated": mean_rank(data.score + found["entailment"] * text_probabilities, data),
        "conditional_mrr_alone": mean_rank(text_probabilities, data),
        "calibration_error": expected_calibration_error(text_probabilities.ravel(), data.answers.ravel()),
    }
    for name, value in text_figures.items():
        print(f"{name}: {value:.4f}")
    print(f"threshold {threshold}, weights {found}")

    inputs = {"pairs": len(PAIR_FEATURES)}
    weights, bias = entailment.weights.astype(np.float32), np.float32(entailment.bias)
    network = FittedHead("sigmoid", ("answers",), inputs, weights[:, None], bias[None])
    fields = {
        "task": "passage-answers-question",
        "classes": ("answers",),
        "link": "sigmoid",
        "inputs": inputs,
        "encoder": encoder.fingerprint,
        "calibration": {"method": "sigmoid", "on": "questions of domains that the fit did not see"},
        "training": {
            "data": ", ".join(domain.name for domain in domains),
            "questions": len(everything.answers),
            "candidates": N_CANDIDATES,
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
            "loss": "log loss",
            "ridge": text_ridge,
        },
        "metrics": {name: round(value, 4) for name, value in text_figures.items()},
        "threshold": threshold,
        "features": list(PAIR_FEATURES),
        "linear": {"weights": weights.tolist(), "bias": float(bias)},
        "weights": found,
    }
    table = "\n".join(f"- {name}: {value:.4f}" for name, value in text_figures.items())
    words = {
        "table": table,
        "languages": "" if arguments.multilingual else "English. ",
        "language": language_of(arguments),
    }
    files = {"model.onnx": head_to_onnx(network), "idf.npy": npy_bytes(idf), "words.npy": npy_bytes(table_of_words)}
    save_artifact(arguments.out / "entailment", "head", files, fields, "pairs", **words)


def main() -> None:
    run(make_parser(__doc__, "data", "encoder", "multilingual", "threads", "seed", "out"), train)


if __name__ == "__main__":
    main()
