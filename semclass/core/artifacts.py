"""Model folders: ONNX and other files, and a ``manifest.json`` with the size and the SHA-256 of each.

Files are verified before any library interprets them, and nothing is ever unpickled. Files are written under another name
and then renamed, the manifest last.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from semclass.core import plugins
from semclass.core.errors import ArtifactError, EncoderMismatchError, MissingExtraError

if TYPE_CHECKING:
    import onnxruntime

PROTOCOL = 1  # version of the folder format: raise it whenever an older reader would go wrong

MANIFEST = "manifest.json"

FLUSHING = 16  # files that are flushed at the same time

_RETRAIN = "restore the folder from its source, or train it again (see CONTRIBUTING.md)"


@dataclass(frozen=True)
class Artifact:
    """A verified model folder and its manifest."""

    folder: Path
    manifest: Mapping[str, Any]
    # bytes whose SHA-256 was compared, until they are read
    _verified: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def __contains__(self, name: str) -> bool:
        """Whether the manifest lists a file."""
        return name in self.manifest["files"]

    def path(self, name: str) -> Path:
        """Return the path of a file that the manifest lists."""
        if name not in self:
            raise ArtifactError(f"{self.folder / MANIFEST} lists no file {name!r}; {_RETRAIN}")
        return self.folder / name

    def read(self, name: str) -> bytes:
        """Return the verified bytes of a file. A second call reads and verifies the file again."""
        if (data := self._verified.pop(name, None)) is None:
            data = read_file(self.path(name), self.manifest["files"][name], _RETRAIN)
        return data

    def array(self, name: str, shape: Sequence[int | None] | None = None) -> npt.NDArray[Any]:
        """Return the read-only array of a ``.npy`` file. None allows any `shape`, or any length within a shape."""
        with reading(self.path(name), _RETRAIN):
            found = array_of(self.read(name))
        if shape is not None and (
            found.ndim != len(shape) or any(a not in (None, b) for a, b in zip(shape, found.shape, strict=True))
        ):
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise ArtifactError(f"{self.path(name)} has the shape {found.shape}, not ({wanted}); {_RETRAIN}")
        return found

    def field(self, name: str) -> Any:
        """Return the value of a required field of the manifest."""
        if name not in self.manifest:
            raise ArtifactError(f"{self.folder / MANIFEST} has no field {name!r}; {_RETRAIN}")
        return self.manifest[name]


def default_models() -> Path:
    """Folder of the models that ship with semclass: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "_models"
    return installed if installed.is_dir() else package.parent / "models"


def models_folder(models: str | Path | None) -> Path:
    """Return the folder of models at a path, or of an installed package of models. If None, return the shipped folder."""
    if models is None:
        return default_models()
    folder, name = Path(models), str(models)
    if folder.exists() or folder.name != name:
        return folder
    try:
        return Path(plugins.find(plugins.MODELS, name))
    except MissingExtraError as error:
        raise ArtifactError(f"there is no folder {name!r}, and {error}") from error


# -- reading ----------------------------------------------------------------------------------------------------------


def load_artifact(
    folder: str | Path,
    kind: str,
    *,
    encoder: str | None = None,
    views: Iterable[str] | None = None,
    features: Sequence[str] | None = None,
) -> Artifact:
    """Read and verify a model folder, and check that its kind, its features and its encoder are the expected ones."""
    folder = Path(folder)
    if not folder.exists() and (folder.parent / "encoder").is_dir():
        raise ArtifactError(
            f"the models in {folder.parent} have no {folder.name}; list the models with `semclass models --models "
            f"{folder.parent}`"
        )
    manifest = read_json(folder / MANIFEST)
    check_protocol(manifest, folder / MANIFEST, kind)
    records = manifest.get("files")
    if not (isinstance(records, dict) and records and all(map(is_record, records.values()))):
        raise ArtifactError(f"{folder / MANIFEST} lists no files with their sizes and hashes; {_RETRAIN}")
    found = Artifact(folder, manifest, {name: _read_own(folder, name, record) for name, record in records.items()})
    made_for = encoder if encoder is None else found.field("encoder")
    read = manifest.get("inputs", ()) if views is None else views
    if encoder is not None and made_for is not None and not fits(str(made_for), encoder, read):
        raise EncoderMismatchError(
            f"the model in {folder} was trained for encoder {made_for}, but is used with {encoder}: use that encoder, or "
            "train the model for this one"
        )
    if features is not None and list(found.field("features")) != list(features):
        raise ArtifactError(
            f"the features of the model in {folder} differ from those of this version of semclass; install the version "
            "that trained it, or train it again"
        )
    return found


STATES = "states"
"""View of the lower part of an encoder's network. The upper part reads this view, and computes all other views."""


def fits(made_for: str, used: str, views: Iterable[str]) -> bool:
    """Return whether a model made for one encoder fits another. For the view ``states``, an equal lower part is enough."""
    if made_for == used or set(views) != {STATES}:
        return made_for == used
    parts = [fingerprint.split("-") for fingerprint in (made_for, used)]
    return (parts[0][0], parts[0][-1]) == (parts[1][0], parts[1][-1])


def _read_own(folder: Path, name: str, record: Mapping[str, Any]) -> bytes:
    """Read a file of a folder, and refuse one that lies elsewhere."""
    path = folder / name
    with reading(path, _RETRAIN):
        inside = path.resolve().is_relative_to(folder.resolve())
    if not inside:
        raise ArtifactError(
            f"{path} leads out of {folder}, but a model must lie in one folder; replace links by copies (cp -rL)"
        )
    return read_file(path, record, _RETRAIN)


def check_protocol(manifest: Mapping[str, Any], path: Path | str, kind: str, protocol: int = PROTOCOL) -> None:
    """Refuse a manifest of another kind, or of a protocol that this version does not read."""
    if manifest.get("kind") != kind:
        raise ArtifactError(f"{path} is of the kind {manifest.get('kind')!r}, not {kind!r}; name another folder")
    if manifest.get("protocol") != protocol:
        raise ArtifactError(
            f"{path} has protocol {manifest.get('protocol')!r}; this version of semclass reads {protocol}: "
            "install the version that wrote it, or make it again"
        )


def is_record(record: object) -> bool:
    """Return whether an object describes a file by its size and its hash."""
    if not isinstance(record, dict) or type(record.get("bytes")) is not int:
        return False
    return re.fullmatch("[0-9a-f]{64}", str(record.get("sha256"))) is not None


def kind_of(folder: Path) -> str | None:
    """Return the kind in a folder's manifest, such as ``"index"``, or None if the manifest cannot be read."""
    try:
        return str(read_json(folder / MANIFEST).get("kind"))
    except ArtifactError:
        return None


def read_json(path: Path) -> dict[str, Any]:
    """Parse a JSON file that must hold an object."""
    return parse_json(read_file(path, None, _RETRAIN), path, _RETRAIN)


def parse_json(data: bytes, path: Path, remedy: str) -> dict[str, Any]:
    """Parse bytes that must be a JSON object. The message of an error ends with the `remedy`."""
    try:
        value = json.loads(data)
        dump_json(value)  # half of a surrogate pair cannot be written, nor shown
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged (it cannot be read as JSON: {error}); {remedy}") from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} is damaged (it holds no JSON object); {remedy}")
    return value


@contextlib.contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Turn errors into an ArtifactError, whose message names the file and ends with the remedy."""
    try:
        yield
    except ArtifactError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(f"{path} does not exist; {remedy}") from error
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise ArtifactError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}); {remedy}") from error


def open_file(path: Path) -> int:
    """Open a regular file for reading, and return its descriptor. A pipe is refused at once."""
    return _regular(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)))


def open_to_write(path: Path, *, append: bool = False, mode: int = 0o666) -> int:
    """Open a regular file for writing, and return its descriptor. Links are not followed, and a pipe is refused at once."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return _regular(os.open(path, flags, mode))


def _regular(number: int) -> int:
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError("it is not a regular file")
    return number


def read_file(path: Path, record: Mapping[str, Any] | None, remedy: str, *, hashes: bool = True) -> bytes:
    """Read a whole file, and compare exactly these bytes with their record, if there is one."""
    with reading(path, remedy), open(open_file(path), "rb", buffering=0) as file:
        if record is not None:
            compare(path, os.fstat(file.fileno()).st_size, record, remedy)
        data = file.readall()
    if record is not None:
        compare(path, len(data), record, remedy, hashlib.sha256(data).hexdigest() if hashes else None)
    return data


def check_files(folder: Path, records: Mapping[str, Mapping[str, Any]], remedy: str, *, hashes: bool = True) -> None:
    """Compare every listed file with its record: its size and, with `hashes`, its SHA-256."""
    for name, record in records.items():
        path = folder / name
        with reading(path, remedy):
            compare(path, path.stat().st_size, record, remedy, sha256_of(path) if hashes else None)


def compare(path: Path, size: int, record: Mapping[str, Any], remedy: str, sha256: str | None = None) -> None:
    """Compare a file's size and, if it is known, its SHA-256 with its record."""
    if size != record["bytes"]:
        raise ArtifactError(f"{path} has {size} bytes, not {record['bytes']}; {remedy}")
    if sha256 is not None and sha256 != record["sha256"]:
        raise ArtifactError(f"{path} was changed after it was written (its SHA-256 differs); {remedy}")


def sha256_of(file: Path | int) -> str:
    """Return the SHA-256 of a file, given by its path or its descriptor, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(file, "rb", closefd=not isinstance(file, int)) as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# -- arrays: plain numbers, row by row, that fill a ``.npy`` file ------------------------------------------------------

MAX_HEADER = 1 << 16  # bytes before the array


@dataclass(frozen=True)
class Layout:
    """The header of a ``.npy`` file. Its size is checked first, so that a small file cannot claim a large array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int  # byte at which the array begins

    @classmethod
    def of(cls, head: bytes, size: int) -> Layout:
        """Read the header from the first bytes of a file. Raises a ValueError if no plain array fills the `size` bytes."""
        file = io.BytesIO(head)
        if (version := np.lib.format.read_magic(file)) != (1, 0):
            raise ValueError(f"a .npy file of version {version}")
        try:
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        except (SyntaxError, TokenError, TypeError, RecursionError, MemoryError) as error:  # it is parsed as Python
            raise ValueError("no valid header of a .npy file") from error
        if dtype.kind not in "buif" or not dtype.isnative or (fortran and len(shape) > 1) or min(shape, default=0) < 0:
            raise ValueError(f"an array of {dtype} and shape {shape}, but only numbers in row order are allowed")
        if file.tell() + math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{size} bytes for an array of {dtype} and shape {shape}")
        return cls(dtype, shape, file.tell())

    def array(self, data: Any) -> npt.NDArray[Any]:
        """Return the array in the bytes of the file."""
        return np.frombuffer(data, self.dtype, math.prod(self.shape), self.begin).reshape(self.shape)


def array_of(data: bytes) -> npt.NDArray[Any]:
    """Return the read-only array in the bytes of a ``.npy`` file. Raises a ValueError if they hold no plain array."""
    return Layout.of(data[:MAX_HEADER], len(data)).array(data)


# -- writing ----------------------------------------------------------------------------------------------------------


def save(
    folder: str | Path, kind: str, files: Mapping[str, bytes], fields: Mapping[str, Any], card: str | None = None
) -> Path:
    """Write files, a model card and, last, a manifest with `fields` into a model folder. Returns the manifest's path."""
    folder = Path(folder)
    written = files if card is None else {**files, "README.md": card.encode()}
    for name, data in written.items():
        write_atomic(folder / name, data)
    records = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    manifest = {**fields, "protocol": PROTOCOL, "kind": kind, "files": records}
    write_atomic(folder / MANIFEST, dump_json(manifest))
    return folder / MANIFEST


def dump_json(value: Any) -> bytes:
    """Write JSON with sorted keys and indentation, so that versions of a model are easy to compare."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def dump_json_lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Write records as JSON lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file in one step. After a crash at any moment, it holds either all of the old content or all of the new."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_to_write(staged), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}; nothing was changed") from error
    try:
        flush(path.parent)
    except OSError as error:
        raise ArtifactError(
            f"{path} was replaced, but the old file may return after a power failure: {error.strerror or error}"
        ) from error


def flush(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there; the file system writes its own journal
    number = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(number)
    except OSError as error:
        # some file systems, mostly of networks, know no such thing for a folder
        if not (path.is_dir() and error.errno in {errno.EINVAL, errno.ENOTSUP}):
            raise
    finally:
        os.close(number)


def flush_all(folder: Path) -> None:
    """Flush a folder and all files in it to the disk, many at a time, because one by one takes longer."""
    with ThreadPoolExecutor(FLUSHING) as pool:
        list(pool.map(flush, [folder, *folder.rglob("*")]))


# -- networks ---------------------------------------------------------------------------------------------------------


def session_options(threads: int, *, optimise: bool = True, arena: bool = False) -> onnxruntime.SessionOptions:
    """Return the options of every session. An `arena` keeps memory for the next run, as allocating large arrays is slow."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # it keeps the most that ever was needed at once, and most networks gain no time that can be measured
    options.enable_cpu_mem_arena = arena
    # a plan of memory is kept for each shape that ever came, and texts come in many
    options.enable_mem_pattern = False
    options.log_severity_level = 4  # errors reach the caller as exceptions
    # waiting threads that spin would take processor time from the rest of a service
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_ENABLE_BASIC
    return options


def open_session(
    artifact: Artifact, name: str, threads: int, *, optimise: bool = True, arena: bool = False
) -> onnxruntime.InferenceSession:
    """Open a verified ONNX model of a folder on the CPU; many threads may share the session."""
    import onnxruntime

    path, data = artifact.path(name), artifact.read(name)
    # an array in another file, which nobody verified, has its place under this key (onnx.proto, TensorProto.external_data)
    if b"location" in data:
        raise ArtifactError(
            f"{path} keeps arrays in other files (or has a name with 'location'), which are not verified; save it with all "
            "data inside (onnx.save_model(..., save_as_external_data=False))"
        )
    options = session_options(threads, optimise=optimise, arena=arena)
    # not guessed from the content: other formats name other files in other ways
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises bare classes of its own for every cause
        raise ArtifactError(f"{path} cannot be opened by onnxruntime: {error}") from error
    session._model_bytes = b""  # it would keep them for a change of providers; they take as much memory as the model
    return session
