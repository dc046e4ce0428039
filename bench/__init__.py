"""Measuring semclass beside what else one could use: accuracy, time, memory and money. Run ``python -m bench --help``."""

import sys
from pathlib import Path

# training scripts import one another by their bare names, and their readers of data are used here, too
sys.path.insert(0, str(Path(__file__).parent.parent / "training"))
