"""Encodes passages for ranking, and labels them by heads of your own, before any question is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_text
from semclass.core.errors import InputError
from semclass.core.types import Encoder, Encoding, FloatArray, Passage, Ragged, chained
from semclass.encoders.batching import CHUNK
from semclass.encoders.onnx_encoder import fingerprint_of, for_passages, open_models
from semclass.encoders.sentences import MAX_CHARACTERS, Sentences
from semclass.heads.passages import PassageClassifier
from semclass.heads.sparse import SparseHead, no_sparse
from semclass.heads.texts import TextModel, classify_all, open_encoder, open_heads
from semclass.index.candidates import Evidence, no_rows
from semclass.scoring.vectors import Codebooks


@dataclass(frozen=True)
class PassageFeatures(Evidence):
    """All outputs for n passages. Vectors of sentences are not scaled to unit length."""

    words: Ragged  #: number of words of each sentence without the title, float32
    probabilities: FloatArray  #: P(class | passage), (n, n_classes)
    sparse: Ragged  #: learnt words of title and text, see :meth:`semclass.heads.sparse.SparseHead.encode`


HEADING_WORDS = 24
"""Most words of a path of headings that the encoder reads before each sentence."""


@dataclass(frozen=True)
class PassageEncoder:
    """Encodes and classifies passages. Threads may share one instance."""

    classifier: PassageClassifier  #: the passage heads, with their encoder
    codebooks: Codebooks | None  #: compress vectors to few bytes; None: an index stores them in int8
    heads: Mapping[str, TextModel] = field(default_factory=dict)  #: heads of your own, by the field that each fills
    sparse: SparseHead | None = None  #: weighs learnt words; None: there are two signals

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        encoder: Encoder | str | Path | None = None,
        heads: Mapping[str, TextModel | str | Path] | None = None,
        threads: int = 1,
    ) -> PassageEncoder:
        """Load the models; an ArtifactError if a folder is damaged, or a head was trained for another encoder.

        Parameters
        ----------
        models
            Folder with the layout of the shipped ``models/``, which are the default. Without its folder ``passages``
            there are no classes, without ``codebooks`` vectors are not compressed, without ``sparse`` there are no learnt
            words.
        encoder, threads
            A loaded encoder to share, or what :func:`semclass.heads.texts.open_encoder` opens with so many threads; by
            default the encoder in `models`. The shipped heads are those of the shipped encoder alone.
        heads
            Heads that label passages, by the metadata field that each fills: loaded ones, or folders of them.
        """
        given = open_encoder(encoder, threads) if isinstance(encoder, (str, Path)) else encoder
        if models is None and given is not None and given.fingerprint != shipped_fingerprint():
            return cls(PassageClassifier(given, None), None, open_heads(heads, given))
        root, used = open_models(models, given, threads)
        has_classes, folder = (root / "passages").exists(), root / "codebooks"
        classifier = PassageClassifier.load(root, encoder=used) if has_classes else PassageClassifier(used, None)
        compressed = (folder / artifacts.MANIFEST).exists()
        books = Codebooks.load(folder, encoder_fingerprint=used.fingerprint) if compressed else None
        learnt = SparseHead.load(root / "sparse", used, threads=threads) if (root / "sparse").exists() else None
        return cls(classifier, books, open_heads(heads, used) if heads else {}, learnt)

    @property
    def encoder(self) -> Encoder:
        """The encoder that all models share."""
        return self.classifier.encoder

    @property
    def head_fingerprints(self) -> dict[str, str]:
        """Fingerprints of the heads, by name."""
        return {name: model.fingerprint for name, model in self.heads.items()}

    @property
    def provided_dim(self) -> int:
        """Dimensions of the view ``provides``, or 0 if the encoder does not have the view."""
        return int(self.encoder.views.get("provides", 0))

    def read(
        self,
        passages: Sequence[Passage],
        *,
        tokens: bool = True,
        classes: bool = True,
        sparse: bool = True,
    ) -> tuple[PassageFeatures, tuple[int, ...]]:
        """Encode n passages, and return the rows of those that are longer, or have longer sentences, than is read.

        Each distinct sentence is encoded once, after the title of its passage. Without `tokens` (their vectors), `classes`
        (probabilities) or `sparse` (learnt words), the rows of these outputs are empty.
        """
        read_of = [parts_of(passage) for passage in passages]
        texts, wholes = [body for _, body, _ in read_of], [whole for _, _, whole in read_of]
        items = Sentences.of(texts, [title for title, _, _ in read_of])
        reader = for_passages(self.encoder)
        head = self.classifier.encoder_views if classes else ()
        compared = ("tokens", *(("provides",) if self.provided_dim else ())) if tokens else ()
        views = tuple(dict.fromkeys(["pooled", *head, *compared]))
        rows: dict[str, list[FloatArray]] = {name: [] for name in views if name != "tokens"}
        terms, found, read, cut = [], [], [], []
        for start in range(0, max(len(items.texts), 1), CHUNK):
            encoding = reader.encode(items.texts[start : start + CHUNK], views=views)
            cut += [start + row for row in encoding.truncated]
            terms.append(encoding.terms)
            if tokens:
                found.append(encoding.pieces("tokens"))
                read.append(encoding.pieces_read())
            for name, parts in rows.items():
                parts.append(encoding.rows(name))
        whole, kept = items.title_lengths(reader)
        joined = items.joined(chained(terms), whole)
        of_texts = {name: np.concatenate(parts) for name, parts in rows.items()}
        probabilities = np.zeros((len(items), 0))
        if classes:
            of_passages: dict[str, Any] = {name: items.view(name, of_texts[name]) for name in head}
            probabilities = self.classifier.probabilities(wholes, Encoding(joined, **of_passages))

        def of_sentences(name: str) -> Ragged:
            return Ragged(of_texts[name][items.which], items.offsets) if name in views else no_rows(len(items))

        long = [row for row, text in enumerate(texts) if len(text) > MAX_CHARACTERS]
        learnt = no_sparse(len(items))
        if sparse and self.sparse is not None:
            learnt = self.sparse.encode(joined)
        evidence = PassageFeatures(
            sentences=of_sentences("pooled"),
            words=Ragged(items.words, items.offsets),
            provides=of_sentences("provides"),
            probabilities=probabilities.astype(np.float32),
            tokens=items.joined(chained(found), kept) if tokens else no_rows(len(items)),
            pieces=items.joined(chained(read), kept) if tokens else no_rows(len(items)),
            sparse=learnt,
        )
        return evidence, tuple(sorted({*long, *items.passages(cut)}))


def shipped_fingerprint() -> str:
    """Return the fingerprint of the shipped encoder; empty if there is none."""
    path = artifacts.default_models() / "encoder" / artifacts.MANIFEST
    return fingerprint_of(artifacts.read_json(path)["files"]) if path.is_file() else ""


def title_of(passage: Passage) -> str:
    """Return the title that is read before each sentence: ``metadata["title"]``, or else the path of headings."""
    title = passage.metadata.get("title")
    if isinstance(title, str) and title.strip():
        return title
    headings = passage.metadata.get("headings")
    return _path(headings) if isinstance(headings, list) else ""


def parts_of(passage: Passage) -> tuple[str, str, str]:
    """Return the title, the text, and both joined as in BEIR. Raises an InputError if a passage has neither.

    If the text begins with the heading at the end of the title, the heading is removed from the text.
    """
    title, body = title_of(passage), passage.text
    if title and isinstance(body, str) and not body.strip():
        return title, body, title
    check_text(body, f"text of passage {passage.id!r}")
    first, _, rest = body.partition("\n")
    heading = first.lstrip("#").strip()
    is_marked = first.startswith("#") and title.rstrip(".").endswith(heading.rstrip("."))
    if heading and rest.strip() and (is_marked or heading == passage.metadata.get("heading")):
        body = rest
    return title, body, f"{title} {body}" if title else body


def has_text(passage: Passage) -> bool:
    """Whether a passage has a text or a title. A value that is not a string counts; the encoder then refuses it."""
    return not isinstance(passage.text, str) or bool(passage.text.strip() or title_of(passage))


def _path(headings: Sequence[object]) -> str:
    """Write headings as sentences, outermost first: the innermost, and as many others as HEADING_WORDS allows."""
    path: list[str] = []
    room = HEADING_WORDS
    for words in (heading.split() for heading in reversed(headings) if isinstance(heading, str) and heading.strip()):
        heading = " ".join(words[:room])
        path.insert(0, heading if heading[-1] in ".:?!" else f"{heading}.")
        room -= len(words)
        if room <= 0:
            break
    return " ".join(path)


def searchable(passage: Passage) -> str:
    """Return title and text of a passage, joined as in BEIR. Raises an InputError if a passage has neither."""
    return parts_of(passage)[2]


PROBABILITY = "_probability"
"""End of the name of the field with the probability of a label; the name of the head is before it."""


def fields_of(heads: Iterable[str]) -> tuple[str, ...]:
    """Fields that some heads fill: the label, and how probable it is."""
    return tuple(field for name in heads for field in (name, name + PROBABILITY))


def label(passages: Sequence[Passage], heads: Mapping[str, TextModel]) -> list[Passage]:
    """Return passages with the labels of heads. A head reads the whole passage, as it reads any text.

    To average the vectors of its sentences would cost nothing, but is less accurate for heads that read ``pooled``
    (``bench/results/heads.md``).
    """
    texts = [searchable(passage) for passage in passages]
    by_head = classify_all(heads, texts, quiet=True)  # truncated texts are warned of by the index
    rows: list[dict[str, Any]] = [{} for _ in passages]
    for name, labels in by_head.items():
        multi_label = heads[name].multi_label
        for row, item in zip(rows, labels, strict=True):
            row[name] = list(item.labels) if multi_label else item.label
            row[name + PROBABILITY] = round(item.probability, 4)
    return [labelled(passage, row) for passage, row in zip(passages, rows, strict=True)]


def labelled(passage: Passage, labels: Mapping[str, Any]) -> Passage:
    """Return a passage with some labels; an InputError if it has a field of that name."""
    if taken := [field for field in labels if field in passage.metadata]:
        raise InputError(
            f"the metadata of passage {passage.id!r} have the field {taken[0]!r}, to which a head of the index writes; "
            "rename the field or the head"
        )
    return replace(passage, metadata={**passage.metadata, **labels}) if labels else passage


def labels_in(passage: Passage, heads: Iterable[str]) -> dict[str, Any]:
    """The labels of a passage of an index."""
    return {field: passage.metadata[field] for field in fields_of(heads) if field in passage.metadata}


def check_heads(index: object, known: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Refuse heads that are not those that labelled an index; both are fingerprints by name."""
    if known == given:
        return
    if others := [name for name in known if given.get(name, known[name]) != known[name]]:
        labelled_by = f"by the head {others[0]!r} with the fingerprint {known[others[0]]}, not {given[others[0]]}"
    else:
        before, now = (" and ".join(map(repr, names)) or "none" for names in (known, given))
        labelled_by = f"by the heads {before}, but the models have {now}"
    remedy = f"name the same heads ({' '.join(f'--head {name}=DIR' for name in known)})" if known else "name no heads"
    message = f"the passages of {index} were labelled {labelled_by}: {remedy}, or build the index again (--replace)"
    raise InputError(message)
