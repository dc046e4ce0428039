"""Base of all other packages: errors, types, checks, files, ONNX sessions."""
