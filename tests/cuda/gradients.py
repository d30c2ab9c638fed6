# SPDX-License-Identifier: Apache-2.0
"""Loss and gradients of one step from two devices: files, and how far apart they may be.

Both round and add the same values, in other orders. A rounding to a dtype of unit roundoff u is at most u; some
64 of them on the way to a gradient add up like a random walk: 8 u. In bf16 u is 2^-9, and what else rounds, in
f32, is nothing beside it. In f32 u is 2^-24, and each of the sums on the way, of 64 terms and more, rounds about
64 times itself: 8 * 8 u. That limits |a - b| / |a| of each tensor, Euclidean norms, and three times that the
largest element of a - b against the largest of a: three standard deviations and more, for what an outlier is.

Gradients of queries and keys are sums of dout * v less their mean over the keys, which cancels where the keys'
values are alike: three times the limit. The bias of a key adds one number to all scores of a query, which softmax
ignores, so that its true gradient is zero. What is left is the rounding of the rows that it sums, and the gradient of
the same linear's weight sums them too, times inputs of about one (1/3 to 3): three times |weight| / sqrt(inputs) is
its scale. A relu whose input differs by d, of a standard deviation of one, is open on one device alone with
probability 0.4 d, and then its row of fc1 has a token more on one side: sqrt(2 * 0.4 * 2^-9) = 4 % of the norm in
bf16, so four times the limit, and none for one element.

A tensor that is zero, or 0.9 of what it should be, is beyond every limit (test_gradients.py)."""
import array
import math
import operator
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import floats, read_safetensors

LIMIT = {"fp32": 8 * 8 * 2.0 ** -24, "bf16": 8 * 2.0 ** -9}
OUTLIER = 3  # of an element
# A mean over tokens: what the roundings of each of them add to it has either sign.
LOSS_LIMIT = {"fp32": 8 * 2.0 ** -24, "bf16": 2.0 ** -12}
SCORES, OF_SCORES = 3, re.compile(r"\.(q_proj|k_proj|query|key|c_attn\.[qk])\.(weight|bias)$")
KEY_BIAS = re.compile(r"\.(k_proj|key|c_attn\.k)\.bias$")
RELUS, OF_RELUS = 4, re.compile(r"\.fc1\.")
FUSED = re.compile(r"(.*\.c_attn)\.(weight|bias)$")


def split_fused(name, shape, values):
    """Queries, keys and values apart, which are thirds of the last axis of one tensor in GPT-2: what the largest
    of them hides in the others would not be seen."""
    fused, width = FUSED.match(name), shape[-1] // 3 if shape else 0
    if not fused:
        return {name: values}
    rows = range(0, len(values), shape[-1])
    return {f"{fused[1]}.{part}.{fused[2]}":
            array.array("f", [value for row in rows for value in values[row + k * width:row + (k + 1) * width]])
            for k, part in enumerate("qkv")}


def read_tensors(path):
    """Name -> floats of a safetensors file."""
    found = {}
    for name, tensor in read_safetensors(path).items():
        found |= split_fused(name, tensor[1], floats(tensor))
    return found


def apart(name, a, b, dtype):
    """Of one tensor, as a multiple of what is allowed; infinite for what is not finite."""
    if len(a[name]) != len(b[name]) or not math.isfinite(sum(a[name]) + sum(b[name])):
        return math.inf
    reference, scale = name, 1
    if KEY_BIAS.search(name):
        reference = name.removesuffix("bias") + "weight"
        scale = 3 / math.sqrt(len(a[reference]) / len(a[name]))
    limit = LIMIT[dtype] * (RELUS if OF_RELUS.search(name) else SCORES if OF_SCORES.search(name) else 1)
    found = [(math.dist(a[name], b[name]), scale * math.hypot(*a[reference]))]
    if not OF_RELUS.search(name):
        found.append((max(map(abs, map(operator.sub, a[name], b[name]))) / OUTLIER, max(map(abs, a[reference]))))
    return max(error / (limit * size) if size else math.inf if error else 0.0 for error, size in found)


def difference(a, b, dtype):
    """The largest over all tensors, as a multiple of what is allowed, and whose it is; `a` is the reference."""
    if a.keys() != b.keys() or not a:
        sys.exit(f"tensors {sorted(a)} and {sorted(b)}")
    return max((apart(name, a, b, dtype), name) for name in a)


def loss_difference(a, b, dtype):
    """As a multiple of what is allowed."""
    return abs(b / a - 1) / LOSS_LIMIT[dtype] if math.isfinite(a) and math.isfinite(b) else math.inf
