"""Commands that make shipped models again: their scripts are there, can be imported, and know the options."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest
from world import ROOT

pytest.importorskip("onnx")
pytest.importorskip("safetensors")
pytest.importorskip("sklearn")

from command import filled_card

SCRIPTS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "training").glob("*.py"))}
SHARED = SCRIPTS["command.py"] + SCRIPTS["tuning_texts.py"]
PAGES = (
    "training/rebuild.sh",
    "docs/howto/train.md",
    "docs/howto/encoder.md",
    "packages/semclass-multilingual/README.md",
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_imported(name):
    importlib.import_module(name.removesuffix(".py"))


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_name_scripts_and_their_options(page):
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"(?:python training/|make )(\w+\.py)(.*)", text)
    assert commands
    for script, options in commands:
        for option in re.findall(r"--([a-z][a-z-]+)", options):
            assert re.search(rf'"(--)?{option.replace("-", "[-_]")}"', SCRIPTS[script] + SHARED), (script, option)


def test_every_shipped_model_has_a_command():
    text = Path(ROOT / "training/rebuild.sh").read_text(encoding="utf-8")
    made = set(re.findall(r'--out "\$models/([\w/]+)"', text))
    shipped = {path.parent.relative_to(ROOT / "models").as_posix() for path in (ROOT / "models").rglob("manifest.json")}
    assert {name for name in shipped if name not in made} == {"pairs/entailment"}  # which `pairs` writes


MULTILINGUAL = ROOT / "packages/semclass-multilingual/semclass_multilingual/models"
CARDS = {
    name: ROOT / "models" / name
    for name in ("codebooks", "encoder", "entailment", "in_scope", "language", "passages", "questions", "sparse")
} | {"plain_encoder": ROOT / "models/encoder", "frozen_questions": MULTILINGUAL / "questions"}

BESIDE = {
    "codebooks": ["language", "usual"],
    "encoder": ["language", "publisher", "more", "limits"],
    "frozen_questions": ["language", "table", "languages"],
    "passages": ["language", "kinds", "reads", "languages", "table", "sources"],
    "plain_encoder": ["language", "publisher"],
    "questions": ["table"],
}
"""Words of a script on a card, beside the fields of the manifest."""


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_filled_with_the_fields_of_its_manifest(name):
    manifest = json.loads((CARDS[name] / "manifest.json").read_text(encoding="utf-8"))
    card = filled_card(name, {**manifest, **dict.fromkeys(BESIDE.get(name, ()), "words")})
    front, *sections = re.split("^## ", card, flags=re.MULTILINE)
    assert front.startswith("---\nlibrary_name: semclass\nlicense: ")
    assert len(sections) >= 4
    assert sections[0].startswith("What it")
    assert all(text.partition("\n")[2].strip() for text in sections)
