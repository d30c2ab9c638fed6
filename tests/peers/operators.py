# SPDX-License-Identifier: Apache-2.0
"""Peak and time of a forward and a backward graph whose operators run one after the other as kernels of their own.

Shares nothing with the planner of tools/python/remat but what it is given: the time of an operator. A storage lives
from the operator that makes it to the last that reads it or a view of it. Results of a graph live to its end; inputs of
the backward graph, what was saved and tangents, from its beginning to their last reader; parameters and other inputs
of the forward graph are not counted."""
import collections
import dataclasses
import operator

import torch


@dataclasses.dataclass(frozen=True)
class Ran:
    peak_bytes: int
    time_ns: float


def run(forward, backward, time_ns, rounding=1):
    given = {node.name for node in forward.graph.find_nodes(op="placeholder")}
    left = {node.name for node in _output(forward).all_input_nodes} - given
    peaks = [_peak(forward, set(), rounding), _peak(backward, left, rounding)]
    return Ran(max(peaks), graph_time(forward, time_ns) + graph_time(backward, time_ns))


def graph_time(module, time_ns):
    return sum(time_ns(node) for node in module.graph.nodes if _runs(node))


def _output(module):
    return next(iter(reversed(module.graph.nodes)))


def _tensors(node):
    value = node.meta.get("val")
    return [one for one in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(one, torch.Tensor)]


def _key(tensor):
    return tensor.untyped_storage()._cdata


def _runs(node):
    if node.op != "call_function" or node.target is operator.getitem or not _tensors(node):
        return False
    theirs = {_key(tensor) for source in node.all_input_nodes for tensor in _tensors(source)}
    return any(_key(tensor) not in theirs for tensor in _tensors(node))


def _storages(order):
    """By node: the storages that its value lies in, each as (the node that made it, key)."""
    holders = {}
    for node in order:
        theirs = {key: (maker, key) for source in node.all_input_nodes for maker, key in holders[source]}
        holders[node] = {theirs.get(_key(tensor), (node, _key(tensor))) for tensor in _tensors(node)}
    return holders


def _peak(module, counted_inputs, rounding):
    order = list(module.graph.nodes)
    holders = _storages(order)
    size, last = {}, {}
    for index, node in enumerate(order):
        is_input = node.op in ("placeholder", "get_attr")
        if not is_input or node.name in counted_inputs or "tangents" in node.name:
            size |= {(node, _key(tensor)): -(-tensor.untyped_storage().nbytes() // rounding) * rounding
                     for tensor in _tensors(node) if (node, _key(tensor)) in holders[node]}
        last |= {one: index for source in [node, *node.all_input_nodes] for one in holders[source] if one in size}
    ends = collections.defaultdict(int)
    for one, index in last.items():
        ends[index] += size[one]
    live = peak = sum(size[one] for one in size if one[0].op == "placeholder")
    for index, node in enumerate(order):
        live += sum(size[one] for one in size.keys() & holders[node] if one[0] is node and node.op != "placeholder")
        peak = max(peak, live)
        live -= ends[index]
    return peak
