"""One graph from token ids to probabilities: the same answers as the parts that it is made of."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import tokenizers
from made_models import export as export_encoder
from world import MODELS, ROOT

from semclass import OnnxEncoder, PassageClassifier, QuestionClassifier
from semclass.core import artifacts
from semclass.core.cards import HeadCard, save_head
from semclass.documents.sentences import split_sentences
from semclass.heads.head import Head
from semclass.heads.inputs import encoder_views, gather, piece_matrix
from semclass.heads.surface import surface_features
from semclass.train.export import head_to_onnx
from semclass.train.fit import fit_head

pytest.importorskip("onnx")
import export_fused

# spelt correctly and with their marks, so that the classifier reads them as they are
QUESTIONS = [
    "When was the bridge built?",
    "What does NASA stand for?",
    "Who was the first woman in space?",
    "Name the largest lake in Africa that lies in more than two countries and feeds the river Nile on its way north.",
    "the capital of Peru?",
    "Why is the sky blue?",
    "Is it?",
]
GREETINGS = [
    "Hello there!",
    "Good morning to you.",
    "Thanks a lot, bye!",
    "How are you today?",
    "Hi!",
    "Nice to meet you.",
]


def export(out, *options, models=MODELS):
    with pytest.MonkeyPatch.context() as patch:
        arguments = ["export_fused.py", "--models", models, "--out", out, *options]
        patch.setattr(sys, "argv", list(map(str, arguments)))
        export_fused.main()
    return out


def service(folder):
    """What a service does, in a few lines: gives a function from texts to arrays by output."""
    manifest = artifacts.load(folder, "fused").manifest
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(manifest["max_length"])
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    assert {item.name for item in session.get_inputs()} == set(manifest["inputs"])

    def run(texts, **more):
        found = tokenizer.encode_batch(texts)
        feeds = {
            "input_ids": np.array([item.ids for item in found], np.int64),
            "attention_mask": np.array([item.attention_mask for item in found], np.int64),
        }
        return dict(zip(manifest["outputs"], session.run(list(manifest["outputs"]), feeds | more), strict=True))

    return run


def save(folder, head, encoder, task="chit-chat", **files):
    card = HeadCard(task, head.classes, head.link, head.inputs, encoder, {}, {}, {})
    save_head(folder, head_to_onnx(head), card, title=task, sections=[], files=files)
    return folder


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return export(tmp_path_factory.mktemp("fused") / "questions", "--task", "questions")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A models folder whose encoder reads passages by some of their word pieces, with a head for each kind of text."""
    folder = tmp_path_factory.mktemp("tuned")
    encoder = OnnxEncoder.load(export_encoder(folder, tuned=True))
    texts, chat = [*GREETINGS, *QUESTIONS[:6]], [True] * 6 + [False] * 6
    names = ("pooled", "layers", "provides")

    def views(reader):
        encoding = reader.encode(texts, views=names)
        return {name: encoding.rows(name) for name in names}

    questions = fit_head(views(encoder), np.where(chat, "A:chat", "B:question"), kind="logistic", folds=3)
    save(folder / "questions", questions, encoder.fingerprint, task="question-type")
    labels = np.stack([chat, ~np.array(chat)], axis=1).astype(int)
    passages = fit_head(
        views(encoder.for_passages), labels, kind="logistic", link="sigmoid", names=("chat", "question"), folds=3
    )
    save(folder / "passages", passages, encoder.fingerprint, task="passage-provides")
    return folder


@pytest.fixture(scope="module")
def own_head(tmp_path_factory, encoder):
    """A head over two views and word pieces: chit-chat or a question?"""
    texts, labels = [*GREETINGS, *QUESTIONS[:6]], ["chat"] * 6 + ["question"] * 6
    encoding = encoder.encode(texts, views=("layers", "pooled"))
    views = {"layers": encoding.layers, "pooled": encoding.pooled, "pieces": piece_matrix(encoding.terms)}
    head = fit_head(views, labels, kind="svm", folds=3)
    return save(tmp_path_factory.mktemp("heads") / "chat", head, encoder.fingerprint, **{"words.txt": b"the\n"})


def test_the_graph_gives_what_the_question_classifier_gives(questions, encoder):
    classifier = QuestionClassifier.load(MODELS, encoder=encoder)
    texts = [*QUESTIONS, "Who was " + "Rindfleischetikettierungsgesetz, " * 40 + "?"]  # one sentence
    run, outputs = service(questions), artifacts.load(questions, "fused").field("outputs")
    assert outputs == {"fine": list(classifier.fine_classes), "coarse": list(classifier.classes)}
    found, alone = run(texts), [run([text]) for text in texts]
    for level in ("fine", "coarse"):
        with pytest.warns(UserWarning, match="longer than"):
            expected = classifier.predict_proba(texts, level=level)
        np.testing.assert_allclose(found[level], expected, atol=1e-4)
        np.testing.assert_allclose(found[level], np.concatenate([each[level] for each in alone]), atol=1e-5)


def test_the_manifest_names_the_parts(questions):
    folder = artifacts.load(questions, "fused")
    encoder_files = artifacts.load(MODELS / "encoder", "encoder").field("files")
    files = {
        **{f"encoder/{name}": MODELS / "encoder" / name for name in encoder_files},
        "head/model.onnx": MODELS / "questions" / "model.onnx",
    }
    assert folder.field("made_of") == {name: artifacts.sha256_of(path) for name, path in files.items()}
    assert folder.field("files")["tokenizer.json"]["sha256"] == folder.field("made_of")["encoder/tokenizer.json"]
    assert folder.field("max_length") == artifacts.load(MODELS / "encoder", "encoder").field("max_length")


def test_a_port_can_be_tested_with_the_examples(questions):
    run = service(questions)
    for example in json.loads((questions / "examples.json").read_text()):
        for name, (row,) in run([example["text"]]).items():
            np.testing.assert_allclose(row, example[name], atol=1e-4)


def test_the_passage_graph_reads_one_sentence_with_surface_features_as_a_third_input(tmp_path, encoder, corpus):
    folder = export(tmp_path / "passages", "--task", "passages")
    classifier = PassageClassifier.load(MODELS, encoder=encoder)
    texts = [split_sentences(item.text)[0] for item in corpus[:8]]
    found = service(folder)(texts, surface=surface_features(texts))["probabilities"]
    np.testing.assert_allclose(found, classifier.predict_proba(texts), atol=1e-4)
    assert artifacts.load(folder, "fused").field("threshold") == list(classifier.thresholds)
    for example in json.loads((folder / "examples.json").read_text()):
        np.testing.assert_allclose(example["surface"], surface_features([example["text"]])[0], atol=1e-5)


def test_questions_are_read_by_all_of_their_word_pieces_and_passages_by_those_that_are_kept(tuned, tmp_path):
    # none of the last text's word pieces but the special ones is kept
    texts = [*QUESTIONS, *GREETINGS, "The bridge was opened in 1874 and it is of granite.", "It is of the."]
    encoder = OnnxEncoder.load(tuned / "encoder")
    for task, reader in (("questions", encoder), ("passages", encoder.for_passages)):
        folder = export(tmp_path / task, "--task", task, models=tuned)
        head = Head.load(tuned / task, encoder_fingerprint=encoder.fingerprint)
        expected = head.probabilities(gather(head, texts, reader.encode(texts, views=encoder_views(head))))
        run, (output, *_) = service(folder), artifacts.load(folder, "fused").field("outputs")
        np.testing.assert_allclose(run(texts)[output], expected, atol=1e-4)
        np.testing.assert_allclose([run([text])[output][0] for text in texts], expected, atol=1e-4)
        assert "encoder/kept.npy" in artifacts.load(folder, "fused").field("made_of")


def test_a_head_of_ones_own_with_word_pieces_and_a_file_for_a_step_before_the_encoder(own_head, tmp_path, encoder):
    folder = export(tmp_path / "fused", "--head", own_head)
    head = Head.load(own_head, encoder_fingerprint=encoder.fingerprint)
    # word pieces: more than the head reads, fewer, one
    texts = [*QUESTIONS, *GREETINGS, "What is it that " + "you say " * 30 + "?", "a"]
    expected = head.probabilities(gather(head, texts, encoder.encode(texts, views=encoder_views(head))))
    run = service(folder)
    np.testing.assert_allclose(run(texts)["probabilities"], expected, atol=1e-4)
    np.testing.assert_allclose([run([text])["probabilities"][0] for text in texts], expected, atol=1e-4)
    assert artifacts.load(folder, "fused").field("outside") == ["words.txt"]
    assert (folder / "words.txt").read_bytes() == b"the\n"


def test_a_head_that_reads_nothing_of_the_word_pieces_is_refused(tmp_path, capsys):
    views = {"surface": np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32)}
    head = save(tmp_path / "head", fit_head(views, ["a", "b"] * 15, kind="logistic", folds=2), None)
    with pytest.raises(SystemExit, match="2"):
        export(tmp_path / "fused", "--head", head)
    assert "reads surface alone" in capsys.readouterr().err


def test_a_model_folder_is_not_overwritten(own_head, capsys):
    before = {path.name: path.read_bytes() for path in own_head.iterdir()}
    with pytest.raises(SystemExit, match="2"):
        export(own_head, "--task", "questions")
    assert "'head', not 'fused'" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in own_head.iterdir()} == before


def test_the_example_runs_without_semclass(questions, tmp_path, encoder):
    example = ROOT / "docs" / "examples" / "fused_questions.py"
    script = (
        "import runpy, sys; sys.modules['semclass'] = sys.modules['onnx'] = None;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", script, str(example), str(questions), *QUESTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    labels = QuestionClassifier.load(MODELS, encoder=encoder).classify(QUESTIONS)
    for line, label in zip(done.stdout.splitlines(), labels, strict=True):
        coarse, probability, fine, fine_probability, text = line.split("\t")
        assert (coarse, fine, text) == (label.label, label.fine, label.text)
        assert float(probability) == pytest.approx(label.probability, abs=2e-4)
        assert float(fine_probability) == pytest.approx(label.fine_probability, abs=2e-4)
