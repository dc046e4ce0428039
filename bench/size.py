"""The smallest thing that does it: question classes, entailment and ranking by the size of what reads the texts.

Every reader has the same heads fitted to its vectors, on the same training items: regressions for classes and pairs. At the
end stand the heads that are shipped with the whole encoder. Nothing is chosen on the tests; alpha of the convex fusion is
chosen for each set on the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench import measures, pareto, readme, timing
from bench.deep import entailment as deep_entailment
from bench.entailment import training_pairs
from bench.retrieval_systems import DEPTH, SEED, drawn, opened
from bench.smaller import READERS, Array, Reader, make
from bench.steps import Bench
from datasets_io import read_jsonl, read_tsv
from semclass import Models
from semclass.core.artifacts import default_models
from semclass.documents.readers import read_corpus
from semclass.encoders.sentences import Sentences
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import per_question
from semclass.heads.entailment import EntailmentClassifier
from semclass.heads.questions import QuestionClassifier
from semclass.index.passage_encoder import parts_of
from semclass.ranking.methods import DEFAULT
from semclass.scoring.dense import dense_scores
from semclass.scoring.fusion import DEPTH as POOL
from semclass.scoring.fusion import fused
from semclass.scoring.topk import top_k, unit

SETS = ("squad4", "docs", "codebase")
QUESTIONS, PAIRS, TIMED = 500, 3000, 200  # of a set; training questions of pairs; texts that are timed
QUICK = 40  # of everything, in a quick run
ALPHAS = tuple(round(0.1 * step, 1) for step in range(11))  # 1 is dense alone
STRENGTHS = (0.001, 0.01, 0.1)  # C of the regressions over scaled columns: the best on a third of the training items
TIMES = ("question_us", "sentence_us")
TASKS = ("trec", "qnli", "dense", "convex")
FLOOR = "BM25, the most frequent answer"
TRAINED, DEEP = "6 layers, trained heads", "the same, then the deep head"
SHIPPED = {
    TRAINED: "the shipped heads: question classes with upper layers of their own, entailment, and the default search",
    DEEP: "two layers more read the question together with each of the first candidates; µs of a pair",
}


def run(bench: Bench) -> dict[str, Any]:
    limit = QUICK if bench.quick else None
    questions = limit or QUESTIONS
    places = {name: str(bench.beir(name)) for name in SETS[: 1 if bench.quick else None]}
    where = {"data": bench.data, "limit": limit, "sets": places, "cache": bench.indices, "questions": questions}
    found: dict[str, dict[str, Any]] = {}
    for reader in READERS:
        row = bench.step(f"size/{reader}", "bench.size:measure_reader", which=reader, **where)
        by_alpha = row.pop("by_alpha")
        found[reader] = {**row, **of_sets(by_alpha)}
    for system, method in ((TRAINED, DEFAULT), (DEEP, "deep")):
        row = bench.step(f"size/{system}", "bench.size:measure_shipped", method=method, **where)
        found[system] = {**row, **figures("search", row.pop("values"))}
    words = figures("search", {name: rows[0] for name, rows in by_alpha.items()})
    times = bench.step("size/times", "bench.size:times", data=bench.data, limit=limit or TIMED)
    systems = [
        {"name": name, "what": {**READERS, **SHIPPED}[name], **row, **times[name]} for name, row in found.items()
    ]
    nothing = {"name": FLOOR, "what": "no vectors", **floor(str(bench.data), limit), **words}
    task = {"what": "the same tasks by readers of several sizes", "questions of a set": QUESTIONS}
    return {"task": task, "sizes": [nothing, *systems]}


# -- steps ----------------------------------------------------------------------------------------------------------------


def measure_reader(
    which: str, data: str, limit: int | None, sets: Mapping[str, str], cache: str, questions: int
) -> dict[str, Any]:
    """Bytes of a reader, accuracy on TREC and QNLI of regressions over its vectors, and nDCG@10 by alpha and question."""
    reader, (train, test), (taught, asked, truth) = make(which, data), _trec(data, limit), _pairs(data, limit)
    head = fitted(reader.for_classes([text for text, _ in train]), [label for _, label in train])
    said = head.predict(reader.for_classes([text for text, _ in test])).tolist()
    classes = measures.of_classes([label for _, label in test], said)
    pairs = fitted(_products(reader, taught["pairs"]), taught["labels"])
    answers = measures.of_answers(truth, pairs.predict(_products(reader, asked)) == 1)
    return {
        "megabytes": round(reader.size / 1e6, 2),
        **_accuracy("trec", classes),
        **_accuracy("qnli", answers),
        "by_alpha": {name: ranking(reader, folder, cache, questions) for name, folder in sets.items()},
    }


def fitted(rows: Array, labels: Sequence[Any]) -> Any:
    """A regression, as strong as is best on items that are held out."""
    parts = train_test_split(rows, labels, test_size=1 / 3, random_state=SEED, stratify=labels)
    made = [make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=500)) for strength in STRENGTHS]
    right = [head.fit(parts[0], parts[2]).score(parts[1], parts[3]) for head in made]
    return made[int(np.argmax(right))].fit(rows, labels)


def floor(data: str, limit: int | None) -> dict[str, Any]:
    """What the most frequent class of the training questions gets right, and always yes."""
    (train, test), (_, _, truth) = _trec(data, limit), _pairs(data, limit)
    usual = Counter(label for _, label in train).most_common(1)[0][0]
    classes = measures.of_classes([label for _, label in test], [usual] * len(test))
    return {**_accuracy("trec", classes), **_accuracy("qnli", measures.of_answers(truth, np.ones(len(truth), bool)))}


def measure_shipped(
    method: str, data: str, limit: int | None, sets: Mapping[str, str], cache: str, questions: int
) -> dict[str, Any]:
    """The same of the shipped heads, and of a search by a method."""
    _, test = _trec(data, limit)
    _, asked, truth = _pairs(data, limit)
    parts = (
        "encoder",
        "questions",
        "entailment",
        "pairs",
        "match",
        "codebooks",
        *(["deep"] if method == "deep" else []),
    )
    files = [
        path for part in parts for path in (default_models() / part).rglob("*") if path.suffix in (".onnx", ".npy")
    ]
    found = {"megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 2), "values": {}}
    if method == "deep":
        found |= _accuracy("qnli", deep_entailment(data, limit))
    else:
        said = QuestionClassifier.load().predict([text for text, _ in test])
        found |= _accuracy("trec", measures.of_classes([label for _, label in test], said))
        answers = np.array(EntailmentClassifier.load().predict(map(tuple, asked))) == "entailment"
        found |= _accuracy("qnli", measures.of_answers(truth, answers))
    for name, folder in sets.items():
        dataset, retriever = drawn(load_dataset(folder), questions), opened(folder, cache, 0.0, None).retriever
        hits = retriever.search_many(list(dataset.questions.values()), DEPTH, method=method)
        found["values"][name] = ndcg(dataset, [[hit.id for hit in some] for some in hits])
    return found


def ranking(reader: Reader, folder: str, cache: str, questions: int) -> list[list[float]]:
    """nDCG@10 of each question by each alpha."""
    dataset, retriever = drawn(load_dataset(folder), questions), opened(folder, cache, 0.0, None).retriever
    dense = scores(reader, dataset)
    ids = [passage.id for passage in read_corpus(Path(folder) / "corpus.jsonl")]
    terms = retriever.models.encoder.tokenize(list(dataset.questions.values()))
    words = [retriever.embedded.lexical_scores(terms.row(row)).astype(np.float64) for row in range(len(dense))]
    by_alpha = []
    for alpha in ALPHAS:
        both = (
            fused(one, other, "convex", alpha=alpha, depth=POOL).score for one, other in zip(dense, words, strict=True)
        )
        by_alpha.append(ndcg(dataset, [[ids[row] for row in top_k(each, DEPTH)] for each in both]))
    return by_alpha


def scores(reader: Reader, dataset: Dataset) -> Array:
    """Similarity of questions and passages, float64 (questions, passages), of sentences and means as in an index."""
    parts = [parts_of(passage) for passage in read_corpus(dataset.folder / "corpus.jsonl")]
    items = Sentences.of([body for _, body, _ in parts], [title for title, _, _ in parts])
    rows = np.asarray(reader.for_search(items.texts, passages=True), np.float32)
    means = unit(items.view("pooled", rows))
    asked = reader.for_search(list(dataset.questions.values()))
    return np.stack([dense_scores(means @ one, (rows @ one)[items.which], items.offsets) for one in asked]).astype(
        float
    )


def times(data: str, limit: int) -> dict[str, Any]:
    """Microseconds of a question and of a sentence, by turns, one text at a time; of the deep head, of a pair."""
    taught, _, _ = _pairs(data, limit)
    models, heads = Models.load(threads=1), EntailmentClassifier.load()
    classes = QuestionClassifier.load()
    readers = {name: make(name, data) for name in READERS}
    jobs: dict[str, Any] = {
        name: lambda pair, reader=reader: reader.for_search([pair[0]]) for name, reader in readers.items()
    }
    jobs |= {
        TRAINED: lambda pair: classes.predict([pair[0]]),
        DEEP: lambda pair: models.deep.read([pair[0]], [[pair[1]]]),
    }
    given: dict[str, Any] = {
        name: lambda pair, reader=reader: reader.for_search([pair[1]], passages=True)
        for name, reader in readers.items()
    }
    given[TRAINED] = lambda pair: heads.predict([tuple(pair)])
    items = taught["pairs"][: 2 * limit : 2]
    asked, sentences = (timing.percentiles(timing.by_turns(items, each), 1e6, 0) for each in (jobs, given))
    return {
        name: {
            "question_us": asked[f"{name}_p50"],
            **({"sentence_us": sentences[f"{name}_p50"]} if name in given else {}),
        }
        for name in jobs
    }


def _trec(data: str, limit: int | None) -> list[list[tuple[str, str]]]:
    parts = (read_tsv(Path(data) / "trec" / f"{part}.tsv") for part in ("train", "test"))
    return [[(row["question"], row["coarse"]) for row in rows[: limit and 10 * limit]] for rows in parts]


def _pairs(data: str, limit: int | None) -> tuple[dict[str, list[Any]], list[Any], Array]:
    """Training pairs; QNLI's pairs, and whether the sentence answers."""
    records = read_jsonl(Path(data) / "qnli" / "validation.jsonl.gz")[:limit]
    pairs = [[record["question"], record["sentence"]] for record in records]
    truth = np.array([record["label"] == "entailment" for record in records])
    return training_pairs(Path(data), limit or PAIRS), pairs, truth


def _products(reader: Reader, pairs: Sequence[Sequence[str]]) -> Array:
    """What a classifier of pairs reads: u, v, their distances and products; each text is read once."""
    sides = []
    for side, texts in enumerate(zip(*pairs, strict=True)):
        known = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        sides.append(reader.for_search(list(known), passages=side == 1)[[known[text] for text in texts]])
    asked, given = sides
    return np.concatenate([asked, given, np.abs(asked - given), asked * given], axis=1)


def _accuracy(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: found["accuracy"], f"{name}_ci": found["accuracy_ci"]}


def ndcg(dataset: Dataset, ranking: Sequence[Sequence[str]]) -> list[float]:
    return [round(float(value), 4) for value in per_question(dataset, ranking, ["nDCG@10"])["nDCG@10"]]


# -- figures, tables, picture ---------------------------------------------------------------------------------------------


def of_sets(by_alpha: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Any]:
    """Figures of dense scores alone, and fused with BM25 by the alpha that is best on the other sets."""
    values = {name: np.array(rows) for name, rows in by_alpha.items()}
    means = {name: rows.mean(axis=1) for name, rows in values.items()}
    alphas = {
        name: int(np.mean([rows for other, rows in means.items() if other != name] or [means[name]], axis=0).argmax())
        for name in means
    }
    return {
        **figures("dense", {name: rows[-1] for name, rows in values.items()}),
        **figures("convex", {name: rows[alphas[name]] for name, rows in values.items()}),
        "alphas": {name: ALPHAS[row] for name, row in alphas.items()},
    }


def figures(task: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The mean of a figure over sets with its interval, and that of each set."""
    drawn_means = [measures.resamples(len(rows), 0) @ np.array(rows) / len(rows) for rows in values.values()]
    means = {name: float(np.mean(rows)) for name, rows in values.items()}
    mean = measures.figure(task, float(np.mean(list(means.values()))), np.mean(drawn_means, axis=0))
    return {**mean, f"{task}_of": {name: round(value, 4) for name, value in means.items()}}


def table(found: Mapping[str, Any]) -> str:
    """What each size reaches, and costs."""
    rows = []
    sets = [name for name in SETS if name in found["size"]["sizes"][0]["search_of"]]
    for row in found["size"]["sizes"]:
        sizes = (readme.cell(row, "megabytes", ".1f"), *(readme.cell(row, key, ",.0f") for key in TIMES))
        accurate = (readme.cell(row, task, ".1%") for task in ("trec", "qnli"))
        alone, both = row.get("dense_of", {}), row.get("convex_of") or row["search_of"]
        ranked = (readme.cell(each, name, ".3f") for each in (alone, both) for name in sets)
        rows.append((row["name"], *sizes, *accurate, *ranked))
    head = ("what reads", "MB", "µs a question", "µs a sentence", "TREC, 6 classes", "QNLI")
    dense = [f"{name}, vectors alone" for name in sets]
    return readme.markdown((*head, *dense, *(f"{name}, with BM25" for name in sets)), rows)


def picture(found: Mapping[str, Any]) -> bytes:
    """A panel for each task: quality by time of a question."""
    titles = (
        "TREC questions, 6 classes",
        "QNLI: does a sentence answer",
        "ranking, vectors alone",
        "ranking, with BM25",
    )
    panels = []
    for task, title in zip(TASKS, titles, strict=True):
        points = []
        for row in found["size"]["sizes"]:
            key = "search" if task == "convex" and "search" in row else task
            if key in row and "question_us" in row:
                cost = row["question_us"] / 1e3
                points.append(pareto.Point(row["name"], "semclass", cost, row[key], row[f"{key}_ci"]))
        panels.append(pareto.Panel(title, points))
    return pareto.draw(panels, "accuracy, nDCG@10")


TABLES = {"": table}
PICTURES = {"size_cost.png": picture}
