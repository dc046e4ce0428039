"""Models of semclass for many languages: ``semclass.Models.load("multilingual")`` opens the folder."""

from pathlib import Path

FOLDER = Path(__file__).parent / "models"
"""The folder, with the layout of semclass's own ``models/``."""
