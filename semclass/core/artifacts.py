"""Model folders on disk: ONNX and other files beside a ``manifest.json`` that names each with its SHA-256.

Reading goes parse, audit, build: the manifest's protocol and kind, then every file's hash, and only then is anything
handed to a library that interprets it. Nothing is ever unpickled. Writing goes beside, then rename, the manifest last.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy.typing as npt

from semclass.core.errors import ArtifactError
from semclass.core.npy import array_of

PROTOCOL = 1
"""Version of the folder format. A reader refuses newer ones; raise it whenever an older reader would go wrong."""

MANIFEST = "manifest.json"

FLUSHING = 16
"""Files that are flushed to the disk at the same time."""

_RETRAIN = "restore the folder from where it came, or train it again (see CONTRIBUTING.md)"


@dataclass(frozen=True)
class Artifact:
    """A verified model folder.

    Attributes
    ----------
    folder
        Where it is.
    manifest
        Its manifest, parsed.
    """

    folder: Path
    manifest: Mapping[str, Any]
    _verified: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def path(self, name: str) -> Path:
        """Path of a file that the manifest lists, for messages: what is used of it is what :meth:`read` gives.

        Raises
        ------
        ArtifactError
            If the manifest does not list it.
        """
        if name not in self.manifest["files"]:
            raise ArtifactError(f"{self.folder / MANIFEST} lists no file {name!r}; {_RETRAIN}")
        return self.folder / name

    def read(self, name: str) -> bytes:
        """Bytes of a file that the manifest lists: the very ones whose SHA-256 was found right.

        They are given away, so that nobody keeps them; who asks again has the file read and compared again.

        Raises
        ------
        ArtifactError
            If the manifest does not list it, or the file was changed.
        """
        data = self._verified.pop(name, None)
        if data is not None:
            return data
        return read_file(self.path(name), self.manifest["files"][name], _RETRAIN)

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of a ``.npy`` file that the manifest lists, read-only.

        Raises
        ------
        ArtifactError
            As :meth:`read`, or if it is no array.
        """
        try:
            return array_of(self.read(name))
        except ArtifactError:
            raise
        except ValueError as error:
            raise ArtifactError(f"{self.path(name)} cannot be read ({error}); {_RETRAIN}") from error

    def field(self, name: str) -> Any:
        """Value of a manifest field that must be there.

        Raises
        ------
        ArtifactError
            If it is not.
        """
        if name not in self.manifest:
            raise ArtifactError(f"{self.folder / MANIFEST} has no field {name!r}; {_RETRAIN}")
        return self.manifest[name]


def default_models() -> Path:
    """Folder of the models that ship with semclass: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "_models"
    return installed if installed.is_dir() else package.parent / "models"


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash at any moment, sees all of the old one or all of the new one.

    Raises
    ------
    ArtifactError
        If the disk is full or the folder cannot be written; the old file is whole and nothing is left behind.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from error
    try:
        flush(path.parent)
    except OSError as error:
        raise ArtifactError(
            f"{path} was replaced, but may be the old one again after a loss of power: {error.strerror or error}"
        ) from error


def flush(path: Path) -> None:
    """Have a file survive a loss of power; or the names in a folder, those of new files and of renamed ones."""
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
    """Have a folder survive a loss of power, with all files and folders in it.

    At the same time: one after another each would wait for the disk, together they wait once.
    """
    with ThreadPoolExecutor(FLUSHING) as pool:
        list(pool.map(flush, [folder, *folder.rglob("*")]))


def dump_json(value: Any) -> bytes:
    """JSON as it is saved everywhere: sorted keys, indented, so that a retrained model's change can be read."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """Parse a JSON file that must hold an object.

    Raises
    ------
    ArtifactError
        If it is missing, unreadable or not a JSON object.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} does not exist") from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror or error}); {_RETRAIN}") from error
    return parse_json(data, path, _RETRAIN)


def kind_of(folder: Path) -> str | None:
    """What the manifest of a folder says that it holds, such as ``"index"``; None where no manifest can be read."""
    try:
        return str(read_json(folder / MANIFEST).get("kind"))
    except ArtifactError:
        return None


def parse_json(data: bytes, path: Path, remedy: str) -> dict[str, Any]:
    """Parse the bytes of a JSON file that must hold an object, and one that can be written again.

    Raises
    ------
    ArtifactError
        If they do not; the message names the file, and ends with `remedy`.
    """
    try:
        value = json.loads(data)
        dump_json(value)  # half of a surrogate pair cannot be written, nor shown
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged (it cannot be read as JSON: {error}); {remedy}") from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} is damaged (it holds no JSON object); {remedy}")
    return value


def save(
    folder: str | Path,
    kind: str,
    files: Mapping[str, bytes],
    fields: Mapping[str, Any],
    card: str | None = None,
) -> Path:
    """Write a model folder: the files, a model card, and last the manifest that makes them valid.

    Parameters
    ----------
    folder
        Where; made if it is not there.
    kind
        ``"encoder"`` or ``"head"``.
    files
        Content by file name.
    fields
        The manifest's fields besides protocol, kind and files.
    card
        Text of the model card, ``README.md``.

    Returns
    -------
    Path
        The manifest.

    Raises
    ------
    ArtifactError
        If it cannot be written.
    """
    folder = Path(folder)
    for name, data in files.items():
        write_atomic(folder / name, data)
    if card is not None:
        write_atomic(folder / "README.md", card.encode())
    records = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    manifest = {**fields, "protocol": PROTOCOL, "kind": kind, "files": records}
    write_atomic(folder / MANIFEST, dump_json(manifest))
    return folder / MANIFEST


def check_protocol(manifest: Mapping[str, Any], path: Path | str, kind: str, protocol: int = PROTOCOL) -> None:
    """Refuse a manifest of another kind or of a protocol that this version does not read."""
    if manifest.get("kind") != kind:
        raise ArtifactError(f"{path} describes {manifest.get('kind')!r}, but {kind!r} is wanted here")
    if manifest.get("protocol") != protocol:
        raise ArtifactError(
            f"{path} has protocol {manifest.get('protocol')!r}; this version of semclass reads {protocol}: "
            "install the version that wrote it, or make it again"
        )


def check_files(folder: Path, records: Mapping[str, Mapping[str, Any]], remedy: str, *, hashes: bool = True) -> None:
    """Compare every listed file with its record.

    Parameters
    ----------
    folder
        Where the files are.
    records
        By name: ``bytes`` and ``sha256``.
    remedy
        What to do if one differs; the message ends with it.
    hashes
        Whether to read the files; if not, only their sizes are compared.

    Raises
    ------
    ArtifactError
        Naming the first file that is missing, cut short or changed.
    """
    for name, record in records.items():
        path = folder / name
        try:
            compare(path, path.stat().st_size, None, record, remedy)
            if hashes:
                compare(path, record["bytes"], sha256_of(path), record, remedy)
        except (FileNotFoundError, NotADirectoryError) as error:  # also one that is removed just now
            raise ArtifactError(f"{path} is missing; {remedy}") from error
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read ({error.strerror or error}); {remedy}") from error


def read_file(path: Path, record: Mapping[str, Any] | None, remedy: str, *, hashes: bool = True) -> bytes:
    """Read a whole file, and compare what was read with its record: nobody can change it in between.

    Parameters
    ----------
    path
        The file.
    record
        ``bytes`` and ``sha256``; None to compare with nothing.
    remedy
        What to do if it differs; the message ends with it.
    hashes
        Whether to compare the SHA-256, too.

    Returns
    -------
    bytes
        Its content.

    Raises
    ------
    ArtifactError
        If it is missing, no file, cut short or changed.
    """
    try:
        # a pipe would be waited for
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(number, "rb", buffering=0) as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                raise ArtifactError(f"{path} is no regular file; {remedy}")
            if record is not None:
                compare(path, found.st_size, None, record, remedy)
            data = file.readall()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(f"{path} is missing; {remedy}") from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror or error}); {remedy}") from error
    if record is not None:
        compare(path, len(data), hashlib.sha256(data).hexdigest() if hashes else None, record, remedy)
    return data


def compare(path: Path, size: int, sha256: str | None, record: Mapping[str, Any], remedy: str) -> None:
    """Compare what was found of a file with its record; a hash that is None was not asked for.

    Raises
    ------
    ArtifactError
        If they differ.
    """
    if size != record["bytes"]:
        raise ArtifactError(f"{path} has {size} bytes where {record['bytes']} belong; {remedy}")
    if sha256 is not None and sha256 != record["sha256"]:
        raise ArtifactError(f"{path} was changed after it was written (its SHA-256 differs); {remedy}")


def load(folder: str | Path, kind: str) -> Artifact:
    """Read and verify a model folder.

    Parameters
    ----------
    folder
        The folder.
    kind
        What it must hold.

    Returns
    -------
    Artifact
        Its manifest, with every file's hash found right, and their bytes until they are used.

    Raises
    ------
    ArtifactError
        If anything is missing, changed, of another kind or of another protocol; if a file is somewhere else, by its name or
        by a link.
    """
    folder = Path(folder)
    manifest = read_json(folder / MANIFEST)
    check_protocol(manifest, folder / MANIFEST, kind)
    records = manifest.get("files")
    if not isinstance(records, dict) or not records:
        raise ArtifactError(f"{folder / MANIFEST} lists no files; {_RETRAIN}")
    if not all(map(is_record, records.values())):
        raise ArtifactError(f"{folder / MANIFEST} lists files without their sizes and hashes; {_RETRAIN}")
    return Artifact(folder, manifest, {name: _read_own(folder, name, record) for name, record in records.items()})


def is_record(record: object) -> bool:
    """Whether a file is described by its size and its hash."""
    if (
        not isinstance(record, dict)
        or not isinstance(record.get("sha256"), str)
        or isinstance(record.get("bytes"), bool)
    ):
        return False
    return isinstance(record.get("bytes"), int) and re.fullmatch("[0-9a-f]{64}", record["sha256"]) is not None


def _read_own(folder: Path, name: str, record: Mapping[str, Any]) -> bytes:
    """Read a file of a folder, and refuse one that is somewhere else."""
    place = PurePosixPath(name)
    path = folder / place
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # no name of a file, or links in a circle
        raise ArtifactError(f"{str(path)!r} cannot be read ({error}); {_RETRAIN}") from error
    if not inside or place.is_absolute() or ".." in place.parts:
        raise ArtifactError(
            f"{path} leads out of {folder}: a model is read from its own folder alone; copy what links lead to (cp -rL)"
        )
    return read_file(path, record, _RETRAIN)


def model_card(title: str, facts: Mapping[str, Any], sections: Sequence[tuple[str, str]], tags: Sequence[str]) -> str:
    """Write a model card with the front matter that model hubs read.

    Parameters
    ----------
    title
        Heading.
    facts
        Front matter fields besides library and tags, such as licence and language; strings, or anything JSON can hold.
    sections
        (heading, Markdown text) pairs, in order.
    tags
        Tags of the front matter.

    Returns
    -------
    str
        Markdown.
    """
    # front matter is YAML, of which JSON is a part
    said = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in facts.items()
    }
    lines = ["---", "library_name: semclass", *(f"{key}: {value}" for key, value in said.items()), "tags:"]
    lines += [*(f"- {tag}" for tag in tags), "---", "", f"# {title}", ""]
    for heading, text in sections:
        lines += [f"## {heading}", "", text.strip(), ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class HeadCard:
    """What a head's manifest and model card say, beyond the network itself.

    Attributes
    ----------
    task
        What it tells, in a few words: ``"question-type"``, ``"passage-provides"``, ``"passage-answers-question"``.
    classes
        Names of the output columns.
    link
        ``"softmax"`` (columns sum to 1) or ``"sigmoid"`` (each column is a probability of its own).
    inputs
        Name and dimension of each input view.
    encoder
        Fingerprint of the encoder whose views it was trained on; None for a head that reads no vectors.
    calibration
        How probabilities were calibrated, and on what.
    training
        Data, sizes, seed and settings that made it.
    metrics
        Measured figures by name.
    threshold
        Probability from which a sigmoid head says yes; of each class, where there are several.
    extra
        Further manifest fields.
    """

    task: str
    classes: tuple[str, ...]
    link: str
    inputs: Mapping[str, int]
    encoder: str | None
    calibration: Mapping[str, Any]
    training: Mapping[str, Any]
    metrics: Mapping[str, Any]
    threshold: float | Sequence[float] | None = None
    extra: Mapping[str, Any] | None = None


def save_head(
    folder: str | Path,
    onnx: bytes,
    card: HeadCard,
    *,
    title: str,
    sections: Sequence[tuple[str, str]],
    files: Mapping[str, bytes] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Path:
    """Write a head: ``model.onnx``, any further files, the model card and the manifest.

    Parameters
    ----------
    folder
        Where.
    onnx
        The network: one float32 input (n, dim) per view, one output ``probabilities`` (n, n_classes).
    card
        What the manifest says.
    title
        Heading of the model card.
    sections
        (heading, Markdown) pairs of the model card.
    files
        Further files of the folder, by name.
    facts
        Front matter of the model card; that of the heads which ship with semclass if None.

    Returns
    -------
    Path
        The manifest.

    Raises
    ------
    ArtifactError
        If it cannot be written.
    """
    fields = {
        "task": card.task,
        "classes": list(card.classes),
        "link": card.link,
        "inputs": dict(card.inputs),
        "encoder": card.encoder,
        "calibration": dict(card.calibration),
        "training": dict(card.training),
        "metrics": dict(card.metrics),
        "threshold": list(card.threshold) if isinstance(card.threshold, Sequence) else card.threshold,
        **(card.extra or {}),
    }
    shipped = {"license": "apache-2.0", "language": "en", "pipeline_tag": "text-classification"}
    text = model_card(title, shipped if facts is None else facts, sections, ["semclass", card.task, "onnx"])
    return save(folder, "head", {"model.onnx": onnx, **(files or {})}, fields, text)
