"""The command line.

With ``--json`` standard output holds JSON lines and nothing else; progress and notes go to standard
error, progress only to a terminal. Nothing is coloured. Exit codes: 0; 1 where a reader of the output left early; 2 for
input that is not allowed, files that are damaged and extras that are missing; 130 for an interruption.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli.index import index
from semclass.cli.options import InputPath, open_retriever, read_weights
from semclass.cli.options import json_output as _json
from semclass.cli.options import print_json as _print_json
from semclass.cli.options import progress as _progress
from semclass.cli.options import take_encoder as _encoder
from semclass.cli.options import take_form as _form
from semclass.cli.options import take_models as _models
from semclass.cli.options import take_similarity as _similarity
from semclass.cli.options import take_threads as _threads
from semclass.cli.options import take_weight as _weight
from semclass.cli.options import take_where as _where
from semclass.cli.options import weights as _weights
from semclass.cli.serve import serve
from semclass.core.errors import ArtifactError, InputError, SemclassError
from semclass.ranking.methods import DEFAULT, METHODS, RERANKING

if TYPE_CHECKING:
    from semclass.context.build import Documents
    from semclass.evaluation.tune import Tuning

CACHE_VARIABLE = "SEMCLASS_CACHE"
"""Environment variable that names the folder for indices that ``evaluate`` builds."""

_FIGURES = 4
"""Figures of a model that `models` shows; with --json all."""

_WORDS = 8
"""Words of the question that ``--explain`` shows; with --json all that the explanation holds."""

_ASKED = 0.1
"""Probability from which ``--explain`` shows a class of the question."""

_min_probability = click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    default=0.0,
    help=f"Say {semclass.ABSTAIN} where the best class is less probable than this.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(semclass.__version__, prog_name="semclass")
def cli() -> None:
    """Tell what a question asks for, and find the passage that answers it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Parameters
    ----------
    arguments
        What follows the program's name; taken from the process if None.
    """
    warnings.showwarning = _show_warning
    try:
        cli.main(None if arguments is None else list(arguments), prog_name="semclass", standalone_mode=False)
    except SemclassError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"warning: {message}", err=True)


def _texts(texts: Sequence[str], file: Path | None) -> list[str]:
    """Texts from arguments or from a file, but not from both or from neither."""
    from semclass.documents.readers import read_texts

    if bool(texts) == (file is not None):
        raise InputError("give texts as arguments or with --file F, one of the two")
    found = list(texts) if file is None else read_texts(file)
    if not found:
        raise InputError(f"{file} holds no texts")
    return found


# -- classify ---------------------------------------------------------------------------------------------------------


@cli.group()
def classify() -> None:
    """Classify questions, passages, pairs of both, or texts by classes of your own."""


@classify.command("questions")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=InputPath(), help="One text a line, or JSON lines with `text`; - for a pipe.")
@click.option("--fine", is_flag=True, help="Show the fine class, one of 50.")
@_min_probability
@_json
@_models
@_threads
def classify_questions(
    texts: Sequence[str],
    file: Path | None,
    *,
    fine: bool,
    min_probability: float,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Tell which type of answer each question asks for."""
    questions = _texts(texts, file)
    classifier = semclass.QuestionClassifier.load(models, threads=threads or 1)
    for found in classifier.predict(questions, min_probability=min_probability):
        label, probability = (found.fine, found.fine_probability) if fine else (found.label, found.probability)
        if as_json:
            probabilities = found.fine_probabilities if fine else found.probabilities
            record = {"text": found.text, "label": label, "probability": probability, "probabilities": probabilities}
            _print_json({**record, "coarse": found.label, "fine": found.fine})
        else:
            click.echo(f"{label:<14} {probability:.3f}  {found.text}")


@classify.command("passages")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=InputPath(), help="JSON lines with `text` and `_id`, or a text file; - for a pipe.")
@_json
@_models
@_threads
def classify_passages(
    texts: Sequence[str], file: Path | None, *, as_json: bool, models: Path | None, threads: int | None
) -> None:
    """Tell which types of answer each passage provides."""
    passages = _passages(texts, file)
    classifier = semclass.PassageClassifier.load(models, threads=threads or 1)
    for passage, found in zip(passages, classifier.predict([item.text for item in passages]), strict=True):
        if as_json:
            _print_json(
                {
                    "_id": passage.id,
                    "text": found.text,
                    "probabilities": dict(found.probabilities),
                    "labels": list(found.labels),
                }
            )
        else:
            click.echo(f"{passage.id}\t{' '.join(found.labels) or '-'}\t{_shorten(found.text)}")


@classify.command("pairs")
@click.argument("question", required=False)
@click.argument("sentences", nargs=-1, metavar="[SENTENCE]...")
@click.option("--file", type=InputPath(), help="JSON lines with `question` and `sentence`; - for a pipe.")
@_json
@_models
@_threads
def classify_pairs(
    question: str | None,
    sentences: Sequence[str],
    file: Path | None,
    *,
    as_json: bool,
    models: Path | None,
    threads: int | None,
) -> None:
    """Tell of each SENTENCE whether it answers QUESTION."""
    pairs = _pairs(question, sentences, file)
    classifier = semclass.EntailmentClassifier.load(models, threads=threads or 1)
    for found in classifier.predict(pairs):
        if as_json:
            _print_json(asdict(found))
        else:
            click.echo(f"{found.label:<14} {found.probability:.3f}  {_shorten(found.sentence)}")


def _pairs(question: str | None, sentences: Sequence[str], file: Path | None) -> list[tuple[str, str]]:
    """Pairs from arguments or from a file."""
    from semclass.documents.readers import read_json_lines

    if (question is None) == (file is None) or (file is None and not sentences):
        raise InputError("give a question and sentences as arguments, or pairs with --file F")
    if file is None:
        return [(str(question), sentence) for sentence in sentences]
    pairs = []
    for number, record in read_json_lines(file):
        for name in ("question", "sentence"):
            if not isinstance(record.get(name), str):
                raise InputError(f"{file}, line {number} has no text {name!r}; each line needs question and sentence")
        pairs.append((record["question"], record["sentence"]))
    if not pairs:
        raise InputError(f"{file} holds no pairs")
    return pairs


@classify.command("texts")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--model", type=click.Path(path_type=Path), required=True, help="Folder of a saved TextClassifier.")
@click.option("--file", type=InputPath(), help="One text a line, or JSON lines with `text`; - for a pipe.")
@click.option("--encoder", help="Folder of the encoder it was trained with, or hub:NAME; the shipped one by default.")
@click.option(
    "--min-probability",
    type=click.FloatRange(0, 1),
    help=f"Say {semclass.ABSTAIN} below this probability; what the model was saved with by default.",
)
@_json
@_threads
def classify_texts(
    texts: Sequence[str],
    model: Path,
    file: Path | None,
    *,
    encoder: str | None,
    min_probability: float | None,
    as_json: bool,
    threads: int | None,
) -> None:
    """Classify texts with a model of your own."""
    given = _texts(texts, file)
    loaded = semclass.TextModel.load(model, encoder=encoder, threads=threads or 1)
    for found in loaded.predict(given, min_probability=min_probability):
        if as_json:
            labels = {"labels": list(found.labels), "label": found.label, "probability": found.probability}
            _print_json({"text": found.text, **labels, "probabilities": dict(found.probabilities)})
        else:
            said = " ".join(map(str, found.labels)) or semclass.ABSTAIN
            click.echo(f"{said:<14} {found.probability:.3f}  {_shorten(found.text)}")


def _passages(texts: Sequence[str], file: Path | None) -> list[semclass.Passage]:
    """Passages from arguments, numbered from 1, or from a file."""
    from semclass.documents.readers import read_passages

    if bool(texts) == (file is not None):
        raise InputError("give texts as arguments or with --file F, one of the two")
    if file is not None:
        return read_passages(file)
    return [semclass.Passage(str(number), text) for number, text in enumerate(texts, 1)]


# -- index and search -------------------------------------------------------------------------------------------------


cli.add_command(index)
cli.add_command(serve)


@cli.command()
@click.argument("place", metavar="INDEX")
@click.argument("question")
@click.option("-k", type=int, default=10, show_default=True, help="Passages to give.")
@click.option("--method", type=click.Choice(list(METHODS)), default=DEFAULT, show_default=True, help="How to rank.")
@_weight
@click.option("--candidates", type=int, help="Passages that are re-ranked; the method's own number by default.")
@_where
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@click.option("--context", "as_context", is_flag=True, help="Print one text with numbered sources, for a prompt.")
@click.option("--budget", type=click.IntRange(1), help="With --context: words that it may have.")
@click.option("--window", type=click.IntRange(1), help="With --context: neighbours before and after each passage.")
@_json
@_models
@_encoder
def search(
    place: str,
    question: str,
    k: int,
    method: str,
    weights: Sequence[str],
    candidates: int | None,
    where: Sequence[str],
    *,
    explain: bool,
    as_context: bool,
    budget: int | None,
    window: int | None,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
) -> None:
    """Find the passages of INDEX that answer QUESTION.

    INDEX is a folder, or the address of a collection on a Qdrant server, such as http://localhost:6333/passages.
    """
    from semclass.index.filters import read_terms

    if not as_context and (budget or window):
        raise InputError("--budget and --window are for --context; give it, too, or neither of them")
    if as_context and explain:
        raise InputError("--context has no scores that --explain could explain; give one of the two")
    retriever = open_retriever(place, semclass.Ranker.load(models, encoder=encoder))
    hits = retriever.search(
        question,
        k,
        method=method,
        weights=read_weights(weights),
        candidates=candidates,
        where=read_terms(where) if where else None,
        explain=explain,
    )
    if as_context:
        documents = None if window is None else retriever.embedded.by_documents
        _print_context(hits, documents, budget, window or 0, as_json=as_json)
    else:
        _print_hits(hits, _asked(retriever.ranker, question) if explain else None, as_json=as_json)


@cli.command()
@click.argument("question")
@click.option("--passages", "file", type=InputPath(), required=True, help="JSON lines with `text`; - for a pipe.")
@click.option("-k", type=int, help="Passages to give; all by default.")
@click.option("--method", type=click.Choice(RERANKING), default="learned", show_default=True, help="How to rank.")
@_weight
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@_json
@_models
@_encoder
@_threads
def rerank(
    question: str,
    file: Path,
    k: int | None,
    method: str,
    weights: Sequence[str],
    *,
    explain: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Re-rank passages from a file for QUESTION."""
    from semclass.documents.readers import read_passages

    passages = read_passages(file)
    reranker = semclass.Reranker.load(models, encoder=encoder, threads=threads or 1)
    hits = reranker.rerank(question, passages, k=k, method=method, weights=read_weights(weights), explain=explain)
    _print_hits(hits, _asked(reranker.ranker, question) if explain else None, as_json=as_json)


def _asked(ranker: semclass.Ranker, question: str) -> semclass.QuestionLabel | None:
    """Class of a question; None where there are no class heads."""
    return ranker.questions.predict([question])[0] if ranker.has_classes else None


def _print_hits(hits: Sequence[semclass.Hit], asked: semclass.QuestionLabel | None, *, as_json: bool) -> None:
    """Print a ranking; `asked` is the question's class where an explanation is wanted and there are classes."""
    if as_json:
        for hit in hits:
            record = asdict(hit)
            record = {"_id": record.pop("id"), **record, "labels": list(hit.labels)}
            if hit.explanation is None:
                del record["explanation"]
            if asked is not None:
                record["question"] = {"label": asked.label, "probabilities": dict(asked.probabilities)}
            _print_json(record)
        return
    if asked is not None:
        click.echo(f"asks for {asked.label} ({asked.probability:.3f})")
    if not hits:
        click.echo("no passage matches", err=True)
    for hit in hits:
        moved = "" if hit.rank == hit.rank_before else f" (was {hit.rank_before})"
        click.echo(f"{hit.rank:>3}{moved:<9} {hit.score:7.3f}  {hit.id}  {_shorten(hit.text)}")
        if hit.explanation is not None:
            for line in _explained(hit, hit.explanation):
                click.echo(f"{'':13}{line}")


def _print_context(
    hits: Sequence[semclass.Hit], documents: Documents | None, budget: int | None, window: int, *, as_json: bool
) -> None:
    """Print one text of hits, with as many neighbours on each side as the window is wide."""
    from semclass.context.build import build_context

    made = build_context(hits, documents=documents, budget=budget, before=window, after=window)
    if as_json:
        _print_json({"text": made.text, "count": made.count, "sources": [asdict(source) for source in made.sources]})
    else:
        click.echo(made.text)


def _explained(hit: semclass.Hit, explanation: semclass.Explanation) -> Iterator[str]:
    """Lines that say what a score was made of."""
    terms = " ".join(f"{value:+.3f} {name}" for name, value in explanation.parts.items())
    meaning = "score" if explanation.link == "identity" else "log-odds of the score"
    yield f"{terms} = {explanation.total:.3f}, the {meaning}"
    yield "  ".join(f"{name} {value:.3f}" for name, value in hit.components.items())
    words = [
        f"{word.word} {'=' if word.exact else f'~ {word.match} {word.cosine:.2f}'}"
        for word in explanation.words
        if word.match or word.exact
    ]
    if words:
        yield f"words: {', '.join(words[:_WORDS])}"
    if not explanation.classes:
        return
    asked = [item for item in explanation.classes if item.asked >= _ASKED]
    classes = ", ".join(f"{item.name} asked {item.asked:.2f} provided {item.provided:.2f}" for item in asked)
    yield f"classes: {classes}; provides {' '.join(hit.labels) or '-'}"


def _shorten(text: str, limit: int = 90) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


# -- tune, evaluate, models, demo -------------------------------------------------------------------------------------


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="INDEX")
@click.option("--queries", type=click.Path(path_type=Path), help="Questions: JSON lines with `_id` and `text`.")
@click.option(
    "--qrels", type=click.Path(path_type=Path), help="Their answers: question id, passage id, relevance, by tabs."
)
@click.option("--limit", type=click.IntRange(1), help="Only the first so many questions.")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds of the cross-validation.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the assignment to folds.")
@click.option("--out-figure", type=click.Path(path_type=Path), help="Write the curves as PNG; needs the extra plot.")
@click.option("--dry-run", is_flag=True, help="Report, and store nothing.")
@click.option("--reset", is_flag=True, help="Remove the weights that the index holds, and do nothing else.")
@_json
@_models
@_encoder
@_threads
def tune(
    folder: Path,
    queries: Path | None,
    qrels: Path | None,
    limit: int | None,
    folds: int,
    seed: int,
    out_figure: Path | None,
    *,
    dry_run: bool,
    reset: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Find the weights of search for the index in INDEX, on questions with known answers, and store them in it.

    Each weight is searched from 0 to 10 (alpha, of convex fusion, from 0 to 1) and compared with the default by
    cross-validation. Only those are stored that are better by more than one standard error, or 1.645 with fewer than 100
    questions; `search` and `evaluate --index` then use them where none are given.
    """
    from semclass.core import artifacts
    from semclass.core.cpu import available_threads
    from semclass.evaluation import figures, tune
    from semclass.evaluation.evaluate import read_dataset
    from semclass.index.store import store_tuned

    if reset:
        if queries or qrels:
            raise InputError("--reset only removes weights; give it without --queries and --qrels")
        store_tuned(folder, None)
        _print_json({"index": str(folder), "weights": {}}) if as_json else click.echo(
            f"{folder} uses the default weights"
        )
        return
    if queries is None or qrels is None:
        raise InputError("name the questions with --queries and their answers with --qrels, or --reset")
    dataset = read_dataset(queries, qrels, limit=limit)
    retriever = semclass.HybridRetriever.load(
        folder, models=models, encoder=encoder, threads=threads or available_threads()
    )
    retriever = retriever.untuned()
    with _progress("searching", 4 * len(dataset.questions)) as progress:
        found = tune.tune(retriever, dataset, folds=folds, seed=seed, progress=progress)
    files = {"queries": queries, "qrels": qrels}
    hashes = {name: {"file": path.name, "sha256": artifacts.sha256_of(path)} for name, path in files.items()}
    record = found.as_record(hashes)
    if out_figure is not None:
        artifacts.write_atomic(out_figure, figures.weight_curves(found.searches))
    if not dry_run:
        store_tuned(folder, record if found.weights else None)
    if as_json:
        _print_json({"index": str(folder), "stored": not dry_run, **record})
    else:
        _print_tuning(found)
        click.echo(
            "nothing was stored" if dry_run or not found.weights else f"stored in {folder}: {_weights(found.weights)}"
        )


def _print_tuning(found: Tuning) -> None:
    """A line for each weight, and whether it helps."""
    click.echo(f"{found.questions} questions, MRR@10; cv: each ranked with the weight that is best on the other folds;")
    click.echo("best*: searched on the questions it is reported on, so too good\n")
    click.echo(f"{'weight':<16} default   best  without default    cv   gain +- error   best*")
    for s in found.searches:
        verdict = f"better: {s.weight:g}" if s.helps else "default kept"
        click.echo(
            f"{s.name:<16} {s.default:7g} {s.best:6g}   {s.mrr[0]:.4f}  {s.mrr_default:.4f} {s.mrr_cross_validated:.4f} "
            f"{s.gain:+.4f} {s.standard_error:.4f}  {s.mrr_searched:.4f}  {verdict}"
        )
    learned = found.searches[0].learned
    if learned is not None:
        click.echo(
            f"\nlearned re-ranking of what each bm25 weight finds: default {learned.before:.4f}, cv {learned.after:.4f} "
            f"({learned.gain:+.4f} +- {learned.standard_error:.4f})"
        )
        if learned.after <= found.searches[0].mrr_cross_validated:
            click.echo("with that weight the order of retrieval is as good: --method hybrid costs less")
    if not found.weights:
        margin = found.searches[0].margin
        click.echo(f"no weight is better than its default by {margin:g} standard errors: the defaults stay")


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="BEIR_DIR")
@click.option("--split", default="test", show_default=True, help="Which judgements: qrels/SPLIT.tsv.")
@click.option("--limit", type=click.IntRange(1), help="Only the first so many questions.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the test and the confidence intervals.")
@click.option("--cache", type=click.Path(path_type=Path), help=f"Folder for indices; ${CACHE_VARIABLE} by default.")
@click.option(
    "--candidates", type=click.IntRange(2), default=10, show_default=True, help="Re-rank so many, beside the first 10."
)
@click.option("--measures", help="Further measures by their names in ir-measures: 'nDCG@10 P@5 AP@100 SetF F1@5'.")
@click.option("--slices", is_flag=True, help="Figures by question class and by kind of passage: text, list, table.")
@click.option("--index", "place", type=click.Path(path_type=Path), help="A finished index of the passages, as tuned.")
@click.option("--runs", type=click.Path(path_type=Path), help="Write each method's ranking here as a TREC run file.")
@click.option(
    "--run", "foreign", type=click.Path(path_type=Path), multiple=True, help="A TREC run file to measure too."
)
@_similarity
@_form
@_json
@_models
@_encoder
@_threads
def evaluate(
    folder: Path,
    split: str,
    limit: int | None,
    seed: int,
    cache: Path | None,
    candidates: int,
    measures: str | None,
    place: Path | None,
    runs: Path | None,
    foreign: Sequence[Path],
    similarity: str,
    form: str | None,
    *,
    slices: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Measure every method on a BEIR folder, and rankings that other systems made."""
    from semclass.core.cpu import available_threads
    from semclass.evaluation import evaluate
    from semclass.evaluation.slices import slices_of
    from semclass.evaluation.trec import SUFFIX, read_run, write_run

    names = evaluate.MEASURES if measures is None else tuple(measures.replace(",", " ").split())
    evaluate.check_measures(names)
    dataset = evaluate.load_dataset(folder, split=split, limit=limit)
    others = {_run_name(path, foreign): read_run(path, dataset) for path in foreign}
    ranker = semclass.Ranker.load(models, encoder=encoder, threads=threads or available_threads())
    if place is None:
        with _progress("indexing", None) as progress:
            passages = evaluate.cached_index(
                folder, cache or _cache_folder(), ranker.reader, progress, similarity=similarity, form=form
            )
    else:
        passages = semclass.PassageIndex.load(place, encoder=ranker.encoder.fingerprint)
        _warn_of_tuning(passages, folder / "qrels" / f"{split}.tsv")
    retriever = semclass.HybridRetriever(passages, ranker)
    with _progress("searching", len(dataset.questions)) as progress:
        rankings = evaluate.rank(dataset, retriever, candidates=candidates, progress=progress)
    if runs is not None:
        for name, ranking in rankings.items():
            write_run(runs / f"{name}{SUFFIX}", dataset.questions, ranking, name)
    labels = slices_of(dataset, retriever) if slices else None
    results = evaluate.measure(dataset, {**rankings, **others}, seed=seed, measures=names, slices=labels)
    if as_json:
        _print_json({name: result.as_json() for name, result in results.items()})
        return
    answered = round(results["hybrid"].top_k[-1] * len(dataset.questions))
    click.echo(
        f"{len(dataset.questions)} questions, {len(passages)} passages; cond: {answered} questions whose answer is"
    )
    click.echo("in the hybrid top 10; removed: share of 1 - cond MRR; p: paired randomisation test against hybrid\n")
    _print_results(results)
    if measures is not None:
        _print_table("method", {name: result.measures for name, result in results.items()})
    if slices:
        _print_slices(results)


def _warn_of_tuning(index: semclass.PassageIndex, qrels: Path) -> None:
    """Say so where an index's weights were found on the questions that they are to be measured on."""
    from semclass.core.artifacts import sha256_of

    found_on = index.tuned.get("found_on", {}).get("qrels", {})
    if found_on.get("sha256") == sha256_of(qrels):
        warnings.warn(
            f"the weights of this index were searched on {qrels}, the questions they are measured on: too good",
            stacklevel=2,
        )


def _run_name(path: Path, all_paths: Sequence[Path]) -> str:
    """What a foreign run is called: its file's name, or the whole path where that is taken."""
    taken = path.stem.partition("@")[0] in METHODS or [other.stem for other in all_paths].count(path.stem) > 1
    return str(path) if taken else path.stem


def _print_results(results: Mapping[str, Any]) -> None:
    """One line for each method."""
    width = max(18, *map(len, results))
    click.echo(
        f"{'method':<{width}} mrr@10   top1  recall@10 ndcg@10  cond mrr  cond top1  removed (95 % from, to)      p"
    )
    for name, r in results.items():
        low, high = r.error_removed_ci
        click.echo(
            f"{name:<{width}} {r.mrr:.4f} {r.top1:.4f}     {r.recall:.4f}  {r.ndcg:.4f}    {r.cond_mrr:.4f}     "
            f"{r.cond_top1:.4f}   {r.error_removed:6.1%} {low:8.1%} {high:7.1%}  {r.p_value:7.4f}"
        )


def _print_table(corner: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Figures by row and column."""
    width = max(18, *map(len, rows))
    columns = list(next(iter(rows.values())))
    click.echo(f"\n{corner:<{width}} " + " ".join(f"{name:>8}" for name in columns))
    for name, values in rows.items():
        figures = (f"{values[column]:>{max(8, len(column))}.4f}" for column in columns)
        click.echo(f"{name:<{width}} " + " ".join(figures))


def _print_slices(results: Mapping[str, Any]) -> None:
    """A line for each slice: its size, the hybrid's conditional MRR, and what each method removes there."""
    shown = [name for name in results if name != "hybrid"]
    for kind, slices in results["hybrid"].slices.items():
        click.echo(f"\nerror removed by {kind}")
        width = max([18, *map(len, shown)])
        click.echo(f"{'':<{width}} " + " ".join(f"{label:>8}" for label in slices))
        click.echo(f"{'questions':<{width}} " + " ".join(f"{found['questions']:>8.0f}" for found in slices.values()))
        click.echo(
            f"{'hybrid cond mrr':<{width}} " + " ".join(f"{found['cond_mrr']:>8.4f}" for found in slices.values())
        )
        for name in shown:
            figures = (f"{found['error_removed']:>8.1%}" for found in results[name].slices[kind].values())
            click.echo(f"{name:<{width}} " + " ".join(figures))


def _cache_folder() -> Path:
    """Where indices for evaluation are kept: what the environment says, or the user's cache folder."""
    if CACHE_VARIABLE in os.environ:
        return Path(os.environ[CACHE_VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "semclass" / "indices"


@cli.command("models")
@_json
@_models
def list_models(*, as_json: bool, models: Path | None) -> None:
    """List the models and verify their hashes."""
    from semclass.core import artifacts

    root = artifacts.default_models() if models is None else models
    found = sorted(path.parent for path in root.rglob(artifacts.MANIFEST))
    if not found:
        raise ArtifactError(f"{root} holds no models")
    for folder in found:
        kind = str(artifacts.read_json(folder / artifacts.MANIFEST).get("kind"))
        artifact = artifacts.load(folder, kind)
        size = sum(record["bytes"] for record in artifact.manifest["files"].values())
        name = folder.relative_to(root).as_posix()
        if as_json:
            _print_json({**artifact.manifest, "name": name, "folder": str(folder), "bytes": size, "verified": True})
        else:
            figures = [item for item in _flat(artifact.manifest.get("metrics", {})) if _is_summary(item[0])]
            shown = "  ".join(f"{key} {value}" for key, value in figures[:_FIGURES])
            click.echo(f"ok  {name:<20} {size / 1e6:7.2f} MB  {shown}")


def _is_summary(name: str) -> bool:
    """Whether a figure is about the whole, not about one class or one experiment."""
    first, *rest = name.split(".")
    return not rest or (first in ("macro", "test", "held_out") and rest[-1] in ("accuracy", "auc", "f1"))


def _flat(metrics: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """Figures of a manifest with their names; nested ones are joined by dots."""
    for key, value in metrics.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield above + key, value


@cli.command()
@_models
def demo(*, models: Path | None) -> None:
    """Run the main job on a small corpus: classify, index, search, re-rank."""
    from semclass.demo import run

    run(models, click.echo)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what completes commands and options in SHELL.

    Put it where the shell reads it at its start: eval "$(semclass completion bash)" into ~/.bashrc, the same with zsh into
    ~/.zshrc, or `semclass completion fish > ~/.config/fish/completions/semclass.fish`.
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kind = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    click.echo(kind(cli, {}, "semclass", "_SEMCLASS_COMPLETE").source())
