"""Copies of arrays, written as loops.

``y[:n] = x`` costs numba seconds to compile, for the text of an error about shapes; loops and sums
of whole arrays (``y += a * x``) differ as much.
"""

from maxent._support.compiling.kernels import njit


@njit(cache=True, helper=True, nogil=True)
def copy(source, target):
    """The first entries of ``target`` become those of ``source``, which is as long or shorter."""
    for i in range(source.size):
        target[i] = source[i]


@njit(cache=True, helper=True, nogil=True)
def copy_block(source, target):
    """The upper left corner of ``target`` becomes the matrix ``source``."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]
