# SPDX-License-Identifier: Apache-2.0
"""The joint graph as a graph of foreign nodes, which libremat-compiler plans with the fusion of whoever compiles it.

Values have the shapes in which they are computed together. A reshape of dense elements is no node: its reader takes the
shape of what it reads, and broadcasts are restated over that shape. What does not fit, such as a transposed or gathered
operand, is read through a view of as many elements as are moved; its true strides would not change the plan."""
import dataclasses
import math

import torch
from torch import fx

from . import classes, nodes, rules
from .fusion import LARGE, PINNED
from .nodes import hint, is_getitem, is_tangent, is_view, moved_bytes, storage_bytes, tensors, value
from .scratch import scratch_bytes
from .shapes import bits, blocks, dense, dense_strides, restated, sizes, without_ones
from ._orders import Graph

FORWARD, LOSS, BACKWARD = "forward", "loss", "backward"
MOST_INPUTS = 200  # of a node


@dataclasses.dataclass(frozen=True)
class Value:
    """Of the graph: its number, and the type it was stated with."""
    number: int
    bits: int
    shape: list

    @property
    def elements(self):
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Beside:
    """Of one of several graphs of a step: bytes that stand beside what is kept at the border, and all through the
    backward pass; and `inputs` that die when nothing reads them any more, as others do not."""
    border_bytes: int = 0
    late_bytes: int = 0
    inputs: tuple = ()


class Foreign:
    """`graph`: finished; `stands_for`: of each of its nodes the scheduled node, or None; `phases`: its phase. Of one of
    several graphs of a step, which has a `beside`, results end with the forward pass, unless the backward pass reads
    them; None: the graph is all of a step. `pins`: "save" or "recompute", of scheduled nodes; of what cannot be,
    nothing."""

    def __init__(self, fusion, costs, beside=None, pins=None):
        joint = fusion.joint
        self.joint, self.fusion, self.costs, self.graph, self.pins = joint, fusion, costs, Graph("joint"), pins or {}
        self.values, self.views, self.stands_for, self.phases, self.token = {}, {}, [], [], None
        for node in beside.inputs if beside else ():
            tensor = tensors(node)[0]
            self._results(node, None, "once", [], FORWARD, [(node, tensor, sizes(tensor))], launches=0)
        for node in joint.nodes:
            if (node.op in ("placeholder", "get_attr") and tensors(node) and not is_tangent(node)
                    and node not in self.values):
                tensor = tensors(node)[0]
                shape = sizes(tensor)
                self.values[node] = Value(self.graph.input(node.name, bits(tensor), shape), bits(tensor), shape)
        for node in fusion.first:
            self._add(node, LOSS if node in fusion.loss else FORWARD)
        held = self._numbers(joint.forward_outputs)
        made = [update.args[1] for update in joint.updates if update.args[1] in joint.before]
        outputs = self._end(held + self._numbers(made), LOSS, beside.border_bytes if beside else 0)
        for node in joint.tangents:
            for tensor in tensors(node)[:1]:
                self._results(node, None, "once", [], BACKWARD, [(node, tensor, sizes(tensor))], launches=0)
        ballast = [self._ballast(beside.late_bytes)] if beside and beside.late_bytes else []
        for node in [*fusion.remade, *fusion.then]:
            self._add(node, BACKWARD)
        late = self._numbers([*joint.backward_outputs, *joint.tangents, *(update.args[1] for update in joint.updates)])
        outputs += self._end(list(dict.fromkeys((held if beside is None else []) + late)) + ballast, BACKWARD)
        self.graph.finish(outputs)

    def _numbers(self, graph_nodes):
        """Of the values, made by the graph, that hold results of it."""
        roots = [self._root(node) for node in graph_nodes if isinstance(node, fx.Node) and tensors(node)]
        return list(dict.fromkeys(self.values[root].number for root in roots
                                  if root in self.values and (root.op == "call_function" or is_tangent(root))))

    def _ballast(self, bytes_):
        self.stands_for.append(None)
        self.phases.append(BACKWARD)
        return self.graph.node("once", [], [("ballast", 8, [bytes_], None)], BACKWARD, launches=0)

    def _end(self, numbers, phase, beside=0):
        """Nodes that read values at the end of a pass, so that they live until then; `beside` bytes live then, too.
        Returns what they make."""
        beside = [(f"beside the end of {phase}", 8, [beside], None)] if beside else []
        numbers = numbers + ([self.token] if self.token is not None else [])
        ends = []
        for begin in range(0, max(len(numbers), 1), MOST_INPUTS):
            name = f"end of {phase} {begin}"
            ends.append(self.graph.node("once", numbers[begin:begin + MOST_INPUTS], [(name, 8, [1], None), *beside],
                                        phase, launches=0))
            self.stands_for.append(None)
            self.phases.append(phase)
        return ends

    def _root(self, node):
        """What has a value, and in whose storage `node` lies."""
        while node not in self.values and node in self.joint.lies_in:
            node = self.joint.lies_in[node]
        return node

    # --- nodes ---

    def _add(self, node, phase):
        kind, once = self.joint.kinds[node], self.fusion.once[node]
        if once and once not in PINNED:
            kind = classes.OPAQUE
        {classes.POINTWISE: self._pointwise, classes.REDUCTION: self._reduction,
         classes.OPAQUE: self._opaque}[kind](node, phase, "save" if once and phase != BACKWARD else None)

    def _results(self, node, stands_for, op, inputs, phase, results, pin=None, **attributes):
        """`results`: (node of the joint graph, tensor, stated shape) each."""
        specs = [(holder.name, bits(tensor), shape, pin or self._pin(holder)) for holder, tensor, shape in results]
        number = self.graph.node(op, inputs, specs, phase, **attributes)
        self.stands_for.append(stands_for)
        self.phases.append(phase)
        for index, (holder, tensor, shape) in enumerate(results):
            self.values[holder] = Value(number + index, bits(tensor), shape)
        return number

    def _pin(self, holder):
        return self.pins.get(self.joint.unit(holder))

    def _pointwise(self, node, phase, pin):
        result = value(node)
        logical = sizes(result)
        stated = self._shared_shape(node, logical)
        gathered = node.args[0] if classes.is_gather(node) else None
        inputs = [self._operand(one, logical, stated, phase, result if operand is gathered else None)
                  for operand, made_of in self.fusion.read[node] for one in made_of if self._is_read(one)]
        self._results(node, node, "pointwise", list(dict.fromkeys(inputs)), phase, [(node, result, stated)], pin)

    def _shared_shape(self, node, logical):
        """That of the first operand with the same elements in the same order, of the inputs last."""
        read = [one for _, made_of in self.fusion.read[node] for one in made_of if self._is_read(one)]
        found = [self.values[self._root(one)] for one in sorted(
            read, key=lambda one: self._root(one).op != "call_function") if self._in_order(one)]
        return next((known.shape for known in found if known.elements == math.prod(logical)
                     and blocks(logical, known.shape)), logical)

    def _reduction(self, node, phase, pin):
        operand = self.fusion.read[node][0][1][0]
        known, logical, axes = self.values[self._root(operand)], sizes(value(operand)), classes.reduced_axes(node)
        stated = known.shape if self._in_order(operand) and known.elements == math.prod(logical) else logical
        kept = restated([1 if axis in axes else size for axis, size in enumerate(logical)], logical, stated)
        if kept is None:
            stated, kept = logical, [1 if axis in axes else size for axis, size in enumerate(logical)]
        read = self._operand(operand, logical, stated, phase)
        reduced = [axis for axis, size in enumerate(stated) if size > 1 and kept[axis] == 1]
        if phase != BACKWARD and LARGE * math.prod(kept) <= math.prod(stated):
            pin = "save"  # a statistic: reducing again would cost as little, but divide kernels that Inductor fuses
        # Over axes of one element, as of a batch of one, nothing is reduced.
        op = "pointwise" if not reduced else "row_reduce" if reduced == [len(stated) - 1] else "reduce"
        for holder, tensor in self._holders(node):
            self._results(node, node, op, [read], phase, [(holder, tensor, kept)], pin,
                          **({"axes": reduced} if op == "reduce" else {}))

    def _opaque(self, node, phase, _):
        once = self.fusion.once[node]
        ordered = rules.keeps_order(once)
        inputs = [self.values[self._root(one)].number for _, made_of in self.fusion.read[node] for one in made_of
                  if self._root(one) in self.values]
        inputs += [self.token] if ordered and self.token is not None else []
        results = [(holder, tensor, self._read_as(holder, tensor)) for holder, tensor in self._holders(node)]
        beside = scratch_bytes(node) + sum(storage_bytes(tensor) for tensor in self._unread(node, results))
        specs = [(f"{node.name}.scratch", 8, [beside], None)] if beside else []
        specs += [(f"{node.name}.after", 8, [1], None)] if ordered or not results and not beside else []
        stated = [(holder.name, bits(tensor), shape, self._pin(holder)) for holder, tensor, shape in results]
        number = self.graph.node("once" if once else "opaque", list(dict.fromkeys(inputs)), stated + specs, phase,
                                 ns=self.costs.time_ns(node))
        self.stands_for.append(node)
        self.phases.append(phase)
        for index, (holder, tensor, shape) in enumerate(results):
            self.values[holder] = Value(number + index, bits(tensor), shape)
        if specs and specs[-1][0].endswith(".after"):
            last = number + len(stated) + len(specs) - 1
            self.values.setdefault(node, Value(last, 8, [1]))
            self.token = last if ordered else self.token

    def _holders(self, node):
        """(node, tensor) of each result that is read: the operator itself, or parts of its tuple."""
        if not isinstance(value(node), (tuple, list)):
            return [(node, tensor) for tensor in tensors(node)]
        return [(part, tensor) for part in node.users if is_getitem(part) for tensor in tensors(part)[:1]]

    @staticmethod
    def _unread(node, results):
        read = {nodes.storage(tensor) for _, tensor, _ in results}
        read |= {nodes.storage(tensor) for operand in node.all_input_nodes for tensor in tensors(operand)}
        return {nodes.storage(tensor): tensor for tensor in tensors(node) if nodes.storage(tensor) not in read}.values()

    def _read_as(self, holder, tensor):
        """The shape in which the first fused operator reads a result, if it reads all of it in order."""
        todo = [holder]
        while todo:
            node = todo.pop(0)
            for user in node.users:
                if is_view(user) and isinstance(value(user), torch.Tensor) and dense(value(user), value(holder)):
                    todo.append(user)
                elif user in self.joint.scheduled and self.joint.kinds[user] != classes.OPAQUE:
                    return sizes(value(node))
        return sizes(tensor)

    # --- operands ---

    def _is_read(self, node):
        return self._root(node) in self.values and tensors(node)

    def _in_order(self, node):
        """All elements of its root, row by row; repeated ones, along axes of stride 0, aside."""
        root = self._root(node)
        return node is root or tensors(root) and dense(value(node), tensors(root)[0])

    def _operand(self, node, logical, stated, phase, gathered=None):
        """The number of the value that an operator with elements `logical`, stated as `stated`, reads for `node`.
        `gathered`: a tensor of as many elements as it reads."""
        known, tensor = self.values[self._root(node)], value(node)
        if gathered is None and self._in_order(node) and tensor.dim() <= len(logical):
            own = [1] * (len(logical) - tensor.dim()) + [
                max(hint(size), 1) if hint(stride) else 1 for size, stride in zip(tensor.shape, tensor.stride())]
            fits = all(size in (1, whole) for size, whole in zip(own, logical))
            shape = restated(own, logical, stated) if fits else None
            if shape and without_ones(shape) == without_ones(known.shape) and len(known.shape) <= len(stated):
                return known.number
            if shape and math.prod(shape) == known.elements:
                return self._view(known, shape, dense_strides(shape), 0, phase)
        moved = moved_bytes(tensor if gathered is None else gathered)
        return self._moved(known, tensor, stated, max(8 * moved // known.bits, 1), phase)

    def _moved(self, known, tensor, stated, count, phase):
        """A view in which `count` elements are read, or fewer."""
        strides, stride = [0] * len(stated), 1
        for axis in reversed(range(len(stated))):
            if stride * stated[axis] > min(count, known.elements):
                break
            strides[axis] = stride
            stride *= stated[axis]
        offset = hint(tensor.storage_offset()) * bits(tensor) // known.bits
        return self._view(known, stated, strides, offset if offset + stride <= known.elements else 0, phase)

    def _view(self, known, shape, strides, offset, phase):
        key = known.number, tuple(shape), tuple(strides), offset, phase
        if key not in self.views:
            self.views[key] = self.graph.node("view", [known.number], [(f"view.{len(self.views)}", known.bits, shape, None)],
                                              phase, strides=strides, offset=offset)
            self.stands_for.append(None)
            self.phases.append(phase)
        return self.views[key]
