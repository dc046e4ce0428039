"""Turns passages into the rows of a segment: encodes them, and labels them with heads of your own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_choice, check_text, counted, short
from semclass.core.errors import (
    ArtifactError,
    EncoderMismatchError,
    InputError,
    InputTypeError,
    SkippedWarning,
    TruncationWarning,
    warn,
)
from semclass.core.files import REMEDY
from semclass.core.types import Encoder, Encoding, FloatArray, Passage, Ragged, chained
from semclass.encoders.batching import CHUNK
from semclass.encoders.excerpts import MAX_CHARACTERS, Excerpts
from semclass.encoders.onnx_encoder import fingerprint_of, for_passages, open_encoder, open_models
from semclass.encoders.words import LANGUAGES, language_of, terms_of
from semclass.heads.head import run_head
from semclass.heads.passages import PassageClassifier
from semclass.heads.sparse import SparseHead, no_sparse, pack
from semclass.heads.texts import TextModel, classify_all, open_heads
from semclass.index.candidates import Evidence, decode, no_rows
from semclass.index.columns import columns_of
from semclass.index.folder import Header
from semclass.index.segment import NOTHING, Segment, hashes_of, line_of, records_of, segment_of
from semclass.scoring.dense import shares_of
from semclass.scoring.vectors import COMPONENTS, SCALE, Codebooks, to_quarter_bytes, to_scaled_bytes, unit

CHUNK_PASSAGES = 64
"""Maximum passages that a thread reads at a time. It bounds memory and the loss when a build stops. It changes no value."""

CHUNK_LENGTH = 1024
"""Maximum mean number of characters of the passages of a chunk."""

UNSORTED_IDS = 1 << 16
"""Maximum number of ids whose hashes are kept unsorted."""

MAX_NAMED_IDS = 3
"""Maximum number of ids that a message names."""

HEADING_WORDS = 24
"""Maximum words of a path of headings that the encoder reads before each excerpt."""

PROBABILITY = "_probability"
"""End of the name of the field with a label's probability. The name begins with the name of the head."""


@dataclass(frozen=True)
class PassageFeatures(Evidence):
    """All outputs of the models for n passages. Vectors of excerpts are not scaled to unit length."""

    words: Ragged  #: number of words of each excerpt without the title, float32
    probabilities: FloatArray  #: P(class | passage), (n, n_classes)
    sparse: Ragged  #: learnt words of title and text, see :meth:`semclass.heads.sparse.SparseHead.encode`


@dataclass(frozen=True)
class PassageEncoder:
    """Encodes and classifies passages. Threads may share one instance."""

    classifier: PassageClassifier  #: the passage heads, with their encoder
    codebooks: Codebooks | None  #: compress vectors to few bytes; without them, an index stores vectors in int8
    heads: Mapping[str, TextModel] = field(default_factory=dict)  #: heads of your own, by the field that each fills
    sparse: SparseHead | None = None  #: weighs learnt words; without it, there are two signals

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        encoder: Encoder | str | Path | None = None,
        heads: Mapping[str, TextModel | str | Path] | None = None,
        threads: int = 1,
    ) -> PassageEncoder:
        """Load the models. Raises an ArtifactError if a folder is damaged, or a head was trained for another encoder.

        Parameters
        ----------
        models
            Folder with the layout of the shipped ``models/``, which is the default. Without its folder ``passages``, there
            are no classes. Without ``codebooks``, vectors are not compressed. Without ``sparse``, there are no learnt
            words.
        encoder, threads
            A loaded encoder to share, or a name for :func:`semclass.encoders.onnx_encoder.open_encoder`, which is then
            opened with this number of threads. Defaults to the encoder in `models`. The shipped heads fit only the shipped
            encoder.
        heads
            Heads that label passages, loaded or as folders, by the metadata field that each head fills.
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
        """Encode n passages. Also returns the rows of passages that are too long, or have a sentence that is too long.

        Each distinct excerpt is encoded once, after the title of its passage. Without `tokens` (their vectors), `classes`
        (probabilities) or `sparse` (learnt words), the rows of these outputs are empty.
        """
        read_of = [parts_of(passage) for passage in passages]
        texts, wholes = [body for _, body, _ in read_of], [whole for _, _, whole in read_of]
        items = Excerpts.of(texts, [title for title, _, _ in read_of])
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
            probabilities = run_head(self.classifier.head, wholes, Encoding(joined, **of_passages))

        def of_excerpts(name: str) -> Ragged:
            return Ragged(of_texts[name][items.which], items.offsets) if name in views else no_rows(len(items))

        long = [row for row, text in enumerate(texts) if len(text) > MAX_CHARACTERS]
        learnt = no_sparse(len(items))
        if sparse and self.sparse is not None:
            learnt = self.sparse.encode(joined)
        evidence = PassageFeatures(
            excerpts=of_excerpts("pooled"),
            words=Ragged(items.words, items.offsets),
            provides=of_excerpts("provides"),
            probabilities=probabilities.astype(np.float32),
            tokens=items.joined(chained(found), kept) if tokens else no_rows(len(items)),
            pieces=items.joined(chained(read), kept) if tokens else no_rows(len(items)),
            sparse=learnt,
        )
        return evidence, tuple(sorted({*long, *items.passages(cut)}))

    def header(self, *, small: bool = False, language: str = "english") -> Header:
        """Describe an index of passages that these models encode."""
        head, books = self.classifier.head, None if small else self.codebooks
        return Header(
            encoder=self.encoder.fingerprint,
            classes=self.classifier.classes,
            thresholds=tuple(self.classifier.thresholds.tolist()),
            head="" if head is None else head.artifact.manifest["files"]["model.onnx"]["sha256"],
            small=small,
            codebooks="" if books is None else books.fingerprint,
            sparse="" if self.sparse is None else self.sparse.fingerprint,
            language=language,
            heads=self.head_fingerprints,
        )

    def encode(self, passages: Sequence[Passage], header: Header) -> tuple[Segment, list[str]]:
        """Encode passages for an index. Returns their segment, and the ids of passages that are too long."""
        arrays, truncated = self.arrays(passages, header)
        long = [passages[row].id for row in truncated]
        return described(segment_of(arrays), label(passages, self.heads) if self.heads else passages), long

    def arrays(
        self, passages: Sequence[Passage], header: Header, *, classes: bool = True
    ) -> tuple[dict[str, Ragged], tuple[int, ...]]:
        """Encode passages into the arrays of :func:`segment_of`. Also returns the rows of passages that are too long."""
        features, truncated = self.read(passages, tokens=not header.small, classes=classes)
        arrays = {
            **self.store(features, header),
            "sparse": pack(features.sparse),
            "terms": terms_of([searchable(passage) for passage in passages], header.language),
            "probabilities": Ragged(features.probabilities, np.arange(len(passages) + 1)),
        }
        return arrays, truncated

    def store(self, features: PassageFeatures, header: Header) -> dict[str, Ragged]:
        """Compress the evidence of passages to the arrays of a segment."""
        dims = self.encoder.views["pooled"], self.provided_dim
        if not header.exact and any(dim % COMPONENTS for dim in dims):
            raise InputError(
                f"vectors of {max(dims)} dimensions cannot be stored in quarter bytes, which need a multiple of "
                f"{COMPONENTS}; build the index without small=True (--small), and the models without codebooks"
            )
        vectors, offsets = unit(features.excerpts.values), features.excerpts.offsets
        shares = shares_of(vectors, features.words.values, offsets)
        codes, scales = (vectors, np.ones_like(shares)) if header.exact else to_quarter_bytes(vectors)
        provided, tokens, pieces = features.provides.values, features.tokens.values, features.pieces.values
        if not provided.shape[1]:  # the encoder does not have the view: rows without columns
            provided = np.zeros((len(vectors), 0), np.float32 if header.exact else np.uint8)
        elif not header.exact:
            provided = to_scaled_bytes(provided)
        if header.codebooks and self.codebooks is not None:
            tokens = self.codebooks.encode(tokens, pieces)
        elif not header.small:
            tokens = np.rint(tokens * SCALE).astype(np.int8)
        pieces = pieces.astype(np.min_scalar_type(len(self.encoder.is_term)))
        of_excerpts = {"excerpts": codes, "provides": provided, "scales": scales, "shares": shares}
        return {
            **{name: Ragged(values, offsets) for name, values in of_excerpts.items()},
            "tokens": NOTHING if header.small else Ragged(tokens, features.tokens.offsets),
            "pieces": NOTHING if header.small else Ragged(pieces, features.pieces.offsets),
        }

    def evidence(self, passages: Sequence[Passage]) -> Evidence:
        """Encode the evidence of passages of a small index, with the same precision as stored evidence."""
        features, _ = self.read(passages, classes=False, sparse=False)
        return decode(self.store(features, self.header()), self.codebooks)


def described(segment: Segment, passages: Sequence[Passage]) -> Segment:
    """Return a segment with the texts, ids and metadata of its passages."""
    titles = [f"{passage.metadata.get('document', '')}\n{title_of(passage)}" for passage in passages]
    return replace(
        segment,
        records=records_of([line_of(passage) for passage in passages]),
        columns=columns_of([passage.metadata for passage in passages]),
        id_hashes=hashes_of([passage.id for passage in passages]),
        title_hashes=hashes_of(titles),
    )


def shipped_fingerprint() -> str:
    """Return the fingerprint of the shipped encoder; empty if there is none."""
    path = artifacts.default_models() / "encoder" / artifacts.MANIFEST
    return fingerprint_of(artifacts.read_json(path)["files"]) if path.is_file() else ""


def title_of(passage: Passage) -> str:
    """Return the title that is read before each excerpt: ``metadata["title"]``, or else the path of headings."""
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
    """Return whether a passage has a text or a title. A value of another type counts, because encoding will refuse it."""
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


def fields_of(heads: Iterable[str]) -> tuple[str, ...]:
    """Return the fields that heads fill: the label, and its probability."""
    return tuple(field for name in heads for field in (name, name + PROBABILITY))


def label(passages: Sequence[Passage], heads: Mapping[str, TextModel]) -> list[Passage]:
    """Return passages with the labels of heads. A head reads a whole passage like any other text.

    Averaging the vectors of a passage's excerpts would cost nothing, but is less accurate for heads that read ``pooled``
    (``docs/decisions/settled.md``).
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
    """Return a passage with labels added to its metadata. Raises an InputError if a field of this name exists."""
    if taken := [field for field in labels if field in passage.metadata]:
        raise InputError(
            f"the metadata of passage {passage.id!r} have the field {taken[0]!r}, but a head of the index writes to it; "
            "rename the field or the head"
        )
    return replace(passage, metadata={**passage.metadata, **labels}) if labels else passage


def check_heads(index: object, known: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Refuse heads that differ from the heads that labelled an index. Both arguments hold fingerprints by name."""
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


def check_models(header: Header, passage_encoder: PassageEncoder, index: object) -> None:
    """Refuse models that differ from the models that built an index. Heads of your own are not compared."""
    before, loaded = header.header(), passage_encoder.header(small=header.small, language=header.language).header()
    if differing := [name for name in loaded if name != "heads" and loaded[name] != before[name]]:
        name = differing[0]
        raise EncoderMismatchError(
            f"{index} was built with {name} {short(before[name])}, but the models have {short(loaded[name])}; name the "
            f"models that built it (--models, --encoder), or {REMEDY}"
        )


def types_of(rows: Mapping[str, Ragged]) -> dict[str, tuple[str, list[int]]]:
    """Return the dtype and the shape of an item of each array."""
    return {name: (array.values.dtype.str, list(array.values.shape[1:])) for name, array in rows.items()}


def check_types(types: Mapping[str, object], passage_encoder: PassageEncoder, *, small: bool) -> None:
    """Refuse models whose arrays have other types than an index, even if the fingerprints are the same."""
    features, _ = passage_encoder.read([], tokens=not small, classes=False, sparse=False)
    for name, wanted in types_of(passage_encoder.store(features, passage_encoder.header(small=small))).items():
        if types.get(name, wanted) != wanted:
            raise ArtifactError(
                f"{name} of the index have the type {types[name]}, its encoder needs {wanted}; {REMEDY}"
            )


def language_for(passages: Sequence[Passage], name: str | None) -> str:
    """Return the language `name` of an index. If it is None, detect the language from the first passages."""
    if name is None:
        return language_of([searchable(passage) for passage in passages])
    check_choice(name, LANGUAGES, "language")
    return name


def chunks(
    passages: Iterable[Passage], size: int | None = None, emptied: list[str] | None = None
) -> Iterator[list[Passage]]:
    """Cut a stream into lists of at most `size` passages (default :data:`CHUNK_PASSAGES`), or fewer if they are long.

    Refuses other objects, and an id that comes twice. Ids are compared by 64 bits; an accidental match is less probable
    than a broken disk. Passages without text and title are left out, with a warning at the end, and their ids are added to
    `emptied`.
    """
    known, recent = np.zeros(0, np.uint64), set[int]()  # ascending, as a set of all of them takes ten times the memory
    empty = list[str]() if emptied is None else emptied
    for chunk in _lists(passages, CHUNK_PASSAGES if size is None else size):
        for passage in chunk:
            if not isinstance(passage, Passage):
                raise InputTypeError(
                    f"passages must be of the type Passage, not {type(passage).__name__}: {short(passage)}"
                )
        ids = [check_text(passage.id, "passage id") for passage in chunk]
        hashes = hashes_of(ids)
        is_known = np.searchsorted(known, hashes, "right") > np.searchsorted(known, hashes, "left")
        for name, number, repeated in zip(ids, hashes.tolist(), is_known.tolist(), strict=True):
            if repeated or number in recent:
                raise InputError(f"passage id {name!r} comes twice; ids must be unique")
            recent.add(number)
        if len(recent) >= UNSORTED_IDS:
            known = np.sort(np.concatenate([known, np.fromiter(recent, np.uint64, len(recent))]))
            recent.clear()
        empty += [passage.id for passage in chunk if not has_text(passage)]
        if kept := [passage for passage in chunk if has_text(passage)]:
            yield kept
    if empty:
        warn(SkippedWarning(f"{name_ids(empty)} left out of the index, because there is no text"))


def _lists(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    chunk: list[Passage] = []
    room = size * CHUNK_LENGTH
    for passage in passages:
        length = len(text) if isinstance(text := getattr(passage, "text", None), str) else 0
        if chunk and length > room:
            yield chunk
            chunk, room = [], size * CHUNK_LENGTH
        chunk.append(passage)
        room -= length
        if len(chunk) == size:
            yield chunk
            chunk, room = [], size * CHUNK_LENGTH
    if chunk:
        yield chunk


def name_ids(ids: Sequence[str]) -> str:
    """Name the first few of some ids in a message, followed by "is" or "are"."""
    names = ", ".join(map(repr, ids[:MAX_NAMED_IDS])) + (" ..." if len(ids) > MAX_NAMED_IDS else "")
    return f"passage id {names} is" if len(ids) == 1 else f"{len(ids)} passage ids ({names}) are"


def warn_of_truncated(ids: Sequence[str], count: int) -> None:
    """Warn once about the passages that were truncated."""
    if ids:
        message = (
            f"{len(ids)} of {counted(count, 'passage')} {'has' if len(ids) == 1 else 'have'} a sentence that is longer "
            f"than the encoder reads (the first is {ids[0]!r}). BM25 uses the whole sentence, but vectors and classes "
            "only its start. A sentence ends at a full stop, at a line end or after 100 words, so such a long sentence is "
            "rarely text; leave out encoded data"
        )
        warn(TruncationWarning(message))
