"""Check the installed package in a clean environment: what is there, what is not, and how large it is."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import semclass
from semclass.core import artifacts

LIMIT_MB = 254

site = Path(sysconfig.get_paths()["purelib"])
assert Path(semclass.__file__).is_relative_to(site), semclass.__file__
assert artifacts.default_models().is_relative_to(site), "the wheel does not carry the models"
absent = ["torch", "sklearn", "scipy", "joblib", "onnx", "matplotlib", "sentence_transformers", "bm25s"]
for module in [*absent, "fastapi", "uvicorn", "langchain_core", "llama_index", "haystack"]:
    assert importlib.util.find_spec(module) is None, f"{module} is in the base install"

wheel = (importlib.metadata.distribution("semclass").read_text("WHEEL") or "").splitlines()
assert {"Root-Is-Purelib: true", "Tag: py3-none-any"} <= set(wheel), f"the wheel is not pure Python: {wheel}"
package = Path(semclass.__file__).parent
assert (package / "py.typed").is_file(), "the wheel lacks py.typed"

TOOLS = {"pip", "setuptools", "_distutils_hack", "pkg_resources"}  # every environment has these
files = [path for path in site.rglob("*") if path.is_file()]
installed = sum(path.stat().st_size for path in files if path.relative_to(site).parts[0].split("-")[0] not in TOOLS)
print(f"base install: {installed / 1e6:.0f} MB (limit {LIMIT_MB})")
assert installed <= LIMIT_MB * 1e6

libraries = ("numpy", "onnxruntime", "click", "tokenizers", "markdown_it")
code = f"import sys, semclass; print([name for name in {libraries} if name in sys.modules])"
heavy = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
assert heavy == "[]", f"import semclass loads {heavy}"

run = subprocess.run(
    ["semclass", "classify", "questions", "Who was Galileo?", "--json"], check=True, capture_output=True
)
print(json.loads(run.stdout)["label"])
run = subprocess.run(["semclass", "evaluate", "nowhere"], check=False, capture_output=True, text=True)
assert run.returncode == 2, run
print(run.stderr.strip())
subprocess.run(["semclass", "models"], check=True)
