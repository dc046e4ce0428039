"""Fitting heads to labels: estimators, calibration, export to ONNX (extra ``train``)."""

from semclass.core.errors import import_extra

try:
    import onnx  # noqa: F401
    import scipy  # noqa: F401
    import sklearn  # noqa: F401
except ImportError as error:
    import_extra(str(error.name), "train")
    raise
