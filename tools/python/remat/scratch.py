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
    if not results or results[0].device.type != "cpu":
        return 0
    if node.target in ON_CPU:
        return of_operator(node, [value(one) for one in node.args if tensors(one)])
    return _converted(node)


def of_operator(node, operands):
    """Of operands in the layouts that they have when PyTorch's kernel for `node` runs; of other kernels 0."""
    results = tensors(node)
    if node.target not in ON_CPU or not results or results[0].device.type != "cpu":
        return 0
    return ON_CPU[node.target](operands, results)


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


def _first_product(operands, _):
    """Of the two of native_dropout_backward: first beside the mask converted, then beside the result."""
    return storage_bytes(operands[0])


def _convolution(operands, results):
    """oneDNN copies what does not have its layout: in channels_last, if an operand has that, weights alone; else operands
    before it runs, and its result afterwards."""
    copied = _to_channels_last(operands[:2])
    if copied is not None:
        return copied + _blocked(operands[1]) + STATE_BYTES
    result = _blocked(results[0], [1])
    given = sum(_blocked(one, axes) for one, axes in zip(operands, ([1], [0, 1])) if hint(one.shape[1]) % BLOCK == 0)
    return max(given + result - _bytes(results[0]), result)


def _convolution_backward(operands, _):
    gradient, operand, weight = operands[:3]
    copied = _to_channels_last([gradient, operand, weight])
    if copied is not None:
        return copied + 2 * _blocked(weight) + STATE_BYTES
    return _blocked(gradient, [1]) + _blocked(operand, [1])


def _to_channels_last(operands):
    """Bytes of copies, if there is an operand that says so; else None."""
    if operands[0].dim() != 4:
        return None
    last = [one.is_contiguous(memory_format=torch.channels_last) for one in operands]
    if not any(one and (tensor.stride(1), tensor.stride(3)) == (1, tensor.shape[1]) for one, tensor in zip(last, operands)):
        return None
    return sum(_bytes(tensor) for one, tensor in zip(last, operands) if not one)


def _bytes(tensor):
    return _elements(tensor) * tensor.element_size()


def _blocked(tensor, axes=(0, 1)):
    """Bytes in oneDNN's layout, whose channels are whole blocks."""
    shape = [-(-hint(size) // BLOCK) * BLOCK if axis in axes else hint(size) for axis, size in enumerate(tensor.shape)]
    return math.prod(shape) * tensor.element_size()


BLOCK, STATE_BYTES = 16, 8216  # of oneDNN: channels in a block; what a run keeps beside tensors
# As measured by tests/python/peaks.py: of operands and results. Other operators of a CPU are _converted.
ON_CPU = {aten.native_dropout_backward.default: _first_product, aten.convolution.default: _convolution,
          aten.convolution_backward.default: _convolution_backward}


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
