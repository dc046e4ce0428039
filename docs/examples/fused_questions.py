"""Classify questions with onnxruntime and tokenizers alone: what a service in any language does with a fused folder.

Make it with: python training/export_fused.py --task questions --out FOLDER
Then: python docs/examples/fused_questions.py FOLDER "When was the bridge built?"
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers

if len(sys.argv) < 3:
    sys.exit(__doc__)
folder, questions = Path(sys.argv[1]), sys.argv[2:]
manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
fine_classes, coarse_classes = manifest["outputs"]["fine"], manifest["outputs"]["coarse"]

# the head was trained on questions with their mark
questions = [f"{text.rstrip()}?" if text.rstrip()[-1:].isalnum() else text for text in questions]
tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.enable_truncation(manifest["max_length"])
tokenizer.enable_padding()  # on the right; the mask says what is padding
encodings = tokenizer.encode_batch(questions)
ids = np.array([item.ids for item in encodings], np.int64)
mask = np.array([item.attention_mask for item in encodings], np.int64)

session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
fine, coarse = session.run(["fine", "coarse"], {"input_ids": ids, "attention_mask": mask})

for question, narrow, broad in zip(questions, fine, coarse, strict=True):
    best = coarse_classes[broad.argmax()]
    # the fine answer is the best one within the coarse answer
    within = max((value, name) for value, name in zip(narrow, fine_classes, strict=True) if name.startswith(f"{best}:"))
    print(f"{best}\t{broad.max():.4f}\t{within[1]}\t{within[0]:.4f}\t{question}")
