# SPDX-License-Identifier: Apache-2.0
"""Variants of a graph that is one of several in a step: what each keeps between its passes, its peaks and its time.

Of such a graph the tangents exist from its backward pass on, not from its border, and its results belong to what reads
them: they end with the forward pass unless the backward pass reads them. `workspace` of the border limits what is kept,
beside the budget of the peak, so that a front over both is found by the planner of bare problems."""
import dataclasses
import functools
import math

from . import _planner, draws, nodes
from .choice import Option
from .bare_problem import BORDER, MARK, Row, twins
from .replay import replay

EFFORT = 0.25  # of the planner for one point of a front
LEVELS = 12  # of what is kept, from the least to what keeping everything takes
QUICK = 0.001  # effort where the bound matters, which does not depend on it
TIGHT = 1.005  # times a bound
APART = 0.97  # times a peak
PEAKS = (0, 1 / 3, 2 / 3)  # shares of the way from the least peak to that of everything saved


@dataclasses.dataclass(frozen=True)
class Facts:
    """`results`: of a row, the results of the graph that it makes. `reads`: of a row, indices of the inputs that it
    reads, which have `input_bytes`; no backward pass does without the inputs `surely_read` and the rows `surely_kept`.
    Times in ns."""
    rows: tuple
    border: int
    results: dict
    reads: tuple
    surely_read: frozenset
    surely_kept: frozenset
    input_bytes: dict
    costs: str
    everything_saved_ns: float

    @property
    def results_bytes(self):
        return sum(self.rows[row].bytes for row in self.results)

    @property
    def tangents_bytes(self):
        return self.rows[self.border + 1].lasting

    def plain(self):
        """As remat-problem/1."""
        return [row.plain() for row in self.rows]

    def is_like(self, other):
        """Whether it is of the same graph, at whatever costs."""
        return [row | {"time": 0} for row in self.plain()] == [row | {"time": 0} for row in other.plain()]

    def lifted(self, sequence):
        """A sequence of the rows of bare_problem.build as one of these."""
        found = []
        for row in sequence:
            found += [row, row + 1] if row == self.border else [row + (row > self.border)]
        return tuple(found)

    def beside(self, kept_bytes, peak_bytes):
        """What stands at the border so that plans of a peak of `peak_bytes` keep at most `kept_bytes`."""
        return max(peak_bytes - self.results_bytes - kept_bytes, 0)

    def limited(self, kept_bytes, peak_bytes):
        """The same, whose plans of a peak of `peak_bytes` keep at most `kept_bytes` between the passes."""
        plain = self.plain()
        plain[self.border]["workspace"] = self.beside(kept_bytes, peak_bytes)
        return plain

    def limited_late(self, kept_bytes, late_bytes, peak_bytes, inputs):
        """The same, whose plans of a peak of `peak_bytes` keep at most `kept_bytes`, these `inputs` among them, and take
        at most `late_bytes` in the backward pass: the inputs are values that exist before all else, and die."""
        plain = self.limited(kept_bytes, peak_bytes)
        begin = plain[self.border + 1]
        begin["lasting"] = begin.get("lasting", 0) + peak_bytes - late_bytes
        at = {index: row for row, index in enumerate(inputs)}
        for row, reads in zip(plain, self.reads):
            row["inputs"] = [at[index] for index in sorted(reads) if index in at] + [
                source + len(at) for source in row["inputs"]]
        return [{"name": f"input {index}", "time": 0, "bytes": self.input_bytes[index], "inputs": [], "once": True}
                for index in inputs] + plain


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
    late = [index for index in range(border + 2, len(found)) if found[index].run in joint.after]
    read = frozenset().union(*(reads[index] for index in late))
    kept = frozenset(source for index in late for source in found[index].inputs
                     if source < border and found[source].once and source not in results)
    whole_ns = sum(row.time_ns for row in found) - sum(found[row].time_ns for row in twins(found))
    sizes = {number[node]: nodes.storage_bytes(tensor, joint.rounding) for node in primals
             for tensor in nodes.tensors(node)[:1]}
    return Facts(tuple(found), border, results, reads, read, kept, sizes, costs, whole_ns)


@dataclasses.dataclass(frozen=True, eq=False)
class Variant:
    """A sequence of a graph's rows. `kept_bytes` are without inputs and results, of which the sets of indices say what
    waits for the backward pass; the peak of the backward pass is without results, too. Where kernels fuse, results at
    the places `written` are written to memory in the backward pass, and `settings` are Inductor's; the option is an
    estimate from what was `planned` until it is `accounted`, as the compiled graphs have it."""
    facts: Facts
    sequence: tuple
    option: Option
    kept_inputs: frozenset
    kept_results: frozenset
    kept_rows: tuple
    planned: Option
    accounted: bool = True
    written: frozenset = frozenset()
    settings: dict = dataclasses.field(default_factory=dict)

    def plain(self):
        """For other ranks, which have the rows."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"facts": {name: getattr(self.facts, name) for name in ("costs", "everything_saved_ns")}}

    def runs_as(self, plain):
        """Whether its graphs are those of a variant that another rank told of."""
        return all(getattr(self, name) == plain[name] for name in ("sequence", "written", "settings"))

    @property
    def overhead(self):
        whole = self.facts.everything_saved_ns
        return self.option.time_ns / whole - 1 if whole else 0


def variant(facts, sequence, time_ns=None, peak_bytes=math.inf, inside=frozenset(), **fused):
    """`time_ns`: where it is not the sum of the rows'. No pass takes more than `peak_bytes`; results at the places
    `inside` take no memory."""
    rows = facts.rows
    sequence = _begun_at_once(facts, sequence)
    border = sequence.index(facts.border)
    sizes = [0 if place in inside else rows[row].bytes for place, row in enumerate(sequence)]
    memory = replay(rows, sequence, sizes)
    kept = memory.saved
    apart = [0 if place <= border and row in facts.results else size
             for place, (row, size) in enumerate(zip(sequence, sizes))]
    own = tuple(row for row in kept if row not in facts.results)
    time_ns = draws.time_ns(rows, sequence) if time_ns is None else time_ns
    option = Option(time_ns, sum(rows[row].bytes for row in own),
                    min(memory.forward_peak_bytes, peak_bytes),
                    min(replay(rows, sequence, apart).backward_peak_bytes, peak_bytes))
    inputs = frozenset().union(*(facts.reads[row] for row in sequence[border + 1:]))
    results = frozenset().union(*(facts.results[row] for row in kept if row in facts.results))
    return Variant(facts, sequence, option, inputs, results, own, option, **fused)


def _begun_at_once(facts, sequence):
    """Tangents exist before anything runs in the backward pass."""
    border, begin = facts.border, facts.border + 1
    rest = [row for row in sequence if row != begin]
    rest.insert(rest.index(border) + 1, begin)
    return tuple(rest)


@dataclasses.dataclass(frozen=True)
class Owned:
    """Indices of what lives after the forward pass of a call for its own backward pass alone."""
    inputs: frozenset = frozenset()
    results: frozenset = frozenset()


@dataclasses.dataclass(frozen=True)
class Bound:
    """No variant takes less time; infinite: there is none. One that was found, or None; and what the backward pass of
    every variant takes at least."""
    time_ns: float
    found: object
    late_floor_bytes: int

    @classmethod
    def of(cls, decision, peak_bytes, late_bytes, least_ns, found):
        """`decision`: for a peak of `peak_bytes`, of which the backward pass has `late_bytes`."""
        bound_ns = math.inf if decision.floor_bytes > peak_bytes else decision.lower_bound_ns
        return cls(max(bound_ns, least_ns), found, decision.floor_bytes - peak_bytes + late_bytes)


class Part:
    """Variants of a graph that is one of several in a step, of eager kernels: each operator is one."""
    levels_of_bound, peaks_of_bound = 48, 6  # of what is kept, and of the peak, for which a bound is asked at most

    def __init__(self, facts):
        self.facts = facts

    @functools.cached_property
    def fastest(self):
        """The one that keeps everything."""
        return variant(self.facts, tuple(range(len(self.facts.rows))))

    @property
    def least_ns(self):
        """No variant takes less."""
        return self.facts.everything_saved_ns

    @functools.cached_property
    def peak_floor_bytes(self):
        return _planner.solve(self.facts.plain(), 1, EFFORT).floor_bytes

    @functools.cached_property
    def _much(self):
        """More bytes than any pass takes that runs each row once."""
        return 2 * sum(row.bytes + row.workspace + row.lasting for row in self.facts.rows)

    @functools.cached_property
    def _keeps_least(self):
        limit = self._much
        decision = _planner.smallest(self.facts.limited(0, limit), EFFORT)
        floor = decision.floor_bytes - self.facts.beside(0, limit) - self.facts.results_bytes
        return decision, max(floor, sum(self.facts.rows[row].bytes for row in self.facts.surely_kept))

    @property
    def kept_floor_bytes(self):
        """What every variant keeps."""
        return self._keeps_least[1]

    def least_kept(self):
        """The one that keeps least of those found."""
        return variant(self.facts, self._keeps_least[0].sequence)

    def within(self, kept_bytes, peak_bytes, effort):
        """The fastest variant found within both, or None."""
        decision = _planner.solve(self.facts.limited(kept_bytes, peak_bytes), max(peak_bytes, 1), effort)
        return variant(self.facts, decision.sequence) if decision.sequence else None

    def bound(self, kept_bytes, late_bytes, inputs):
        """Of the variants whose backward pass takes at most `late_bytes`, and which keep at most `kept_bytes`, these
        inputs among both."""
        peak_bytes = self._much + kept_bytes + late_bytes
        rows = self.facts.limited_late(kept_bytes, late_bytes, peak_bytes, inputs)
        decision = _planner.solve(rows, peak_bytes, QUICK)
        sequence = tuple(row - len(inputs) for row in decision.sequence if row >= len(inputs))
        found = variant(self.facts, sequence) if sequence else None
        return Bound.of(decision, peak_bytes, late_bytes, self.least_ns, found)

    def account(self, one):
        """Eager kernels take what is planned."""
        return one


class Front:
    """Variants of a graph whose passes may take `room_bytes` at most, of those `held` the ones that none beats, and `bounds`
    of all of them: options such that every plan is nowhere better than one of them. These count the inputs and results
    that are `owned`, as far as the backward pass reads them."""

    def __init__(self, graph, room_bytes, held=(), owned=Owned()):
        self.graph, self.part, self.room_bytes, self.owned = graph, graph.part, room_bytes, owned
        self.inputs = sorted(owned.inputs)
        self.variants, self.bounds, self.shares = [], [], (1, 1)
        for one in [*held, self.part.fastest, self.part.least_kept()]:
            self._add(one)
        self._estimate()
        most = max(one.option.kept_bytes for one in self.variants)
        self._by_kept(most)
        self._by_peak(min(one.option.kept_bytes for one in self.variants), most)
        self._estimate()
        self.bounds = self._bound()

    @property
    def peak_floor_bytes(self):
        return int(self.part.peak_floor_bytes * min(1, self.shares[0]))

    def add(self, kept_bytes, peak_bytes, effort=EFFORT):
        """The fastest variant found within both, if there is one."""
        found = self.part.within(kept_bytes, int(peak_bytes / self.shares[1]), effort)
        if found:
            self._add(found)
        return found

    def account(self, picks):
        """Options of these variants as the compiled graphs have them, and of the others in proportion. Returns whether
        there was anything to ask for."""
        asked = [one for one in self.variants if not one.accounted and any(one is pick for pick in picks)]
        for one in asked:
            self.variants[self.variants.index(one)] = self.graph.account(one)
        self._estimate()
        return bool(asked)

    def _add(self, new):
        """Unless one of them is nowhere worse."""
        if not any(one.planned == new.planned or better(one.planned, new.planned) for one in self.variants):
            self.variants.append(new)

    def _estimate(self):
        """Peaks of variants that are not accounted for, by the largest of the `shares` of what was planned that others
        take."""
        known = [one.option.peak_bytes / max(one.planned.peak_bytes, 1) for one in self.variants if one.accounted]
        self.shares = (min(known), max(known)) if known else (1, 1)
        for index, one in enumerate(self.variants):
            if not one.accounted:
                forward, backward = (int(peak * self.shares[1]) for peak in (
                    one.planned.forward_peak_bytes, one.planned.backward_peak_bytes))
                option = dataclasses.replace(one.planned, forward_peak_bytes=forward, backward_peak_bytes=backward)
                self.variants[index] = dataclasses.replace(one, option=option)

    def _by_kept(self, most):
        """From everything kept down, each time less than the fastest plan found keeps."""
        step = max((most - self.part.kept_floor_bytes) // LEVELS, 1)
        limit = self.room_bytes
        while limit >= self.part.kept_floor_bytes:
            found = self.add(limit, self.room_bytes)
            limit = min(min(limit, most) - step, found.option.kept_bytes - 1) if found else -1

    def _by_peak(self, least, most):
        peaks = [max(one.option.forward_peak_bytes, one.option.backward_peak_bytes) for one in self.variants]
        for share in PEAKS:
            peak = int(min(peaks) + share * (min(self.room_bytes, max(peaks)) - min(peaks)))
            for level in (4, 2, 1, 0):
                if self.add(least + (most - least) * level // 4, peak) is None:
                    break

    def _bound(self):
        """No plan that keeps between two limits and whose backward pass takes between two others is faster than the
        bound at the upper ones."""
        part, facts, found, known = self.part, self.part.facts, [], []
        owned = sum(facts.input_bytes[index] for index in self.inputs)
        others = sum(facts.rows[row].bytes for row, made in facts.results.items() if not made <= self.owned.results)
        most = int(self.room_bytes / self.shares[1]) + facts.results_bytes + owned
        floor = part.bound(most, most, self.inputs).late_floor_bytes
        peaks = [most, *(peak for peak in self._steps(most) if peak >= floor), floor - 1]
        for peak, below in zip(peaks, peaks[1:]):
            late = int((below + 1) * min(1, self.shares[0])) - others
            found += [Option(bound_ns, kept, max(kept - owned, 0), max(late, kept + facts.tangents_bytes))
                      for kept, bound_ns in self._bounds(peak, known, owned)]
        return [one for one in found if not any(better(other, one) for other in found)]

    def _steps(self, most):
        """Just below peaks of backward passes that lie apart."""
        facts, found = self.part.facts, []
        peaks = {one.planned.backward_peak_bytes + self._kept_inputs(one) + sum(
            facts.rows[row].bytes for row, made in facts.results.items() if made & one.kept_results)
            for one in self.variants}
        for peak in sorted(peaks, reverse=True):
            if peak < (found[-1] * APART if found else most):
                found.append(peak)
        return [peak - 1 for peak in found[:self.part.peaks_of_bound]]

    def _bounds(self, peak, known, owned):
        """(bytes, a time that no plan of that peak takes less than which keeps as much, up to the bytes before). Where a
        plan found takes no more than the bound, the next one keeps less than it does. `known`: limits of larger peaks
        and their bounds, which hold here, too."""
        part, most = self.part, self.part.fastest.option.kept_bytes + owned
        step = max((most - part.kept_floor_bytes) // part.levels_of_bound, 1)
        limit = max(self.room_bytes, most)
        while limit >= part.kept_floor_bytes:
            bound = part.bound(limit, peak, self.inputs)
            if bound.time_ns == math.inf:
                return
            bound_ns = max([bound.time_ns, *(time_ns for other, time_ns in known if other >= limit)])
            known.append((limit, bound_ns))
            tight = bound.found is not None and bound.found.option.time_ns <= bound_ns * TIGHT
            kept = bound.found.option.kept_bytes + self._kept_inputs(bound.found) if tight else math.inf
            limit = min(min(limit, most) - step, kept - 1)
            yield max(limit + 1, part.kept_floor_bytes), bound_ns

    def _kept_inputs(self, found):
        return sum(self.part.facts.input_bytes[index] for index in self.inputs if index in found.kept_inputs)


def better(one, other):
    """Nowhere worse, and not the same."""
    pairs = list(zip(dataclasses.astuple(one), dataclasses.astuple(other)))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
