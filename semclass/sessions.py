"""Opening ONNX models: the one place that sets threads and other options of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

from semclass.errors import ArtifactError


def session_options(threads: int, *, optimise: bool = True) -> onnxruntime.SessionOptions:
    """Options of every session, see :func:`open_session`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors reach the caller as exceptions
    # waiting threads that spin would take processor time from the rest of a service
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_ENABLE_BASIC
    return options


def open_session(path: Path, threads: int, *, optimise: bool = True) -> onnxruntime.InferenceSession:
    """Open an ONNX model on the CPU.

    Parameters
    ----------
    path
        The ``.onnx`` file, verified by the caller.
    threads
        Threads within an operator; operators run one after another.
    optimise
        Whether onnxruntime may rewrite the graph; off for graphs that are written with fused operators already, which
        then load faster.

    Returns
    -------
    InferenceSession
        A session that many threads may share.

    Raises
    ------
    ArtifactError
        If onnxruntime cannot read the model.
    """
    try:
        return onnxruntime.InferenceSession(
            str(path), session_options(threads, optimise=optimise), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime raises bare classes of its own for every cause
        raise ArtifactError(f"{path} cannot be opened by onnxruntime: {error}") from error
