"""The HTTP service; needs the extra ``serve``."""
