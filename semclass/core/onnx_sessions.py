"""Opening ONNX models: the one place that sets threads and other options of onnxruntime."""

from __future__ import annotations

import onnxruntime

from semclass.core.artifacts import Artifact
from semclass.core.errors import ArtifactError


def session_options(threads: int, *, optimise: bool = True, arena: bool = False) -> onnxruntime.SessionOptions:
    """Options of every session. An `arena` keeps the memory of a run for the next: large arrays are slow to get anew."""
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
