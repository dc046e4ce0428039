"""Tune the encoder's upper layers, so that one reading of a text gives all that ranking looks at.

    python training/tune_encoder.py --data DATA --encoder models/encoder --out tuned.npz

The lower part stays as it is. The layers above are copied and tuned on the questions of ``answer_groups.py``. Of questions
they read every word piece; of passages, sentence by sentence, only those of ``kept_pieces.py``, three in five. They give

- ``pooled``: a unit vector, the mean over all pieces read, taught by the original encoder in float32;
- ``tokens``: a unit vector for each piece; a question also has a weight for each, and some vectors of what it expects;
- ``asks`` of a question, ``provides`` of a sentence: their inner product tells whether the sentence gives what is asked.

A pair head (``pair_head.py``) that compares the token vectors of a question and a sentence is tuned beside them.

The score of a passage is a sum of the late interaction of its tokens with the question's, of the best ``provides`` of its
sentences, and of the best cosine of their vectors. The loss is the cross entropy of each answer among all passages of a
step, plus a log loss in which answers have half of the weight, plus the distance of the vectors from the original ones.
The pair head has both losses among the sentences of its question. Some groups of each domain are held out (``held_out``).
Writes every weight, for ``export_encoder.py --tuned``. Needs torch.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

import bert_graph
import pair_head
from answer_groups import Group, other_texts, read_groups
from bert_torch import EXTRA, copied_layers, feed_forward, fit, linear
from command import make_parser, run, seconds_so_far
from export_encoder import SMOOTHING, find_source
from kept_pieces import kept_pieces
from semclass.core import artifacts
from semclass.core.errors import import_extra
from semclass.core.types import IntArray, Ragged, padded
from semclass.encoders.batching import batches_by_length
from semclass.encoders.onnx_encoder import STATES, OnnxEncoder
from semclass.encoders.token_encoder import QUESTION, SENTENCE
from semclass.scoring.bm25 import statistics
from semclass.scoring.postings import count_terms

Array = npt.NDArray[Any]

FAR = pair_head.FAR
PAIRED = ("squad", "wikiqa", "contrast")  # domains of questions that the pair head learns from
STRETCH, HELD_OUT = (
    50,
    10,
)  # groups of a domain that follow one another, and which stretches of them are held out: 0, 10 ...


@dataclass(frozen=True)
class Recipe:
    """Settings of the tuning: first guesses; there was no search."""

    epochs: int = 1  # passes over the steps
    steps: int = 1200
    block: int = 16  # questions of squad that follow one another, which share sentences, in each step
    contrast: int = 5  # and of contrast
    others: int = 5  # and of all other domains, each drawn by the root of its number of questions
    further: int = 16  # and texts that stand by themselves
    rate: float = 2e-4  # peak learning rate of the layers
    head_rate: float = 1e-3  # and of the rest
    weight_decay: float = 0.01
    dropout: float = 0.05  # inside a layer
    dim: int = 128  # dimensions of token vectors
    provided: int = 64  # of `asks` and `provides`
    expected: int = 4  # vectors of what a question expects
    distance: float = 6.0  # weight of the distance from the original vectors
    relations: float = 10.0  # and of the squared difference of their inner products
    apart: float = 0.1  # weight in the log loss of passages of other questions; those of the same have 1
    pairs: float = 1.0  # weight of the losses of the pair head
    hardness: float = 4.0  # a wrong sentence weighs exp(hardness * its share of the question's idf) in its log loss
    averaged: float = 0.4  # share of the steps, at the end, whose weights are averaged


@dataclass(frozen=True)
class Texts:
    """Distinct texts as the lower part reads them."""

    states: Ragged  # float16, special tokens included
    ids: IntArray  # word-piece ids of all of them, special tokens included
    kept: npt.NDArray[np.bool_]  # which of these are read of a passage
    original: Array  # unit vectors of the original encoder, float32 (n, dim)
    idf: Array  # of pieces over texts, 0 for what is no term, float32 (vocabulary,)

    @classmethod
    def read(cls, texts: Sequence[str], encoder: OnnxEncoder, original: onnxruntime.InferenceSession) -> Texts:
        """Encode texts; `original` is the encoder that they are to stay near."""
        first, last = encoder.special
        encoding = encoder.encode(texts, views=(STATES,))
        states = encoding.pieces(STATES)
        most = encoder.max_length - 2
        rows = [[first, *encoding.terms.row(row)[:most].tolist(), last] for row in range(len(texts))]
        ids = np.concatenate([np.array(row, np.int64) for row in rows])
        kept = kept_pieces(encoder.vocabulary)[ids]
        vectors = np.zeros((len(rows), encoder.views["pooled"]), np.float32)
        for batch in batches_by_length(states.lengths(), encoder.batch_size):
            some = Ragged(ids, states.offsets).take(batch)
            feeds = {
                "input_ids": padded(some, dtype=np.int64),
                "attention_mask": padded(some, dtype=np.int64).clip(0, 1),
            }
            vectors[batch] = original.run(["pooled"], feeds)[0]
        idf = statistics([count_terms(encoding.terms, encoder.is_term)]).idf.astype(np.float32)
        return cls(Ragged(states.values.astype(np.float16), states.offsets), ids, kept, vectors, idf)

    def take(self, rows: IntArray, kind: int) -> tuple[Ragged, Ragged]:
        """States and ids of the pieces that are read of some texts."""
        states = self.states.take(rows)
        ids = Ragged(self.ids, self.states.offsets).take(rows).values
        offsets = states.offsets
        if kind == SENTENCE:
            kept = Ragged(self.kept, self.states.offsets).take(rows).values
            offsets = np.concatenate([[0], np.cumsum(kept)])[offsets]
            states, ids = Ragged(states.values[kept], offsets), ids[kept]
        return states, Ragged(ids, offsets)


@dataclass(frozen=True)
class Rows:
    """A group by the rows of its texts."""

    domain: str
    question: int
    passages: tuple[tuple[int, ...], ...]
    answers: frozenset[int]


def rows_of(groups: Sequence[Group], further: Sequence[str]) -> tuple[list[str], list[Rows]]:
    """Distinct texts of groups and further ones, and the groups by their rows."""
    places: dict[str, int] = {}

    def at(text: str) -> int:
        return places.setdefault(text, len(places))

    found = [
        Rows(
            group.domain,
            at(group.question),
            tuple(tuple(map(at, passage)) for passage in group.passages),
            group.answers,
        )
        for group in groups
    ]
    for text in further:
        at(text)
    return list(places), found


class Network:
    """Tuned layers, and what is read off them, as torch parameters by name; layers as in the encoder's weights file."""

    def __init__(
        self, weights: Mapping[str, Array], config: bert_graph.BertConfig, layers: range, recipe: Recipe, seed: int
    ) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.config, self.layers, self.recipe, self.seed, self.training = config, layers, recipe, seed, False
        self.half = torch.cpu._is_avx512_bf16_supported()  # elsewhere products of bfloat16 take many times as long
        found = copied_layers(weights, layers)
        hidden = config.hidden_size
        found["marks"] = torch.zeros(2, hidden)
        found["weights.weight"], found["weights.bias"] = torch.zeros(1, hidden), torch.zeros(1)
        for name, rows, columns in (
            ("tokens", recipe.dim, hidden),
            ("asks", recipe.provided, 2 * hidden),
            ("provides", recipe.provided, 2 * hidden),
            ("expects", recipe.expected * recipe.dim, 2 * hidden),
        ):
            layer_ = torch.nn.Linear(columns, rows)
            found[f"{name}.weight"], found[f"{name}.bias"] = layer_.weight.detach(), layer_.bias.detach()
        for name in ("asks", "provides"):
            found[f"{name}.weight"] *= 0.02 * (6 * hidden) ** 0.5  # to begin near 0
        found["share.cosine"], found["share.sentence"] = torch.tensor(12.0), torch.tensor(6.0)
        found |= pair_head.start(recipe.dim)
        found["share.expected"], found["bias"] = torch.full((recipe.expected,), 0.5), torch.tensor(-10.0)
        self.parameters = {name: value.clone().requires_grad_() for name, value in found.items()}

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimiser, each with its peak rate."""
        inner = [value for name, value in self.parameters.items() if name.startswith("encoder.")]
        outer = [value for name, value in self.parameters.items() if not name.startswith("encoder.")]
        return [{"params": inner, "peak": self.recipe.rate}, {"params": outer, "peak": self.recipe.head_rate}]

    def drop(self, values: Any) -> Any:
        """Dropout, while training."""
        if not self.training:
            return values
        # 16 random bits a value are enough, and many times faster to draw than torch's
        drawn = self.rng.integers(0, 2**64, -(-values.numel() // 4), dtype=np.uint64).view(np.uint16)
        chance = self.recipe.dropout
        kept = self.torch.from_numpy(drawn[: values.numel()].reshape(values.shape) >= int(chance * 65536))
        return values * (kept / (1 - chance)).to(values.dtype)

    def layer(self, index: int, states: Any, parts: Sequence[tuple[Any, Any, Any]]) -> Any:
        """One transformer layer over packed texts, (total, hidden); `parts` are texts of like length, see `read`."""
        torch, prefix = self.torch, f"encoder.layer.{index}"
        heads, hidden = self.config.num_attention_heads, self.config.hidden_size
        names = (f"{prefix}.attention.self.{part}" for part in bert_graph.PARTS)
        stacked = torch.cat([linear(self.parameters, states, name) for name in names], 1)
        stacked = torch.cat([stacked, stacked.new_zeros(1, 3 * hidden)])
        contexts = []
        for place, mask, back in parts:
            count, length = place.shape
            taken = torch.nn.functional.embedding(place, stacked).view(count, length, 3, heads, -1)
            with torch.autocast("cpu", enabled=False):  # small products are faster in float32
                query, key, value = taken.permute(2, 0, 3, 1, 4).float()
                scores = (query @ key.transpose(-1, -2)) * key.shape[-1] ** -0.5
                context = scores.masked_fill(~mask[:, None, None, :], FAR).softmax(-1) @ value
            contexts.append(context.transpose(1, 2).reshape(count * length, hidden)[back])
        return feed_forward(self.parameters, prefix, states, torch.cat(contexts), self.config.layer_norm_eps, self.drop)

    def read(self, texts: Texts, rows: IntArray, kind: int) -> dict[str, Any]:
        """Read n texts: ``pooled`` and ``both`` (n, dim), ``tokens`` (n, longest, dim), 0 where not ``inside``."""
        torch = self.torch
        order = np.argsort(texts.states.lengths()[rows], kind="stable")
        taken, ids = texts.take(rows[order], kind)
        lengths, offsets, total = taken.lengths(), taken.offsets, int(taken.offsets[-1])
        parts = []
        for chosen in np.array_split(np.arange(len(rows)), max(1, min(4, len(rows) // 4))):
            inside = np.arange(lengths[chosen].max()) < lengths[chosen][:, None]
            place = np.where(inside, offsets[chosen][:, None] + np.arange(inside.shape[1]), total)
            parts.append(tuple(torch.from_numpy(item) for item in (place, inside, np.flatnonzero(inside))))
        states = torch.from_numpy(taken.values.astype(np.float32)) + self.parameters["marks"][kind]
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            for index in self.layers:
                states = self.layer(index, states, parts)
        states = states.float()
        places = np.arange(lengths.max())
        table = np.empty((len(rows), len(places)), np.int64)
        table[order] = np.where(places < lengths[:, None], offsets[:-1, None] + places, total)
        back = np.empty(len(rows), np.int64)
        back[order] = lengths
        count = torch.from_numpy(back)[:, None]
        at = torch.arange(len(places))
        gathered = torch.nn.functional.embedding(
            torch.from_numpy(table), torch.cat([states, states.new_zeros(1, states.shape[1])])
        )
        pooled = torch.nn.functional.normalize(gathered.sum(1) / count, dim=-1)
        inside = (at > 0) & (at < count - 1)
        mean = (gathered * inside[..., None]).sum(1) / inside.sum(1, keepdim=True).clamp(min=1)
        tokens = torch.nn.functional.normalize(linear(self.parameters, gathered, "tokens"), dim=-1, eps=1e-6)
        found = {"pooled": pooled, "tokens": tokens * inside[..., None], "inside": inside}
        found["both"] = torch.cat([gathered[:, 0], mean], -1)
        found["ids"] = torch.from_numpy(np.append(ids.values, -1)[table]).masked_fill(~inside, -1)
        if kind == QUESTION:
            weights = linear(self.parameters, gathered, "weights")[..., 0]
            found["weights"] = weights.masked_fill(~inside, FAR).softmax(1)
            expects = linear(self.parameters, found["both"], "expects").view(len(rows), self.recipe.expected, -1)
            found["expects"] = torch.nn.functional.normalize(expects, dim=-1)
        return found

    def start_tokens(self, texts: Texts) -> None:
        """Let the token vectors begin as the principal components of states."""
        torch = self.torch
        rows = self.rng.permutation(len(texts.original))[:300]
        with torch.no_grad():
            lengths = texts.states.lengths()[rows]
            found = [self._states(texts, part) for part in np.array_split(rows[np.argsort(lengths)], 6)]
            states = torch.cat(found).double()
            mean = states.mean(0)
            axes = torch.linalg.svd(states - mean, full_matrices=False)[2][: self.recipe.dim]
            self.parameters["tokens.weight"].copy_(axes)
            self.parameters["tokens.bias"].copy_(-(axes @ mean))

    def _states(self, texts: Texts, rows: IntArray) -> Any:
        """States of the pieces of some texts, read as sentences, packed."""
        torch = self.torch
        identity = {"tokens.weight": torch.eye(self.config.hidden_size), "tokens.bias": torch.zeros(1)}
        kept, self.parameters = self.parameters, {**self.parameters, **identity}
        found = self.read(texts, rows, SENTENCE)
        self.parameters = kept
        return found["tokens"][found["inside"]] * self.config.hidden_size**0.5

    def scores(self, texts: Texts, groups: Sequence[Rows]) -> tuple[Any, dict[str, Any]]:
        """Scores of all passages for all questions, (questions, passages), and their vectors beside the original ones."""
        torch, p = self.torch, self.parameters
        asked = np.array([group.question for group in groups])
        passages = [passage for group in groups for passage in group.passages]
        given = np.array(list(dict.fromkeys(row for passage in passages for row in passage)))
        place = {row: number for number, row in enumerate(given.tolist())}
        question, sentence = self.read(texts, asked, QUESTION), self.read(texts, given, SENTENCE)
        wanted = torch.cat([question["tokens"], question["expects"]], 1)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            cosines = torch.einsum("qld,std->qlst", wanted, sentence["tokens"]).float()
        best = cosines.masked_fill(~sentence["inside"], -1.0).amax(-1)
        longest = max(map(len, passages))
        table = torch.tensor(
            [[place[passage[min(at, len(passage) - 1)]] for at in range(longest)] for passage in passages]
        )

        def of_passages(values: Any) -> Any:
            """The largest value of a passage's sentences."""
            return values[..., table].amax(-1)

        most = of_passages(best)
        words = question["tokens"].shape[1]
        late = (question["weights"][:, :, None] * most[:, :words]).sum(1)
        expected = (p["share.expected"][None, :, None] * most[:, words:]).sum(1)
        provided = of_passages(linear(p, question["both"], "asks") @ linear(p, sentence["both"], "provides").T)
        similar = of_passages(question["pooled"].detach() @ sentence["pooled"].detach().T)
        score = p["share.cosine"] * late + expected + provided + p["share.sentence"] * similar + p["bias"]
        kept = {
            "question": question["pooled"],
            "sentence": sentence["pooled"],
            "question.original": torch.from_numpy(texts.original[asked]),
            "sentence.original": torch.from_numpy(texts.original[given]),
            "pairs": self.pair_loss(texts, groups, question, sentence, place),
        }
        return score, kept

    def pair_loss(
        self, texts: Texts, groups: Sequence[Rows], question: Mapping[str, Any], sentence: Mapping[str, Any], place: Any
    ) -> Any:
        """The losses of the pair head over the passages of one sentence of some groups."""
        torch, functional = self.torch, self.torch.nn.functional
        pairs, answers = pairs_of(groups, place)
        asked, given = taken(question, pairs[:, 0]), taken(sentence, pairs[:, 1])
        logits, overlap = self.pair_logits(texts, asked, given)
        right = torch.from_numpy(answers)
        others = torch.from_numpy((pairs[:, :1] == pairs[:, 0]) & ~answers)
        against = logits[None, :].masked_fill(~others, FAR).logsumexp(1)
        listwise = functional.softplus(against - logits)[right].mean()
        hard = torch.exp(self.recipe.hardness * overlap) * ~right
        share = (right / right.sum() + hard / hard.sum()) / 2
        pointwise = functional.binary_cross_entropy_with_logits(logits, right.float(), reduction="none")
        return listwise + (pointwise * share).sum()

    def pair_logits(self, texts: Texts, asked: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Logits of pairs, and the share of the question's idf whose pieces the sentence has."""
        torch = self.torch
        idf = torch.from_numpy(texts.idf)[asked["ids"].clamp(min=0)] * (asked["ids"] >= 0)
        exact = ((asked["ids"][:, :, None] == given["ids"][:, None, :]) & (idf > 0)[:, :, None]).float()
        overlap = (idf * exact.amax(2)).sum(1) / idf.sum(1).clamp(min=1e-6)
        return pair_head.logits(self.parameters, asked, given, exact, idf, self.drop), overlap

    def loss(self, texts: Texts, groups: Sequence[Rows], further: IntArray) -> Any:
        """The loss of a step; see the top of this file."""
        torch, recipe = self.torch, self.recipe
        functional = torch.nn.functional
        score, kept = self.scores(texts, groups)
        own, right, other = (torch.from_numpy(item) for item in tables(groups))
        against = score.masked_fill(~other, FAR).logsumexp(1, keepdim=True)
        listwise = ((functional.softplus(against - score) * right).sum(1) / right.sum(1)).mean()
        weight = torch.where(own, 1.0, recipe.apart) * other
        pointwise = (functional.softplus(-score) * right).sum() / right.sum()
        pointwise = pointwise + (functional.softplus(score) * weight).sum() / weight.sum()
        question, sentence = kept["question"], kept["sentence"]
        originals = kept["question.original"], kept["sentence.original"]
        near = torch.cat([(question * originals[0]).sum(1), (sentence * originals[1]).sum(1)])
        alone = self.read(texts, further, SENTENCE)["pooled"] * torch.from_numpy(texts.original[further])
        distance = 0.7 * (1 - near).mean() + 0.3 * (1 - alone.sum(1)).mean()
        relations = ((question @ sentence.T - originals[0] @ originals[1].T) ** 2).mean()
        return (
            listwise
            + pointwise
            + recipe.pairs * kept["pairs"]
            + recipe.distance * distance
            + recipe.relations * relations
        )


def pairs_of(groups: Sequence[Rows], place: Mapping[int, int]) -> tuple[IntArray, Array]:
    """Pairs (n, 2) of a group's number and the place of a passage of one sentence, and which answer, bool (n,)."""
    found = [
        (number, place[passage[0]], at in group.answers)
        for number, group in enumerate(groups)
        if group.domain in PAIRED
        for at, passage in enumerate(group.passages)
        if len(passage) == 1
    ]
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, :2], table[:, 2] > 0


def taken(texts: Mapping[str, Any], rows: IntArray) -> dict[str, Any]:
    """What the pair head sees of some texts, without columns that are padding in all of them."""
    length = int(np.flatnonzero(texts["inside"][rows].any(0).numpy()).max(initial=1)) + 2
    names = [name for name in ("tokens", "inside", "ids", "weights") if name in texts]
    found = {name: texts[name][rows][:, :length] for name in names}
    return found | ({"expects": texts["expects"][rows]} if "expects" in texts else {})


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


def batches(groups: Sequence[Group], recipe: Recipe, rng: np.random.Generator) -> Iterator[list[Group]]:
    """Groups of each step; blocks of squad in random order, cut elsewhere in each pass."""
    by_domain: dict[str, list[Group]] = {}
    for group in groups:
        by_domain.setdefault(group.domain, []).append(group)
    squad, contrast = by_domain.pop("squad"), by_domain.pop("contrast", [])
    names = list(by_domain)
    chance = np.sqrt([len(by_domain[name]) for name in names])
    starts: list[int] = []
    for _ in range(recipe.steps):
        if not starts:
            cuts = np.arange(int(rng.integers(recipe.block)), len(squad) - recipe.block, recipe.block)
            starts = rng.permutation(cuts).tolist()
        start = starts.pop()
        chosen = squad[start : start + recipe.block]
        if contrast:
            chosen = chosen + [contrast[row] for row in rng.integers(len(contrast), size=recipe.contrast)]
        for name in rng.choice(names, recipe.others, p=chance / chance.sum()):
            chosen.append(by_domain[name][int(rng.integers(len(by_domain[name])))])
        yield chosen


def tune(network: Network, texts: Texts, steps: Sequence[Sequence[Rows]]) -> dict[str, Array]:
    """Tune all weights on the groups of each step."""
    recipe, rng = network.recipe, np.random.default_rng(network.seed)
    network.start_tokens(texts)
    network.training = True
    count = len(texts.original)
    return fit(
        network,
        recipe,
        len(steps),
        lambda: steps,
        lambda step: network.loss(texts, step, rng.integers(count, size=recipe.further)),
    )


def original_encoder(
    weights: dict[str, Array], config: bert_graph.BertConfig, threads: int
) -> onnxruntime.InferenceSession:
    """The original encoder in float32."""
    views = bert_graph.Views.of_depth(config.num_hidden_layers)
    return bert_graph.open_model(bert_graph.BertWriter(weights, config, None, SMOOTHING).write(views)[0], threads)


def train(arguments: argparse.Namespace) -> None:
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    groups = read_groups(arguments.data, arguments.seed)
    learnt = ~held_out(groups)
    learnt &= np.array([group.domain not in arguments.left_out for group in groups])
    recipe = Recipe(steps=arguments.steps)
    rng = np.random.default_rng(arguments.seed)
    drawn = list(batches([group for group, kept in zip(groups, learnt, strict=True) if kept], recipe, rng))
    used = list({id(group): group for step in drawn for group in step}.values())
    names, rows = rows_of(used, other_texts(arguments.data, groups, arguments.further, arguments.seed))
    place = {id(group): row for group, row in zip(used, rows, strict=True)}
    texts = Texts.read(names, encoder, original_encoder(weights, config, arguments.threads))
    print(f"{len(rows)} questions, {len(names)} texts, {len(texts.ids)} pieces, {seconds_so_far()} s", flush=True)
    network = Network(weights, config, range(layer, config.num_hidden_layers), recipe, arguments.seed)
    found = tune(network, texts, [[place[id(group)] for group in step] for step in drawn])
    found["idf"] = texts.idf
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.out, **found)
    print(f"{arguments.out}  {asdict(recipe)}  {seconds_so_far()} s")


def main() -> None:
    parser = make_parser(__doc__, "encoder", "source", "threads", "seed")
    parser.add_argument("--data", type=Path, required=True, help="data folder; see answer_groups.py")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--further", type=int, default=3000, help="further texts of each source")
    parser.add_argument("--left-out", nargs="*", default=[], help="domains that are not learnt from")
    parser.add_argument("--out", type=Path, default=Path("tuned.npz"))
    run(parser, train)


if __name__ == "__main__":
    main()
