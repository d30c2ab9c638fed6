# SPDX-License-Identifier: Apache-2.0
"""Memory that a kernel allocates and frees while it runs, beside its results."""
import math

import torch
from torch import fx

from ._torch import HigherOrderOperator
from .nodes import aten, hint, storage, storage_bytes, tensors, value


def scratch_bytes(node):
    """Bytes of a run of `node` that no node shows, as far as they are known."""
    if isinstance(node.target, HigherOrderOperator):
        return max([_peak_inside(module) for module in _regions(node)], default=0)
    results = tensors(node)
    if results and results[0].device.type == "cpu":
        return ON_CPU.get(node.target, _converted)(node)
    return 0


def _elements(tensor):
    return math.prod(hint(size) for size in tensor.shape)


def _converted(node):
    """CPU kernels of pointwise operators copy operands of another dtype than the one they compute in."""
    if torch.Tag.pointwise not in getattr(node.target, "tags", ()) or node.target in (aten._to_copy.default,
                                                                                       aten.where.self):
        return 0
    operands = [tensor for operand in node.all_input_nodes for tensor in tensors(operand)]
    if not operands:
        return 0
    computed = value(node).dtype if isinstance(value(node), torch.Tensor) else operands[0].dtype
    for tensor in operands:
        computed = torch.promote_types(computed, tensor.dtype) if tensor.dim() else computed
    return sum(_elements(tensor) * computed.itemsize for tensor in operands
               if tensor.dim() and tensor.dtype != computed)


def _first_product(node):
    """Of the two of native_dropout_backward: first beside the mask converted, then beside the result."""
    return storage_bytes(value(node.args[0]))


def _reordered(node):
    """A convolution copies its operands to a layout of its own, and its result from it; with kernels of one element it
    does not."""
    operand, weight = map(value, node.args[:2])
    if all(hint(size) == 1 for size in weight.shape[2:]):
        return 0
    return max(storage_bytes(operand) + storage_bytes(weight), storage_bytes(tensors(node)[0]))


def _reordered_backward(node):
    gradient, operand, weight = map(value, node.args[:3])
    if all(hint(size) == 1 for size in weight.shape[2:]):
        return 0
    return storage_bytes(gradient) + storage_bytes(operand)


# As measured by tests/python/peaks.py; other operators of a CPU are _converted.
ON_CPU = {aten.native_dropout_backward.default: _first_product, aten.convolution.default: _reordered,
          aten.convolution_backward.default: _reordered_backward}


def _regions(node):
    """The graphs that a higher-order operator runs."""
    owner = node.graph.owning_module
    for operand in node.all_input_nodes:
        module = getattr(owner, str(operand.target), None) if operand.op == "get_attr" and owner is not None else None
        if isinstance(module, fx.GraphModule):
            yield module


def _peak_inside(module):
    """The largest number of bytes live at once in the order of a graph, without its inputs and what it returns."""
    order = list(module.graph.nodes)
    kept = {storage(tensor) for node in order if node.op == "placeholder" for tensor in tensors(node)}
    kept |= {storage(tensor) for node in order[-1].all_input_nodes for tensor in tensors(node)}
    last, size = {}, {}
    for index, node in enumerate(order):
        for source in [node, *node.all_input_nodes]:
            for tensor in tensors(source):
                if storage(tensor) not in kept:
                    last[storage(tensor)] = index
                    size[storage(tensor)] = storage_bytes(tensor)
    live = peak = 0
    alive = set()
    for index, node in enumerate(order):
        made = {storage(tensor) for tensor in tensors(node)} & set(size) - alive
        alive |= made
        live += sum(size[one] for one in made)
        peak = max(peak, live + (scratch_bytes(node) if node.op == "call_function" else 0))
        for one in [one for one in alive if last[one] == index]:
            alive.remove(one)
            live -= size[one]
    return peak
