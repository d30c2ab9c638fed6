# SPDX-License-Identifier: Apache-2.0
"""The joint graph of a forward and a backward pass as storages.

What is scheduled is an operator that allocates (a unit), a small part of its result that is kept apart, and an operator
that reads tensors and gives a number. Views and other parts lie in the storage of a unit; inputs, constants, what only
aliases them, and arithmetic on sizes are not scheduled at all. Every storage so belongs to one scheduled node."""
import functools

from torch import fx

from . import classes, nodes, rules
from ._torch import must_be_in_backward, tree_leaves
from .nodes import is_getitem, is_number, is_tangent, is_view, storage, storage_bytes, tensors

SMALL_PART = 16  # a result so many times smaller than the largest of its operator is kept apart from it
ROUNDING_BYTES = {"cuda": 512}  # what the device's allocator rounds up to
AFTER_BORDER = "remat_after_border"  # in a node's meta: it runs in the backward pass


def after_border(graph_nodes):
    """Those that run in the backward pass: tangents, what must run there, and what is made of them."""
    after = set()
    for node in graph_nodes:
        if is_tangent(node) or must_be_in_backward(node) or node.meta.get(AFTER_BORDER) or any(
                operand in after for operand in node.all_input_nodes):
            after.add(node)
    return after


class Joint:
    """`module` is the joint graph, whose outputs are `forward_count` results of the forward pass, then gradients.
    `lies_in`: of a part or a view, the operand in whose storage it lies. `once`: of scheduled nodes that run once, why.
    `after`: what runs in the backward pass, `before`: what must have run before it. `mutated`: inputs that
    the forward pass changes. `updates`: nodes that write their new values."""

    def __init__(self, module, forward_count, rounding=1, recomputable=()):
        self.module, self.rounding = module, rounding
        self.nodes = list(module.graph.nodes)
        self.output = self.nodes.pop()
        outputs = tree_leaves(self.output.args)
        self.forward_outputs, self.backward_outputs = outputs[:forward_count], outputs[forward_count:]
        self.tangents = [node for node in self.nodes if is_tangent(node)]
        self.updates = [node for node in self.nodes if nodes.is_input_update(node)]
        self.lies_in = {node: node.args[0] if is_getitem(node) else nodes.viewed_operand(node) for node in self.nodes
                        if is_getitem(node) or is_view(node)}
        self.derived = {}  # of a unit: views and parts in its storage, in order
        self.scheduled = {}  # as a set that keeps its order
        for node in self.nodes:
            self._place(node)
        self.after = after_border(self.nodes)
        self.mutated = {node.args[0] for node in self.updates} | {
            node for node in self.nodes if node.meta.get("aot_runtime_epilogue_input_mutation")}
        self.once = {node: rules.once_reason(self, node, recomputable) for node in self.scheduled}
        self.before = self._upstream_of_border()
        self._sources = {}

    def _place(self, node):
        if node.op != "call_function" or node in self.updates:
            return
        if is_number(node):
            if any(tensors(operand) for operand in node.all_input_nodes):
                self.scheduled[node] = True
        elif node in self.lies_in:
            if self._is_small_part(node):
                self.scheduled[node] = True
            else:
                unit = self.unit(node)
                if unit in self.scheduled:
                    self.derived.setdefault(unit, []).append(node)
        elif tensors(node) or nodes.is_higher_order(node) or isinstance(node.target, nodes.OpOverload):
            self.scheduled[node] = True

    def unit(self, node):
        """The scheduled node that owns the storage of `node`; else the input or constant whose storage it shows."""
        while node not in self.scheduled and node in self.lies_in:
            node = self.lies_in[node]
        return node

    @functools.cached_property
    def kinds(self):
        """The class of each scheduled node."""
        return {node: classes.of(node) for node in self.scheduled}

    def _is_small_part(self, node):
        """Such as mean and rstd beside the result of a norm: with a value of its own, 4 KB do not keep 4 MB. So is a
        number, such as the loss, which lives to the end, and the weight of all targets beside it."""
        if not is_getitem(node) or len(tensors(node)) != 1 or nodes.value(node) is not tensors(node)[0]:
            return False
        whole = node.args[0]
        if whole in self.lies_in:
            return False
        operands = {storage(tensor) for operand in whole.all_input_nodes for tensor in tensors(operand)}
        largest = max(storage_bytes(tensor) for tensor in tensors(whole))
        part = tensors(node)[0]
        return storage(part) not in operands and (part.dim() == 0 or SMALL_PART * storage_bytes(part) <= largest)

    def _upstream_of_border(self):
        """All that must have run when the forward pass ends."""
        todo = [node for node in self.forward_outputs if isinstance(node, fx.Node)]
        todo += [node for node in [*self.scheduled, *self.updates] if node not in self.after and (
            node in self.updates or rules.keeps_order(self.once[node]) or self.reads_mutated(node))]
        before = set()
        while todo:
            node = todo.pop()
            if node not in before:
                before.add(node)
                todo += node.all_input_nodes
        # A small part exists from the first run of its operator on.
        return before | {node for node in self.scheduled if is_getitem(node) and node.args[0] in before}

    def reads_mutated(self, node):
        return any(self.unit(operand) in self.mutated for operand in node.all_input_nodes)

    def sources(self, node):
        """The scheduled nodes, and tangents, whose values a run of `node` reads."""
        if node not in self._sources:
            found = {}
            for operand in node.all_input_nodes:
                if operand in self.scheduled or is_tangent(operand):
                    found[operand] = True
                else:
                    found |= self.sources(operand)
            self._sources[node] = found
        return self._sources[node]

    def inputs_read(self, node):
        """The inputs in whose storages a run of `node` reads, tangents apart."""
        found = set()
        for operand in node.all_input_nodes:
            if operand.op == "placeholder" and not is_tangent(operand):
                found.add(operand)
            elif operand not in self.scheduled and not is_tangent(operand):
                found |= self.inputs_read(operand)
        return found

    def owner(self, node):
        """The scheduled node whose storage a result of the graph lies in, or None."""
        unit = self.unit(node) if isinstance(node, fx.Node) else None
        return unit if unit in self.scheduled else None


def rounding(module):
    """What bytes are rounded up to on the device of a graph."""
    for node in module.graph.nodes:
        if node.op == "call_function" and tensors(node):
            return ROUNDING_BYTES.get(tensors(node)[0].device.type, 1)
    return 1
