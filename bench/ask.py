"""Whether the sentence that answers is among those that ``semclass ask`` prints.

    python -m bench.ask --data DATA [--questions 200]

The sentences of articles are joined to passages of four, in document order, and all passages of a set are one index. The
baselines read the same search: the first sentence of each of the first passages, the first passages from their beginning,
and the sentences of the first ten passages whose vectors are nearest to the question's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
import numpy as np

from datasets_io import read_jsonl, read_tsv
from semclass import HybridRetriever, Models
from semclass.documents.sentences import split_sentences
from semclass.encoders.onnx_encoder import for_passages
from semclass.scoring.topk import unit

TOGETHER, HITS, PRINTED = 4, 10, (1, 3, 5)

Asked = list[tuple[str, set[str]]]
"""Questions, each with the sentences that answer it."""


def squad(data: Path) -> tuple[list[list[str]], Asked]:
    """Articles in one row, and questions about them."""
    folder = data / "squad_sentences"
    texts = {row["_id"]: row["text"] for row in read_jsonl(folder / "dev.corpus.jsonl.gz")}
    asked = [(row["text"], {texts[row["relevant"]]}) for row in read_jsonl(folder / "dev.queries.jsonl.gz")]
    return [list(texts.values())], asked


def wikiqa(data: Path) -> tuple[list[list[str]], Asked]:
    """The sentences of an article for each question, of which some may answer."""
    rows: dict[str, list[str]] = {}
    right: dict[str, set[str]] = {}
    for row in read_tsv(data / "wikiqa" / "dev.tsv.gz"):
        rows.setdefault(row["question"], []).append(row["sentence"])
        if row["label"] == "1":
            right.setdefault(row["question"], set()).add(row["sentence"])
    return list(rows.values()), list(right.items())


def qamr(data: Path) -> tuple[list[list[str]], Asked]:
    """Articles, and questions about one sentence of them."""
    rows = list(read_jsonl(data / "qa" / "qamr_sentences.jsonl.gz"))
    articles = dict.fromkeys(tuple(row["passages"]) for row in rows)
    asked = [(row["question"], {row["passages"][place] for place in row["answers"]}) for row in rows]
    return [list(sentences) for sentences in articles], asked


SETS: Mapping[str, Callable[[Path], tuple[list[list[str]], Asked]]] = {"squad": squad, "wikiqa": wikiqa, "qamr": qamr}


def is_among(answers: set[str], printed: Sequence[str]) -> bool:
    """Whether a printed sentence holds one that answers, or is most of it; case and white space aside."""
    plain = [" ".join(text.lower().split()) for text in printed]
    wanted = [" ".join(text.lower().split()) for text in answers]
    return any(right in text or (len(text) > len(right) / 2 and text in right) for text in plain for right in wanted)


def printed_by_baselines(retriever: HybridRetriever, question: str) -> dict[str, list[str]]:
    hits = retriever.search(question, HITS)
    cut = [split_sentences(hit.text) for hit in hits]
    flat = list(dict.fromkeys(sentence for sentences in cut for sentence in sentences))
    (query,) = retriever.models.encode([question])
    cosines = unit(for_passages(retriever.models.encoder).encode(flat).rows("pooled")) @ unit(query.pooled[None])[0]
    return {
        "first sentence of each passage": [sentences[0] for sentences in cut],
        "first passages from their beginning": flat,
        "largest cosine": [flat[place] for place in np.argsort(-cosines, kind="stable")],
    }


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True)
@click.option("--questions", default=200)
@click.option("--only", "names", multiple=True, type=click.Choice(list(SETS)), help="Default: all sets.")
def main(data: Path, questions: int, names: tuple[str, ...]) -> None:
    """Print a table of shares, for each set and way."""
    models = Models.load()
    print(f"| set | way | {' | '.join(f'{n} printed' for n in PRINTED)} |\n|---|---|{'---|' * len(PRINTED)}")
    for name in names or SETS:
        articles, asked = SETS[name](data)
        asked = [asked[place] for place in np.random.default_rng(0).permutation(len(asked))[:questions].tolist()]
        passages = dict.fromkeys(
            " ".join(sentences[first : first + TOGETHER])
            for sentences in articles
            for first in range(0, len(sentences), TOGETHER)
        )
        retriever = HybridRetriever.from_passages(list(passages), models=models)
        found: dict[str, list[list[bool]]] = {}
        for question, answers in asked:
            ways = printed_by_baselines(retriever, question)
            ways["semclass ask"] = [one.text for one in retriever.ask(question, max(PRINTED)).sentences]
            for way, texts in ways.items():
                found.setdefault(way, []).append([is_among(answers, texts[:n]) for n in PRINTED])
        of = f"{name}: {len(asked)} questions, {len(passages)} passages"
        for way, rows in found.items():
            print(f"| {of} | {way} | {' | '.join(f'{share:.1%}' for share in np.mean(rows, axis=0))} |", flush=True)


if __name__ == "__main__":
    main()
