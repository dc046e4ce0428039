"""What all other packages build on: errors, types, checks, files, ONNX sessions."""
