"""Memory goes back to the system where the C library is glibc, and the user did not decide otherwise."""

import subprocess
import sys

PROGRAM = """
import ctypes
from semclass.core.heap import RETURNED, return_memory
asked = []
class Library:
    def mallopt(self, parameter, value):
        asked.append((parameter, value))
ctypes.CDLL = lambda name: Library() if {there} else object()
return_memory()
print(asked == [(-1, RETURNED), (-3, RETURNED)], len(asked))
"""


def run(there, **environment):
    program = PROGRAM.format(there=there)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_large_blocks_are_returned():
    assert run(there=True) == ["True", "2"]


def test_what_the_user_set_stays():
    assert run(there=True, MALLOC_MMAP_THRESHOLD_="1000000") == ["False", "0"]


def test_another_c_library_is_left_alone():
    assert run(there=False) == ["False", "0"]
