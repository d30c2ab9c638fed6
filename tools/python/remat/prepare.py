# SPDX-License-Identifier: Apache-2.0
"""What is done to the joint graph before it is planned. Each pass keeps every result to the bit. The module is not
compiled again, as nothing runs it."""
import torch
from torch import fx

from . import draws, nodes, rules
from ._torch import CheckpointPolicy, must_be_in_backward, tree_leaves
from .joint import AFTER_BORDER, after_border
from .nodes import aten, hint, value


def prepare(module, forward_count, replay_random=False):
    module.graph.eliminate_dead_code()
    rules.check_graph(module)
    split_dropout(module)
    if replay_random:
        draws.split(module)
    keep_old_values(module)
    recompute_as_told(module, forward_count)
    module.graph.lint()


def _call(graph, source, target, result, *args, **kwargs):
    node = graph.call_function(target, args, kwargs)
    node.meta = {**source.meta, "val": result}
    node.meta.pop("tensor_meta", None)
    return node


def split_dropout(module):
    """On a CPU dropout becomes a mask, one byte an element and made once, and two products, as its kernel computes
    them, so that the large result can be recomputed."""
    for node in list(module.graph.nodes):
        if node.target is aten.native_dropout.default and node.args[2] is True:
            result, mask = value(node)
            if result.device.type == "cpu" and isinstance(node.args[1], float) and 0 < node.args[1] < 1:
                with module.graph.inserting_before(node):
                    _replace_dropout(module.graph, node, result, mask)


def _replace_dropout(graph, node, result, mask):
    operand, probability = node.args[:2]
    with result.fake_mode:
        kept = _draw_mask(graph, node, operand, mask, 1 - probability)
        product = _call(graph, node, aten.mul.Tensor, torch.empty_like(result), operand, kept)
        scaled = _call(graph, node, aten.mul.Tensor, torch.empty_like(result), product, 1 / (1 - probability))
    for user in list(node.users):
        user.replace_all_uses_with(scaled if user.args[1] == 0 else kept)
        graph.erase_node(user)
    graph.erase_node(node)


def _draw_mask(graph, node, operand, mask, probability):
    """bernoulli.p fills memory in order, native_dropout in the order of its operand's strides: where they differ, the
    operand is permuted first and the mask back."""
    order = sorted(range(mask.dim()), key=lambda dim: -hint(mask.stride(dim)))
    permuted = not mask.is_contiguous()
    shape_of = value(operand).permute(order) if permuted else value(operand)
    if permuted:
        operand = _call(graph, node, aten.permute.default, shape_of, operand, order)
    empty = _call(graph, node, aten.empty_like.default, torch.empty_like(shape_of, dtype=torch.bool), operand,
                  dtype=torch.bool)
    drawn = _call(graph, node, aten.bernoulli.p, torch.empty_like(value(empty)), empty, probability)
    if not permuted:
        return drawn
    back = sorted(range(len(order)), key=order.__getitem__)
    return _call(graph, node, aten.permute.default, value(drawn).permute(back), drawn, back)


def keep_old_values(module):
    """An input that the forward pass changes and the backward pass reads as it was: the backward pass reads a copy."""
    graph = module.graph
    updates = [node for node in graph.nodes if nodes.is_input_update(node) and not must_be_in_backward(node)]
    after = after_border(graph.nodes)
    last_input = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for update in updates:
        held = update.args[0]
        readers = [user for user in held.users if user in after and not nodes.is_input_update(user)
                   and user.op != "output"]
        if readers:
            with graph.inserting_after(last_input), value(held).fake_mode:
                copy = _call(graph, held, aten.clone.default, value(held).clone(), held)
            for reader in readers:
                reader.replace_input_with(held, copy)


def recompute_as_told(module, forward_count):
    """What is tagged MUST_RECOMPUTE gets a second node, which the backward pass reads and runs. What leaves its
    checkpointed region is an ordinary value, as in eager mode."""
    graph = module.graph
    early = _of_forward_pass(graph, forward_count)
    twin = {}
    for node in [node for node in graph.nodes if node in early and node.op == "call_function"]:
        told = rules.tag(node) is CheckpointPolicy.MUST_RECOMPUTE and not _leaves_region(node, early)
        derived = nodes.is_getitem(node) or nodes.is_view(node)
        if told or derived and any(operand in twin for operand in node.all_input_nodes):
            with graph.inserting_after(node):
                copy = graph.node_copy(node, lambda operand: twin.get(operand, operand))
            copy.meta = {**node.meta, AFTER_BORDER: True}
            twin[node] = copy
    made = set(twin.values())
    for node in graph.nodes:
        for operand in node.all_input_nodes if node not in early and node not in made and node.op != "output" else ():
            if operand in twin:
                node.replace_input_with(operand, twin[operand])
    graph.eliminate_dead_code()


def _of_forward_pass(graph, forward_count):
    """What its results and effects are made of. Not all else is made of tangents: the derivative of x**3 needs x**2."""
    after = after_border(graph.nodes)
    todo = [node for node in tree_leaves(graph.output_node().args)[:forward_count] if isinstance(node, fx.Node)]
    todo += [node for node in graph.nodes if node not in after and node.op == "call_function" and node.is_impure()]
    found = set()
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes
    return found


def _leaves_region(node, early):
    region = node.meta.get("ac_graph_id")
    return any(user.op == "output" or user in early and user.meta.get("ac_graph_id") != region for user in node.users)
