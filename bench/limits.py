"""How far the library is from what the machine could do, and the encoder beside torch.

The limit of encoding is the time of its int8 matrix products alone: the encoder's own nodes with its own weights, run by
the same library with the same options, and nothing between them. The limit of dense search is the time in which the
vectors' bytes can be read from memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from bench import timing
from bench.growth import questions
from bench.peers.rows import NO_ORIGINAL, original
from semclass import OnnxEncoder
from semclass.core import artifacts
from semclass.core.errors import MissingExtraError, import_extra
from semclass.core.onnx_sessions import session_options
from semclass.core.types import Ragged
from semclass.documents.readers import read_corpus
from semclass.encoders.onnx_encoder import NETWORKS
from semclass.index.passage_index import PassageIndex

PRODUCT = "MatMulIntegerToFloat"
"""Operator of the encoder's int8 matrix products."""

READ_BYTES = 1 << 29
"""Bytes that are read to measure memory bandwidth: far more than any cache holds."""


def passages(data: str, limit: int) -> list[str]:
    """Real passages of four sentences."""
    return [item.text for item in islice(read_corpus(Path(data) / "beir" / "squad4" / "corpus.jsonl"), limit)]


def encoders(data: str, asked: int, batches: int, batch: int) -> dict[str, Any]:
    """The int8 encoder against sentence-transformers with float32 weights: questions one by one, passages in batches."""
    folder = original()
    if folder is None:
        raise MissingExtraError(NO_ORIGINAL["skipped"])
    library = import_extra("sentence_transformers", "bench")
    torch = import_extra("torch", "bench")
    torch.set_num_threads(1)
    peer, ours = library.SentenceTransformer(str(folder), device="cpu"), OnnxEncoder.load(batch_size=batch)

    def torch_encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return peer.encode(list(texts), batch_size=batch, normalize_embeddings=True, show_progress_bar=False)

    def our_encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return ours.encode(texts).rows("pooled")

    jobs = {"semclass": our_encode, "peer": torch_encode}
    texts, read = questions(data, asked), passages(data, batch * batches)
    single = timing.by_turns([[text] for text in texts], jobs)
    grouped = timing.by_turns([read[begin : begin + batch] for begin in range(0, len(read), batch)], jobs, block=1)
    cosines = [np.einsum("nd,nd->n", our_encode(some), torch_encode(some)) for some in (texts, read[:batch])]
    rows = []
    for kind, taken, count, vectors in (("question", single, 1, cosines[0]), ("passage", grouped, batch, cosines[1])):
        each = {name: [seconds / count for seconds in values] for name, values in taken.items()}
        rows.append(
            {
                "text": kind,
                "at_a_time": count,
                "texts": count * len(taken["peer"]),
                **timing.percentiles({f"{name}_ms": values for name, values in each.items()}, 1e3, 3),
                "ratio": round(float(np.median(each["peer"]) / np.median(each["semclass"])), 2),
                "mean_cosine": round(float(vectors.mean()), 4),
            }
        )
    return {"rows": rows}


def products_alone(folder: Path, threads: int) -> tuple[onnxruntime.InferenceSession, list[tuple[int, int]]]:
    """The encoder's int8 matrix products with nothing between them, and the widths (in, out) of each.

    Every product reads the input of its width, so that none waits for another and none can be left out.
    """
    onnx = import_extra("onnx", "train")
    nodes, initializers, widths, wanted = [], [], [], set()
    for network in NETWORKS:
        graph = onnx.load(folder / network).graph
        tensors = {item.name: item for item in graph.initializer}
        for node in graph.node:
            if node.op_type == PRODUCT:
                wide, out = tensors[node.input[1]].dims
                node.input[0] = f"input{wide}"
                nodes.append(node)
                widths.append((int(wide), int(out)))
                initializers += [tensors[name] for name in node.input[1:] if name and name not in wanted]
                wanted |= set(node.input[1:])
    helper, types = onnx.helper, onnx.TensorProto
    inputs = [
        helper.make_tensor_value_info(f"input{wide}", types.UINT8, [1, "length", wide])
        for wide in sorted({wide for wide, _ in widths})
    ]
    outputs = [
        helper.make_tensor_value_info(node.output[0], types.FLOAT, [1, "length", out])
        for node, (_, out) in zip(nodes, widths, strict=True)
    ]
    graph = helper.make_graph(nodes, "products", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString(), session_options(threads, optimise=False)), widths


def products(data: str, rounds: int) -> dict[str, Any]:
    """A question and a passage of median length: encoding whole, its networks, and its matrix products alone, by turns."""
    encoder = OnnxEncoder.load()
    alone, widths = products_alone(artifacts.default_models() / "encoder", encoder.threads)
    rows, large = [], round(large_product(encoder.threads), 1)
    for kind, texts in (("question", questions(data, 500)), ("passage", passages(data, 500))):
        lengths = encoder.tokenize(texts).lengths()
        text = texts[int(np.argsort(lengths, kind="stable")[len(texts) // 2])]
        terms = encoder.tokenize([text])
        pieces = int(terms.lengths()[0]) + 2  # with the two special ones
        taken = timing.by_turns([text] * rounds, _jobs(encoder, alone, widths, text, terms))
        medians = {name: float(np.median(values)) for name, values in taken.items()}
        operations = 2 * pieces * sum(wide * out for wide, out in widths)
        rows.append(
            {
                "text": kind,
                "pieces": pieces,
                **{f"{name}_ms": round(value * 1e3, 4) for name, value in medians.items()},
                "products_share_of_encode": round(medians["products"] / medians["encode"], 3),
                "products_share_of_networks": round(medians["products"] / medians["networks"], 3),
                "int8_gops_of_products": round(operations / medians["products"] / 1e9, 1),
                "int8_gops_of_a_large_product": large,
            }
        )
    return {"rows": rows}


def _jobs(
    encoder: OnnxEncoder,
    alone: onnxruntime.InferenceSession,
    widths: Sequence[tuple[int, int]],
    text: str,
    terms: Ragged,
) -> dict[str, Any]:
    ids = np.concatenate([encoder.special[:1], terms.values, encoder.special[1:]])[None].astype(np.int64)
    mask = np.ones_like(ids)
    rng = np.random.default_rng(0)
    fed = {f"input{wide}": rng.integers(0, 256, (1, ids.shape[1], wide), np.uint8) for wide, _ in widths}

    def networks(_: str) -> Any:
        (states,) = encoder.lower.run(["states"], {"input_ids": ids, "attention_mask": mask})
        return encoder.upper.run(["pooled"], {"states": states, "attention_mask": mask})

    return {
        "encode": lambda text: encoder.encode([text]),
        "networks": networks,
        "products": lambda _: alone.run(None, fed),
    }


def large_product(threads: int, size: int = 1536) -> float:
    """Billions of int8 operations a second in a product that is large enough to keep the processor busy."""
    onnx = import_extra("onnx", "train")
    helper, types = onnx.helper, onnx.TensorProto
    weights = np.random.default_rng(0).integers(-64, 65, (size, size), np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["c"])],
        "product",
        [helper.make_tensor_value_info("a", types.UINT8, [size, size])],
        [helper.make_tensor_value_info("c", types.INT32, [size, size])],
        [onnx.numpy_helper.from_array(weights, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), session_options(threads))
    fed = {"a": np.random.default_rng(1).integers(0, 256, (size, size), np.uint8)}
    return 2 * size**3 / _best(lambda: session.run(None, fed), 8) / 1e9


def dense(index: str, data: str, rounds: int) -> dict[str, Any]:
    """Dense scores of an index against the time in which its vectors can be read from memory."""
    opened, encoder = PassageIndex.load(index, verify=False), OnnxEncoder.load()
    vectors = encoder.encode(questions(data, rounds)).rows("pooled")
    seconds = float(np.median(timing.each(list(vectors), opened.dense_scores)))
    many = np.ones(READ_BYTES // 8, np.int64)
    bandwidth = many.nbytes / _best(many.max, 5)
    held = [segment.pooled_codes for segment in opened.segments]
    codes, floats = sum(each.nbytes for each in held), sum(each.size for each in held) * 4
    return {
        "passages": len(opened),
        "dense_ms": round(seconds * 1e3, 3),
        "bandwidth_gb_per_s": round(bandwidth / 1e9, 2),
        "bytes_kept": codes,
        "kept_limit_ms": round(codes / bandwidth * 1e3, 3),
        "float32_limit_ms": round(floats / bandwidth * 1e3, 3),
        "kept_limit_share": round(codes / bandwidth / seconds, 3),
        "float32_limit_share": round(floats / bandwidth / seconds, 3),
    }


def _best(job: Any, rounds: int) -> float:
    """Least seconds of a job, which is what a limit asks for."""
    job()
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        job()
        found.append(time.perf_counter() - started)
    return min(found)
