"""Groups of passages that are of one article, which must share a fold of cross-validation.

Three sources name their articles (:func:`label_sources.passage_articles`). The Wikipedia chunks of ``passages/`` have no
titles: those whose words are alike are put together. On newswire, whose articles are known, that finds about 60 % of the
pairs of one article, and about 75 % of the pairs that it puts together are of one; the others share a subject or a form,
which makes figures of cross-validation lower, never higher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.feature_extraction.text import TfidfVectorizer

Array = npt.NDArray[Any]

WORD = "[A-Za-z][A-Za-z]+"

ALIKE = 0.05
"""Mean cosine of the TF-IDF vectors of two groups of passages from which they become one."""

COMMON = 0.2
"""Words of more than this share of the passages say nothing of the article."""


def article_groups(texts: Sequence[str], articles: Mapping[str, str]) -> Array:
    """Group passages that are of one article, or whose words are alike: average linkage (Sokal and Michener 1958).

    `articles` names the article of passages where it is known. Gives the number of each passage's group, int64 (n,).
    """
    vectoriser = TfidfVectorizer(sublinear_tf=True, stop_words="english", token_pattern=WORD, max_df=COMMON)
    words = vectoriser.fit_transform(texts)
    names = np.array([articles.get(text, "") for text in texts])
    distance = np.clip(1 - (words @ words.T).toarray(), 0, 1)
    distance[(names[:, None] == names) & (names != "")] = 0
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average")
    return np.asarray(fcluster(tree, 1 - ALIKE, "distance") - 1, np.int64)
