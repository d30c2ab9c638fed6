# SPDX-License-Identifier: Apache-2.0
"""The meter of Inductor's kernels against counts by hand, on the CPU and for an H100 that is not there.

    meter_counts.py BUILD_DIRECTORY"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness
import torch
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import meter
import operators

MIB = 1 << 20
SIDE = 1024  # a square of f32 has 4 MiB
ROWS, WIDTH, LOOKUPS = 32768, 256, 512


def chain(x):
    return x.sin().cos() * 2


def two_results(x):
    return x.sin() + 1, x.cos() * 2


def product(x, y):
    return (x @ y).sin()


def product_kept(x, y):
    return torch.ops.prims.inductor_force_stride_order.default(x @ y, [SIDE, 1]).sin()


def row(x):
    return x * (x * x).sum(-1, keepdim=True)


def halves(x):
    return x[:, :SIDE // 2] + x[:, SIDE // 2:]


def cast(x):
    return x.to(torch.bfloat16)


def lookup(table, ids):
    return table[ids].sin() * 2


def long_lived(x):
    first = x @ x
    return (first @ x) @ first


def scattered(table, ids):
    return torch.zeros_like(table).index_put([ids], table[ids].sin(), accumulate=True)


def square(device):
    return (torch.empty(SIDE, SIDE, device=device),)


def squares(device):
    return square(device) + square(device)


def table_and_ids(device):
    return torch.empty(ROWS, WIDTH, device=device), torch.empty(LOOKUPS, dtype=torch.int64, device=device)


SQUARE = 4 * MIB
LOOKED_UP = LOOKUPS * WIDTH * 4
# Function, inputs, bytes and flops of each kernel, and the peak, by hand. Inputs are parameters, which are not counted,
# but those of the last case, which may be freed as what is saved for a backward pass.
CASES = [
    (chain, square, [(2 * SQUARE, 0)], SQUARE),
    (two_results, square, [(3 * SQUARE, 0)], 2 * SQUARE),
    (product, squares, [(3 * SQUARE, 2 * SIDE**3), (2 * SQUARE, 0)], 2 * SQUARE),
    (product_kept, squares, [(3 * SQUARE, 2 * SIDE**3), (2 * SQUARE, 0)], 2 * SQUARE),
    (row, square, [(2 * SQUARE, 0)], SQUARE),
    (halves, square, [(SQUARE + SQUARE // 2, 0)], SQUARE // 2),
    (cast, square, [(SQUARE + SQUARE // 2, 0)], SQUARE // 2),
    (lookup, table_and_ids, [(2 * LOOKED_UP + 8 * LOOKUPS, 0)], LOOKED_UP),
    (scattered, table_and_ids, [(ROWS * WIDTH * 4, 0), (3 * LOOKED_UP + 8 * LOOKUPS, 0)], ROWS * WIDTH * 4),
    (long_lived, square, [(2 * SQUARE, 2 * SIDE**3)] + 2 * [(3 * SQUARE, 2 * SIDE**3)], 3 * SQUARE),
    (chain, square, [(2 * SQUARE, 0)], 2 * SQUARE),
]


def traced(function, make, device, are_parameters):
    with FakeTensorMode() as mode:
        graph = make_fx(function, select_decomp_table(), tracing_mode="fake")(*make(device))
    for number, node in enumerate(graph.graph.find_nodes(op="placeholder"), 1):
        node.target = node.name = f"{'primals' if are_parameters else 'saved'}_{number}"
    graph.recompile()
    return graph


def check_counts(device):
    for number, (function, make, kernels, peak) in enumerate(CASES, 1):
        found = meter.lower(traced(function, make, device, number < len(CASES)))
        what = f"case {number}, {function.__name__}, on {device}"
        counted = [(kernel.bytes, kernel.flops) for kernel in found.kernels]
        harness.check(counted == kernels, f"{what}: {counted}, by hand {kernels}")
        harness.check(found.peak_bytes == peak, f"{what}: peak {found.peak_bytes}, by hand {peak}")


def check_columns():
    """A GPU divides long columns among blocks and adds their sums."""
    rows, width = 1 << 17, 64
    for device, count in ("cpu", 1), ("cuda", 2):
        found = meter.lower(traced(lambda x: x.sum(0), lambda device: (torch.empty(rows, width, device=device),), device,
                                   True))
        harness.check(len(found.kernels) == count, f"column sums on {device}: {len(found.kernels)} kernels, not {count}")


def view_and_itself(x):
    made = x.sin()
    return made.view(SIDE, SIDE) @ x, made


def check_operators():
    """Operator by operator: in the forward pass `made`, of which a view is read, lives beside the product, and is saved;
    in the backward pass it lives beside tangent and result. With `made` as a result alone nothing is added."""
    forward = traced(view_and_itself, square, "cuda", True)
    _, saved = next(iter(forward.graph.find_nodes(op="output"))).all_input_nodes
    backward = traced(lambda tangents, saved: (tangents * saved).cos(), squares, "cuda", True)
    for node, name in zip(backward.graph.find_nodes(op="placeholder"), ("tangents_1", saved.name)):
        node.target = node.name = name
    both = operators.run(forward, backward, lambda node: 1)
    harness.check((both.peak_bytes, both.time_ns) == (3 * SQUARE, 4), f"operators of both passes: {both}")
    alone = operators.run(forward, traced(chain, square, "cuda", True), lambda node: 1)
    harness.check((alone.peak_bytes, alone.time_ns) == (2 * SQUARE, 5), f"operators of a forward graph: {alone}")


def main():
    check_operators()
    for device in ("cpu", "cuda"):
        check_counts(device)
    check_columns()
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
