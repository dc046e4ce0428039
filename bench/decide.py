"""``python -m bench decide``: what to classify texts with, and the measured rows behind it.

It asks for what no option gives. Of the systems that are accurate and fast enough, and that the machine can carry, those
that cost less than a dollar a day count as equal in cost. Of these the most accurate is the answer; within one point, the
cheapest. Where none costs so little, the cheapest is. Accuracy is that of recorded results, of other texts than yours: try
the answer on some of your own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from bench import prices, provenance, readme, report
from bench.provenance import Results

DAY, SHARE = 86_400, 0.5  # seconds; how much of a machine may be busy on average, as texts come unevenly
DOLLAR, POINT = 1.0, 0.01  # a cost a day, and a difference in accuracy, that do not count
INTENTS = ("banking77", "clinc150")
FEW = {"1": 1, "5": 5, "10": 10}  # measured labels a class, from so many on
MANY, EACH = 4_500, 100  # labels, in all and a class, from which what was measured with 12,000 labels stands for yours

OURS, LINES, WORDS = "`TextClassifier`", "ten lines of scikit-learn on embeddings", "TF-IDF and a linear SVM"
TUNED, STATIC, PROMPTED = "a fine-tuned MiniLM", "Model2Vec and a regression", "a prompted model (flan-ul2, 20 B)"
TYPES = {
    OURS: "semclass, svm", LINES: "ten lines: logistic", WORDS: "tf-idf, linear svm",
    TUNED: "fine-tuned MiniLM, int8", STATIC: "model2vec: logistic",
}  # fmt: skip
"""Systems, and their rows in section ``questions``; the first is the same kind of head over the same encoder."""

PAIRS = {
    "`EntailmentClassifier`": "semclass",
    LINES: "ten lines: logistic",
    "a MiniLM cross-encoder": "cross-encoder MiniLM, int8",
}
"""Systems that say whether a sentence answers a question, and their rows in section ``entailment``."""

SHARED = (OURS, LINES)  # one vector of a text serves all its classifications


@dataclass(frozen=True)
class Needs:
    """The labels, texts and machine of a user, and the accuracy and speed that are needed."""

    labels: int
    classes: int
    texts: float  #: a day
    accuracy: float
    milliseconds: float
    machine: str = "cpu"
    cores: int = 2
    tasks: int = 1  #: classifications of each text
    pairs: bool = False  #: does a sentence answer a question, in place of classes of one's own


@dataclass(frozen=True)
class Row:
    """A measured system; None is what nobody measured."""

    name: str
    accuracy: float | None
    on: str
    milliseconds: float
    per_second: float | None  #: of one core; None for what others run
    usd: float  #: for a million texts

    def usd_a_day(self, needs: Needs) -> float:
        """The cost of a day's texts."""
        return self.usd * needs.texts / 1e6

    def why_not(self, needs: Needs) -> str:
        """The reason against it; "" if there is none."""
        if self.accuracy is None or self.accuracy < needs.accuracy:
            return "not measured on classes of your own" if self.accuracy is None else "not accurate enough"
        if self.milliseconds > needs.milliseconds:
            return "too slow"
        if self.per_second and needs.texts / self.per_second > SHARE * DAY * needs.cores:
            return "too many texts for the machine"
        return ""


def measured(found: Results, needs: Needs) -> Iterator[Row]:
    """Systems that were measured with about as many labels, or fewer."""
    answers = {row["name"]: row for row in found["entailment" if needs.pairs else "questions"]["systems"]}
    timed = {**answers, "semclass, svm": answers["semclass"]}  # another head on as many layers
    accuracies = {name: (answers[row]["accuracy"], "QNLI") for name, row in PAIRS.items() if row in answers}
    if not needs.pairs:
        accuracies = dict(_accuracies(found, needs, answers))
    for name, (accuracy, on) in accuracies.items():
        one = timed[PAIRS[name] if needs.pairs else TYPES[name]]
        times = 1 if name in SHARED else needs.tasks
        per_second = one["per_second"] / times
        yield Row(name, accuracy, on, times * one["p50_ms"], per_second, prices.machine_call(1 / per_second))
    flan, on_gpu = answers["flan-ul2, prompted"], needs.machine == "gpu"
    on = f"{'QNLI' if needs.pairs else 'six types of question'}: {flan['accuracy']:.1%}"
    usd = flan["usd_per_million_gpu" if on_gpu else "usd_per_million"] * needs.tasks
    rate = flan["per_second"] / needs.tasks / needs.cores if on_gpu else None  # one GPU, however many cores
    if needs.pairs and "cascade" in found:
        job, wait = found["cascade"]["jobs"]["entailment"], answers["semclass"]["p50_ms"] + flan["p50_ms"]
        for share, right, cost in zip(job["shares"], job["right"]["unsure"], job["usd_per_million"], strict=True):
            if 0 < share < 1:
                yield Row(f"`Cascade`, the least sure {share:.0%} to {PROMPTED}", right, "QNLI", wait, None, cost)
    yield Row(PROMPTED, flan["accuracy"] if needs.pairs else None, on, flan["p50_ms"], rate, usd)


def _accuracies(found: Results, needs: Needs, answers: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float, str]]]:
    """Accuracy by system: with few labels that of the harder set of intents, with many that of question types."""
    each = needs.labels / needs.classes
    if each < 1:
        sets = found["labels"]["few_labels"]
        least = min(sets[name]["0"]["systems"]["semclass"]["accuracy"] for name in INTENTS)
        yield OURS, (least, "intents by name alone (`ZeroShotClassifier`)")
    elif needs.labels >= MANY and each >= EACH:
        for name, row in TYPES.items():
            if row in answers and "accuracy" in answers[row]:
                yield name, (answers[row]["accuracy"], "six types of question")
    else:
        size = max((size for size, least in FEW.items() if least <= each), key=FEW.__getitem__)
        sets = [found["labels"]["few_labels"][name][size]["systems"] for name in INTENTS]
        for name, key in {OURS: "semclass", LINES: "pooled", WORDS: "tfidf", TUNED: "tuned"}.items():
            known = [one[key]["accuracy"] for one in sets if key in one]
            if known:
                yield name, (min(known), f"intents, {size} a class")


def choice(rows: list[Row], needs: Needs) -> Row | None:
    """The system to use, by the rule above; None if none does what is wanted."""
    fit = [row for row in rows if not row.why_not(needs)]
    if not fit:
        return None
    most = max(DOLLAR, min(row.usd_a_day(needs) for row in fit))
    cheap = [row for row in fit if row.usd_a_day(needs) <= most]
    best = max(row.accuracy or 0.0 for row in cheap)
    return min((row for row in cheap if (row.accuracy or 0.0) >= best - POINT), key=lambda row: (row.usd, row.name))


def answer(rows: list[Row], needs: Needs) -> str:
    """The system to use, in a sentence."""
    use = choice(rows, needs)
    if use is not None:
        return f"Use {use.name}."
    near = max((row for row in rows if row.accuracy is not None), key=lambda row: row.accuracy or 0.0)
    return (
        f"Nothing that was measured does this. The most accurate is {near.name}, with {near.accuracy:.1%}. Collect more "
        "labels, ask for less, or try a prompted model on a hundred of your texts."
    )


def table(rows: list[Row], needs: Needs) -> str:
    """The measured rows, and what speaks against each."""
    cells = [
        (
            row.name,
            readme.NONE if row.accuracy is None else f"{row.accuracy:.1%}",
            row.on,
            readme.number(row.milliseconds) + " (assumed)" * row.name.endswith(PROMPTED),
            readme.money(row.usd_a_day(needs)),
            row.why_not(needs) or "fits",
        )
        for row in rows
    ]
    return readme.markdown(("system", "accuracy", "measured on", "ms a text", "USD a day", "here"), cells)


# -- five users -----------------------------------------------------------------------------------------------------------

USERS = {
    "A help desk sorts 2,000 messages a day into 40 topics, with 10 labelled messages of each": Needs(
        400, 40, 2_000, 0.8, 50
    ),
    "A library labels 300,000 texts a day by three lists of 20 classes, from 200 labels each list": Needs(
        200, 20, 300_000, 0.8, 20, tasks=3
    ),
    "A shop tags 200 million log lines a day, with 50,000 labelled lines of 30 kinds; 9 of 10 right will do": Needs(
        50_000, 30, 200e6, 0.9, 10
    ),
    "A law firm checks 100 pairs a day: does the sentence answer the question? Errors are dear": Needs(
        0, 2, 100, 0.9, 5_000, pairs=True
    ),
    "A bank routes a million questions a day by a single list of 6 kinds, with 12,000 labelled questions": Needs(
        12_000, 6, 1e6, 0.95, 10
    ),
}
"""Who asks, and what each needs."""


def told(found: Results) -> Iterator[tuple[str, str, str, str]]:
    """The answer to each of the described users: who, options, answer and accuracy."""
    for who, needs in USERS.items():
        rows = list(measured(found, needs))
        use = choice(rows, needs)
        yield who, command(needs), answer(rows, needs), readme.NONE if use is None else f"{use.accuracy:.1%}"


def users(found: Results) -> str:
    return readme.markdown(("who", "options", "answer", "accuracy, as measured"), told(found))


def command(needs: Needs) -> str:
    """The options that say what a user needs."""
    said = f"--labels {needs.labels} --classes {needs.classes} --texts {needs.texts:.0f} --accuracy {needs.accuracy:g}"
    said += f" --milliseconds {needs.milliseconds:g} --machine {needs.machine} --cores {needs.cores}"
    return f"`{said}{f' --tasks {needs.tasks}' * (needs.tasks > 1)}{' --pairs' * needs.pairs}`"


TABLES = {"": users}
READS = ("questions", "entailment", "labels", "cascade")


class _Share(click.FloatRange):
    """A share: 0.9 or 90%."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a percentage as the hundredth of its number."""
        number = value.removesuffix("%") if isinstance(value, str) else value
        hundred = 100 if number != value else 1
        return super().convert(click.FLOAT(number, param, ctx) / hundred, param, ctx)


@click.command(help=__doc__)
@click.option("--labels", type=click.IntRange(0), prompt="Labelled texts at hand")
@click.option("--classes", type=click.IntRange(2), prompt="Classes")
@click.option("--texts", type=click.FloatRange(0, min_open=True), prompt="Texts a day")
@click.option("--accuracy", type=_Share(0, 1), prompt="Share that must be right, such as 0.9 or 90%")
@click.option("--milliseconds", type=click.FloatRange(0, min_open=True), prompt="Longest wait for a text, milliseconds")
@click.option("--machine", type=click.Choice(["cpu", "gpu"]), prompt="Machine")
@click.option("--cores", type=click.IntRange(1), prompt="Cores of its processor")
@click.option("--tasks", type=click.IntRange(1), default=1, show_default=True, help="Classifications of each text.")
@click.option("--pairs", is_flag=True, help="Does a sentence answer a question, in place of classes of your own.")
def main(**given: Any) -> None:
    """Say what to use, and print the rows behind it."""
    needs, found = Needs(**given), report.read(report.RESULTS)
    rows = list(measured(found, needs))
    click.echo(answer(rows, needs))
    click.echo(f"\n{provenance.with_line(lambda _: table(rows, needs), found, READS)}")
    if needs.machine == "gpu":
        click.echo("\nNothing was measured on a GPU: a larger network, fine-tuned there, may be more accurate.")
