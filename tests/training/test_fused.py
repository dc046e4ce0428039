"""One graph from token ids to probabilities: the same answers as the parts that it is made of."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import tokenizers
from conftest import MODELS, ROOT

from semclass import ArtifactError, PassageClassifier, QuestionClassifier
from semclass.core import artifacts
from semclass.core.cards import HeadCard, save_head
from semclass.encoders.onnx_encoder import fingerprint_of
from semclass.heads.head import Head
from semclass.heads.inputs import encoder_views, gather, piece_matrix
from semclass.heads.surface import surface_features
from semclass.train.export import head_to_onnx
from semclass.train.fit import fit_head

onnx = pytest.importorskip("onnx")

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


def export(out, *options):
    """Run the script as a user does."""
    command = [sys.executable, str(ROOT / "training" / "export_fused.py"), *map(str, options), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def made(out, *options):
    done = export(out, *options)
    assert done.returncode == 0, done.stderr
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


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return made(tmp_path_factory.mktemp("fused") / "questions", "--models", MODELS, "--task", "questions")


@pytest.fixture(scope="module")
def own_head(tmp_path_factory, encoder):
    """A head over two views and word pieces: chit-chat or a question?"""
    texts, labels = [*GREETINGS, *QUESTIONS[:6]], ["chat"] * 6 + ["question"] * 6
    encoding = encoder.encode(texts, views=("layers", "pooled"))
    views = {"layers": encoding.layers, "pooled": encoding.pooled, "pieces": piece_matrix(encoding.terms)}
    head = fit_head(views, labels, kind="svm", folds=3)
    card = HeadCard(
        task="chit-chat",
        classes=head.classes,
        link=head.link,
        inputs=head.inputs,
        encoder=encoder.fingerprint,
        calibration={},
        training={},
        metrics={},
    )
    folder = tmp_path_factory.mktemp("heads") / "chat"
    save_head(folder, head_to_onnx(head), card, title="Chit-chat", sections=[])
    return folder


def test_the_graph_gives_what_the_question_classifier_gives(questions, encoder):
    classifier = QuestionClassifier.load(MODELS, encoder=encoder)
    found, outputs = service(questions)(QUESTIONS), artifacts.load(questions, "fused").field("outputs")
    assert outputs == {"fine": list(classifier.fine_classes), "coarse": list(classifier.classes)}
    for level in ("fine", "coarse"):
        np.testing.assert_allclose(found[level], classifier.predict_proba(QUESTIONS, level=level), atol=1e-4)
    coarse = [outputs["coarse"][place] for place in found["coarse"].argmax(axis=1)]
    assert coarse == [item.label for item in classifier.predict(QUESTIONS)]


def test_a_batch_gives_what_each_text_gives_alone(questions):
    run = service(questions)
    together = run(QUESTIONS)
    for row, text in enumerate(QUESTIONS):
        for name, alone in run([text]).items():
            np.testing.assert_allclose(together[name][row], alone[0], atol=1e-5)


def test_a_long_text_is_cut_where_the_encoder_cuts_it(questions, encoder):
    classifier = QuestionClassifier.load(MODELS, encoder=encoder)
    long = "When was the bridge built? " + "It was a very long time ago. " * 60
    with pytest.warns(UserWarning, match="longer than"):
        expected = classifier.predict_proba([long, "Who built it?"], level="fine")
    found = service(questions)([long, "Who built it?"])
    np.testing.assert_allclose(found["fine"], expected, atol=1e-4)


def test_the_manifest_names_the_parts(questions):
    folder = artifacts.load(questions, "fused")
    files = {
        **{f"encoder/{name}": MODELS / "encoder" / name for name in ("lower.onnx", "upper.onnx", "tokenizer.json")},
        "head/model.onnx": MODELS / "questions" / "model.onnx",
    }
    assert folder.field("made_of") == {name: artifacts.sha256_of(path) for name, path in files.items()}
    assert folder.field("files")["tokenizer.json"]["sha256"] == folder.field("made_of")["encoder/tokenizer.json"]
    assert folder.field("max_length") == artifacts.load(MODELS / "encoder", "encoder").field("max_length")


def test_a_changed_file_is_found(questions, tmp_path):
    for path in questions.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(ArtifactError, match=r"tokenizer\.json has 2 bytes"):
        artifacts.load(tmp_path, "fused")


def test_a_port_can_be_tested_with_the_examples(questions):
    session = onnxruntime.InferenceSession(str(questions / "model.onnx"), providers=["CPUExecutionProvider"])
    for example in json.loads((questions / "examples.json").read_text()):
        ids = np.array([example["input_ids"]], np.int64)
        fine, coarse = session.run(["fine", "coarse"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        np.testing.assert_allclose(fine[0], example["fine"], atol=1e-4)
        np.testing.assert_allclose(coarse[0], example["coarse"], atol=1e-4)


def test_the_same_parts_give_the_same_bytes(questions, tmp_path):
    again = made(tmp_path / "again", "--models", MODELS, "--task", "questions")
    for path in questions.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_the_passage_graph_reads_surface_features_as_a_third_input(tmp_path, encoder, corpus):
    folder = made(tmp_path / "passages", "--models", MODELS, "--task", "passages")
    classifier = PassageClassifier.load(MODELS, encoder=encoder)
    manifest = artifacts.load(folder, "fused").manifest
    texts = [item.text for item in corpus[:8]]
    more = {"surface": surface_features(texts)} if "surface" in manifest["inputs"] else {}
    found = service(folder)(texts, **more)["probabilities"]
    np.testing.assert_allclose(found, classifier.predict_proba(texts), atol=1e-4)
    assert manifest["threshold"] == list(classifier.thresholds)
    for example in json.loads((folder / "examples.json").read_text()) if more else []:
        np.testing.assert_allclose(example["surface"], surface_features([example["text"]])[0], atol=1e-5)


def test_a_head_of_ones_own_with_word_pieces(own_head, tmp_path, encoder):
    folder = made(tmp_path / "fused", "--models", MODELS, "--head", own_head)
    head = Head.load(own_head, encoder=encoder.fingerprint)
    # word pieces: more than the head reads, fewer, one
    texts = [*QUESTIONS, *GREETINGS, "What is it that " + "you say " * 30 + "?", "a"]
    expected = head.probabilities(gather([head], texts, encoder.encode(texts, views=encoder_views([head]))))
    run = service(folder)
    np.testing.assert_allclose(run(texts)["probabilities"], expected, atol=1e-4)
    for row, text in enumerate(texts):
        np.testing.assert_allclose(run([text])["probabilities"][0], expected[row], atol=1e-4)


def test_a_head_for_another_encoder_is_refused(own_head, tmp_path):
    other = tmp_path / "head"
    other.mkdir()
    for path in own_head.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"encoder": "another"}))
    done = export(tmp_path / "fused", "--models", MODELS, "--head", other)
    assert done.returncode == 2
    assert "trained for encoder another" in done.stderr
    assert fingerprint_of(artifacts.load(MODELS / "encoder", "encoder").field("files"))[:12] in done.stderr
    assert not (tmp_path / "fused").exists()


def test_what_a_step_before_the_encoder_reads_is_copied_and_said(own_head, tmp_path):
    manifest = artifacts.load(own_head, "head").manifest
    files = {"model.onnx": (own_head / "model.onnx").read_bytes(), "words.txt": b"the\n"}
    artifacts.save(tmp_path / "head", "head", files, manifest)
    folder = artifacts.load(made(tmp_path / "fused", "--models", MODELS, "--head", tmp_path / "head"), "fused")
    assert folder.field("outside") == ["words.txt"]
    assert folder.path("words.txt").read_bytes() == b"the\n"


def test_a_head_that_reads_nothing_of_the_word_pieces_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    head = fit_head(
        {"surface": rng.normal(size=(30, 40)).astype(np.float32)}, ["a", "b"] * 15, kind="logistic", folds=2
    )
    card = HeadCard("any", head.classes, head.link, head.inputs, None, {}, {}, {})
    save_head(tmp_path / "head", head_to_onnx(head), card, title="Any", sections=[])
    done = export(tmp_path / "fused", "--models", MODELS, "--head", tmp_path / "head")
    assert done.returncode == 2
    assert "reads surface alone" in done.stderr


def test_a_model_folder_is_not_overwritten(own_head):
    before = {path.name: path.read_bytes() for path in own_head.iterdir()}
    done = export(own_head, "--models", MODELS, "--task", "questions")
    assert done.returncode == 2
    assert "describes 'head', but 'fused' is wanted" in done.stderr
    assert {path.name: path.read_bytes() for path in own_head.iterdir()} == before


def test_the_example_runs_without_semclass(questions, tmp_path, encoder):
    example = ROOT / "training" / "examples" / "fused_questions.py"
    script = (
        "import runpy, sys; sys.modules['semclass'] = sys.modules['onnx'] = None;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", script, str(example), str(questions), *QUESTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    labels = QuestionClassifier.load(MODELS, encoder=encoder).predict(QUESTIONS)
    for line, label in zip(done.stdout.splitlines(), labels, strict=True):
        coarse, probability, fine, fine_probability, text = line.split("\t")
        assert (coarse, fine, text) == (label.label, label.fine, label.text)
        assert float(probability) == pytest.approx(label.probability, abs=2e-4)
        assert float(fine_probability) == pytest.approx(label.fine_probability, abs=2e-4)
