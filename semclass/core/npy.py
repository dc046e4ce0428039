"""Arrays in ``.npy`` files: plain numbers, row by row, that fill the file.

The header is compared with the size of the file first: a few bytes cannot ask for more memory than the file has.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

LONGEST_HEADER = 1 << 16
"""Largest number of bytes before the array."""


@dataclass(frozen=True)
class Layout:
    """The header of a ``.npy`` file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int  # byte at which the array begins

    @classmethod
    def of(cls, head: bytes, size: int) -> Layout:
        """Read the header from the first bytes of a file; a ValueError if no plain array fills the file's `size` bytes."""
        file = io.BytesIO(head)
        if (version := np.lib.format.read_magic(file)) != (1, 0):
            raise ValueError(f"a .npy file of version {version}")
        try:
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        except (SyntaxError, TokenError, TypeError, RecursionError, MemoryError) as error:  # it is parsed as Python
            raise ValueError("no valid header of a .npy file") from error
        if dtype.kind not in "buif" or not dtype.isnative or (fortran and len(shape) > 1) or min(shape, default=0) < 0:
            raise ValueError(f"an array of {dtype} and shape {shape}, but only numbers in row order are allowed")
        if file.tell() + math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{size} bytes for an array of {dtype} and shape {shape}")
        return cls(dtype, shape, file.tell())

    def array(self, data: Any) -> npt.NDArray[Any]:
        """The array in the bytes of its file."""
        return np.frombuffer(data, self.dtype, math.prod(self.shape), self.begin).reshape(self.shape)


def array_of(data: bytes) -> npt.NDArray[Any]:
    """The array in the bytes of a ``.npy`` file, read-only; a ValueError if they are not those of a plain array."""
    return Layout.of(data[:LONGEST_HEADER], len(data)).array(data)
