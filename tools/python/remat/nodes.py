# SPDX-License-Identifier: Apache-2.0
"""Facts of one node of a joint graph: its tensors, their storages and bytes, and the kind of its operator."""
import operator
import re

import torch
from torch import fx

from ._torch import (HigherOrderOperator, OpOverload, is_rng_op, optimization_hint, run_and_save_rng_state,
                     run_with_rng_state, tree_leaves)
from .errors import Refused

aten = torch.ops.aten
COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "symm_mem", "_dtensor")
SIZE_WITHOUT_HINT = 8192  # of a dimension that depends on data


def hint(size):
    """A symbolic size as it was when the graph was traced."""
    return size if isinstance(size, int) else int(optimization_hint(size, fallback=SIZE_WITHOUT_HINT))


def value(node):
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def tensors(node):
    found = value(node)
    if isinstance(found, torch.Tensor):
        return [found]
    return [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)] if found is not None else []


def storage(tensor):
    """What identifies the memory of a traced tensor."""
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError as error:
        raise Refused(f"a tensor of layout {tensor.layout} has no storage whose bytes could be counted") from error


def storage_bytes(tensor, rounding=1):
    count = hint(tensor.untyped_storage().nbytes())
    return -(-count // rounding) * rounding


def moved_bytes(tensor):
    """Bytes that a kernel moves to read or write the tensor: a broadcast dimension counts once."""
    count = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride()):
        count *= hint(size) if hint(stride) else 1
    return count


def operator_name(node):
    name = str(node.target)
    return name if isinstance(node.target, OpOverload) else getattr(node.target, "__name__", name)


def is_getitem(node):
    return node.op == "call_function" and node.target is operator.getitem


def is_number(node):
    """Its value is a size or another number, not a tensor."""
    return isinstance(value(node), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def is_tangent(node):
    return node.op == "placeholder" and "tangents" in str(node.target)


def is_input_update(node):
    """A copy at the end of the graph that writes the new value of a mutated input into it."""
    return (node.op == "call_function" and node.target is aten.copy_.default
            and isinstance(node.args[0], fx.Node) and node.args[0].op == "placeholder")


def is_collective(node):
    return getattr(node.target, "namespace", None) in COLLECTIVES


def is_wait(node):
    """It returns its operand, but its traced result has a storage of its own."""
    return is_collective(node) and "wait_tensor" in operator_name(node)


def is_random(node):
    return node.op == "call_function" and is_rng_op(node)


def keeps_state(run):
    """It draws, and gives the state of the generator before it beside what it drew."""
    return getattr(run, "target", None) is run_and_save_rng_state


def is_replayed(run):
    """It draws from a state that was kept."""
    return getattr(run, "target", None) is run_with_rng_state


def is_higher_order(node):
    return isinstance(node.target, HigherOrderOperator)


def is_mutable(node):
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def declared_view(node):
    """Its schema says that the result lies in an operand's storage."""
    return isinstance(node.target, OpOverload) and any(
        result.alias_info is not None and not result.alias_info.is_write for result in node.target._schema.returns)


def is_view(node):
    """An operator all of whose results lie in storages of its operands, and that changes nothing."""
    if node.op != "call_function" or is_getitem(node):
        return False
    if is_mutable(node) or is_collective(node) or is_higher_order(node):
        return False
    results = {storage(tensor) for tensor in tensors(node)}
    if not results:
        return False
    operands = {storage(tensor) for operand in node.all_input_nodes for tensor in tensors(operand)}
    return results <= operands or declared_view(node)


def viewed_operand(node):
    """The operand in whose storage a view lies."""
    results = {storage(tensor) for tensor in tensors(node)}
    for operand in node.all_input_nodes:
        if results & {storage(tensor) for tensor in tensors(operand)}:
            return operand
    return node.all_input_nodes[0]


def base(node):
    """The node that allocates, or brings in, what `node` is a part or a view of."""
    while is_getitem(node) or is_view(node):
        node = node.args[0] if is_getitem(node) else viewed_operand(node)
    return node


def user_line(node):
    """The line of the user's program that the node comes from, as 'file:line: text', or an empty text."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip()]
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].startswith("File "):
            where = lines[index].split(", in ")[0].replace('File "', "").replace('", line ', ":")
            return where + (f": {lines[index + 1]}" if index + 1 < len(lines) else "")
    return ""


def module_path(node):
    """The path of the module that the node was traced in, as named_modules() has it."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = ""
    for name, _ in stack.values():
        path = name
    return re.sub(r"^[LG]\['\w+'\]\.?", "", path)
