# SPDX-License-Identifier: Apache-2.0
"""Random operators that may run again: from the state that the generator had at their first run.

In the joint graph a draw is two nodes: one keeps the state, once and in order, and one draws from it and leaves the
generator as it is. Where the second directly follows the first they are one run of the operator, which moves the
generator on as it does without us."""
import dataclasses

import torch

from . import nodes
from ._torch import run_and_save_rng_state, run_with_rng_state, tree_map
from .joint import after_border
from .nodes import aten, value
from .replay import replay

REPLAYED = (aten.bernoulli.p, aten.bernoulli.default, aten.native_dropout.default, aten.rand_like.default,
            aten.randn_like.default)
STATE_BYTES = {"cpu": 5056, "cuda": 16}


def split(module):
    """Of draws of the forward pass, which have a tensor as operand."""
    after = after_border(module.graph.nodes)
    for node in list(module.graph.nodes):
        if node.target in REPLAYED and node not in after and node.kwargs.get("generator") is None:
            _split(module.graph, node)


def _split(graph, node):
    results = nodes.tensors(node)
    if results[0].device.type not in STATE_BYTES:
        return
    with graph.inserting_before(node), results[0].fake_mode:
        state = torch.empty(STATE_BYTES[results[0].device.type], dtype=torch.uint8)
        keeping = graph.call_function(run_and_save_rng_state, (node.target, *node.args), dict(node.kwargs))
        keeping.meta = {**node.meta, "val": (state, tree_map(torch.empty_like, value(node)))}
        kept = graph.call_function(nodes.operator.getitem, (keeping, 0))
        kept.meta = {**node.meta, "val": state}
        drawn = graph.call_function(run_with_rng_state, (kept, node.target, *node.args), dict(node.kwargs))
        drawn.meta = dict(node.meta)
    node.replace_all_uses_with(drawn)
    graph.erase_node(node)


def draws(rows):
    """The row that draws, by the row that keeps its state."""
    at = {row.run: index for index, row in enumerate(rows)}
    return {at[row.run.args[0].args[0]]: index for index, row in enumerate(rows) if nodes.is_replayed(row.run)}


def joined(rows, sequence):
    """Places in the sequence of first draws that are the run which keeps their state, by the place of that."""
    draw_of, found = draws(rows), {}
    for place, row in enumerate(sequence):
        then = _place_after(rows, sequence, place) if row in draw_of else len(sequence)
        if then < len(sequence) and sequence[then] == draw_of[row]:
            found[place] = then
    return found


def _place_after(rows, sequence, place):
    """After what belongs to the row there: its part, its order mark."""
    then = place + 1
    while then < len(sequence) and rows[sequence[then]].inputs == [sequence[place]] and rows[sequence[then]].once:
        then += 1
    return then


def join(decision, rows, budget_bytes):
    """The decision with first draws after the rows that keep their states, if it fits so."""
    draw_of = draws(rows)
    if not draw_of or not decision.sequence:
        return decision
    moved = list(decision.sequence)
    for keeping, draw in draw_of.items():
        after = [index for index, row in enumerate(rows) if row.inputs == [keeping] and row.once] + [draw]
        for row in after:
            moved.remove(row)
        moved[moved.index(keeping) + 1:moved.index(keeping) + 1] = after
    sequence = tuple(moved) if replay(rows, moved).peak_bytes <= budget_bytes else decision.sequence
    return dataclasses.replace(decision, sequence=sequence, peak_bytes=replay(rows, sequence).peak_bytes,
                               time_ns=time_ns(rows, sequence))


def time_ns(rows, sequence):
    """Of a sequence: a run that only keeps a state takes as long as the draw."""
    draw_of, together = draws(rows), joined(rows, sequence)
    return sum(rows[row].time_ns for row in sequence) + sum(
        rows[draw_of[row]].time_ns for place, row in enumerate(sequence) if row in draw_of and place not in together)
