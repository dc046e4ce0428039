"""The commands that ask a language model: ``ask``, ``label`` and ``cascade``."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass import InputError, plugins
from semclass.plugins import counted, echo, json_output, open_retriever, progress, read_terms, together, write_atomic

if TYPE_CHECKING:
    from semclass import Answer
    from semclass_llm.cascade import CascadeLabels, Item
    from semclass_llm.endpoint import Bill, Endpoint

_path = click.Path(path_type=Path)
_service = (
    click.option(
        "--endpoint", metavar="URL", help="Base URL of an OpenAI-compatible API, e.g. http://localhost:8000/v1."
    ),
    click.option("--model", help="Name of the language model at --endpoint."),
    click.option("--cache", type=_path, help="File that keeps the model's replies. Default: next to --out."),
)
_cost = (
    click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Most calls at a time."),
    click.option("--prices", type=float, nargs=2, metavar="IN OUT", help="USD per million prompt and answer tokens."),
    click.option("--estimate", is_flag=True, help="Ask about a few texts, print the estimated cost of all, and stop."),
)


@click.command()
@click.argument("place", metavar="INDEX")
@click.argument("question")
@click.option("-k", type=click.IntRange(1), default=5, show_default=True, help="Number of sentences to print.")
@click.option("--where", multiple=True, metavar="FILTER", help="Only passages with matching metadata, e.g. 'page>=3'.")
@click.option(
    "--context", type=click.IntRange(1), help="Print a context of this many words with numbered sources instead."
)
@together(*_service, json_output, plugins.models, plugins.encoder)
def ask(
    place: str,
    question: str,
    k: int,
    where: Sequence[str],
    context: int | None,
    *,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    **service: Any,
) -> None:
    """Print the sentences of INDEX that best answer QUESTION, and where each comes from.

    This needs no language model. With --endpoint and --model, a language model writes a short answer from these
    sentences in one call, and cites them by number.
    """
    from semclass_llm.answer import AnswerWriter
    from semclass_llm.context import build_context

    endpoint = None
    if service["endpoint"] or service["model"]:
        endpoint = _endpoint(**service, retries=1)
    retriever = open_retriever(place, semclass.Models.load(models, encoder=encoder))
    terms = read_terms(where, getattr(retriever.index, "fields", None)) if where else None
    if context is not None:
        echo(build_context(retriever.search(question, 10, where=terms), budget=context).text)
        return
    answer = retriever.ask(question, k, where=terms)
    if endpoint is not None:
        writer = AnswerWriter(endpoint)
        answer = writer.write(answer)
        echo(f"answer: {writer.chat.bill}", err=True)
        if answer.why:
            echo(f"the language model gave no answer ({answer.why})", err=True)
    if as_json:
        echo(json.dumps(asdict(answer), ensure_ascii=False))
    else:
        _print_answer(answer)


def _print_answer(answer: Answer) -> None:
    if not answer.sentences:
        echo("no matching passages", err=True)
    elif not answer.answered:
        value = "" if answer.answerable is None else f" (answerable: {answer.answerable:.2f})"
        echo(f"nothing here seems to answer this question{value}; the nearest sentences:", err=True)
    width = max(shutil.get_terminal_size().columns, 40)
    if answer.text:
        echo(textwrap.fill(answer.text, width) + "\n")
    for number, one in enumerate(answer.sentences, 1):
        echo(textwrap.fill(f"{number:>2}  {one.text}", width, subsequent_indent="    "))
        echo(f"    {_place(one.id, one.metadata)}")


def _place(name: str, metadata: Mapping[str, Any]) -> str:
    page, heading = metadata.get("page"), metadata.get("heading") or metadata.get("title")
    parts = [metadata.get("document") or name, f"page {page}" if page is not None else None, heading]
    return " · ".join(" ".join(str(part).split()) for part in parts if part)


@click.command()
@click.argument("texts", type=_path)
@click.option("--labels", type=_path, required=True, help="JSON or YAML file: a list of labels, or their descriptions.")
@click.option(
    "--ask",
    "way",
    type=click.Choice(["one", "several", "yes-no"]),
    default="one",
    show_default=True,
    help="Question to the model: the one best label, all labels that apply, or yes/no for each label.",
)
@click.option("--out", type=_path, required=True, metavar="FILE", help="Output file of labelled texts (JSON lines).")
@together(*_service, *_cost, json_output)
def label(
    texts: Path,
    labels: Path,
    way: str,
    out: Path,
    prices: tuple[float, float] | None,
    cache: Path | None,
    *,
    estimate: bool,
    as_json: bool,
    **service: Any,
) -> None:
    """Label TEXTS with a language model.

    TEXTS is a text file with one text per line, or TSV, CSV or JSON lines with a column `text`. Every reply is kept, so an
    interrupted run can continue. OUT.problems.jsonl lists each text without a label and the reason; the next run repeats
    failed calls.
    """
    from semclass.plugins import read_texts
    from semclass_llm.endpoint import Chat, EndpointError
    from semclass_llm.label import LabelTask, estimate_cost, label_texts

    unique = list(dict.fromkeys(read_texts(texts)))
    if not unique:
        raise InputError(f"{texts} contains no texts")
    task = LabelTask(semclass.read_descriptions(labels), way)
    chat = Chat(_endpoint(**service, cache=cache or _beside(out, "replies.jsonl")))
    expected = estimate_cost(unique, task, chat)
    echo(f"about {_price(expected, prices)}", err=True)
    if estimate:
        if as_json:
            echo(json.dumps(asdict(expected)))
        return
    with progress("labelling", len(unique), "texts") as step:
        results = []
        for one in label_texts(unique, task, chat):
            results.append(one)
            step(1)
    labelled = [(one.text, one.labels) for one in results if one.labels is not None]
    _write(out, ({"text": text, **_labels(some, task.multi_label), "by": "model"} for text, some in labelled))
    problems = [one for one in results if one.labels is None]
    beside = _beside(out, "problems.jsonl")
    _write(beside, ({"text": one.text, "why": one.why, "reply": one.reply} for one in problems))
    why, counts = Counter(one.why for one in problems), Counter(name for _, some in labelled for name in some)
    record = {"labelled": len(labelled), "problems": why, "labels": counts, "cost": asdict(chat.bill)}
    text = f"{out}: {counted(len(labelled), 'text')} labelled; {_price(chat.bill, prices)}"
    if problems:
        text += f"\n{beside}: {counted(len(problems), 'text')} without a label: {_reasons(why)}"
    echo(json.dumps(record) if as_json else text)
    if not labelled:
        raise EndpointError(f"no text was labelled; the first reason: {problems[0].reply}")


@click.command()
@click.argument("kind", type=click.Choice(["questions", "passages", "pairs", "texts"]), metavar="KIND")
@click.argument("file", type=_path)
@click.option("--head", type=_path, help="For texts: folder of a head that `semclass train` wrote.")
@click.option("--labels", type=_path, help="JSON or YAML file that describes each label for the model.")
@click.option("--send", type=click.FloatRange(0, 1), help="Share of the texts to send, least certain first, e.g. 0.2.")
@click.option("--accuracy", type=click.FloatRange(0, 1), help="Send as few as needed for this accuracy on --held-out.")
@click.option("--held-out", type=_path, help="Labelled texts that the head was not trained on.")
@click.option(
    "--out",
    type=_path,
    default="sent.jsonl",
    show_default=True,
    help="File to which the model's labels are added (JSON lines, for `semclass train`).",
)
@together(*_service, *_cost, json_output, plugins.models)
def cascade(
    kind: str,
    file: Path,
    head: Path | None,
    labels: Path | None,
    send: float | None,
    accuracy: float | None,
    held_out: Path | None,
    out: Path,
    prices: tuple[float, float] | None,
    cache: Path | None,
    *,
    estimate: bool,
    as_json: bool,
    models: Path | None,
    **service: Any,
) -> None:
    """Classify the texts in FILE by a head, and send texts that it is unsure of to a language model.

    KIND is questions, passages, pairs (JSON lines with `question` and `sentence`) or texts (your own labels, with
    --head). Use --send, or --accuracy with --held-out.
    """
    from semclass_llm.cascade import Cascade

    if (kind == "texts") is (head is None):
        raise InputError("use --head FOLDER with the kind texts, and only with it")
    if accuracy is not None and held_out is None:
        raise InputError("--accuracy needs labelled texts; add --held-out FILE")
    classifiers: Mapping[str, Callable[[], Any]] = {
        "questions": lambda: semclass.QuestionClassifier.load(models),
        "passages": lambda: semclass.PassageClassifier.load(models),
        "pairs": lambda: semclass.EntailmentClassifier.load(models),
        "texts": lambda: semclass.TextModel.load(str(head)),
    }
    # few retries: the head's label stays, and the next run asks again
    endpoint = _endpoint(**service, cache=cache or _beside(out, "replies.jsonl"), retries=2)
    described = None if labels is None else semclass.read_descriptions(labels)
    chosen = Cascade(classifiers[kind](), endpoint, send, accuracy, described)
    if held_out is not None:
        chosen, report = chosen.calibrate(*_read(kind, held_out, labelled=True))
        both = f", with the model {report['both']:.1%} ({report['asked']} texts asked)" if "both" in report else ""
        head_right = f"head right on {report['head']:.1%}"
        echo(f"held out: {report['texts']} texts, {head_right}{both}; {report['share']:.1%} sent", err=True)
    decided = chosen.decide(_read(kind, file)[0])
    sent = sum(one.sent for one in decided)
    expected = _price(chosen.estimate(decided), prices)
    echo(f"{sent} of {counted(len(decided), 'text')} to send, about {expected}", err=True)
    if estimate:
        return
    with progress("asking", sent, "texts") as step:
        results = chosen.ask(decided, step)
    for one in results:
        record = {**_record(one.item), **{name: value for name, value in asdict(one).items() if name != "item"}}
        shown = textwrap.shorten(one.item if isinstance(one.item, str) else one.item[1], 90)
        line = f"{' '.join(map(str, one.labels)) or '-':<14} {one.confidence:.3f} {one.by:<5}  {shown}"
        echo(json.dumps(record, ensure_ascii=False) if as_json else line)
    kept = _add_labels(results, out, multi_label=chosen.task.multi_label)
    echo(f"sent: {_price(chosen.chat.bill, prices)}", err=True)
    echo(f"{out}: {counted(kept, 'text')} with labels of {endpoint.model}, to train on", err=True)
    if why := Counter(one.why for one in results if one.why):
        echo(f"the model gave no label, so the label of the head stays: {_reasons(why)}", err=True)


def _endpoint(
    endpoint: str | None, model: str | None, cache: Path | None, concurrency: int = 8, retries: int = 5
) -> Endpoint:
    """Return the endpoint that the options name. Its key is in the environment."""
    from semclass_llm.endpoint import KEY_VARIABLE, Endpoint

    if endpoint is None or model is None:
        raise InputError("set both --endpoint URL and --model NAME")
    return Endpoint(endpoint, model, os.environ.get(KEY_VARIABLE), concurrency, retries, cache=cache)


def _read(kind: str, path: Path, *, labelled: bool = False) -> tuple[Sequence[Item], Sequence[Any]]:
    """Read items and, from labelled files, their labels."""
    from semclass.plugins import read_json_lines, read_labelled, read_texts

    if kind != "pairs":
        if not labelled:
            return read_texts(path), ()
        data = read_labelled(path)
        return data.texts, data.labels
    records = [record for _, record in read_json_lines(path)]
    fields = ("question", "sentence", *(("label",) if labelled else ()))
    for number, record in enumerate(records, 1):
        if missing := [name for name in fields if not isinstance(record.get(name), str)]:
            raise InputError(f"{path}, record {number}: {missing[0]} must be a text")
    return [(record["question"], record["sentence"]) for record in records], [one.get("label") for one in records]


def _add_labels(results: Iterable[CascadeLabels], path: Path, *, multi_label: bool) -> int:
    """Add the model's labels to a file that contains each text once. Return the number of texts in the file."""
    from semclass.plugins import read_json_lines

    records = [record for _, record in read_json_lines(path)] if path.is_file() else []
    new = (
        {**_record(one.item), **_labels(one.labels, multi_label), "by": "model"} for one in results if one.by == "model"
    )
    kept = {tuple(one.get(name) for name in ("text", "question", "sentence")): one for one in (*records, *new)}
    _write(path, kept.values())
    return len(kept)


def _record(item: Item) -> dict[str, Any]:
    return {"text": item} if isinstance(item, str) else {"question": item[0], "sentence": item[1]}


def _labels(labels: Sequence[Any], multi_label: bool) -> dict[str, Any]:
    return {"labels": list(labels)} if multi_label else {"label": labels[0]}


def _write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records).encode(errors="replace"))


def _beside(out: Path, name: str) -> Path:
    return out.with_name(f"{out.stem}.{name}")


def _reasons(why: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(why.items()))


def _price(bill: Bill, prices: tuple[float, float] | None) -> str:
    return f"{bill}{'' if prices is None else f', {bill.usd(prices):.4g} USD'}"
