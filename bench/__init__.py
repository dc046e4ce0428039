"""Measuring semclass beside what else one could use: accuracy, time, memory and money. Run ``python -m bench --help``."""
