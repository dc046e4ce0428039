"""What to use: of the systems that were compared on a task, which is best, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.reporting.tables import (
    NONE,
    Results,
    at,
    measured,
    name_of,
    number,
    on_one_thread,
    points,
    table,
    with_interval,
)
from bench.reporting.words import TASKS, said, title_of


@dataclass(frozen=True)
class Contest:
    """Systems on the same items, to pick from."""

    title: str
    systems: Sequence[Mapping[str, Any]]
    key: str
    quality: str
    shown: Callable[[Mapping[str, Any], str], str]

    @property
    def ranked(self) -> list[Mapping[str, Any]]:
        """Those with the figure, best first, the faster of equals first."""
        return sorted(
            on_one_thread(measured(self.systems, self.key)),
            key=lambda row: (-row[self.key], row.get("p50_ms") or float("inf")),
        )

    def equal(self, row: Mapping[str, Any]) -> bool:
        """Whether the figure of a row lies in the best one's interval, or that one's figure in its own."""
        best = self.ranked[0]
        least = (best.get(f"{self.key}_ci") or [best[self.key]])[0]
        most = (row.get(f"{self.key}_ci") or [row[self.key]])[-1]
        return bool(row[self.key] >= least or best[self.key] <= most)


def contests(found: Results) -> list[Contest]:
    """Everything that the results let one choose between."""
    given = []
    for name in TASKS:
        systems = at(found, name, "systems") or []
        key, quality = main_figure(name, systems)
        given.append(Contest(title_of(name), systems, key, quality, with_interval))
    for name, data in (at(found, "retrieval", "sets") or {}).items():
        title = f"Retrieval: {data.get('what', name)}"
        given.append(Contest(title, on_sample(data), "mrr@10", "MRR@10", points))
    return [contest for contest in given if contest.ranked]


def main_figure(name: str, systems: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The figure that decides on a task: macro F1 of passages, which have several classes each; accuracy otherwise."""
    prefer = ("macro_f1", "accuracy") if name == "passages" else ("accuracy", "macro_f1")
    key = next((key for key in prefer if measured(systems, key)), prefer[0])
    return key, {"macro_f1": "macro F1", "accuracy": "accuracy"}[key]


def on_sample(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Systems of a set with what they reached on the questions that all of them were asked."""
    return [{**row, **(row.get("sample") or {})} for row in data.get("systems", [])]


def answers(found: Results) -> str:
    """What to use: the best of each side, and a statement on each contest."""
    given = contests(found)
    if not given:
        return ""
    parts = [said("answers"), *([] if _asked_a_model(found) else [said("answers", "no model")]), glance(given)]
    return "\n\n".join([*parts, "\n".join(f"- {_short(contest.title)}: {statement(contest)}" for contest in given)])


def _asked_a_model(found: Results) -> bool:
    """Whether any language model was prompted here, not by others."""
    rows = [row for name in TASKS for row in at(found, name, "systems") or []]
    return any(row.get("kind") == "prompted" and not row.get("recorded") and "skipped" not in row for row in rows)


SIDES = {"semclass": "semclass", "peer": "best peer", "prompted": "prompted model"}


def glance(given: Sequence[Contest]) -> str:
    """The best of each side, a line a contest: quality, time, money; the highest quality is bold."""
    rows = []
    for contest in given:
        best = contest.ranked[0][contest.key]
        firsts = [next((row for row in contest.ranked if row.get("kind") == kind), None) for kind in SIDES]
        rows.append(
            [_short(contest.title), *(NONE if row is None else _in_short(row, contest, best) for row in firsts)]
        )
    return table(("", *SIDES.values()), rows)


def _short(title: str) -> str:
    """A title without the question behind it."""
    first, _, rest = title.partition(":")
    return first if rest.endswith("?") else title


def _in_short(row: Mapping[str, Any], contest: Contest, best: float) -> str:
    plain = {key: value for key, value in row.items() if key != f"{contest.key}_ci"}
    quality = contest.shown(plain, contest.key)
    parts = [f"**{quality}**" if row[contest.key] == best else quality]
    parts += [_time(row)] if row.get("p50_ms") is not None else []
    parts += [f"{number(row['usd_per_million'])} USD"] if row.get("usd_per_million") is not None else []
    return f"{', '.join(parts)} ({name_of(row)})"


def _time(row: Mapping[str, Any]) -> str:
    """Milliseconds; those of a recorded model are assumed."""
    return f"{number(row['p50_ms'])} ms{' (assumed)' if row.get('recorded') else ''}"


def statement(contest: Contest) -> str:
    """Who is best, and how far from the best of the other side."""
    best = contest.ranked[0]
    ours = best.get("kind") == "semclass"
    rival = next((row for row in contest.ranked if (row.get("kind") == "semclass") != ours), None)
    text = f"**{name_of(best)}** has the highest {contest.quality}, {contest.shown(best, contest.key)}"
    text += f", in {_time(best)}." if best.get("p50_ms") is not None else "."
    if rival is None:
        return text
    who = "The best that is not semclass" if ours else "semclass's best"
    text += f" {who}, **{name_of(rival)}**, reaches {contest.shown(rival, contest.key)}"
    text += f" in {_time(rival)}" if rival.get("p50_ms") is not None else ""
    if contest.equal(rival):
        return f"{text}: within the intervals, so that quality alone does not decide between the two."
    return f"{text}: {'a clear lead of semclass' if ours else 'here a peer is clearly better'}."
