"""Labels made for this project: classes by the hash of a text, so that no foreign text ships with them.

``training/labels/passages.tsv`` and ``questions.tsv`` name a text by :func:`text_hash` and give its classes. The texts are
cut from public originals by ``label_sources.py``; whoever has these finds each labelled text by its hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from datasets_io import read_tsv
from label_sources import news_passages, squad_passages, squad_questions, wikiqa_passages
from semclass.errors import InputError
from semclass.taxonomy import COARSE

FOLDER = Path(__file__).parent / "labels"

UNKNOWN = "-"
"""What stands for a class that readers did not agree on."""


def text_hash(text: str) -> str:
    """Name of a text: 16 hexadecimal digits of the SHA-256 of its letters and digits in lower case.

    Case, punctuation and white space do not count, so that copies of an original that differ in these have the same name.
    """
    return hashlib.sha256(re.sub(r"[\W_]+", "", text.casefold()).encode()).hexdigest()[:16]


def labelled_passages(data: Path) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Passages of public originals that were read for this project.

    Parameters
    ----------
    data
        Data folder with ``wikiqa/``, ``entities/`` and ``squad_sentences/``.

    Returns
    -------
    tuple
        n texts and float64 (n, 6) of 1, 0, or nan where readings differ, columns in the order of `COARSE`.

    Raises
    ------
    InputError
        If not every labelled passage is found.
    """
    labels = {row["hash"]: [row[name] for name in COARSE] for row in read_tsv(FOLDER / "passages.tsv")}
    found = _find([*wikiqa_passages(data), *news_passages(data), *squad_passages(data)], labels, "passages.tsv")
    values = [[np.nan if mark == UNKNOWN else float(mark) for mark in labels[text_hash(text)]] for text in found]
    return found, np.array(values).reshape(len(found), len(COARSE))


def labelled_questions(data: Path) -> tuple[list[str], list[str]]:
    """Questions of SQuAD's training articles that were read for this project, and their fine classes.

    Raises
    ------
    InputError
        If not every labelled question is found.
    """
    labels = {row["hash"]: f"{row['coarse']}:{row['fine']}" for row in read_tsv(FOLDER / "questions.tsv")}
    found = _find(squad_questions(data), labels, "questions.tsv")
    return found, [labels[text_hash(text)] for text in found]


def _find(texts: Iterable[str], labels: Mapping[str, object], name: str) -> list[str]:
    """Texts that have labels, each once, in the order of `texts`."""
    named = {text_hash(text): text for text in reversed(list(texts))}
    missing = [key for key in labels if key not in named]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(labels)} texts of training/labels/{name} are not in the data folder, the first is "
            f"{missing[0]}: is it a complete copy of the originals?"
        )
    return [text for key, text in reversed(named.items()) if key in labels]
