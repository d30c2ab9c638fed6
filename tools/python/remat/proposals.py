# SPDX-License-Identifier: Apache-2.0
"""Plans that others would make, beside that of the search: PyTorch's default cut, which heeds tags of checkpointing,
and checkpoints of the first of repeated blocks.

Each is a set of values that are kept for the backward pass; what else is read there runs again, once, just before its
first reader. The fastest of all that fit is taken, so that at the peak of another's plan ours is never slower."""
import dataclasses
import logging
import re

from torch import fx

from . import nodes
from ._torch import CheckpointPolicy, make_graph_module, min_cut_partition
from .bare_problem import BORDER
from .replay import replay

LOG = logging.getLogger("remat")
NOTHING_TO_WIN = 1.00002  # times of the bound


@dataclasses.dataclass(frozen=True)
class Proposal:
    name: str
    sequence: tuple
    peak_bytes: int
    time_ns: float


def better(decision, joint, rows, budget_bytes, forward_count):
    """The decision, or one that runs a faster proposal; without a plan the smallest peak of all."""
    if decision.sequence and decision.time_ns <= decision.lower_bound_ns * NOTHING_TO_WIN:
        return decision
    found = [_proposal("the search", rows, decision.sequence)] if decision.sequence else []
    found += proposals(joint, rows, budget_bytes, forward_count)
    fitting = [one for one in found if one.peak_bytes <= budget_bytes]
    if not fitting:
        smallest = min([decision.smallest_bytes, *(one.peak_bytes for one in found)])
        return dataclasses.replace(decision, smallest_bytes=smallest)
    best = min(fitting, key=lambda one: (one.time_ns, one.peak_bytes))
    return dataclasses.replace(decision, sequence=best.sequence, peak_bytes=best.peak_bytes, time_ns=best.time_ns,
                               found_by=best.name)


def proposals(joint, rows, budget_bytes, forward_count):
    at = {row.run: index for index, row in enumerate(rows)}
    found = [keeping("PyTorch's default cut", rows, {at[unit] for unit in units if unit in at})
             for units in [default_cut(joint, forward_count)] if units is not None]
    return found + blocks(rows, budget_bytes)


def keeping(name, rows, kept):
    """The plan that keeps these rows' values, and what may not run twice, for the backward pass."""
    border = _border(rows)
    late = _late(rows, border)
    first = _forward(rows, border, kept, late)
    made = {index for index in first if index in kept or rows[index].once} | {border}
    sequence, run = [*first, border], set(first)
    # What no tangent leads to waits for its first reader: the trace has it before them, and with it all it is made of.
    for row in sorted(range(border + 1, len(rows)), key=lambda index: index not in late):
        todo = [row] if row not in run else []
        while todo:
            index = todo[-1]
            missing = [source for source in rows[index].inputs if source not in made]
            todo += missing
            if not missing:
                todo.pop()
                if index not in made:
                    sequence.append(index)
                    made.add(index)
    return _proposal(name, rows, tuple(sequence))


def _late(rows, border):
    """The border, and rows that need it."""
    late = {border}
    for index in range(border + 1, len(rows)):
        if any(source in late for source in rows[index].inputs):
            late.add(index)
    return late


def _forward(rows, border, kept, late):
    """Rows before the border, and among them, as soon as their inputs exist, those of the kept ones that the trace has
    in the backward pass though no tangent leads to them."""
    wanted = set()
    for index in reversed(range(border + 1, len(rows))):
        if index not in late and (index in kept or index in wanted):
            wanted |= {index, *(source for source in rows[index].inputs if source > border)}
    waiting = {index: set(rows[index].inputs) for index in sorted(wanted)}
    first = []
    for row in range(border):
        ready = [row]
        while ready:
            first.append(ready.pop())
            for index in [index for index, inputs in waiting.items() if first[-1] in inputs]:
                waiting[index].discard(first[-1])
                ready += [] if waiting[index] else [index]
    return first


def _border(rows):
    return next(index for index, row in enumerate(rows) if row.run is BORDER)


def _proposal(name, rows, sequence):
    return Proposal(name, sequence, replay(rows, sequence).peak_bytes, sum(rows[row].time_ns for row in sequence))


def default_cut(joint, forward_count, checkpointed=()):
    """The scheduled nodes that PyTorch would save, or None where it cannot cut the graph. `checkpointed`: blocks that it
    is told to recompute."""
    graph, copies = fx.Graph(), {}
    output = graph.output(graph.graph_copy(joint.module.graph, copies))
    output.meta = dict(joint.output.meta)
    region = {block: number for number, block in enumerate(checkpointed, 1)}
    for node, copy in copies.items():
        if _block(node) in region and node not in joint.after and not joint.once.get(joint.unit(node)):
            copy.meta |= {"recompute": CheckpointPolicy.PREFER_RECOMPUTE, "ac_graph_id": region[_block(node)]}
    try:
        forward, _ = min_cut_partition(make_graph_module(joint.module, graph), (), num_fwd_outputs=forward_count)
    except Exception as error:
        LOG.debug("PyTorch's default cut is no proposal: %s", error)
        return None
    by_name = {node.name: node for node in joint.nodes}
    saved = forward.graph.output_node().args[0][forward_count:]
    return {joint.unit(by_name[node.name]) for node in saved if isinstance(node, fx.Node) and node.name in by_name}


def blocks(rows, budget_bytes):
    """Checkpoints of all blocks, and of the first ones, as few as are enough."""
    block, leaves, border = *_blocks(rows), _border(rows)
    order = list(dict.fromkeys(filter(None, block)))

    def first(count):
        inside = set(order[:count])
        kept = {index for index in range(border) if block[index] not in inside or index in leaves}
        return keeping(f"checkpoints of {count} blocks", rows, kept)
    if len(order) < 2:
        return []
    low, high, found = 0, len(order), [first(len(order))]
    while low < high:
        middle = (low + high) // 2
        found.append(first(middle))
        low, high = (low, middle) if found[-1].peak_bytes <= budget_bytes else (middle + 1, high)
    return found


def cuts(joint, rows, forward_count):
    """(name, rows kept) of PyTorch's cuts: its default, and that with all blocks checkpointed."""
    blocks_of = list(dict.fromkeys(filter(None, _blocks(rows)[0])))
    named = [("PyTorch's default cut", ())]
    named += [(f"checkpoints of {len(blocks_of)} blocks", blocks_of)] if len(blocks_of) > 1 else []
    for name, checkpointed in named:
        saved = default_cut(joint, forward_count, checkpointed)
        if saved is not None:
            yield name, {index for index in range(len(rows)) if rows[index].run in saved}


def _blocks(rows):
    """Of each row its block, or None; and the rows of the forward pass that are read outside theirs."""
    block = [_block(row.run) if isinstance(row.run, fx.Node) else None for row in rows]
    leaves = {source for index in range(_border(rows)) for source in rows[index].inputs
              if block[source] != block[index]}
    return block, leaves


def _block(node):
    """The module of a numbered list that the node was traced in, as layers.3."""
    numbered = re.match(r"(.*?\.)?\d+(?=\.|$)", nodes.module_path(node))
    return numbered[0] if numbered else None
