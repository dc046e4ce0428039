"""Options of `semclass classify` that send what a head is unsure of to a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from semclass.cli import options
from semclass.cli.options import any_path, shorten, show
from semclass.cli.output import echo
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError
from semclass_llm.commands.label import beside, cost_line
from semclass_llm.commands.options import cost_options, endpoint_options, open_endpoint

if TYPE_CHECKING:
    from semclass_llm.labelling.cascade import Classifier, Item

OUT = Path("sent.jsonl")
"""Where the model's labels are kept if no option says so."""

share = click.FloatRange(0, 1)


cascade_options = options.together(
    endpoint_options,
    click.option(
        "--send", type=share, help="Share of the texts to send to --endpoint, least certain texts first, e.g. 0.2."
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
    cost_options,
    click.option(
        "--out",
        type=any_path,
        metavar="FILE",
        help=f"File to which the language model's labels are added (JSON lines, for `semclass train`). Default: {OUT}.",
    ),
)
"""Options of :func:`classify`."""


def wanted(asked: Mapping[str, Any], alone: Mapping[str, Any]) -> bool:
    """Tell whether a model is to be asked. `alone`: options that only a head without a model has."""
    if asked["endpoint"] is None:
        for name in ("send", "accuracy", "held_out", "out", "prices", "only_estimate"):
            if asked[name]:
                option = name.removeprefix("only_").replace("_", "-")
                raise InputError(f"--{option} needs --endpoint URL and --model NAME")
        return False
    for name, value in alone.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} does not work with --endpoint; remove one of them")
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
    from semclass_llm.endpoint.client import EndpointError
    from semclass_llm.labelling import cascade as cascades
    from semclass_llm.labelling.teacher import Bill

    out = asked["out"] or OUT
    service = {name: asked[name] for name in ("endpoint", "model", "concurrency", "timeout")}
    # few retries: the head's label stays, and the next run asks again
    endpoint = open_endpoint(**service, cache=asked["cache"] or beside(out, "replies.jsonl"), retries=2)
    cascade = cascades.Cascade(head, endpoint, asked["send"], asked["accuracy"], labels)
    if asked["held_out"] is not None:
        cascade, report = cascade.calibrate(*read_held_out(asked["held_out"]))
        line = f"held out: {report['texts']} texts, head right on {report['head']:.1%}"
        if "both" in report:
            line += f", with the model {report['both']:.1%}, which was asked {report['asked']} times"
        echo(f"{line}; {report['share']:.1%} sent", err=True)
    decided = cascade.decide(items)
    sent = sum(one.sent for one in decided)
    try:
        cost = f"about {cost_line(cascade.estimate(decided, asked['prices']))}"
    except EndpointError as error:
        cost = f"at an unknown cost: {error}"
    echo(f"{sent} of {counted(len(decided), 'text')} to send, {cost}", err=True)
    if asked["only_estimate"]:
        return
    bill = Bill(cascade.task, asked["prices"])
    with progress("asking", sent, "texts") as step:
        found = cascade.ask(decided, bill, step)
    for number, one in enumerate(found):
        told = {name: value for name, value in vars(one).items() if name not in ("item", "sent")}
        record = {**({"_id": ids[number]} if ids else {}), **cascades.record_of(one.item), **told}
        said = " ".join(map(str, one.labels)) or "-"
        text = one.item if isinstance(one.item, str) else one.item[1]
        show(record, f"{said:<14} {one.confidence:.3f} {one.by:<5}  {shorten(text)}", as_json=as_json)
    kept = cascades.save_labels(found, out, multi_label=cascade.task.multi_label)
    echo(f"sent: {cost_line(bill.figures(bill.texts, endpoint.concurrency))}", err=True)
    echo(f"{out}: {counted(kept, 'text')} with labels of {endpoint.model}, to train on", err=True)
    if why := Counter(one.why for one in found if one.why):
        counts = ", ".join(f"{count} {name}" for name, count in sorted(why.items()))
        echo(f"no label from the model, so the head's stays: {counts}", err=True)
