"""Fitting heads to labels: estimators, calibration, export to ONNX (extra ``train``)."""
