"""Options of `semclass classify` that send what a head is unsure of to a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from semclass.cli import options
from semclass.cli.label import beside, cost_line, prices_option
from semclass.cli.options import any_path, shorten, show
from semclass.cli.output import echo
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.labelling.cascade import Cascade, Classifier, Item

OUT = Path("sent.jsonl")
"""Where the model's labels are kept if no option says so."""

share = click.FloatRange(0, 1)


def cascade_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of :func:`classify`."""
    for option in reversed(
        (
            options.endpoint_options,
            click.option(
                "--send",
                type=share,
                help="Share of the texts to send to --endpoint, least certain texts first, e.g. 0.2.",
            ),
            click.option(
                "--accuracy",
                type=share,
                help="Send as few texts as reach this accuracy on --held-out. The model is asked about these texts, too.",
            ),
            click.option(
                "--held-out",
                type=options.InputPath(),
                help="Labelled texts that the head was not trained on; they set the certainty below which a text is sent.",
            ),
            click.option(
                "--model-accuracy",
                type=share,
                help="Accuracy of the language model on the texts sent, if known. Default: measured on --held-out.",
            ),
            prices_option,
            click.option(
                "--out",
                type=any_path,
                metavar="FILE",
                help="File to which the language model's labels are added (JSON lines, for `semclass train`). "
                f"Default: {OUT}.",
            ),
            click.option(
                "--estimate",
                "only_estimate",
                is_flag=True,
                help="Ask about a few texts, print the estimated cost of all texts to send, and stop.",
            ),
        )
    ):
        command = option(command)
    return command


def wanted(asked: Mapping[str, Any], alone: Mapping[str, Any]) -> bool:
    """Tell whether a model is to be asked. `alone`: options that only a head without a model has."""
    if asked["endpoint"] is None:
        given = [name for name in ("send", "accuracy", "held_out", "model_accuracy", "out", "prices") if asked[name]]
        if given or asked["only_estimate"]:
            raise InputError(f"--{(given or ['estimate'])[0].replace('_', '-')} needs --endpoint URL and --model NAME")
        return False
    if given := [name for name, value in alone.items() if value]:
        raise InputError(f"--{given[0].replace('_', '-')} does not work with --endpoint; remove one of them")
    if asked["accuracy"] is not None and asked["held_out"] is None:
        raise InputError("--accuracy needs labelled texts; add --held-out FILE")
    return True


def classify(
    head: Classifier,
    items: Sequence[Item],
    asked: Mapping[str, Any],
    read_held_out: Callable[[Path], tuple[Sequence[Item], Sequence[Any]]],
    *,
    as_json: bool,
    ids: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> None:
    """Classify by a head, and send what it is unsure of to a model; `asked`: :func:`cascade_options`."""
    from semclass.endpoint.client import EndpointError
    from semclass.labelling import cascade as cascades
    from semclass.labelling.teacher import Bill

    out = asked["out"] or OUT
    service = {name: asked[name] for name in ("endpoint", "model", "concurrency", "timeout")}
    # few retries: the head's label stays, and the next run asks again
    endpoint = options.open_endpoint(**service, cache=asked["cache"] or beside(out, "replies.jsonl"), retries=2)
    cascade = cascades.Cascade(head, endpoint, asked["send"], asked["accuracy"], labels)
    if asked["held_out"] is not None:
        cascade = _calibrated(cascade, *read_held_out(asked["held_out"]), asked["model_accuracy"])
    decided = cascade.decide(items)
    sent = sum(one.sent for one in decided)
    try:
        expected = cascade.estimate(decided, asked["prices"])
        echo(f"{sent} of {counted(len(decided), 'text')} to send, about {cost_line(expected)}", err=True)
    except EndpointError as error:
        echo(f"{sent} of {counted(len(decided), 'text')} to send, at an unknown cost: {error}", err=True)
    if asked["only_estimate"]:
        return
    bill = Bill(cascade.task, asked["prices"])
    with progress("asking", sent, "texts") as step:
        found = cascade.ask(decided, bill, step)
    for number, one in enumerate(found):
        record = {**({"_id": ids[number]} if ids else {}), **cascades.record_of(one.item), "labels": list(one.labels)}
        record |= {"by": one.by, "head_labels": list(one.head_labels), "confidence": one.confidence, "why": one.why}
        said = " ".join(map(str, one.labels)) or "-"
        text = one.item if isinstance(one.item, str) else one.item[1]
        show(record, f"{said:<14} {one.confidence:.3f} {one.by:<5}  {shorten(text)}", as_json=as_json)
    kept = cascades.save_labels(found, out, multi_label=cascade.task.multi_label)
    echo(f"sent: {cost_line(bill.figures(bill.texts, endpoint.concurrency))}", err=True)
    echo(f"{out}: {counted(kept, 'text')} with labels of {endpoint.model}, to train on", err=True)
    if why := Counter(one.why for one in found if one.why):
        told = ", ".join(f"{count} {name}" for name, count in sorted(why.items()))
        echo(f"no label from the model, so the head's stays: {told}", err=True)


def _calibrated(cascade: Cascade, items: Sequence[Item], labels: Sequence[Any], told: float | None) -> Cascade:
    cascade, report = cascade.calibrate(items, labels, model_accuracy=told)
    reached = (
        f", with the model {report['both']:.1%}, which was asked {report['asked']} times" if "both" in report else ""
    )
    echo(
        f"held out: {report['texts']} texts, head right on {report['head']:.1%}{reached}; {report['share']:.1%} sent",
        err=True,
    )
    return cascade
