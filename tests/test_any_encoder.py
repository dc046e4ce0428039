"""Encoders other than the shipped one: without heads, with some of them, and with vectors of any length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from beir import write_beir
from made_models import export, save_pairs, write_model
from world import MODELS, ROOT

from export_encoder import check_source
from semclass import (
    ArtifactError,
    EncoderMismatchError,
    HybridRetriever,
    InputError,
    Models,
    OnnxEncoder,
    Passage,
    PassageClassifier,
    PassageIndex,
    QuestionClassifier,
    Reranker,
)
from semclass.cli.main import main
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.evaluate import rank
from semclass.ranking.models import read_questions

PASSAGES = [
    Passage("boat", "the red boat lies in the harbour"),
    Passage("hill", "a green hill"),
    Passage("sea", "red sea"),
]
CORPUS = ROOT / "semclass" / "demo_data" / "corpus.jsonl"


@pytest.fixture
def models(tmp_path, fake_encoder):
    """A models folder with pair heads and nothing else."""
    save_pairs(tmp_path / "models" / "pairs", fake_encoder.fingerprint, fake_encoder.n_terms)
    return tmp_path / "models"


def retriever_of(models):
    index = PassageIndex.build(PASSAGES, passage_encoder=models.passage_encoder)
    return HybridRetriever(index, models)


def test_an_encoder_alone_searches(fake_encoder):
    retriever = retriever_of(Models.load(encoder=fake_encoder))
    hits = retriever.search("red boat", explain=True, method="convex")
    assert [hit.id for hit in hits] == ["boat", "sea", "hill"]
    assert (hits[0].labels, hits[0].probabilities, hits[0].explanation.classes) == ((), {}, ())
    assert hits[0].score == pytest.approx(sum(hits[0].explanation.parts.values()))


def test_passages_from_elsewhere_are_fused_without_pair_heads(fake_encoder):
    reranker = Reranker.load(encoder=fake_encoder)
    assert [hit.id for hit in reranker.rerank("red boat", PASSAGES)] == ["boat", "sea", "hill"]
    with pytest.raises(InputError, match="no pair head"):
        reranker.rerank("red boat", PASSAGES, explain=True)


def test_questions_without_a_head_have_no_classes(fake_encoder):
    classifier = QuestionClassifier(fake_encoder, None)
    assert classifier.classes == classifier.fine_classes == classifier.encoder_views == ()
    with pytest.raises(InputError, match="no question head"):
        classifier.classify(["Who?"])


def test_pair_heads_work_without_class_heads(fake_encoder, models):
    models = Models.load(models, encoder=fake_encoder)
    retriever = retriever_of(models)
    assert retriever.search("red sea", k=1)[0].id == "sea"
    assert Reranker(models).rerank("green hill", PASSAGES, k=1, explain=True)[0].id == "hill"
    with pytest.raises(InputError, match="no class heads"):
        retriever.search("red sea", method="class-stable", candidates=50)


def test_one_class_head_without_the_other_is_refused(fake_encoder, models):
    (models / "passages").mkdir()
    with pytest.raises(ArtifactError, match=r"passages.*train_questions"):
        Models.load(models, encoder=fake_encoder)


def test_heads_need_the_encoder_that_they_were_trained_for(fake_encoder, models):
    with pytest.raises(ArtifactError, match="holds no encoder; name the encoder"):
        Models.load(models)
    with pytest.raises(ArtifactError, match="trained for encoder fake, but is used with another"):
        Models.load(models, encoder=replace(fake_encoder, fingerprint="another"))


def test_the_shipped_encoder_has_the_shipped_classes():
    assert Models.load(MODELS, encoder=MODELS / "encoder").has_classes


def test_an_index_without_classes_refuses_class_heads(encoder, fake_encoder):
    bare = Models.load(encoder=fake_encoder)
    index = PassageIndex.build(PASSAGES, passage_encoder=bare.passage_encoder)
    classifier = PassageClassifier(fake_encoder, PassageClassifier.load(MODELS, encoder=encoder).head)
    other = replace(bare, passage_encoder=replace(bare.passage_encoder, classifier=classifier))
    with pytest.raises(EncoderMismatchError, match="built with classes"):
        HybridRetriever(index, other)


@pytest.fixture
def beir(tmp_path):
    return write_beir(tmp_path / "beir", PASSAGES, {"q": ("red sea", "sea")})


def test_an_evaluation_leaves_out_methods_without_heads(fake_encoder, models, beir):
    dataset = load_dataset(beir)
    bare, paired = (retriever_of(Models.load(path, encoder=fake_encoder)) for path in (None, models))
    assert list(rank(dataset, bare)) == ["bm25", "dense", "convex", "rrf", "hybrid"]
    assert list(rank(dataset, paired)) == [
        "default", "bm25", "dense", "convex", "rrf", "hybrid", "entail-stable", "entail-integrated",
    ]  # fmt: skip


def test_an_exported_encoder_is_named_on_the_command_line(tmp_path, beir, capsys):
    encoder = ["--encoder", str(export(tmp_path, layers=2))]
    main(["index", "build", str(CORPUS), "--out", str(tmp_path / "index"), *encoder])
    capsys.readouterr()
    question = ["search", str(tmp_path / "index"), "Who designed the lighthouse?", *encoder]
    main([*question, "--method", "convex", "--explain"])
    out = capsys.readouterr().out
    assert "lighthouse-3" in out.splitlines()[0]
    assert "classes" not in out
    main(question)
    assert "lighthouse-3" in capsys.readouterr().out.splitlines()[0]
    with pytest.raises(SystemExit):
        main([*question, "--method", "entail-stable"])
    assert "train_pairs.py" in capsys.readouterr().err
    main(["index", "build", str(beir / "corpus.jsonl"), "--out", str(tmp_path / "judged"), *encoder])
    capsys.readouterr()
    main(["evaluate", str(beir), "--index", str(tmp_path / "judged"), *encoder])
    methods = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "hybrid" in methods
    assert "default" not in methods


def test_a_bert_of_another_depth_and_width_can_be_exported(tmp_path):
    hidden = 24
    encoder = OnnxEncoder.load(export(tmp_path, layers=5, hidden=hidden, heads=3))
    assert encoder.views == {"states": hidden, "pooled": hidden, "layers": 6 * hidden, "tokens": hidden}
    encoding = encoder.encode(["Who built the tower?", "x"], views=tuple(encoder.views))
    np.testing.assert_allclose(np.linalg.norm(encoding.pooled, axis=1), 1, atol=1e-5)
    assert encoding.tokens.lengths().tolist() == [5, 1]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pooling": "cls_token"}, "pools by cls_token, not by mean"),
        ({"config": {"model_type": "mpnet"}}, "is a mpnet, not a bert"),
        ({"config": {"position_embedding_type": "relative_key"}}, "positions are not absolute"),
        ({"layers": 1}, "fewer than 2 layers"),
    ],
    ids=str,
)
def test_what_cannot_be_exported_is_said_with_what_to_do(tmp_path, changes, says):
    with pytest.raises(ArtifactError, match=f"{says}; use it as it is, with --encoder hub:FOLDER"):
        check_source(write_model(tmp_path / "model", **changes))


def test_a_model_that_can_be_exported_is_let_pass(tmp_path, capsys):
    check_source(write_model(tmp_path / "unit"))
    assert capsys.readouterr().out == ""
    check_source(write_model(tmp_path / "long", normalise=False))
    assert "exported they have length 1" in capsys.readouterr().out
    with pytest.raises(ArtifactError, match=r"has no config\.json"):
        check_source(tmp_path)


def test_a_question_without_finite_numbers_is_refused(fake_encoder):
    class Broken(type(fake_encoder)):
        def encode(self, texts, *, views=("pooled",)):
            found = super().encode(texts, views=views)
            return replace(found, pooled=found.pooled * np.float32(np.nan))

    with pytest.raises(InputError, match="NaN or infinity for 'Who\\?'"):
        read_questions(Broken(), None, ["Who?"])
