# SPDX-License-Identifier: Apache-2.0
"""What of a joint graph has a value of its own where kernels fuse, in which pass it is first made, and what its kernel
reads."""
import math

from torch import fx

from . import classes
from .nodes import is_getitem, storage_bytes, tensors, value
from .shapes import count, sizes

LARGE = 64  # the loss begins after the last value of at least that part of the largest
SMALL = 16  # a value so many times smaller than what reads it is made there
LEAVES = 8  # that are read in place of one value, at most
RESULT = "a result of the graph"
PINNED = ("MUST_SAVE", "reads what is mutated", RESULT)  # reasons for which a fused operator runs once


class Fusion:
    """`first`: nodes of the forward pass in their order, the `loss` among them; `then`: those of the backward pass, which
    follow what of the forward pass is `remade` there. `read`: of a node [(an operand, what its kernel reads for it)].
    What is `within` has no value: its readers make it. `once`: of a node, why it runs once."""

    def __init__(self, joint):
        self.joint = joint
        results = {joint.owner(node) for node in joint.forward_outputs}
        self.once = {node: reason or (RESULT if node in results else None) for node, reason in joint.once.items()}
        units = [node for node in joint.scheduled if not self._is_part(node)]
        self.read = {node: self._read(node) for node in units}
        wanted = self._wanted(units, [*joint.forward_outputs, *joint.backward_outputs])
        early = self._wanted([node for node in units if node in joint.before], joint.forward_outputs)
        self.within = {node for node in units if node not in wanted}
        self.remade = [node for node in units if node in wanted and node in joint.before and node not in early]
        self.first = [node for node in units if node in early]
        self.then = self._columns_last([node for node in units if node in wanted and node not in joint.before])
        self.loss = self._loss()

    def _is_part(self, node):
        return is_getitem(node) and node.args[0] in self.joint.scheduled

    def _read(self, node):
        """In place of a small value, of a wider cast, and of what is gathered, a kernel reads what they are made of, as
        Inductor computes them where they are read."""
        kind = classes.OPAQUE if self.once[node] not in (None, *PINNED) else self.joint.kinds[node]
        if kind == classes.OPAQUE:
            return [(operand, [] if self._is_constant(operand) else [operand]) for operand in node.all_input_nodes]
        whole = [node, *node.all_input_nodes] if kind == classes.POINTWISE else []
        elements = max((math.prod(sizes(tensor)) for one in whole for tensor in tensors(one)), default=0)
        return [(operand, self._made_of(operand, elements, classes.is_gather(node) and operand is node.args[0]))
                for operand in node.all_input_nodes]

    def _is_constant(self, operand):
        """Made of nothing, such as the zeros that a gradient is added to: it becomes the result."""
        unit = self.joint.unit(operand)
        return (self.joint.kinds.get(unit) == classes.POINTWISE and not self.joint.once[unit]
                and not any(map(tensors, unit.all_input_nodes)))

    def _made_of(self, operand, elements, is_gathered):
        def is_made(node, unit):
            return self.joint.kinds.get(unit) == classes.POINTWISE and not (
                self.joint.once[unit] or classes.is_gather(unit)) and (
                is_gathered or is_small(node) or node is unit and classes.widens(unit))

        def is_small(node):
            return SMALL * count(node) <= elements

        found, seen, todo = [], set(), [operand] if tensors(operand) else []
        while todo:
            node = todo.pop()
            unit = self.joint.unit(node)
            if node in seen:
                continue
            seen.add(node)
            if is_made(node, unit):
                todo += [inner for inner in reversed(unit.all_input_nodes) if tensors(inner)]
            else:
                found.append(node)
        size = sum(storage_bytes(tensors(one)[0]) for one in found)
        fits = len(found) <= LEAVES and (all(map(is_small, found)) or size <= storage_bytes(tensors(operand)[0]))
        return found if fits else [operand]

    def _wanted(self, units, outputs):
        """Of some nodes those that must have a value of their own."""
        todo = [node for node in outputs if isinstance(node, fx.Node)]
        todo += [update.args[1] for update in self.joint.updates]
        todo += [node for node in units if self.joint.kinds[node] == classes.OPAQUE or self.once[node]]
        wanted, units = set(), set(units)
        while todo:
            node = self.joint.unit(todo.pop())
            node = node.args[0] if self._is_part(node) else node
            if node in units and node not in wanted:
                wanted.add(node)
                todo += [one for _, made_of in self.read[node] for one in made_of]
        return wanted

    def _columns_last(self, then):
        """Between two opaque operators, reductions over other axes than the last, and what is made of them, come last:
        they read what a kernel has written, which so is no smaller than it could be."""
        order, late = [], {}
        for node in then:
            kind = self.joint.kinds[node]
            if kind == classes.OPAQUE or self.once[node]:
                order, late = [*order, *late, node], {}
            elif any(source in late for source in self.joint.sources(node)) or (
                    kind == classes.REDUCTION and classes.reduced_axes(node) != [value(node.args[0]).dim() - 1]):
                late[node] = True
            else:
                order.append(node)
        return [*order, *late]

    def _loss(self):
        """Nodes after the last large value of the forward pass."""
        made = [max([storage_bytes(tensor) for tensor in tensors(node)], default=0) for node in self.first]
        last = max((index for index, size in enumerate(made) if LARGE * size >= max(made)), default=-1)
        return set(self.first[last + 1:])
