# SPDX-License-Identifier: Apache-2.0
"""A planned sequence as a forward and a backward graph.

The joint graph is copied node by node in the order of the sequence: a second run of a node is a second node, and later
readers take the newest. Views, parts and sizes are made when they are first read, and views again after the border,
from the value that is saved. PyTorch then cuts the copy at the border; nothing after it may reorder."""
from torch import fx

from . import draws, nodes
from ._torch import (OrderedSet, extract_modules, is_assert_only_symbool, is_opaque_node, is_sym_node,
                     make_graph_module, must_be_in_backward, thread_graphsafe_rng_from_hops)
from .bare_problem import BORDER, MARK


WRITTEN = "remat_written"  # in a node's meta: the plan writes its result to memory


class Unrolled:
    """`module`: the copy; `before`: names of its nodes before the border; `live_across`: what is read across it. `written`:
    places in the sequence whose copies are marked WRITTEN. With `parts_again` a second run of an operator makes its
    small parts again, too; else readers take the first ones, which the problem of rows counts to the end."""

    def __init__(self, joint, rows, sequence, written=(), parts_again=False):
        self.joint, self.parts_again = joint, parts_again
        self.graph = fx.Graph()
        self.newest = {}  # of a node of the joint graph: its newest copy
        for node in joint.nodes:
            if node.op == "placeholder":
                self._copy(node)
        forward = before = None
        together, done = draws.joined(rows, sequence), set()
        for place, row in enumerate(sequence):
            run = rows[row].run
            if place in done:
                continue
            if place in together:
                self._run_as_one(run, rows[sequence[together[place]]].run)
                done.add(together[place])
            elif run is BORDER:
                forward = self._cross()
                before = set(self.graph.nodes)
                self._forget_views()
            elif run is not MARK:
                self._run(run)
                self.newest[run].meta[WRITTEN] = place in written
        for update in joint.updates:
            if must_be_in_backward(update):
                self._need(update)
        backward = [self._output(node) for node in joint.backward_outputs]
        output = self.graph.output(tuple(forward + backward))
        output.meta = dict(joint.output.meta)
        self.module = make_graph_module(joint.module, self.graph)
        self.before = {node.name for node in before}
        self.live_across = self._live_across(before, backward, output)

    def _copy(self, node):
        copy = self.graph.node_copy(node, lambda operand: self.newest[operand])
        self.newest[node] = copy

    def _need(self, node):
        """The newest copy; of what is not scheduled one is made."""
        if node not in self.newest:
            if node in self.joint.scheduled:
                raise AssertionError(f"{node.name} is read before it runs")
            for operand in node.all_input_nodes:
                self._need(operand)
            self._copy(node)
        return self.newest[node]

    def _output(self, node):
        return self._need(node) if isinstance(node, fx.Node) else node

    def _run(self, node):
        if nodes.is_getitem(node):  # a small part: made with its operator
            self._need_part(node)
            return
        for operand in node.all_input_nodes:
            self._need(operand)
        self._forget_derived(node)
        self._copy(node)
        self._take_parts(node)

    def _forget_derived(self, node):
        for view in self.joint.derived.get(node, ()):
            self.newest.pop(view, None)

    def _run_as_one(self, keeping, drawn):
        """A run that keeps the generator's state, and what it drew."""
        self._run(keeping)
        copy = self.graph.call_function(nodes.operator.getitem, (self.newest[keeping], 1))
        copy.meta = dict(drawn.meta)
        self.newest[drawn] = copy
        self._take_parts(drawn)

    def _take_parts(self, node):
        """Parts of a tuple at once: the tuple would keep all of them alive."""
        for user in node.users:
            if nodes.is_getitem(user):
                if user not in self.newest or self.parts_again and user in self.joint.scheduled:
                    self._forget_derived(user)
                    self._copy(user)
                self._take_parts(user)

    def _need_part(self, node):
        if node not in self.newest:
            raise AssertionError(f"{node.name} is read before it runs")

    def _cross(self):
        for update in self.joint.updates:
            if not must_be_in_backward(update):
                self._need(update)
        return [self._output(node) for node in self.joint.forward_outputs]

    def _forget_views(self):
        for node in self.joint.nodes:
            if nodes.is_view(node) or nodes.is_getitem(node) and nodes.is_view(node.args[0]):
                self.newest.pop(node, None)

    def _live_across(self, before, backward, output):
        results = set(node for node in backward if isinstance(node, fx.Node))
        return [node for node in self.graph.nodes
                if node in before and node.op != "get_attr" and not nodes.is_tangent(node)
                and (node in results or any(user not in before and user is not output for user in node.users))]


def split(unrolled, forward_count, static_inputs):
    """The forward and the backward graph, with what is live across the border saved."""
    live_across = unrolled.live_across
    numbers = [node for node in live_across if is_sym_node(node) and not is_assert_only_symbool(node)]
    opaque = [node for node in live_across if is_opaque_node(node)]
    saved = [node for node in live_across if nodes.tensors(node)]
    primals = [node for node in unrolled.graph.nodes if node.op == "placeholder" and "primals" in str(node.target)]
    static = OrderedSet(node for index, node in enumerate(primals) if index in set(static_inputs))
    forward, backward = extract_modules(unrolled.module, saved, numbers, opaque, num_fwd_outputs=forward_count,
                                        static_lifetime_input_nodes=static)
    _drop_dead(forward, lambda node: node.name in unrolled.before)
    _drop_dead(backward, lambda node: node.name not in unrolled.before)
    return (thread_graphsafe_rng_from_hops(forward, is_backward=False),
            thread_graphsafe_rng_from_hops(backward, is_backward=True))


def _drop_dead(module, belongs):
    """PyTorch's own pass keeps random operators of the other side, which would draw again."""
    module.graph.eliminate_dead_code(
        is_impure_node=lambda node: node.is_impure() and (node.op != "call_function" or belongs(node)))
    module.recompile()
