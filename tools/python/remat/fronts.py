# SPDX-License-Identifier: Apache-2.0
"""Variants of a graph that is one of several in a step: what each keeps between its passes, its peaks and its time.

Of such a graph the tangents exist from its backward pass on, not from its border, and its results belong to what reads
them: they end with the forward pass unless the backward pass reads them. `workspace` of the border limits what is kept,
beside the budget of the peak, so that a front over both is found by the planner of bare problems."""
import dataclasses

from . import _planner, draws
from .choice import Option
from .bare_problem import BORDER, MARK, Row, twins
from .replay import replay

EFFORT = 0.25  # of the planner for one point of a front
LEVELS = 12  # of what is kept, from the least to what keeping everything takes
PEAKS = (0, 1 / 3, 2 / 3)  # shares of the way from the least peak to that of everything saved


@dataclasses.dataclass(frozen=True)
class Facts:
    """`results`: of a row, the results of the graph that it makes. `reads`: of a row, indices of the inputs that it
    reads; `surely_read` are those that no backward pass does without. Times in ns."""
    rows: tuple
    border: int
    results: dict
    reads: tuple
    surely_read: frozenset
    costs: str

    @property
    def results_bytes(self):
        return sum(self.rows[row].bytes for row in self.results)

    @property
    def everything_saved_ns(self):
        return sum(row.time_ns for row in self.rows) - sum(self.rows[row].time_ns for row in twins(self.rows))

    def plain(self):
        """As remat-problem/1."""
        return [row.plain() for row in self.rows]

    def lifted(self, sequence):
        """A sequence of the rows of bare_problem.build as one of these."""
        found = []
        for row in sequence:
            found += [row, row + 1] if row == self.border else [row + (row > self.border)]
        return tuple(found)

    def limited(self, kept_bytes, peak_bytes):
        """The same, whose plans of a peak of `peak_bytes` keep at most `kept_bytes` between the passes."""
        plain = self.plain()
        plain[self.border]["workspace"] = max(peak_bytes - self.results_bytes - kept_bytes, 0)
        return plain


def of_joint(joint, rows, costs):
    """The facts of a graph whose rows are those of bare_problem.build."""
    border = next(index for index, row in enumerate(rows) if row.run is BORDER)
    results, gradients = {}, {joint.owner(node) for node in joint.backward_outputs}
    at = {row.run: index for index, row in enumerate(rows[:border])}
    for index, node in enumerate(joint.forward_outputs):
        owner = joint.owner(node)
        if owner in at and owner not in gradients:
            results.setdefault(at[owner], set()).add(index)
    found = []
    for index, row in enumerate(rows):
        row = dataclasses.replace(row, inputs=[source + (source >= border) for source in row.inputs])
        if index in results:
            row.bytes, row.lasting = row.bytes + row.lasting, 0
        found.append(row)
        if index == border:
            found.append(Row("begin", MARK, [border], lasting=row.lasting, once=MARK))
            row.lasting = 0
    primals = [node for node in joint.nodes if node.op == "placeholder" and node not in joint.tangents]
    number = {node: index for index, node in enumerate(primals)}
    reads = tuple(frozenset(number[node] for node in joint.inputs_read(row.run) if node in number)
                  if row.run not in (BORDER, MARK) else frozenset() for row in found)
    surely = [reads[index] for index in range(border + 2, len(found)) if found[index].run in joint.after]
    return Facts(tuple(found), border, results, reads, frozenset().union(*surely), costs)


@dataclasses.dataclass(frozen=True, eq=False)
class Variant:
    """A sequence of a graph's rows. `kept_bytes` are without inputs and results, of which the sets of indices say what
    waits for the backward pass; the peak of the backward pass is without results, too."""
    facts: Facts
    sequence: tuple
    option: Option
    kept_inputs: frozenset
    kept_results: frozenset
    kept_rows: tuple

    @property
    def overhead(self):
        whole = self.facts.everything_saved_ns
        return self.option.time_ns / whole - 1 if whole else 0


def variant(facts, sequence):
    sequence = _begun_at_once(facts, sequence)
    rows = facts.rows
    kept = replay(rows, sequence).saved
    without = [dataclasses.replace(row, bytes=0) if index in facts.results else row for index, row in enumerate(rows)]
    after = sequence[sequence.index(facts.border) + 1:]
    own = tuple(row for row in kept if row not in facts.results)
    option = Option(draws.time_ns(rows, sequence), sum(rows[row].bytes for row in own),
                    replay(rows, sequence).forward_peak_bytes, replay(without, sequence).backward_peak_bytes)
    return Variant(facts, sequence, option, frozenset().union(*(facts.reads[row] for row in after)),
                   frozenset().union(*(facts.results[row] for row in kept if row in facts.results)), own)


def _begun_at_once(facts, sequence):
    """Tangents exist before anything runs in the backward pass."""
    border, begin = facts.border, facts.border + 1
    rest = [row for row in sequence if row != begin]
    rest.insert(rest.index(border) + 1, begin)
    return tuple(rest)


def smallest(facts):
    return variant(facts, _planner.smallest(facts.plain(), EFFORT).sequence)


class Front:
    """Variants of a graph whose passes may take `room_bytes` at most, and what bounds all of them: options each of
    which is no better than any plan that keeps as much, together as good as every plan."""

    def __init__(self, facts, room_bytes, variants):
        self.facts, self.room_bytes, self.variants, self.bounds = facts, room_bytes, [], []
        for one in variants:
            self._add(one)
        everything = variant(facts, tuple(range(len(facts.rows))))
        self._add(everything)
        least, self.kept_floor_bytes = self._least_kept()
        self._add(least)
        self.peak_floor_bytes = _planner.solve(facts.plain(), 1, EFFORT).floor_bytes
        self._by_kept(everything.option.kept_bytes)
        self._by_peak(min(one.option.kept_bytes for one in self.variants), everything)

    def add(self, kept_bytes, peak_bytes):
        """The fastest plan within both: the planner's decision, and the variant if there is one."""
        decision = _planner.solve(self.facts.limited(kept_bytes, peak_bytes), max(peak_bytes, 1), EFFORT)
        found = variant(self.facts, decision.sequence) if decision.sequence else None
        if found:
            self._add(found)
        return decision, found

    def _add(self, new):
        """Unless one of them is nowhere worse."""
        def worse(one, other):
            return all(a >= b for a, b in zip(dataclasses.astuple(one.option), dataclasses.astuple(other.option)))
        if not any(worse(new, one) for one in self.variants):
            self.variants.append(new)

    def _least_kept(self):
        """The variant that keeps least of those found, and what every plan keeps."""
        limit = 2 * sum(row.bytes + row.workspace + row.lasting for row in self.facts.rows)
        plain = self.facts.limited(0, limit)
        beside = plain[self.facts.border]["workspace"] + self.facts.results_bytes
        decision = _planner.smallest(plain, EFFORT)
        return variant(self.facts, decision.sequence), max(decision.floor_bytes - beside, 0)

    def _by_kept(self, everything_bytes):
        """From everything kept down, each time less than the fastest plan found keeps. No plan that keeps between two
        limits is faster than the bound at the upper one."""
        total = self.facts.everything_saved_ns
        tangents = self.facts.rows[self.facts.border + 1].lasting
        step = max((everything_bytes - self.kept_floor_bytes) // LEVELS, 1)
        limit, below = self.room_bytes, everything_bytes
        while below >= self.kept_floor_bytes:
            decision, found = self.add(limit, self.room_bytes)
            below = min(below, limit) - step
            below = min(below, found.option.kept_bytes - 1) if found else -1
            kept = max(below + 1, self.kept_floor_bytes)
            self.bounds.append(Option(max(decision.lower_bound_ns, total), kept, 0, kept + tangents))
            limit = below

    def _by_peak(self, least, everything):
        smallest_peak = min(max(one.option.forward_peak_bytes, one.option.backward_peak_bytes) for one in self.variants)
        most = max(everything.option.forward_peak_bytes, everything.option.backward_peak_bytes)
        for share in PEAKS:
            peak = int(smallest_peak + share * (min(self.room_bytes, most) - smallest_peak))
            for level in (4, 2, 1, 0):
                kept = least + (everything.option.kept_bytes - least) * level // 4
                if self.add(kept, peak)[1] is None:
                    break
