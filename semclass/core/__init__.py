"""What every other package stands on: errors, types, checks, files, ONNX sessions."""
