"""Training data of the tunings: distinct texts as word pieces, and which answer which; a file of them, and tensors."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answer_groups import Group
from bert_graph import BertConfig, Views, kept_pieces, read_model
from bert_torch import EXTRA, tensor_of
from command import Array, make_parser, seconds_so_far
from datasets_io import LANGUAGE, PARALLEL
from document_groups import measured_on
from export_encoder import find_source, lower_of, upper_of
from onnx_graphs import open_model
from semclass.core.artifacts import STATES
from semclass.core.errors import import_extra
from semclass.core.types import IntArray, Ragged, offsets_of
from semclass.encoders.onnx_encoder import PASSAGE, OnnxEncoder
from semclass.scoring.bm25 import count_terms, statistics

PAIRED = ("squad", "wikiqa")  # domains of questions that the pair head learns from
LONGEST = 96  # word pieces of a text that are read: one in a hundred is longer, and takes the time of many
STRETCH = 50  # groups of a domain that follow one another
CHECKED = 256  # groups of a domain, not learnt from, that are measured on
HELD_OUT = 10  # every tenth stretch is held out, from the first on
TOGETHER = 64  # texts of one length that the lower part of an encoder reads at a time


@dataclass(frozen=True)
class Texts:
    """Distinct texts as the lower part reads them, with tensors on the device of the tuning."""

    ids: Ragged  # word-piece ids, special tokens included
    kept: npt.NDArray[np.bool_]  # which of these are read of a passage
    states: Any  # float16 (pieces, hidden)
    original: Any  # unit vectors of the original encoder, float32 (n, dim)
    layers: Any  # its means and first states of the layers above the lower part, float16 (n, layers * dim)
    idf: Array  # of pieces over texts, 0 for what is no term, float32 (vocabulary,)
    asked: npt.NDArray[np.bool_] | None = None  # which were read as questions; None: an encoder without prefixes

    @classmethod
    def read(
        cls, material: Material, weights: Mapping[str, Array], config: BertConfig, layer: int, device: str
    ) -> Texts:
        """Read texts by all layers of the original encoder; the first `layer` are its lower part.

        An encoder with prefixes reads each text behind one of them. Their states are not kept.
        """
        views = Views.of_depth(config.num_hidden_layers, prefixed=any(material.prefixes))
        lower, upper = (open_model(part(weights, config, views, None)[0]) for part in (lower_of, upper_of))
        ids, asked = material.texts(), material.asked() if any(material.prefixes) else None
        every, hidden = np.ones(len(ids), np.bool_), config.hidden_size
        kinds = {(): every} if asked is None else {material.prefixes[0]: asked, material.prefixes[1]: ~asked}
        known = sum(at <= layer for at in views.mean_layers) * hidden
        states, original = np.empty((len(ids.values), hidden), np.float16), np.empty((len(ids), hidden), np.float32)
        wide = (len(views.mean_layers) + len(views.first_token_layers)) * hidden - known
        layers = np.empty((len(ids), wide), np.float16)
        for rows, prefix, feed in runs(ids, kinds):
            (found,) = lower.run([STATES], feed)
            states[ids.places(rows)] = np.delete(found, slice(1, 1 + prefix), axis=1).reshape(-1, hidden)
            above = {STATES: found, "attention_mask": feed["attention_mask"]}
            original[rows], views_of = upper.run(("pooled", "layers"), above)
            layers[rows] = views_of[:, known:]
        there = partial(tensor_of, device=device)
        kept = material.kept[ids.values]
        return cls(ids, kept, there(states), there(original), there(layers), material.idf, asked)

    @cached_property
    def deviation(self) -> Any:
        """Standard deviation of each of `layers`, float32 (layers * dim,)."""
        found = self.layers[:: max(1, len(self.layers) // 2000)].float().std(0, correction=0)
        return found.clamp(min=found.median() / 10)  # some hardly differ between texts

    def take(self, rows: IntArray, kind: int) -> tuple[Ragged, Array]:
        """Places of the pieces that are read of some texts, and their ids."""
        places = self.ids.places(rows)
        offsets = offsets_of(self.ids.lengths()[rows])
        if kind == PASSAGE:
            kept = self.kept[places]
            offsets, places = np.concatenate([[0], np.cumsum(kept)])[offsets], places[kept]
        return Ragged(places, offsets), self.ids.values[places]


@dataclass(frozen=True)
class Rows:
    """A group by the rows of its texts."""

    domain: str
    question: int
    passages: tuple[tuple[int, ...], ...]
    answers: frozenset[int]

    @classmethod
    def of(cls, group: Any, row_of: Callable[[Any], int]) -> Rows:
        """A group whose texts get rows of their own."""
        question = row_of(group.question)
        return cls(group.domain, question, tuple(tuple(map(row_of, part)) for part in group.passages), group.answers)


@dataclass(frozen=True)
class Material:
    """Groups by the rows of their texts, and all texts, which a file holds."""

    pieces: Ragged  # uint32 ids of word pieces, without special tokens
    groups: tuple[Rows, ...]
    held: npt.NDArray[np.bool_]  # groups that are not learnt from
    further: IntArray  # rows of texts without a group
    special: tuple[int, int]
    kept: npt.NDArray[np.bool_]  # word pieces that are read of a passage, (vocabulary,)
    idf: Array  # float32 (vocabulary,)
    prefixes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # word pieces before a question, before a passage

    @classmethod
    def of(cls, groups: Sequence[Group], further: Iterable[str], encoder: OnnxEncoder) -> Material:
        """Number the distinct texts of groups, and further ones, and cut them into word pieces."""
        row: dict[str, int] = {}

        def at(text: str) -> int:
            return row.setdefault(text, len(row))

        found = tuple(Rows.of(group, at) for group in groups)
        alone = np.array([at(text) for text in further if text.strip()], np.int64)
        terms = encoder.tokenize(list(row))
        idf = statistics([count_terms(terms)]).idf(np.arange(len(encoder.is_term))) * encoder.is_term
        pieces = Ragged(terms.values.astype(np.uint32), terms.offsets)
        held = held_out(groups) | np.array([measured_on(group.domain) for group in groups])
        kept = kept_pieces(encoder.vocabulary)
        return cls(pieces, found, held, alone, encoder.special, kept, idf, encoder.prefixes)

    def save(self, path: Path) -> None:
        """Write a file; see :meth:`load`."""
        groups = [[one.domain, one.question, one.passages, sorted(one.answers)] for one in self.groups]
        text = json.dumps({"groups": groups, "special": self.special, "prefixes": self.prefixes})
        arrays = {name: getattr(self, name) for name in ("held", "further", "kept", "idf")}
        arrays |= {"pieces": self.pieces.values, "lengths": self.pieces.lengths().astype(np.int32)}
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, json=np.frombuffer(text.encode(), np.uint8), **arrays)

    @classmethod
    def load(cls, path: Path) -> Material:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            a = {name: file[name] for name in file.files}
        text = json.loads(a["json"].tobytes())
        groups = tuple(
            Rows(domain, question, tuple(map(tuple, passages)), frozenset(answers))
            for domain, question, passages, answers in text["groups"]
        )
        pieces = Ragged(a["pieces"], offsets_of(a["lengths"].astype(np.int64)))
        before, behind = map(tuple, text["prefixes"])
        first, last = text["special"]
        return cls(pieces, groups, a["held"], a["further"], (first, last), a["kept"], a["idf"], (before, behind))

    def asked(self) -> npt.NDArray[np.bool_]:
        """Which texts are questions; of those without a group every other one is read so, bool (n,)."""
        found = np.zeros(len(self.pieces), np.bool_)
        found[[group.question for group in self.groups]] = True
        found[self.further[::2]] = True
        return found

    def texts(self) -> Ragged:
        """Word pieces with the special tokens, cut to LONGEST, int64."""
        lengths = np.minimum(self.pieces.lengths(), LONGEST - 2)
        offsets = offsets_of(lengths + 2)
        values = np.empty(offsets[-1], np.int64)
        values[offsets[:-1]], values[offsets[1:] - 1] = self.special
        within = np.arange(lengths.sum()) - np.repeat(offsets_of(lengths)[:-1], lengths)
        values[np.repeat(offsets[:-1] + 1, lengths) + within] = self.pieces.values[
            np.repeat(self.pieces.offsets[:-1], lengths) + within
        ]
        return Ragged(values, offsets)

    def checks(self, left_out: Sequence[str], rng: np.random.Generator) -> dict[str, list[Rows]]:
        """By domain, some groups that are not learnt from: those held out, or any of a domain that is left out."""
        found: dict[str, list[Rows]] = {}
        for group, held in zip(self.groups, self.held, strict=True):
            if held or group.domain in left_out:
                found.setdefault(group.domain, []).append(group)
        return {name: [some[row] for row in rng.permutation(len(some))[:CHECKED]] for name, some in found.items()}

    def only(
        self, drawn: Sequence[Sequence[Rows]], checks: Mapping[str, Sequence[Rows]]
    ) -> tuple[Material, list[list[Rows]], dict[str, list[Rows]]]:
        """The texts of some groups, and the further ones, and these groups by their new rows."""
        used = list({id(group): group for step in [*drawn, *checks.values()] for group in step}.values())
        texts = [row for group in used for row in (group.question, *(one for part in group.passages for one in part))]
        rows = np.unique(np.concatenate([np.array(texts, np.int64), self.further]))
        new = {row: place for place, row in enumerate(rows.tolist())}
        moved = {id(group): Rows.of(group, new.__getitem__) for group in used}
        material = replace(
            self,
            pieces=self.pieces.take(rows),
            groups=tuple(moved.values()),
            held=np.zeros(len(moved), np.bool_),
            further=np.searchsorted(rows, self.further),
        )
        steps = [[moved[id(group)] for group in step] for step in drawn]
        return material, steps, {name: [moved[id(group)] for group in some] for name, some in checks.items()}


def tuning_parser(description: str | None, recipe: type, settings: Sequence[str]) -> argparse.ArgumentParser:
    """Options of a tuning; some fields of its recipe are among them."""
    parser = make_parser(description, "source", "threads", "seed")
    parser.add_argument("--groups", type=Path, required=True, help="file of pack_groups.py")
    for name in settings:
        default = getattr(recipe, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help="see Recipe")
    parser.add_argument("--left-out", nargs="*", default=[], help="domains that are not learnt from, but measured on")
    parser.add_argument("--device", default="cpu", help="of torch, such as cuda")
    parser.add_argument("--precision", default="float32", help="of the weights in the file")
    parser.add_argument("--out", type=Path, required=True, help="file for the weights")
    return parser


@dataclass(frozen=True)
class Tuning:
    """The start of a tuning: the original encoder, texts as its lower part reads them, and the groups of each step."""

    recipe: Any
    weights: dict[str, Array]
    config: BertConfig
    layer: int  # last of the lower part
    texts: Texts
    further: IntArray  # rows of texts without a group
    steps: list[list[Rows]]
    checks: dict[str, list[Rows]]  # by domain, groups that are not learnt from

    @classmethod
    def of(cls, arguments: argparse.Namespace, recipe: type) -> Tuning:
        """Read what the command line names; its settings are those of the recipe."""
        torch = import_extra("torch", EXTRA)
        torch.set_num_threads(arguments.threads)
        torch.set_float32_matmul_precision("high")
        weights, config = read_model(find_source(arguments.source))
        layer = Views.of_depth(config.num_hidden_layers).shared
        chosen = recipe(
            **{item.name: getattr(arguments, item.name) for item in fields(recipe) if item.name in arguments}
        )
        rng, material = np.random.default_rng(arguments.seed), Material.load(arguments.groups)
        pairs = zip(material.groups, material.held, strict=True)
        learnt = [group for group, held in pairs if not held and group.domain not in arguments.left_out]
        steps = list(batches(learnt, chosen, rng))
        material, steps, checks = material.only(steps, material.checks(arguments.left_out, rng))
        texts = Texts.read(material, weights, config, layer, arguments.device)
        print(f"{len(material.groups)} questions, {len(material.pieces)} texts, {seconds_so_far()} s", flush=True)
        return cls(chosen, weights, config, layer, texts, material.further, steps, checks)

    def finish(
        self,
        arguments: argparse.Namespace,
        network: Any,
        weights: Mapping[str, Array],
        measures: Callable[[Sequence[Rows]], Mapping[str, float]],
        **further: Array,
    ) -> None:
        """Print figures of `checks`; write weights in the precision asked for, and further arrays as they are."""
        network.parameters = {name: network.put(value) for name, value in weights.items()}
        for name, some in sorted(self.checks.items()):
            found = " ".join(f"{key} {value:.3f}" for key, value in measures(some).items())
            print(f"{name}: {len(some)} questions, {found}")
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        rounded = {name: value.astype(arguments.precision) for name, value in weights.items()}
        np.savez(arguments.out, **rounded, **further)
        print(f"{arguments.out}  {asdict(self.recipe)}  {seconds_so_far()} s")


def batches(groups: Sequence[Rows], recipe: Any, rng: np.random.Generator) -> Iterator[list[Rows]]:
    """Groups of each step; blocks of squad in random order, cut elsewhere in each pass."""
    by_domain: dict[str, list[Rows]] = {}
    for group in groups:
        by_domain.setdefault(group.domain, []).append(group)
    squad = by_domain.pop("squad")
    apart = [(by_domain.pop(name, []), getattr(recipe, name, 0)) for name in ("contrast", "echoes", PARALLEL)]
    spoken = [by_domain.pop(name) for name in list(by_domain) if name.startswith(LANGUAGE)]
    names = list(by_domain)
    chance = np.sqrt([len(by_domain[name]) for name in names])
    starts: list[int] = []
    for _ in range(recipe.steps):
        if not starts:
            cuts = np.arange(int(rng.integers(recipe.block)), len(squad) - recipe.block, recipe.block)
            starts = rng.permutation(cuts).tolist()
        start = starts.pop()
        chosen = squad[start : start + recipe.block]
        for rows, count in apart:
            chosen = chosen + [rows[row] for row in rng.integers(len(rows), size=count if rows else 0)]
        for place in rng.integers(len(spoken), size=getattr(recipe, "languages", 0) if spoken else 0).tolist():
            chosen.append(spoken[place][int(rng.integers(len(spoken[place])))])
        for name in rng.choice(names, recipe.others, p=chance / chance.sum()):
            chosen.append(by_domain[name][int(rng.integers(len(by_domain[name])))])
        yield chosen


def runs(
    ids: Ragged, kinds: Mapping[tuple[int, ...], npt.NDArray[np.bool_]]
) -> Iterator[tuple[IntArray, int, dict[str, Array]]]:
    """Texts of one length that are read at a time: their rows, the pieces of a prefix before them, and what is read.

    `kinds` are the pieces of each prefix, and which texts, bool (n,), are read behind it.
    """
    lengths = ids.lengths()
    for prefix, texts in kinds.items():
        for length in np.unique(lengths[texts]).tolist():
            alike = np.flatnonzero(texts & (lengths == length))
            for rows in np.array_split(alike, -(-len(alike) // TOGETHER)):
                own = ids.values[ids.places(rows)].reshape(len(rows), length)
                read = np.insert(own, [1] * len(prefix), prefix, axis=1)
                yield rows, len(prefix), {"input_ids": read, "attention_mask": np.ones_like(read)}


def pairs_of(
    groups: Sequence[Rows], place: Mapping[int, int], unrelated: int, rng: np.random.Generator
) -> tuple[IntArray, Array]:
    """Pairs (n, 2) of a group's number and the place of a passage of one sentence, and which answer, bool (n,).

    So many passages of any other group are added to those of each.
    """
    found = [
        (number, place[passage[0]], at in group.answers)
        for number, group in enumerate(groups)
        if group.domain in PAIRED
        for at, passage in enumerate(group.passages)
        if len(passage) == 1
    ]
    others = list(place)
    for number in sorted({row[0] for row in found}):
        right = {row for at in groups[number].answers for row in groups[number].passages[at]}
        drawn = [others[at] for at in rng.integers(len(others), size=unrelated).tolist()]
        found += [(number, place[row], False) for row in drawn if row not in right]
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, :2], table[:, 2] > 0


def held_out(groups: Sequence[Group]) -> Array:
    """Which groups are not learnt from: some stretches of each domain, bool (n,)."""
    seen: Counter[str] = Counter()
    found = []
    for group in groups:
        found.append(seen[group.domain] // STRETCH % HELD_OUT == 0)
        seen[group.domain] += 1
    return np.array(found)


def tables(groups: Sequence[Rows]) -> tuple[Array, Array, Array]:
    """Which passages are a question's own, answer it, and count as wrong; bool (questions, passages).

    A passage that also stands elsewhere as an answer of the question does not count as wrong there.
    """
    passages = [passage for group in groups for passage in group.passages]
    owner = np.repeat(np.arange(len(groups)), [len(group.passages) for group in groups])
    own = owner[None, :] == np.arange(len(groups))[:, None]
    answers = np.concatenate([[place in group.answers for place in range(len(group.passages))] for group in groups])
    right = own & answers[None, :]
    keys = {passage: number for number, passage in enumerate(dict.fromkeys(passages))}
    key = np.array([keys[passage] for passage in passages])
    wrong = np.stack([~np.isin(key, key[row]) for row in right])
    return own, right, wrong
