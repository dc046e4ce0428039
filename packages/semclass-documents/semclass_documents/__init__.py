"""Readers of HTML, office files, PDF and mail for semclass, in a process with limits; repeated text."""
