"""Names for packages that add commands, indices, readers or models to semclass.

Users of the library need none of them. They may change with any minor release; packages of semclass itself are released in
lock-step.

An index in another engine is a subclass of :class:`RemoteIndex`. The engine stores the rows from :func:`stored_rows`.
``find`` returns the rows that a :class:`Wanted` describes; ``Wanted.where`` is a :class:`Filter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semclass.cli.options import echo as echo
from semclass.cli.options import encoder as encoder
from semclass.cli.options import json_output as json_output
from semclass.cli.options import models as models
from semclass.cli.options import open_retriever as open_retriever
from semclass.cli.options import progress as progress
from semclass.cli.options import read_heads as read_heads
from semclass.cli.options import threads as threads
from semclass.cli.options import together as together
from semclass.core.artifacts import open_to_write as open_to_write
from semclass.core.artifacts import write_atomic as write_atomic
from semclass.core.checks import check_choice as check_choice
from semclass.core.checks import check_positive as check_positive
from semclass.core.checks import check_probability as check_probability
from semclass.core.checks import check_text as check_text
from semclass.core.checks import check_texts as check_texts
from semclass.core.checks import counted as counted
from semclass.core.checks import short as short
from semclass.core.errors import import_extra as import_extra
from semclass.core.errors import warn as warn
from semclass.core.tools import available_threads as available_threads
from semclass.core.tools import importer as importer
from semclass.documents.blocks import plain_headings as plain_headings
from semclass.documents.chunking import FREE_CHARACTERS as FREE_CHARACTERS
from semclass.documents.chunking import MAX_GROWTH as MAX_GROWTH
from semclass.documents.chunking import Document as Document
from semclass.documents.chunking import Record as Record
from semclass.documents.chunking import cut_document as cut_document
from semclass.documents.decoding import check_size as check_size
from semclass.documents.decoding import join_divided as join_divided
from semclass.documents.decoding import mark_divided as mark_divided
from semclass.documents.decoding import read_text as read_text
from semclass.documents.decoding import reading as reading
from semclass.documents.decoding import words_of as words_of
from semclass.documents.labelled import read_labelled as read_labelled
from semclass.documents.labelled import read_texts as read_texts
from semclass.documents.readers import CODE as CODE
from semclass.documents.readers import PlainReader as PlainReader
from semclass.documents.records import check_cells as check_cells
from semclass.documents.records import paragraph as paragraph
from semclass.documents.records import read_json_lines as read_json_lines
from semclass.documents.records import table as table
from semclass.documents.sentences import unwrapped_spans as unwrapped_spans
from semclass.documents.sheets import read_sheet as read_sheet

if TYPE_CHECKING:
    from semclass.encoders.batching import watched as watched
    from semclass.heads.texts import classify_all as classify_all
    from semclass.index.filters import ID as ID
    from semclass.index.filters import Filter as Filter
    from semclass.index.filters import read_terms as read_terms
    from semclass.index.passage_encoder import has_text as has_text
    from semclass.index.passage_encoder import searchable as searchable
    from semclass.index.remote import RemoteIndex as RemoteIndex
    from semclass.index.remote import StoredRow as StoredRow
    from semclass.index.remote import Wanted as Wanted
    from semclass.index.remote import stored_rows as stored_rows

_HOMES = {
    "encoders.batching": ("watched",),
    "heads.texts": ("classify_all",),
    "index.filters": ("ID", "Filter", "read_terms"),
    "index.passage_encoder": ("has_text", "searchable"),
    "index.remote": ("RemoteIndex", "StoredRow", "Wanted", "stored_rows"),
}
"""Names that are imported on first use, because readers of documents do without them."""

__getattr__ = importer(__name__, "semclass", _HOMES)
