"""Questions and passages in other languages, by the shipped models, which do not read them, and by others.

For each file of ``multilingual``, an index of the passages of some questions, drawn with a fixed seed; nDCG@10 of BM25,
vectors, plain fusion and the default. The default of the shipped models notices the language, and should not be below BM25
and plain fusion: the difference to the better one stands beside it. Models without pair heads have no default of their own.

Where the passages are in another language than the questions, a second row, ``NAME-translated``, has the same questions in
the language of the passages. Rows such as ``deu-eng`` have sentences of ``multilingual/topics``: one in the first language
is the question, and the same one in the second language answers it, among all others. Seven topics of the same sentences
are told by heads that learnt from English sentences, or from the names of the topics. Rows such as ``en-docs`` are BEIR
folders in English, with all their passages.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import provenance, readme
from bench.measures import by_turns, dcg, gain
from bench.retrieval_systems import open_retriever
from bench.steps import Bench
from datasets_io import LANGUAGE, language_sample, parallel_sentences, read_jsonl, topic_rows
from section_sets import learnt_by
from semclass import HybridRetriever, Models, Passage, TextClassifier, ZeroShotClassifier
from semclass.core.artifacts import MANIFEST, models_folder, read_json
from semclass.core.errors import ArtifactError
from semclass.encoders.onnx_encoder import open_encoder
from semclass.evaluation.dataset import load_dataset
from semclass.ranking.methods import DEFAULT

SHOWN = ("bm25", "dense", "convex", DEFAULT)
DEPTH, LIMIT, SENTENCES = 10, 500, 100  # places that count; questions of each file, and sentences that are asked
PARTS = 2  # of the sets, which run side by side
SHIPPED, OTHERS = "shipped", "multilingual"  # the models that ship, and the package of those for other languages
ENGLISH, TRAIN = "eng_Latn", "train"

WHOLE, MOST = ("docs", "handbook", "squad4"), 200  # folders in English, and the most questions of one

ACROSS = ("deu-eng", "jpn-eng", "arb-eng", "hin-eng", "eng-deu", "swe-deu", "eng-jpn", "zho-jpn")
"""Languages of a sentence and of what is searched for it. Some share their letters, and some no piece of a word."""

Questions = list[tuple[str, set[str]]]
"""Questions, with the ids of the passages that answer each."""


def sample(path: Path, limit: int, *, asked: str = "question") -> tuple[list[Passage], Questions]:
    """The passages of some questions, and these questions, from the field `asked`."""
    texts, questions = language_sample(path, limit, asked=asked)
    passages = [Passage(str(place), text) for place, text in enumerate(texts)]
    return passages, [(question, set(map(str, answers))) for question, answers in questions]


def sets(
    data: Path, cache: Path, models: Models, limit: int, files: int | None, part: int
) -> Iterator[tuple[HybridRetriever, dict[str, Questions]]]:
    """Indices, and the questions of each row over them, of a part of the sets; of so many files, None for all."""
    for name in WHOLE[part::PARTS] if files is None else ():
        dataset = load_dataset(data / "beir" / name, limit=MOST)
        asked = [(text, set(dataset.relevance[key])) for key, text in dataset.questions.items()]
        yield open_retriever(data / "beir" / name, cache, models), {f"en-{name}": asked}
    opened = partial(HybridRetriever.from_passages, models=models)
    for path in sorted((data / "multilingual").glob("*.jsonl.gz"))[:files][part::PARTS]:
        name = path.name.split(".")[0]
        passages, questions = sample(path, limit)
        rows = {name: questions}
        if "question_translated" in read_jsonl(path)[0]:
            rows[f"{name}-translated"] = sample(path, limit, asked="question_translated")[1]
        yield opened(passages), rows
    sentences, limit = parallel_sentences(data), min(limit, SENTENCES)
    for target in sorted({pair.partition("-")[2] for pair in ACROSS})[part::PARTS]:
        passages = [Passage(name, text) for name, text in sorted(sentences[target].items())[: 10 * limit]]
        chosen = [passages[place].id for place in np.random.default_rng(0).permutation(len(passages))[:limit]]
        given = {pair: sentences[pair.partition("-")[0]] for pair in ACROSS if pair.endswith(target)}
        yield opened(passages), {pair: [(texts[name], {name}) for name in chosen] for pair, texts in given.items()}


def measure(retriever: HybridRetriever, questions: Questions, methods: Sequence[str]) -> dict[str, Any]:
    """NDCG@10 of each method, and the share of the questions whose passages are told to be in another language."""
    found: dict[str, list[float]] = {name: [] for name in methods}
    foreign = np.zeros(len(questions), np.bool_)
    for name in methods:
        results = retriever.search_many([text for text, _ in questions], DEPTH, method=name)
        foreign |= [result.language == "other" for result in results]
        for result, (_, relevant) in zip(results, questions, strict=True):
            gains = np.isin([hit.id for hit in result], list(relevant)).astype(float)
            found[name].append(float(dcg(gains) / dcg(np.ones(len(relevant)))))
    row = {name: float(np.mean(values)) for name, values in found.items()} | {"other": float(np.mean(foreign))}
    better = max(("bm25", "convex"), key=row.__getitem__)
    return row | gain(np.array(found["default"]), np.array(found[better]))


def measured(data: str, cache: str, models: str | None, limit: int, files: int | None, part: int) -> dict[str, Any]:
    """Figures of the rows of one part of the sets, by some models; None for those that ship."""
    loaded, found = Models.load(models), {}
    for retriever, rows in sets(Path(data), Path(cache), loaded, limit, files, part):
        for name, questions in rows.items():
            row = measure(retriever, questions, SHOWN)
            if loaded.pair_heads is None:  # then the default is plain fusion
                row = {method: row[method] for method in SHOWN if method != DEFAULT}
            found[name] = {"questions": len(questions), "passages": len(retriever.index), **row}
    return {"rows": found}


def topics(data: str, most: int) -> dict[str, Any]:
    """Accuracy by language, on `most` sentences each, of heads that learnt from English ones, or from the topics' names."""
    learnt: tuple[list[str], list[str]] = ([], [])
    tried: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for language, _, split, topic, sentence in topic_rows(Path(data)):
        texts, names = learnt if split == TRAIN else tried[language]
        if (split != TRAIN or language == ENGLISH) and len(texts) < most:
            texts.append(sentence)
            names.append(topic)
    encoder, meanings = open_encoder(OTHERS), {name: name for name in sorted(set(learnt[1]))}
    classifiers: dict[str, Any] = {
        f"{len(learnt[0])} English sentences": TextClassifier(encoder).fit(*learnt),
        "the names of the topics": ZeroShotClassifier.from_descriptions(meanings, encoder=encoder),
    }
    found = {
        name: {
            language: round(float(np.mean(np.array(classifier.predict(some)) == np.array(wanted))), 4)
            for language, (some, wanted) in sorted(tried.items())
        }
        for name, classifier in classifiers.items()
    }
    return {"accuracy": found}


def times(data: str, models: Sequence[str | None]) -> dict[str, Any]:
    """Milliseconds to encode a question, by the encoders of some models in turns."""
    questions = [row["text"] for row in read_jsonl(Path(data) / "beir" / "squad4" / "queries.jsonl")[:200]]
    jobs = {str(place): open_encoder(name).encode for place, name in enumerate(models)}
    seconds = by_turns([[question] for question in questions], jobs)
    return {"ms": [float(np.median(values)) * 1e3 for values in seconds.values()]}


def run(bench: Bench) -> dict[str, Any]:
    """The shipped models and, where their package is installed, those for other languages."""
    limit, files, most = (5, 3, 20) if bench.quick else (LIMIT, None, 1000)
    step = partial(bench.step, of=json.dumps(provenance.of("languages")))
    what = {"data": bench.data, "cache": bench.indices, "limit": limit, "files": files}
    rows = partial(step, function="bench.languages:measured", **what)
    both: tuple[str | None, ...] = (None, OTHERS)
    try:
        models_folder(OTHERS)
    except ArtifactError as error:  # the package is not installed
        bench.say(f"  {error}")
        both = (None,)
    parts = list(itertools.product(reversed(both), range(PARTS)))  # the slower models first
    jobs = {
        (one, part): partial(rows, f"languages/{one or SHIPPED}/{part}", models=one, part=part) for one, part in parts
    }
    found: dict[str, dict[str, Any]] = {models or SHIPPED: {} for models in both}
    for (name, _), one in bench.side_by_side(jobs).items():
        found[name or SHIPPED] |= one["rows"]
    results: dict[str, Any] = {"task": {"what": "search in other languages"}, "by_models": found}
    if OTHERS in both:
        results["learnt"] = learnt_by(models_folder(OTHERS) / "encoder")
        results["types"] = read_json(models_folder(OTHERS) / "questions" / MANIFEST)["metrics"]
        results["cost"] = [step(f"languages/encode {one}", "bench.languages:encode", models=one) for one in both]
        results |= step("languages/times", "bench.languages:times", data=bench.data, models=both)
        results["topics"] = step("languages/topics", "bench.languages:topics", data=bench.data, most=most)["accuracy"]
    return results


def encode(models: str | None) -> dict[str, Any]:
    """Encode a question; the step tells the memory that a process takes for it. Gives MB of the encoder's networks."""
    open_encoder(models).encode(["Who was the first to cross it?"])
    return {"mb": sum(path.stat().st_size for path in (models_folder(models) / "encoder").glob("*.onnx")) / 1e6}


def table(found: Mapping[str, Any]) -> str:
    rows = []
    for models, by_name in found["languages"]["by_models"].items():
        for name, row in sorted(by_name.items()):
            cells = (readme.cell(row, method, ".3f") for method in SHOWN)
            ahead = (readme.with_error(row), f"{row['other']:.0%}") if DEFAULT in row else (readme.NONE, readme.NONE)
            rows.append((f"{name} ({row['questions']})", str(row["passages"]), models, *cells, *ahead))
    head = ("questions", "passages", "models", *SHOWN, "default against the better, 95 %", "other language")
    return readme.markdown(head, rows)


TYPED = {
    "pt": "Portuguese", "es": "Spanish", "ar": "Arabic", "ba": "Bashkir", "be": "Belarusian", "nl": "Dutch",
    "fr": "French", "de": "German", "hi": "Hindi", "it": "Italian", "ja": "Japanese", "lt": "Lithuanian",
    "ru": "Russian", "uk": "Ukrainian",
}  # fmt: skip


def types_table(found: Mapping[str, Any]) -> str:
    """Accuracy of the question head's coarse types by language, of its manifest."""
    if (metrics := found["languages"].get("types")) is None:
        return ""
    measured = {"English, TREC test": {**metrics["test"]["coarse"], "left_out": False}}
    measured |= {name: metrics["languages"][code] for code, name in TYPED.items()}
    rows = [
        (name, f"{row['questions']:,}", f"{row['accuracy']:.3f}", "yes" if row["left_out"] else "no")
        for name, row in measured.items()
    ]
    return readme.markdown(("language", "questions", "accuracy", "left out"), rows)


def cost_table(found: Mapping[str, Any]) -> str:
    """The cost of the encoder beside that of the shipped one."""
    if (cost := found["languages"].get("cost")) is None:
        return ""
    ours, theirs = found["languages"]["ms"]
    rows = [
        ("networks, MB", *(f"{one['mb']:.0f}" for one in cost)),
        ("memory of a process that encodes a question, MB", *(f"{one['peak_mb']:.0f}" for one in cost)),
        ("time to encode a question, one thread", "1", f"{theirs / ours:.1f}"),
    ]
    return readme.markdown(("cost", "shipped encoder", "multilingual"), rows)


def topics_table(found: Mapping[str, Any]) -> str:
    """Accuracy in English, on average over the other languages, and in the worst of them."""
    rows = []
    for name, right in found["languages"].get("topics", {}).items():
        others = sorted((value, language) for language, value in right.items() if language != ENGLISH)
        worst = ", ".join(f"{language} {value:.3f}" for value, language in others[:3])
        rows.append((name, f"{right[ENGLISH]:.3f}", f"{np.mean([value for value, _ in others]):.3f}", worst))
    return readme.markdown(("learnt from", "English", "mean of the others", "worst"), rows)


def howto_table(found: Mapping[str, Any], *, across: bool = False, whole: bool = False) -> str:
    """Figures of the models for other languages beside those that ship; texts that the encoder learnt from have a star.

    The last row has the means of the others.
    """
    ours, shipped = (found["languages"]["by_models"].get(name, {}) for name in (OTHERS, SHIPPED))
    learnt = found["languages"].get("learnt", ())
    rows, new = [], []
    for name, row in sorted(ours.items()):
        here = (name in ACROSS or f"{name}-translated" in ours, name.startswith("en-"))
        if name.endswith("-translated") or here != (across, whole):
            continue
        values, known = (shipped[name][DEFAULT], *map(row.__getitem__, SHOWN)), f"{LANGUAGE}{name}" in learnt
        rows.append((f"`{name}`{'*' * (name in ACROSS or known)}", *(f"{value:.3f}" for value in values)))
        new += [] if name in ACROSS or known else [values]
    if new:
        rows.append(("mean without *", *(f"{value:.3f}" for value in np.mean(new, axis=0))))
    return readme.markdown(("questions", "English models", *SHOWN), rows)


TABLES = {
    "": table,
    "topics": topics_table,
    "types": types_table,
    "cost": cost_table,
    "English": partial(howto_table, whole=True),
    "one language": howto_table,
    "two languages": partial(howto_table, across=True),
}
