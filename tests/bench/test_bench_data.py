"""Public sets, fetched from a server on this machine: checked, converted, skipped, and never replaced."""

import functools
import gzip
import http.server
import io
import json
import threading
import zipfile
from pathlib import Path

import click.testing
import pytest

from bench import data

TREC = ["DESC:manner How did it end ?\nNUM:date When was caf\xe9 first said ?\n", "HUM:ind Who won ?\n"]
SENTENCE = "the cup -lrb- of `` gold '' -rrb- is n't ada 's , she said . "
ORIGINALS = {
    "train_5500.label": TREC[0].encode("latin-1"),
    "TREC_10.label": TREC[1].encode("latin-1"),
    "train.csv": b'text,category\n"My card, where\nis it?",card_arrival\n',
    "test.csv": b"text,category\nLost it,lost_card\n",
    "ori_pqal.json": json.dumps(
        {"7": {"QUESTION": "Does it help?", "CONTEXTS": ["We asked.", "It does."], "LABELS": ["AIM", "RESULTS"]}}
    ).encode(),
    "src-test.txt": SENTENCE.encode(), "tgt-test.txt": b"whose is the cup ?", "tgt-dev.txt": b"who ran ?\nwho won ?\nwho ?",
    "src-dev.txt": b"ada ran .\nbo won .\nada ran .",
}  # fmt: skip


@pytest.fixture
def mirror(tmp_path):
    """A server of the originals; gives its address and its folder."""
    root = tmp_path / "mirror"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("QNLI/dev.tsv", "index\tquestion\tsentence\tlabel\n0\tWho?\tAda did.\tentailment\n")
    for one in data.SETS.values():
        for address in one.originals:
            path = root / address.partition("://")[2]
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.name in ORIGINALS or path.suffix == ".zip":
                path.write_bytes(ORIGINALS.get(path.name, packed.getvalue()))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", root
        server.shutdown()


@pytest.fixture(autouse=True)
def unpublished(monkeypatch):
    """The made originals of TREC have other checksums than the published ones."""
    trec = data.SETS["trec"]
    made = data.PublicSet(trec.what, trec.licence, trec.page, dict.fromkeys(trec.originals), trec.convert)
    monkeypatch.setitem(data.SETS, "trec", made)


def run(folder: Path, address: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(data.main, [str(folder), "--mirror", address])


def packed_lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_sets_are_converted_to_the_layout_of_the_loaders(tmp_path, mirror):
    said = run(tmp_path, mirror[0])
    assert said.exit_code == 0, said.output
    assert "5 of 7 sets" in said.output
    assert "clinc150: messages" in said.output
    assert "data_full.json cannot be read: HTTP Error 404" in said.output
    assert (tmp_path / "trec/train.tsv").read_text().splitlines()[2] == "NUM\tdate\tWhen was café first said ?"
    assert packed_lines(tmp_path / "intents/banking77.train.tsv.gz") == ["card_arrival\tMy card, where is it?"]
    assert json.loads(packed_lines(tmp_path / "qnli/validation.jsonl.gz")[0])["label"] == "entailment"
    (sentence,) = packed_lines(tmp_path / "squad_sentences/train.corpus.jsonl.gz")
    assert json.loads(sentence)["text"] == "the cup (of \" gold \") isn't ada's, she said."
    assert [json.loads(line)["relevant"] for line in packed_lines(tmp_path / "squad_sentences/dev.queries.jsonl.gz")] == [
        "s0", "s1", "s0",
    ]  # fmt: skip
    assert json.loads((tmp_path / "beir/squad4/corpus.jsonl").read_text())["text"] == "ada ran. bo won."
    assert (tmp_path / "beir/pubmedqa/qrels/test.tsv").read_text().splitlines()[1:] == ["7\t7-0\t1", "7\t7-1\t1"]


def test_a_changed_original_is_refused(tmp_path, mirror):
    run(tmp_path, mirror[0])
    before = (tmp_path / "beir/pubmedqa/corpus.jsonl").read_bytes()
    (tmp_path / "beir/pubmedqa/queries.jsonl").unlink()
    next(mirror[1].rglob("ori_pqal.json")).write_text("{}")
    said = run(tmp_path, mirror[0])
    assert said.exit_code == 1
    assert "refused: pubmedqa" in said.output
    assert (tmp_path / "beir/pubmedqa/corpus.jsonl").read_bytes() == before
    assert not (tmp_path / "beir/pubmedqa/queries.jsonl").exists()


def test_what_is_there_is_neither_fetched_nor_replaced(tmp_path, mirror):
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec/test.tsv").write_text("mine")
    run(tmp_path, mirror[0])
    assert (tmp_path / "trec/test.tsv").read_text() == "mine"
    said = run(tmp_path, "http://127.0.0.1:9")
    assert said.exit_code == 0
    assert said.output.count("  is there") == 5


def test_without_any_answer_nothing_is_written(tmp_path):
    said = run(tmp_path / "new", "http://127.0.0.1:9")
    assert said.exit_code == 1
    assert "no set could be fetched" in said.output
    assert not (tmp_path / "new").exists()
