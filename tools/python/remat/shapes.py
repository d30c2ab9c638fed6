# SPDX-License-Identifier: Apache-2.0
"""Shapes of foreign values: those of traced tensors, and one shape restated over another of as many elements."""
import math

from .nodes import hint, moved_bytes, tensors
from ._orders import RANK_MAX


def sizes(tensor):
    """The shape, without a size of 0 and with at least one axis; one axis for too many, which only opaque operators
    read."""
    shape = [max(hint(size), 1) for size in tensor.shape] or [1]
    return shape if len(shape) <= RANK_MAX else [math.prod(shape)]


def bits(tensor):
    return 8 * tensor.element_size()


def count(node):
    """Elements that are there once."""
    tensor = tensors(node)[0]
    return moved_bytes(tensor) // tensor.element_size()


def without_ones(shape):
    """Without the axes of length 1 in front, over which all broadcasts are alike."""
    return shape[next((axis for axis, size in enumerate(shape) if size > 1), len(shape)):]


def dense_strides(shape):
    return [math.prod(shape[axis + 1:]) for axis in range(len(shape))]


def dense(view, whole):
    """`view` has the elements of `whole` in order, and perhaps repeated."""
    if view.dtype != whole.dtype or hint(view.storage_offset()) != hint(whole.storage_offset()):
        return False
    if view.shape == whole.shape and view.stride() == whole.stride():
        return True
    axes = [(hint(size), hint(stride)) for size, stride in zip(view.shape, view.stride()) if hint(size) > 1 and hint(stride)]
    expected = dense_strides([size for size, _ in axes])
    return (whole.is_contiguous() and math.prod(size for size, _ in axes) == math.prod(map(hint, whole.shape))
            and [stride for _, stride in axes] == expected)


def blocks(a, b):
    """The axes of two shapes in groups of as many elements, or None."""
    found, i, j = [], 0, 0
    while i < len(a) or j < len(b):
        begin = i, j
        i, j = min(i + 1, len(a)), min(j + 1, len(b))
        while math.prod(a[begin[0]:i]) != math.prod(b[begin[1]:j]):
            if math.prod(a[begin[0]:i]) < math.prod(b[begin[1]:j]):
                i += 1
            else:
                j += 1
            if i > len(a) or j > len(b):
                return None
        found.append((range(begin[0], i), range(begin[1], j)))
    return found


def restated(part, logical, stated):
    """The shape over `stated` of what has the shape `part`, of some axes of `logical`, or None."""
    shape = []
    for axes, new in blocks(logical, stated) or ():
        size = math.prod(part[axis] for axis in axes)
        if size not in (1, math.prod(logical[axis] for axis in axes)):
            return None
        shape += [stated[axis] if size > 1 else 1 for axis in new]
    return shape or None
