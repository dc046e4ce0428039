"""Passages in PostgreSQL: what fusion in SQL finds, what re-ranking makes of it, and what an index in a folder finds.

    python -m bench.postgres --data DATA --work FOLDER --url postgresql://... [--set hobby]

prints nDCG@10, milliseconds of a question, and how many questions have the same ten hits. It writes a table of the name
bench_passages, and removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import psycopg
from psycopg.types.json import Jsonb

from bench import measures, readme
from semclass import HybridRetriever, Models, Passage
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.evaluate import cached_index
from semclass.evaluation.measure import per_question
from semclass.index.passage_index import PassageIndex
from semclass.integrations.engine import EngineIndex, engine_record, engine_rows
from semclass.scoring.topk import unit

DOCS = Path(__file__).parent.parent / "docs"
FIND = (DOCS / "examples" / "find.sql").read_text().replace("passages", "bench_passages")

TABLE = """
    CREATE EXTENSION IF NOT EXISTS vector;
    DROP TABLE IF EXISTS bench_passages;
    CREATE TABLE bench_passages (
        id text PRIMARY KEY, text text NOT NULL, metadata jsonb NOT NULL,
        words tsvector GENERATED ALWAYS AS (to_tsvector('english', coalesce(metadata->>'title', '') || ' ' || text)) STORED,
        vector vector(384) NOT NULL, stored bytea STORAGE EXTERNAL NOT NULL
    );
    CREATE INDEX ON bench_passages USING gin (words);
"""


def fill(connection: psycopg.Connection, index: PassageIndex) -> float:
    """Store an index; kB of each passage's bytes."""
    connection.execute(TABLE)
    copied = "COPY bench_passages (id, text, metadata, vector, stored) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(copied) as copy:
        for passage, vector, stored in engine_rows(index):
            copy.write_row((passage.id, passage.text, Jsonb(dict(passage.metadata)), str(vector), stored))
    connection.execute("ANALYZE bench_passages")
    (mean,) = connection.execute("SELECT avg(length(stored)) FROM bench_passages").fetchone() or (0,)
    return float(mean) / 1e3


@click.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Keeps indices.")
@click.option("--url", required=True)
@click.option("--set", "name", default="hobby", show_default=True)
def main(data: Path, work: Path, url: str, name: str) -> None:
    """Print the figures of a set."""
    models, folder = Models.load(), data / "beir" / name
    index, dataset = cached_index(folder, work, models.passage_encoder), load_dataset(folder)
    connection = psycopg.connect(url, autocommit=True)
    size = fill(connection, index)

    def asked(question: str, vector: list[float], n: int, where: object) -> dict[str, object]:
        return {"question": question, "vector": str(vector), "n": n, "where": Jsonb(where or {})}

    def find(*words: object) -> list[tuple[Passage, bytes]]:
        rows = connection.execute(FIND, asked(*words), binary=True)  # type: ignore[arg-type]
        return [(Passage(name, text, metadata), stored) for name, text, metadata, stored in rows]

    def fused(question: str) -> list[str]:
        (query,) = models.encode([question], classes=False, tokens=False)
        words = asked(query.query_used, unit(query.pooled).tolist(), 100, None)
        return [row[0] for row in connection.execute(FIND.replace("id, text, metadata, stored", "id"), words)][:10]

    there = HybridRetriever(EngineIndex.of(engine_record(index), find), models)
    here = HybridRetriever(index, models)
    jobs = {
        "SQL: vectors and full text, fused by ranks": fused,
        "the same, re-ranked by stored evidence": lambda text: [hit.id for hit in there.search(text)],
        "index in a folder, without re-ranking": lambda text: [hit.id for hit in here.search(text, method="convex")],
        "index in a folder": lambda text: [hit.id for hit in here.search(text)],
    }
    questions = list(dataset.questions.values())
    found: dict[str, dict[str, list[str]]] = {what: {} for what in jobs}

    def kept(what: str) -> Callable[[str], None]:
        return lambda question: found[what].update({question: jobs[what](question)})

    seconds = measures.by_turns(questions, {what: kept(what) for what in jobs})
    rankings = {what: [held[question] for question in questions] for what, held in found.items()}
    rows = []
    for what, ranking in rankings.items():
        gain = per_question(dataset, ranking, ["nDCG@10"])["nDCG@10"].mean()
        rows.append((what, f"{gain:.3f}", f"{np.median(seconds[what]) * 1e3:.1f}"))
    print(f"{name}: {len(index):,} passages, {len(questions)} questions, {size:.1f} kB of bytes a passage")
    print(readme.markdown(("system", "nDCG@10", "milliseconds, p50"), rows))
    both = zip(*list(rankings.values())[1::2], strict=True)
    print(f"the same ten hits in the same order: {sum(one == other for one, other in both)} questions")
    connection.execute("DROP TABLE bench_passages")


if __name__ == "__main__":
    main()
