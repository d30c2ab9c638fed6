# SPDX-License-Identifier: Apache-2.0
"""The comparison of gradients (gradients.py) on those that the CPU device makes of the tiny models: each tensor that is
zero, 0.9 of itself, not finite, shorter or wrong in its largest element is noticed, and rounding is not. Of made-up
tensors, what is 1.5 times the limit is 1.5 times the limit.

    test_gradients.py TOOLS"""
import array
import math
import os
import pathlib
import random
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import gradients
from harness import TEXT, Tools, check, finish, safetensors, scratch

tool = Tools(sys.argv[1])


def changed(values, change):
    return array.array("f", map(change, values))


def largest_wrong(values):
    """Its sign."""
    other = array.array("f", values)
    at = max(range(len(values)), key=lambda i: abs(values[i]))
    other[at] = -other[at]
    return other


def last(values, value):
    """The last element is what max() of Python never sees."""
    return array.array("f", [*values[:-1], value])


CHANGES = {"zero": lambda v: changed(v, lambda x: 0.0), "0.9 of itself": lambda v: changed(v, lambda x: 0.9 * x),
           "of another sign": lambda v: changed(v, lambda x: -x), "wrong in its largest element": largest_wrong}
BROKEN = {"NaN": lambda v: changed(v, lambda x: math.nan), "infinite": lambda v: changed(v, lambda x: math.inf),
          "NaN at its end": lambda v: last(v, math.nan), "infinite at its end": lambda v: last(v, -math.inf),
          "shorter": lambda v: v[:-1]}


def tensors_of(model, dtype):
    """Of few tokens, where gradients cancel most."""
    with scratch():
        tool.must("graph", model, "--layers", "1", "--dtype", dtype, "--batch", "1", "--seq", "2", "-o", "m.fbs")
        tool.must("compile", "m.fbs", "-o", "m.plan", "--arch", "none")
        tool.must("run", "m.plan", "--text", TEXT, "--device", "cpu", "--steps", "1", "--save-gradients", "g.safetensors")
        return gradients.read_tensors("g.safetensors")


def check_model(name, dtype, reference):
    def found(tensor, change):
        return gradients.apart(tensor, reference, {tensor: change(reference[tensor])}, dtype)

    check(gradients.difference(reference, reference, dtype)[0] == 0, f"{name}: not itself")
    least = math.inf
    for tensor in reference:
        for what, change in (CHANGES | BROKEN).items():
            if what in BROKEN:
                check(found(tensor, change) == math.inf, f"{name}: {tensor} {what} is not noticed")
            elif not (gradients.KEY_BIAS.search(tensor) or
                      change is largest_wrong and gradients.OF_RELUS.search(tensor)):
                times = found(tensor, change)
                least = min(least, times)
                check(times > 1.5, f"{name}: {tensor} {what} is {times:.2f} of what it may be")
    # A key bias of zero is its true gradient, one as large as the query's was not summed to zero.
    for tensor in filter(gradients.KEY_BIAS.search, reference):
        query = tensor.replace("k_proj", "q_proj").replace("key", "query").replace("c_attn.k", "c_attn.q")
        times = found(tensor, CHANGES["zero"])
        check(0 < times < 1, f"{name}: {tensor} zero is {times:.2f} of what it may be")
        times = found(tensor, lambda v: reference[query])
        least = min(least, times)
        check(times > 1.5, f"{name}: {tensor} as {query} is {times:.2f} of what it may be")
    # One rounding of each element is noise.
    noise = random.Random(1)
    u = {"fp32": 2.0 ** -24, "bf16": 2.0 ** -9}[dtype]
    rounded = {tensor: changed(values, lambda x: x * (1 + noise.choice([-u, u]))) for tensor, values in reference.items()}
    times = gradients.difference(reference, rounded, dtype)[0]
    check(0 < times < 0.5, f"{name}: a rounding of each element is {times:.2f} of what it may be")
    print(f"{name}: {len(reference)} tensors, a change is {least:.1f} times what it may be at least")


def check_times(name, changed_to, a, dtype, what):
    times = gradients.apart(name, a, {name: changed_to}, dtype)
    check(abs(times - 1.5) < 1e-3, f"{dtype} {what}: {times:.3f} of what it may be, not 1.5")


def check_limits():
    """The numbers are of the text of gradients.py, not of its constants. Tensors: 100 ones, so that an element that is
    wrong is 1/10 of the norm, and a key's bias of four zeros, whose weight has 100 inputs."""
    for dtype, limit, loss in [("fp32", 64 * 2.0 ** -24, 8 * 2.0 ** -24), ("bf16", 8 * 2.0 ** -9, 2.0 ** -12)]:
        for name, times in [("a", 1), ("h.c_attn.q.weight", 3), ("h.k_proj.weight", 3), ("h.query.bias", 3),
                            ("h.fc1.weight", 4)]:
            a = {name: [1.0] * 100}
            check_times(name, [1 + 1.5 * times * limit] * 100, a, dtype, name)
            if times != 4:
                check_times(name, [1 + 1.5 * 3 * times * limit, *a[name][1:]], a, dtype, f"an element of {name}")
        # Three times the limit of scores: of one element where the weight's are alike, else of the norm.
        for weight, what in [([1.0] * 400, "of its elements"), ([20.0] + [0.0] * 399, "of its norm")]:
            bias = [1.5 * 9 * limit] * 4
            check_times("h.k_proj.bias", bias, {"h.k_proj.bias": [0.0] * 4, "h.k_proj.weight": weight}, dtype,
                        f"a key's bias, {what}")
        for sign in [-1, 1]:
            times = gradients.loss_difference(2.0, 2 + 2 * sign * 1.5 * loss, dtype)
            check(abs(times - 1.5) < 1e-3, f"{dtype} loss: {times:.3f} of what it may be, not 1.5")


def check_fused():
    """Queries and keys, far smaller than the values beside them in the same tensor."""
    rows = [[2.0 ** -12, -2.0 ** -13, 2.0 ** -12, 2.0 ** -14, 4.0, -8.0], [2.0 ** -12, 2.0 ** -11, 2.0 ** -12, 0.5, 2.0, 1.0]]
    values = [value for row in rows for value in row]
    parts = {f"h.c_attn.{part}.weight": [*rows[0][at:at + 2], *rows[1][at:at + 2]] for part, at in zip("qkv", [0, 2, 4])}
    with scratch():
        for dtype, width in [("F32", 4), ("BF16", 2)]:
            data = b"".join(struct.pack("<f", value)[-width:] for value in values)
            path = pathlib.Path("fused.safetensors")
            path.write_bytes(safetensors({"h.c_attn.weight": (dtype, [2, 6], data)}))
            found = {name: list(part) for name, part in gradients.read_tensors(path).items()}
            check(found == parts, f"{dtype}: read as {found}")


check_limits()
check_fused()
check(gradients.difference({"a": [1, 2, 3], "b": [.5, .25]}, {"a": [1, math.nan, math.nan], "b": [.5, math.nan]}, "bf16")[0]
      == math.inf, "NaN is not noticed")
check(gradients.difference({"a": [1.0], "b": [1.0], "c": [1.0]}, {"a": [1.0], "b": [0.0], "c": [0.99]}, "bf16")[1] == "b",
      "the largest difference is another's")
check(gradients.difference({"a": [1.0] * 100000}, {"a": [1.0] * 99999 + [2.0]}, "bf16")[0] > 1,
      "one element of many is not noticed")
check(gradients.difference({"a": [0.0], "b": [1.0]}, {"a": [1e-30], "b": [1.0]}, "bf16")[0] == math.inf,
      "what is no zero is not noticed")
for loss, other in [(math.nan, 1), (1, math.nan), (1, math.inf), (math.inf, math.inf), (1, 1.01), (1, 0)]:
    for dtype in gradients.LOSS_LIMIT:
        check(gradients.loss_difference(loss, other, dtype) > 1, f"losses {loss} and {other} in {dtype} are not noticed")
for model in ["gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"]:
    for dtype in ["fp32", "bf16"]:
        check_model(f"{model} {dtype}", dtype, tensors_of(model, dtype))
finish()
