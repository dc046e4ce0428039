"""Reads HTML, office files, PDF and mail for semclass in a process with limits, and finds repeated text."""
