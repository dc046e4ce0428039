"""The layers that ``tune_encoder.py`` tunes, what is read off them, and the loss; in torch.

The score of a passage is a sum of the late interaction of its tokens with the question's, of the best ``provides`` of its
sentences, and of the best cosine of their vectors. The loss is the cross entropy of each answer among all passages of a
step, plus a log loss in which answers have half of the weight, plus the distance of the vectors from the original ones.
The pair head has both losses among the sentences of its question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import bert_graph
import pair_head
from bert_torch import (
    EXTRA,
    FAR,
    alike,
    answers_loss,
    copied_layers,
    half_precision,
    linear,
    padded,
    padded_layer,
    tensor_of,
)
from command import Array
from semclass.core.errors import import_extra
from semclass.core.types import IntArray
from semclass.encoders.onnx_encoder import PASSAGE, QUESTION
from tuning_texts import Rows, Texts, pairs_of, tables

NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Recipe:
    """Settings of the tuning: first guesses, and what one comparison on domains that were left out chose (`alike`)."""

    steps: int = 2000
    block: int = 16  # questions of squad that follow one another, which share sentences, in each step
    contrast: int = 4  # and of contrast
    echoes: int = 3  # of echoes
    languages: int = 0  # of other languages, each drawn as often as any other
    parallel: int = 0  # sentences in another language, each with the same in English
    others: int = 6  # and of all other domains, each drawn by the root of its number of questions
    further: int = 24  # and texts that stand by themselves
    rate: float = 1.5e-4  # peak learning rate of the layers
    head_rate: float = 1e-3  # and of the rest
    weight_decay: float = 0.01
    dropout: float = 0.05  # inside a layer
    head_dropout: float = 0.2  # inside the pair head
    piece_dropout: float = 0.1  # chance that the pair head does not see a word piece
    unrelated: int = 2  # sentences of other questions that the pair head sees beside those of a question
    dim: int = 128  # dimensions of token vectors
    provided: int = 64  # of `asks` and `provides`
    expected: int = 4  # vectors of what a question expects
    distance: float = 10.0  # weight of the distance from the original vectors
    relations: float = 20.0  # and of the squared difference of their inner products
    alike: float = 0.0  # weight of the cross entropy of answers by the cosine of vectors
    sharpness: float = 20.0  # what that cosine is multiplied with
    apart: float = 0.1  # weight in the log loss of passages of other questions; those of the same have 1
    hardness: float = 4.0  # a wrong sentence weighs exp(hardness * its share of the question's idf) in its log loss
    averaged: float = 0.4  # share of the steps, at the end, whose weights are averaged


class Network:
    """Tuned layers, and what is read off them, as torch parameters by name; layers as in the encoder's weights file."""

    def __init__(
        self,
        weights: Mapping[str, Array],
        config: bert_graph.BertConfig,
        layers: range,
        recipe: Recipe,
        seed: int,
        device: str = "cpu",
        *,
        prefixed: bool = False,
    ) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(seed)
        self.device, self.put = device, partial(tensor_of, device=device)
        self.rng = np.random.default_rng(seed)
        self.config, self.layers, self.recipe, self.seed, self.training = config, layers, recipe, seed, False
        self.views = bert_graph.Views.of_depth(config.num_hidden_layers, prefixed=prefixed)
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
        self.parameters = {name: value.to(device, copy=True).requires_grad_() for name, value in found.items()}

    def drop(self, values: Any, chance: float) -> Any:
        """Dropout, while training."""
        return self.torch.nn.functional.dropout(values, chance, self.training)

    def read(self, texts: Texts, rows: IntArray, kind: int) -> dict[str, Any]:
        """Read n texts: ``pooled`` and ``both`` (n, dim), ``tokens`` (n, longest, dim), 0 where not ``inside``."""
        torch = self.torch
        taken, ids = texts.take(rows, kind)
        back, offsets = taken.lengths(), taken.offsets
        parts, longest = alike(back, self.device), int(back.max())
        drop = partial(self.drop, chance=self.recipe.dropout)
        read, layers = [], []
        for some in parts:
            at, there = padded(offsets, some)
            states = texts.states[self.put(taken.values[at])].float() + self.parameters["marks"][kind]
            present = self.put(there)[..., None]
            far = torch.where(present, 0.0, FAR)[:, None, None, :, 0]
            count = present.sum(1)
            firsts, means = [], []
            begins = self.put(np.minimum(1, back[some] - 1))  # of first word pieces
            with half_precision(self.device):
                for index in self.layers:
                    states = padded_layer(self.parameters, self.config, index, states, far, drop)
                    if index + 1 in self.views.mean_layers:
                        means.append((states * present).sum(1).float() / count)
                    if index + 1 in self.views.first_token_layers:
                        firsts.append(states[torch.arange(len(some)), begins].float())
            states = states.float() * present
            read.append(torch.nn.functional.pad(states, (0, 0, 0, longest - at.shape[1])))
            layers.append(torch.cat([*means, *firsts], 1))
        again = self.put(np.argsort(np.concatenate(parts)))
        table, _ = padded(offsets, np.arange(len(back)))
        count, at = self.put(back)[:, None], self.put(np.arange(longest))
        gathered = torch.cat(read).index_select(0, again)
        pooled = torch.nn.functional.normalize(gathered.sum(1) / count, dim=-1)
        inside = (at > 0) & (at < count - 1)
        mean = (gathered * inside[..., None]).sum(1) / inside.sum(1, keepdim=True).clamp(min=1)
        tokens = torch.nn.functional.normalize(linear(self.parameters, gathered, "tokens"), dim=-1, eps=1e-6)
        found = {"pooled": pooled, "tokens": tokens * inside[..., None], "inside": inside, "lengths": back}
        found["both"] = torch.cat([gathered[:, 0], mean], -1)
        found["layers"] = torch.cat(layers).index_select(0, again)
        found["ids"] = self.put(ids[table]).masked_fill(~inside, -1)
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
            lengths = texts.ids.lengths()[rows]
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
        identity = {name: value.to(self.device) for name, value in identity.items()}
        kept, self.parameters = self.parameters, {**self.parameters, **identity}
        found = self.read(texts, rows, PASSAGE)
        self.parameters = kept
        return found["tokens"][found["inside"]] * self.config.hidden_size**0.5

    def scores(
        self, texts: Texts, groups: Sequence[Rows], further: tuple[IntArray, IntArray] = (NONE, NONE)
    ) -> tuple[Any, dict[str, Any]]:
        """Scores of all passages for all questions, (questions, passages), and their vectors beside the original ones.

        Of further texts, read as questions and as passages, ``further`` has what was read.
        """
        torch, p = self.torch, self.parameters
        asked = np.array([group.question for group in groups])
        passages = [passage for group in groups for passage in group.passages]
        given = np.array(list(dict.fromkeys(row for passage in passages for row in passage)))
        place = {row: number for number, row in enumerate(given.tolist())}
        question, whole = parted(self.read(texts, np.append(asked, further[0]), QUESTION), len(asked))
        sentence, kept_only = parted(self.read(texts, np.append(given, further[1]), PASSAGE), len(given))
        wanted = torch.cat([question["tokens"], question["expects"]], 1)
        with half_precision(self.device):
            cosines = torch.einsum("qld,std->qlst", wanted, sentence["tokens"]).float()
        best = cosines.masked_fill(~sentence["inside"], -1.0).amax(-1)
        longest = max(map(len, passages))
        table = torch.tensor(
            [[place[passage[min(at, len(passage) - 1)]] for at in range(longest)] for passage in passages],
            device=self.device,
        )

        def of_passages(values: Any) -> Any:
            """The largest value of a passage's sentences."""
            return values[..., table].amax(-1)

        most = of_passages(best)
        words = question["tokens"].shape[1]
        late = (question["weights"][:, :, None] * most[:, :words]).sum(1)
        expected = (p["share.expected"][None, :, None] * most[:, words:]).sum(1)
        provided = of_passages(linear(p, question["both"], "asks") @ linear(p, sentence["both"], "provides").T)
        similar = of_passages(question["pooled"] @ sentence["pooled"].T)
        score = p["share.cosine"] * late + expected + provided + p["share.sentence"] * similar.detach() + p["bias"]
        kept = {
            "similar": similar,
            "question": question["pooled"],
            "sentence": sentence["pooled"],
            "question.original": texts.original[asked],
            "sentence.original": texts.original[given],
            "unlike": question["layers"] - texts.layers[asked].float(),
            "read": (question, sentence, place),
            "further": (whole, kept_only),
        }
        return score, kept

    def pair_loss(
        self, texts: Texts, groups: Sequence[Rows], question: Mapping[str, Any], sentence: Mapping[str, Any], place: Any
    ) -> Any:
        """The losses of the pair head over the passages of one sentence of some groups."""
        pairs, answers = pairs_of(groups, place, self.recipe.unrelated, self.rng)
        asked, given = self.taken(question, pairs[:, 0]), self.taken(sentence, pairs[:, 1])
        logits, overlap = self.pair_logits(texts, asked, given)
        return answers_loss(logits, self.put(answers), self.put(pairs[:, 0]), overlap, self.recipe.hardness)

    def taken(self, texts: Mapping[str, Any], rows: IntArray) -> dict[str, Any]:
        """Inputs of the pair head for some texts, without columns that are padding in all of them."""
        torch = self.torch
        length = int(texts["lengths"][rows].max(initial=3))
        found = {name: texts[name][rows][:, :length] for name in ("tokens", "inside", "ids")}
        if self.training:
            seen = torch.rand(found["inside"].shape, device=self.device) >= self.recipe.piece_dropout
            seen |= ~(found["inside"] & seen).any(1, keepdim=True)  # of a text, some piece stays
            found["inside"] = found["inside"] & seen
            found["tokens"] = found["tokens"] * seen[..., None]
            found["ids"] = found["ids"].masked_fill(~seen, -1)
        if "weights" in texts:
            share = texts["weights"][rows][:, :length] * found["inside"]
            found["weights"] = share / share.sum(1, keepdim=True).clamp(min=1e-6)
            found["expects"] = texts["expects"][rows]
        return found

    def pair_logits(self, texts: Texts, asked: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Logits of pairs, and the share of the question's idf whose pieces the sentence has."""
        idf = self.put(texts.idf)[asked["ids"].clamp(min=0)] * (asked["ids"] >= 0)
        exact = ((asked["ids"][:, :, None] == given["ids"][:, None, :]) & (idf > 0)[:, :, None]).float()
        overlap = (idf * exact.amax(2)).sum(1) / idf.sum(1).clamp(min=1e-6)
        drop = partial(self.drop, chance=self.recipe.head_dropout)
        return pair_head.logits(self.parameters, asked, given, exact, idf, drop), overlap

    def loss(self, texts: Texts, groups: Sequence[Rows], further: IntArray) -> Any:
        """The loss of a step; see the top of this file."""
        torch, recipe = self.torch, self.recipe
        functional = torch.nn.functional
        half = len(further) // 2
        score, kept = self.scores(texts, groups, (further[:half], further[half:]))
        own, right, other = map(self.put, tables(groups))
        against = score.masked_fill(~other, FAR).logsumexp(1, keepdim=True)
        listwise = ((functional.softplus(against - score) * right).sum(1) / right.sum(1)).mean()
        similar = recipe.sharpness * kept["similar"]
        against = similar.masked_fill(~other, FAR).logsumexp(1, keepdim=True)
        alike = ((functional.softplus(against - similar) * right).sum(1) / right.sum(1)).mean()
        weight = torch.where(own, 1.0, recipe.apart) * other
        pointwise = (functional.softplus(-score) * right).sum() / right.sum()
        pointwise = pointwise + (functional.softplus(score) * weight).sum() / weight.sum()
        question, sentence = kept["question"], kept["sentence"]
        originals = kept["question.original"], kept["sentence.original"]
        near = torch.cat([(question * originals[0]).sum(1), (sentence * originals[1]).sum(1)])
        whole, kept_only = kept["further"]
        alone = torch.cat([whole["pooled"], kept_only["pooled"]]) * texts.original[further]
        distance = 0.7 * (1 - near).mean() + 0.3 * (1 - alone.sum(1)).mean()
        unlike = torch.cat([whole["layers"] - texts.layers[further[:half]].float(), kept["unlike"]])
        # of the means of layers, in their standard deviations
        likeness = ((unlike / texts.deviation) ** 2).mean()
        relations = ((question @ sentence.T - originals[0] @ originals[1].T) ** 2).mean()
        return (
            listwise
            + pointwise
            + recipe.alike * alike
            + self.pair_loss(texts, groups, *kept["read"])
            + recipe.distance * distance
            + recipe.relations * relations
            + likeness
        )


def parted(read: Mapping[str, Any], count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """States of the first `count` texts and of the others, each without columns that are padding in all of them."""
    longest = read["lengths"][:count].max()
    first = {name: values[:count] for name, values in read.items()}
    first |= {name: first[name][:, :longest] for name in ("tokens", "inside", "ids", "weights") if name in first}
    return first, {name: values[count:] for name, values in read.items()}
