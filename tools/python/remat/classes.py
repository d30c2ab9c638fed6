# SPDX-License-Identifier: Apache-2.0
"""The class of an operator: what Inductor can do with it. PyTorch tags most of them; the tables have the others."""
import math

import torch

from ._orders import RANK_MAX
from ._torch import OpOverload
from .nodes import aten, hint, tensors, value

prims = torch.ops.prims
POINTWISE, REDUCTION, OPAQUE = "pointwise", "reduction", "opaque"

# Each element of their result is a function of a few elements of their operands, but they are not tagged so.
ALSO_POINTWISE = {
    aten.arange, aten.cat, aten.clone, aten.constant_pad_nd, aten.copy, aten.embedding, aten.empty_like,
    aten.flip, aten.full, aten.full_like, aten.gather, aten.index, aten.index_select, aten.lift_fresh_copy,
    aten.masked_fill, aten.ones_like, aten.repeat, aten.scalar_tensor, aten.select_scatter, aten.slice_scatter,
    aten.tril, aten.triu, aten.zeros_like, aten._to_copy, aten._unsafe_index, aten._unsafe_masked_index,
    prims.inductor_lookup_seed, prims.inductor_randint, prims.inductor_random, prims.iota}
# Inductor makes another operator, or several kernels, of them.
OPAQUE_REDUCTIONS = {aten.count_nonzero, aten.logsumexp, aten.norm}


def of(node):
    """The class of a scheduled node. What is not known is opaque, a kernel of its own."""
    target = node.target
    results = tensors(node)
    if not isinstance(target, OpOverload) or not results or target._schema.is_mutable or rank(node) > RANK_MAX:
        return OPAQUE
    packet = target._overloadpacket
    if torch.Tag.pointwise in target.tags or packet in ALSO_POINTWISE:
        return POINTWISE if isinstance(value(node), torch.Tensor) else OPAQUE
    if torch.Tag.reduction in target.tags and packet not in OPAQUE_REDUCTIONS and reduced_axes(node) is not None:
        return REDUCTION
    return OPAQUE


def rank(node):
    return max(tensor.dim() for source in [node, *node.all_input_nodes] for tensor in tensors(source))


def reduced_axes(node):
    """Of its one tensor operand, in order; None if that is not what it does."""
    operand = value(node.args[0]) if node.args else None
    if not isinstance(operand, torch.Tensor) or len([one for one in node.all_input_nodes if tensors(one)]) != 1:
        return None
    given = _argument(node, "dim", "dims")
    axes = [given] if isinstance(given, int) else list(given or range(operand.dim()))
    axes = sorted({axis % max(operand.dim(), 1) for axis in axes})
    kept = math.prod(hint(size) for axis, size in enumerate(operand.shape) if axis not in axes)
    fits = all(math.prod(map(hint, tensor.shape)) == kept for tensor in tensors(node))
    return axes if fits and operand.dim() else None


def _argument(node, *names):
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.name in names:
            return node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
    return None


def is_gather(node):
    """It reads as much of its first operand as it writes, from anywhere in it."""
    return getattr(node.target, "_overloadpacket", None) in (
        aten.embedding, aten.gather, aten.index, aten.index_select, aten._unsafe_index, aten._unsafe_masked_index,
        prims.inductor_lookup_seed)



def widens(node):
    """A cast to as many bytes or more, which each reader makes for itself."""
    if node.target is not prims.convert_element_type.default:
        return False
    return tensors(node)[0].element_size() >= tensors(node.args[0])[0].element_size()
