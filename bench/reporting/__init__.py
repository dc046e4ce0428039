"""Parts of the report: tables, picks, targets, words and the page."""
