"""Makes an encoder of any sentence-transformers model, from a hub or from a local folder (extra ``hub``).

You must train heads for such an encoder, by the same scripts as the shipped heads, with ``--encoder
hub:NAME_OR_FOLDER``. Vectors keep the length that the model returns, and an index compares them by their cosine.
Instructions that some models need before a text ("query: ...") are not added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_texts
from semclass.core.errors import InputError, import_extra
from semclass.core.types import Encoding, FloatArray, ragged
from semclass.encoders.batching import BATCH, check_views, pieces_of, steps, term_flags


@dataclass(frozen=True)
class SentenceTransformerEncoder:
    """A sentence-transformers model with the views that heads read. Threads may share one instance.

    The views are ``pooled`` (the model's own vector, of any norm), ``layers`` and ``tokens`` (the last layer). ``layers``
    holds means of the layers at a third, two thirds, five sixths and the end, and first-token vectors at two thirds and
    the end. A copy of the model with other pooling, or without scaling to length 1, has another fingerprint.
    """

    model: Any
    fingerprint: str  #: SHA-256 of weights, vocabulary, modules and their settings, cut to 32 digits
    views: Mapping[str, int]
    special: tuple[int, int]  #: number of special tokens before and after the text

    @classmethod
    def load(cls, name: str) -> SentenceTransformerEncoder:
        """Load a model by its hub name or local folder.

        Raises a MissingExtraError if sentence-transformers is not installed: ``pip install "semclass[hub]"``; an
        InputError if the model cannot be loaded, or is not a transformer with hidden states.
        """
        library = import_extra("sentence_transformers", "hub")
        try:
            model = library.SentenceTransformer(name, device="cpu")
        except (OSError, ValueError) as error:
            raise InputError(f"the sentence-transformers model {name!r} cannot be loaded: {error}") from error
        model.eval()
        config = getattr(getattr(model[0], "auto_model", None), "config", None)
        hidden = getattr(config, "hidden_size", None)
        if hidden is None:
            raise InputError(f"{name!r} is not a transformer with hidden states; choose another model")
        digest = hashlib.sha256()
        for key, tensor in sorted(model.state_dict().items()):
            if ".pooler." not in key:  # nothing reads it; many folders lack it, and it is then made up at random
                digest.update(key.encode())
                digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        for piece, place in sorted(model.tokenizer.get_vocab().items()):
            digest.update(f"{piece}\t{place}\n".encode())
        digest.update("\n".join(_steps(model)).encode())
        pooled = int(model.encode(["dimension"]).shape[1])
        return cls(
            model=model,
            fingerprint=digest.hexdigest()[:32],
            views={"pooled": pooled, "layers": 6 * int(hidden), "tokens": int(hidden)},
            special=_special_places(model.tokenizer),
        )

    @cached_property
    def is_term(self) -> npt.NDArray[np.bool_]:
        """Whether each word piece counts as a term, bool of shape (vocabulary,). Terms have a letter or a digit."""
        return term_flags(self.model.tokenizer.get_vocab(), self.model.tokenizer.all_special_tokens)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Text of each word piece, by id."""
        return pieces_of(self.model.tokenizer.get_vocab())

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        """Encode texts. See :meth:`semclass.Encoder.encode`."""
        check_views(views, self.views)
        checked = check_texts(texts)
        tokenizer, longest = self.model.tokenizer, self.model.max_seq_length
        terms = [
            np.array(tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"], np.int32)
            for text in checked
        ]
        if not views:
            return Encoding(ragged(terms, np.zeros(0, np.int32)))
        rows = {name: np.zeros((len(checked), self.views[name]), np.float32) for name in ("pooled", "layers")}
        none = np.zeros((0, self.views["tokens"]), np.float32)
        tokens: list[FloatArray] = [none] * len(checked)
        order = np.argsort([len(row) for row in terms], kind="stable")
        for start in steps(range(0, len(order), BATCH)):
            batch = order[start : start + BATCH].tolist()
            for place, found in zip(batch, self._run([checked[place] for place in batch]), strict=True):
                rows["pooled"][place], rows["layers"][place], tokens[place] = found
        given: dict[str, Any] = {**rows, "tokens": ragged(tokens, none)}
        limit = None if longest is None else int(longest) - sum(self.special)
        return Encoding(ragged(terms, np.zeros(0, np.int32)), **{name: given[name] for name in views}, limit=limit)

    def _run(self, texts: list[str]) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Pooled vector, layer features and token vectors of each text of one batch."""
        torch = import_extra("torch", "hub")
        # the older name of the same method is on its way out
        features = getattr(self.model, "preprocess", self.model.tokenize)(texts)
        with torch.no_grad():
            features = {
                key: value.to(self.model.device) if hasattr(value, "to") else value for key, value in features.items()
            }
            given = {name: features[name] for name in ("input_ids", "attention_mask")}
            states = self.model[0].auto_model(**given, output_hidden_states=True).hidden_states
            pooled = self.model(dict(features))["sentence_embedding"].cpu().numpy().astype(np.float32)
        masks = features["attention_mask"].cpu().numpy().astype(bool)
        stacked = np.stack([state.cpu().numpy() for state in states])
        last = len(states) - 1
        third, two_thirds, sixths = (round(last * part) for part in (1 / 3, 2 / 3, 5 / 6))
        before, after = self.special
        rows = []
        for place, mask in enumerate(masks):
            state = stacked[:, place, mask]
            means = [state[layer].mean(axis=0) for layer in (third, two_thirds, sixths, last)]
            first = min(before, state.shape[1] - 1)  # a text without any piece has a special token there
            firsts = [state[two_thirds, first], state[last, first]]
            inner = state[last, before : state.shape[1] - after]
            unit = inner / np.maximum(np.linalg.norm(inner, axis=1, keepdims=True), 1e-12)
            rows.append((pooled[place], np.concatenate(means + firsts), unit.astype(np.float32)))
        return rows


def _steps(model: Any) -> list[str]:
    """Computation of a model beyond its weights, in words that do not change with the version of its library."""
    steps = [f"reads {model.max_seq_length}"]
    for module in model:
        # the mode is an attribute, or what a method makes of several
        pools = getattr(module, "pooling_mode", None) or getattr(module, "get_pooling_mode_str", lambda: "")()
        steps.append(f"{type(module).__name__} {pools if isinstance(pools, str) else '+'.join(pools)}".strip())
    return steps


def _special_places(tokenizer: Any) -> tuple[int, int]:
    """How many special tokens a tokeniser puts before and after a text."""
    inner = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    before = whole.index(inner[0])
    return before, len(whole) - before - len(inner)
