"""Adapters to frameworks, engines and servers; each module needs the extra of its name."""
