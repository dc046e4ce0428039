"""The HTTP service: the library's answers, asked for over the wire; needs the extra ``serve``."""
