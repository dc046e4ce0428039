"""Adapters to frameworks, engines and servers. Each module needs the extra of its name."""
