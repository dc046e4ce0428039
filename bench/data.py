"""``python -m bench data FOLDER``: fetch public sets, in the layout that the benchmark reads.

Each original is checked by its SHA-256: against the one that is published, where there is one; else against
``FOLDER/checksums.json``, which keeps that of the first fetch. So a first fetch of these trusts the address, and later
ones refuse a changed file. A set that cannot be fetched is skipped; no file that is there is replaced. Texts and labels
that were made for this project are not published: sections that read them are skipped.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import http.client
import io
import json
import random
import re
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from semclass.core.artifacts import dump_json, dump_json_lines, read_json, write_atomic
from semclass.core.errors import ArtifactError, SemclassError

LOCK = "checksums.json"
MOST_BYTES, SECONDS = 200_000_000, 60  # of an original, and without a byte from its server
WINDOW, SAMPLE = 4, 3000  # sentences of a passage of squad4, and its questions

Files = dict[str, bytes]


@dataclass(frozen=True)
class PublicSet:
    """A published set: its originals, with published SHA-256 or None, and the files that are made of them."""

    what: str
    licence: str
    page: str
    originals: Mapping[str, str | None]
    convert: Callable[[Sequence[bytes]], Files]


def _tsv(rows: Iterable[Sequence[str]]) -> bytes:
    return "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows).encode()


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _trec(originals: Sequence[bytes]) -> Files:
    files = {}
    for part, original in zip(("train", "test"), originals, strict=True):
        labelled = [line.split(" ", 1) for line in original.decode("latin-1").splitlines() if line.strip()]
        rows = [(*label.split(":", 1), question) for label, question in labelled]
        files[f"trec/{part}.tsv"] = _tsv([("coarse", "fine", "question"), *rows])
    return files


def _qnli(originals: Sequence[bytes]) -> Files:
    with zipfile.ZipFile(io.BytesIO(originals[0])) as archive:
        lines = archive.read("QNLI/dev.tsv").decode().splitlines()
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    records = [
        {"idx": int(row["index"]), **{key: row[key] for key in ("question", "sentence", "label")}} for row in rows
    ]
    return {"qnli/validation.jsonl.gz": _packed(dump_json_lines(records))}


def _banking77(originals: Sequence[bytes]) -> Files:
    parts = zip(("train", "test"), originals, strict=True)
    rows = {part: csv.DictReader(io.StringIO(original.decode(), newline="")) for part, original in parts}
    return {
        f"intents/banking77.{part}.tsv.gz": _packed(_tsv((row["category"], row["text"]) for row in read))
        for part, read in rows.items()
    }


def _clinc150(originals: Sequence[bytes]) -> Files:
    parts = json.loads(originals[0])
    return {
        f"intents/clinc150.{name}.tsv.gz": _packed(_tsv(row[::-1] for row in (*parts[part], *parts[f"oos_{part}"])))
        for name, part in (("train", "train"), ("dev", "val"))
    }


def _beir(
    name: str, corpus: Iterable[Mapping[str, str]], queries: Mapping[str, str], right: Iterable[Sequence[str]]
) -> Files:
    return {
        f"beir/{name}/corpus.jsonl": dump_json_lines(corpus),
        f"beir/{name}/queries.jsonl": dump_json_lines({"_id": id_, "text": text} for id_, text in queries.items()),
        f"beir/{name}/qrels/test.tsv": _tsv([("query-id", "corpus-id", "score"), *((*pair, "1") for pair in right)]),
    }


def _pubmedqa(originals: Sequence[bytes]) -> Files:
    papers = json.loads(originals[0])
    sections = [
        (paper, {"_id": f"{paper}-{place}", "title": label, "text": text})
        for paper, row in papers.items()
        for place, (label, text) in enumerate(zip(row["LABELS"], row["CONTEXTS"], strict=True))
    ]
    queries = {paper: row["QUESTION"] for paper, row in papers.items()}
    return _beir("pubmedqa", [one for _, one in sections], queries, [(paper, one["_id"]) for paper, one in sections])


def _docs(originals: Sequence[bytes]) -> Files:
    sections, rows = map(json.loads, originals)
    ids = {section["chunk_link"]: f"d{place}" for place, section in enumerate(sections)}
    corpus = [
        {
            "_id": ids[one["chunk_link"]],
            "title": one["chunk_heading"],
            "text": one["text"].removeprefix(one["chunk_heading"]).strip(),
        }
        for one in sections
    ]
    queries = {f"q{place}": row["question"] for place, row in enumerate(rows)}
    right = [
        (f"q{place}", ids[link]) for place, row in enumerate(rows) for link in row["correct_chunks"] if link in ids
    ]
    return _beir("docs", corpus, queries, right)


def plain(tokens: str) -> str:
    """Text of a tokenised sentence: brackets and quotation marks as they are written, no space before a mark."""
    for token, sign in (("-lrb- ", "("), (" -rrb-", ")"), ("-lsb- ", "["), (" -rsb-", "]"), ("``", '"'), ("''", '"')):
        tokens = tokens.replace(token, sign)
    return re.sub(r" (?=[,.;:?!%](?: |$)|n't\b|'(?:s|re|ve|ll|d|m)\b)", "", tokens.strip())


def _squad(originals: Sequence[bytes]) -> Files:
    files: Files = {}
    for name, part in (("train", originals[:2]), ("dev", originals[2:])):
        sentences, questions = ([plain(line) for line in text.decode().splitlines()] for text in part)
        place = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
        asked = [{"_id": f"q{row}", "text": text} for row, text in enumerate(questions)]
        answers = [place[sentence] for sentence in sentences]
        records = [{**one, "relevant": f"s{row}"} for one, row in zip(asked, answers, strict=True)]
        corpus = [{"_id": f"s{row}", "text": sentence} for sentence, row in place.items()]
        files[f"squad_sentences/{name}.corpus.jsonl.gz"] = _packed(dump_json_lines(corpus))
        files[f"squad_sentences/{name}.queries.jsonl.gz"] = _packed(dump_json_lines(records))
    texts = list(place)  # of the last part, dev
    drawn = random.Random(0).sample(range(len(asked)), min(SAMPLE, len(asked)))
    passages = [
        {"_id": f"p{start // WINDOW}", "title": "", "text": " ".join(texts[start : start + WINDOW])}
        for start in range(0, len(texts), WINDOW)
    ]
    queries = {asked[row]["_id"]: asked[row]["text"] for row in drawn}
    right = [(asked[row]["_id"], f"p{answers[row] // WINDOW}") for row in drawn]
    return files | _beir("squad4", passages, queries, right)


RAW = "https://raw.githubusercontent.com"
TREC = "https://cogcomp.seas.upenn.edu/Data/QA/QC"
NQG = f"{RAW}/xinyadu/nqg/7f8bb00af7881bb8d8eaedc61e38e4114ff43ac6/data/processed"
BANKING = f"{RAW}/PolyAI-LDN/task-specific-datasets/master/banking_data"
COOKBOOK = "https://github.com/anthropics/anthropic-cookbook"
DOCS = f"{RAW}/anthropics/anthropic-cookbook/{{}}/skills/retrieval_augmented_generation/{{}}"

SETS = {
    "trec": PublicSet(
        "5,952 questions with the type of answer that they ask for (Li and Roth 2002)", "none is stated", f"{TREC}/",
        {
            f"{TREC}/train_5500.label": "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
            f"{TREC}/TREC_10.label": "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
        },
        _trec,
    ),
    "qnli": PublicSet(
        "GLUE QNLI: does a sentence answer a question? 5,463 pairs", "CC BY-SA 4.0", "https://gluebenchmark.com",
        {"https://dl.fbaipublicfiles.com/glue/data/QNLIv2.zip": None}, _qnli,
    ),
    "squad": PublicSet(
        "questions and sentences of SQuAD (Du et al. 2017), and passages of four of these", "CC BY-SA 4.0",
        "https://github.com/xinyadu/nqg",
        {f"{NQG}/{side}-{part}.txt": None for part in ("test", "dev") for side in ("src", "tgt")}, _squad,
    ),
    "pubmedqa": PublicSet(
        "titles of 1,000 papers and the sections of their abstracts", "MIT", "https://github.com/pubmedqa/pubmedqa",
        {f"{RAW}/pubmedqa/pubmedqa/1f00b98d5cc626844bf8c4ca513b6e62c40071ec/data/ori_pqal.json": None}, _pubmedqa,
    ),
    "docs": PublicSet(
        "sections of a product's documentation with 100 questions", "MIT", COOKBOOK,
        {
            DOCS.format("13ea424e574eba846aa26218434a9d92bc9ab346", "data/anthropic_docs.json"): None,
            DOCS.format(
                "7129c029ad4b42431c6fc6e3cde85dc4a6274af9", "evaluation/docs_evaluation_dataset.json"
            ): None,
        },
        _docs,
    ),
    "banking77": PublicSet(
        "13,083 messages of a bank's customers, 77 intents (Casanueva et al. 2020)", "CC BY 4.0",
        "https://github.com/PolyAI-LDN/task-specific-datasets",
        {f"{BANKING}/train.csv": None, f"{BANKING}/test.csv": None}, _banking77,
    ),
    "clinc150": PublicSet(
        "messages to an assistant, 150 intents (Larson et al. 2019)", "CC BY 3.0", "https://github.com/clinc/oos-eval",
        {f"{RAW}/clinc/oos-eval/master/data/data_full.json": None}, _clinc150,
    ),
}  # fmt: skip


class ChangedOriginalError(SemclassError):
    """An original is not the file that it was, or that was published."""


def fetch(address: str, mirror: str | None = None) -> bytes:
    """Read an original; from a mirror, its address there is ``MIRROR/HOST/PATH``."""
    there = address if mirror is None else f"{mirror.rstrip('/')}/{address.partition('://')[2]}"
    with urllib.request.urlopen(there, timeout=SECONDS) as answer:  # noqa: S310 - addresses are constants, and a mirror is the user's
        data: bytes = answer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
    return data


def get(folder: Path, name: str, mirror: str | None = None) -> str:
    """Fetch, check and convert a set; gives what was done, in a sentence."""
    wanted, lock = SETS[name], read_json(folder / LOCK) if (folder / LOCK).is_file() else {}
    if name in lock.get("sets", {}) and all((folder / path).is_file() for path in lock["sets"][name]):
        return "is there"
    sums = dict(lock.get("originals", {}))
    data = []
    for address, published in wanted.originals.items():
        try:
            data.append(fetch(address, mirror))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"skipped: {address} cannot be read: {error}"
        digest = hashlib.sha256(data[-1]).hexdigest()
        expected = published or sums.get(address, digest)
        if digest != expected:
            raise ChangedOriginalError(
                f"{name}: {address} has the SHA-256 {digest}, not {expected}; nothing was written. If the new file is "
                f"right, {'this command is out of date' if published else f'take its line out of {folder / LOCK}'}"
            )
        sums[address] = digest
    try:
        files = wanted.convert(data)
    except (LookupError, ValueError, TypeError, zipfile.BadZipFile) as error:
        return f"skipped: not in the format that was published ({type(error).__name__}: {error})"
    for path, content in files.items():
        if not (folder / path).exists():
            write_atomic(folder / path, content)
    made = {**lock.get("sets", {}), name: sorted(files)}
    write_atomic(folder / LOCK, dump_json({"originals": sums, "sets": made}))
    return f"wrote {', '.join(files)}"


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--mirror", metavar="URL", help="Where copies of the originals are, as URL/HOST/PATH.")
def main(folder: Path, mirror: str | None) -> None:
    """Fetch every set, and say what it is."""
    refused, present = [], 0
    for name, one in SETS.items():
        click.echo(f"{name}: {one.what}; licence: {one.licence}; {one.page}")
        try:
            done = get(folder, name, mirror)
        except (ChangedOriginalError, ArtifactError) as error:
            done = str(error)
            refused.append(name)
        present += done.startswith(("is there", "wrote"))
        click.echo(f"  {done}")
    click.echo(f"{present} of {len(SETS)} sets; next: python -m bench --quick --data {folder}")
    if refused or not present:
        raise click.ClickException(f"refused: {', '.join(refused)}" if refused else "no set could be fetched")
