"""Whether an index answers a question at all: what the head reads, and where a search tells."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from world import MODELS

from semclass import ArtifactError, HybridRetriever, Passage, PassageIndex, Reranker
from semclass.core import artifacts
from semclass.ranking.answerable import FEATURES, answerable_features, load_answerable
from semclass.ranking.features import PAIR_FEATURES, pair_features
from semclass.ranking.methods import METHODS
from semclass.ranking.order import reorder

QUESTION, ANSWER = "When was the lighthouse finished?", "lighthouse-2"


def told(retriever, question, **options):
    return retriever.search(question, **options).answerable


def test_a_question_with_its_answer_gets_more_than_without_it(retriever):
    given = told(retriever, QUESTION)
    assert 1 > given > told(retriever, QUESTION, where={"_id": {"$ne": ANSWER}})
    assert given > 0.5 > told(retriever, "At what temperature does tungsten melt?") > 0


def test_reading_together_changes_nothing_and_other_methods_do_not_tell(retriever, corpus, models):
    assert told(retriever, QUESTION, method="deep") == told(retriever, QUESTION)
    assert told(retriever, QUESTION, method="hybrid") is None
    assert told(retriever, QUESTION, method="learned") is None
    assert Reranker(models).rerank(QUESTION, corpus).answerable is None


def test_what_is_read_of_the_best_hit(retriever, models):
    (query,) = models.encode([QUESTION])
    how = METHODS["default"]
    found = retriever.candidates(query, how.candidates, how)
    ranked, features = reorder(models, query, found, how), pair_features(query, found, models.pairs.words)
    learned = np.linspace(0.1, 0.9, len(found))
    row = dict(zip(FEATURES, answerable_features(query, ranked, features, learned)[0].tolist(), strict=True))
    looked_at, overlap = ranked.places[:6], features[:, PAIR_FEATURES.index("overlap")]
    assert 1 / (1 + np.exp(-row["answers"])) == pytest.approx(ranked.components["relevance"][looked_at[0]])
    assert 1 / (1 + np.exp(-row["most_learned"])) == pytest.approx(0.9)
    assert np.exp(row["candidates"]) == pytest.approx(len(found))
    assert row["first_overlap"] == overlap[looked_at[0]]
    assert row["most_overlap"] == overlap[looked_at].max()


def test_an_index_of_one_passage_tells_too(models):
    passages = [Passage("a", "Ada Merriweather designed the lighthouse.")]
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    assert 0 < told(retriever, QUESTION) < 1


def test_a_head_that_reads_other_features_is_refused(tmp_path, models):
    folder = shutil.copytree(MODELS / "answerable", tmp_path / "answerable")
    manifest = json.loads((folder / artifacts.MANIFEST).read_text())
    (folder / artifacts.MANIFEST).write_text(json.dumps({**manifest, "features": ["other"]}))
    with pytest.raises(ArtifactError, match="features"):
        load_answerable(tmp_path, models.encoder.fingerprint)
