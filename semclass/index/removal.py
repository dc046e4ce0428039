"""Deleted passages of a segment: their rows, and what BM25 no longer counts, in a file."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.artifacts import array_of
from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.index.manifest import REMOVED
from semclass.scoring.postings import Deleted

_ARRAYS = ("rows", "document_frequencies", "terms")


def write_deleted(folder: Path, deleted: Deleted) -> dict[str, Any]:
    """Write what was deleted from a segment; what the manifest says of the file."""
    data = removed_bytes(deleted)
    digest = hashlib.sha256(data).hexdigest()
    name = f"{REMOVED}{digest[:16]}.npz"
    artifacts.write_atomic(folder / name, data)
    return {"name": name, "passages": len(deleted.rows), "bytes": len(data), "sha256": digest}


def removed_bytes(deleted: Deleted) -> bytes:
    """The bytes of the file."""
    file = io.BytesIO()
    np.savez(file, rows=deleted.rows, document_frequencies=deleted.document_frequencies, terms=np.array(deleted.terms))
    return file.getvalue()


def read_deleted(folder: Path, record: Mapping[str, Any]) -> Deleted:
    """Read what was deleted from a segment; an ArtifactError if the file is missing or was changed."""
    path = folder / str(record["name"])
    data = artifacts.read_file(path, record, REMEDY)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as found:
            # as they are written: compressed arrays may be of any size
            if any(item.compress_type != zipfile.ZIP_STORED or item.file_size > len(data) for item in found.infolist()):
                raise ValueError("its arrays are compressed")
            rows, frequencies, terms = (array_of(found.read(f"{name}.npy")) for name in _ARRAYS)
            return Deleted(rows, frequencies, int(terms))
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        ArithmeticError,
        RuntimeError,
        zipfile.BadZipFile,
    ) as error:
        raise ArtifactError(f"{path} cannot be read ({error}); {REMEDY}") from error
