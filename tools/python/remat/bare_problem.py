# SPDX-License-Identifier: Apache-2.0
"""The joint graph as a problem of nodes with times and sizes (docs/problems.md), in an order that runs.

Rows are the scheduled nodes of the graph and two kinds beside them. The *border* lies between the passes: it reads what
the forward pass must have made, and the tangents exist from it on. An *order mark*, of no bytes, follows each operator
that keeps its order, and the next such operator reads it."""
import dataclasses

from torch import fx

from . import nodes, rules
from ._torch import must_be_in_backward, must_be_in_forward
from .joint import AFTER_BORDER
from .nodes import storage, storage_bytes, tensors
from .scratch import scratch_bytes

BORDER = "border"
MARK = "order mark"


@dataclasses.dataclass
class Row:
    """`run` is the node of the graph that it runs, BORDER or MARK; sizes in bytes, `once` the reason for it."""
    name: str
    run: object
    inputs: list
    time_ns: float = 0
    bytes: int = 0
    workspace: int = 0
    lasting: int = 0
    once: str = ""

    def plain(self):
        """As an entry of remat-problem/1."""
        row = {"name": self.name, "time": self.time_ns, "bytes": self.bytes, "inputs": self.inputs}
        row |= {key: getattr(self, key) for key in ("workspace", "lasting") if getattr(self, key)}
        return row | ({"once": True} if self.once else {})


def build(joint, costs):
    """The rows, in the order of the trace: what the border needs, the border, all else."""
    border_reads = _read_by_border(joint)
    lasting = _lasting(joint)
    rows, at = [], {}
    mark = None

    def add(row, node):
        at[node] = len(rows)
        rows.append(row)

    def add_border():
        held = sum(storage_bytes(tensor, joint.rounding) for tensor in _distinct(joint.tangents))
        inputs = sorted({at[node] for node in border_reads} | ({mark} if mark is not None else set()))
        add(Row(BORDER, BORDER, inputs, lasting=held, once=BORDER), BORDER)

    first = [node for node in joint.scheduled if node in joint.before]
    then = [node for node in joint.scheduled if node not in joint.before]
    for node in [*first, BORDER, *then]:
        if node is BORDER:
            add_border()
            continue
        row = _row(joint, node, costs, joint.once[node], node in lasting)
        inputs = {at[BORDER if nodes.is_tangent(source) else source] for source in joint.sources(node)}
        inputs |= {at[BORDER]} if node in joint.after else set()
        ordered = rules.keeps_order(joint.once[node])
        row.inputs = sorted(inputs | ({mark} if ordered and mark is not None else set()))
        add(row, node)
        if ordered:
            mark = len(rows)
            rows.append(Row(f"after {node.name}", MARK, [at[node]], once=MARK))
    return rows


def _distinct(graph_nodes):
    return {storage(tensor): tensor for node in graph_nodes for tensor in tensors(node)}.values()


def _read_by_border(joint):
    """What the forward pass leaves: its results, new values of inputs, small parts, and what must run there."""
    found = {}
    for node in joint.forward_outputs:
        if isinstance(node, fx.Node):
            found |= {node: True} if node in joint.scheduled else joint.sources(node)
    for update in joint.updates:
        if not must_be_in_backward(update):
            source = update.args[1]
            found |= {source: True} if source in joint.scheduled else joint.sources(source)
    for node in joint.scheduled:
        if node in joint.before and (must_be_in_forward(node) or not tensors(node) or nodes.is_getitem(node)
                                     or joint.reads_mutated(node)):
            found[node] = True
    return [node for node in found if node in joint.before]


def _lasting(joint):
    """Scheduled nodes whose value lives to the end of the step: results, and what updates an input at its end."""
    held = [*joint.forward_outputs, *joint.backward_outputs]
    held += [update.args[1] for update in joint.updates if must_be_in_backward(update)]
    return {joint.owner(node) for node in held} - {None}


def _row(joint, node, costs, once, lasting):
    if nodes.is_number(node):
        return Row(node.name, node, [], costs.time_ns(node), once=once)
    if nodes.is_getitem(node):
        size = storage_bytes(tensors(node)[0], joint.rounding)
        return Row(node.name, node, [], bytes=0 if lasting else size, lasting=size if lasting else 0, once=once)
    read, unread = _results(joint, node)
    time_ns = 0 if nodes.keeps_state(node) else costs.time_ns(node)  # the draw after it has the time
    row = Row(node.name, node, [], time_ns, bytes=read, workspace=unread + scratch_bytes(node),
              once=once or "")
    if lasting and read:
        row.bytes, row.lasting, row.once = 0, read, row.once or "a result of the graph"
    return row


def _results(joint, node):
    """Bytes that a run of a unit allocates: of results in the unit itself, and of those that are freed at once because
    nothing reads them. Small parts are rows of their own."""
    operands = {storage(tensor) for operand in node.all_input_nodes for tensor in tensors(operand)}
    made = {storage(tensor): storage_bytes(tensor, joint.rounding) for tensor in tensors(node)}
    if nodes.is_wait(node):
        made = {}
    made = {key: size for key, size in made.items() if key not in operands}
    parts = {storage(tensor) for user in node.users if user in joint.scheduled and nodes.is_getitem(user)
             for tensor in tensors(user)}
    holders = [node] if nodes.value(node) is not None and not isinstance(nodes.value(node), (tuple, list)) else []
    holders += [view for view in joint.derived.get(node, ()) if nodes.is_getitem(view)]
    read = {storage(tensor) for holder in holders for tensor in tensors(holder)} - parts
    return (sum(size for key, size in made.items() if key in read),
            sum(size for key, size in made.items() if key not in read and key not in parts))


def twins(rows):
    """Indices of rows that exist only because a tag asks for recomputation."""
    return [index for index, row in enumerate(rows) if isinstance(row.run, fx.Node) and row.run.meta.get(AFTER_BORDER)]
