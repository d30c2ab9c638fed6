# SPDX-License-Identifier: Apache-2.0
"""What the planner of kernels that fuse is told of each operator, against what stands here by hand: its class, the bytes
of its results, and whose bytes it reads."""
from unittest import mock

import torch

import graphs
import harness
from remat import _orders, costs, foreign, fused, fusion

ROWS, WIDTH = 64, 32
WHOLE = 4 * ROWS * WIDTH


def function(x, weight):
    wide = x @ weight
    turned = torch.sin(wide[:, :WIDTH]) * torch.tanh(wide[:, 2 * WIDTH:].to(torch.float64))
    kept = torch.where(turned > 0, turned, wide[:, :WIDTH]).sort(-1).values
    return (kept / turned.amax(-1, keepdim=True)).sum(0) * torch.rand_like(kept)[0]


# Of operators of the forward pass: class, bytes of each result, and the operators whose values it reads, through views.
EXPECTED = {
    "mm": ("opaque", [3 * WHOLE], []),
    "sin": ("pointwise", [WHOLE], ["mm"]),
    "convert_element_type": ("pointwise", [2 * WHOLE], ["mm"]),
    "tanh": ("pointwise", [2 * WHOLE], ["convert_element_type"]),
    "mul": ("pointwise", [2 * WHOLE], ["sin", "tanh"]),
    "sort": ("opaque", [2 * WHOLE, 2 * WHOLE], ["where"]),
    "amax": ("row_reduce", [8 * ROWS], ["mul"]),
    "sum": ("reduce", [8 * WIDTH], ["div"]),
}


def told(joint):
    """By operator: class, bytes of results, and the operators whose values it reads."""
    names, found, made = {}, {}, []

    def node(self, op, inputs, results, phase, node=_orders.Graph.node, **attributes):
        first = node(self, op, inputs, results, phase, **attributes)
        made.append((op, inputs, [bits // 8 * torch.Size(shape).numel() for _, bits, shape, _ in results], first))
        return first
    with mock.patch.object(_orders.Graph, "node", node):
        stands_for = foreign.Foreign(fusion.Fusion(joint), costs.resolve("cpu", joint.module)).stands_for
    for (op, inputs, sizes, first), run in zip(made, stands_for, strict=True):
        if op == "view":
            names[first] = names.get(inputs[0])
            continue
        name = graphs.named(run) if run is not None else None
        names |= {first + index: name for index in range(len(sizes))}
        if name in EXPECTED and name not in found:
            found[name] = op, sizes, [names[one] for one in inputs if names.get(one)]
    return found


def main():
    torch.compiler.reset()
    torch.manual_seed(0)
    given = torch.randn(ROWS, WIDTH, requires_grad=True), torch.randn(WIDTH, 3 * WIDTH, requires_grad=True)
    found = told(fused.joint_of(*graphs.joint(lambda *a: function(*a).sum(), *given)))
    for name, facts in EXPECTED.items():
        harness.check(found.get(name) == facts, f"{name}: {found.get(name)} is told, it is {facts}")
