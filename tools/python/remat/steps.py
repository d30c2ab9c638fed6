# SPDX-License-Identifier: Apache-2.0
"""A plan for all calls of a recorded step within one budget: the fronts of their graphs, and one variant for each call.

While a pass runs there live what stands between the calls, what other calls keep, and the peak of the pass itself."""
import dataclasses

from . import choice
from .choice import Moment
from .errors import InfeasibleBudget
from .fronts import Front, Owned
from .variants import MOST

REFINED = 4  # calls of a graph for which a variant is sought that takes just what they may
AGAIN = 3  # times that variants are chosen again


@dataclasses.dataclass(frozen=True)
class Kept:
    kept_inputs: frozenset
    kept_results: frozenset


@dataclasses.dataclass(frozen=True)
class Plan:
    """`variants` of the calls of `record`, in their order. Bytes are of what graphs allocate and what stands between
    them, those of the fastest variants too; no plan of the step has a smaller peak than `floor_bytes`, nor, within
    `room_bytes`, less time than `lower_bound_ns`."""
    record: object
    variants: list
    room_bytes: int
    peak_bytes: int
    fastest_bytes: int
    floor_bytes: int
    time_ns: float
    everything_saved_ns: float
    lower_bound_ns: float

    def spoken(self):
        """What another rank needs of it."""
        numbers = {one: number for number, one in enumerate(dict.fromkeys(self.variants))}
        return {"variants": [one.plain() for one in numbers], "picks": [numbers[one] for one in self.variants],
                "figures": {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[2:]}}


def heard(record, spoken):
    """Rank 0's plan for the calls of another rank's record."""
    found = {}
    for call, pick in zip(record.calls, spoken["picks"]):
        if pick not in found:
            found[pick] = call.graph.heard(spoken["variants"][pick])
    return Plan(record, [found[pick] for pick in spoken["picks"]], **spoken["figures"])


class Infeasible(InfeasibleBudget):
    """Of the bytes for the calls of a step."""


def plan(record, room_bytes):
    calls = record.calls
    def surely(call):
        return Kept(call.graph.part.facts.surely_read, frozenset())
    must = record.live(surely)
    fronts, there, owned = {}, held(record), _owned(record, surely)
    for call in calls:
        room = room_bytes - min(must[event] for other in calls if other.graph is call.graph
                                for event in (other.forward, other.backward))
        if call.graph not in fronts:
            fronts[call.graph] = Front(call.graph, max(room, 1), there[call.graph], owned[call.graph])
    floor = _floor(record, fronts, must)
    picks = _chosen(record, room_bytes, fronts, there, floor)
    bounds = choice.choose(_calls(record, room_bytes, must, {graph: front.bounds for graph, front in fronts.items()}),
                           lower=True)
    fastest = [call.graph.part.fastest for call in calls]
    return Plan(record, picks, room_bytes, peak(record, picks), peak(record, fastest), floor,
                sum(one.option.time_ns for one in picks), sum(one.facts.everything_saved_ns for one in picks),
                bounds[0] if bounds else sum(call.graph.part.least_ns for call in calls))


def _owned(record, surely):
    """Of each graph, what its calls have alone: inputs that nothing else reads, and results that die before the
    backward pass."""
    found, ends = {}, {value: value.ends(surely) for value in record.values.values()}
    for call in record.calls:
        inputs = {value.inputs_of[0][1] for value, end in ends.items()
                  if len(value.inputs_of) == 1 and value.inputs_of[0][0] is call and end == call.forward}
        results = {value.results_of[0][1] for value, end in ends.items()
                   if len(value.results_of) == 1 and value.results_of[0][0] is call and end < call.backward}
        before = found.get(call.graph, Owned(inputs, results))
        found[call.graph] = Owned(before.inputs & inputs, before.results & results)
    return found


def held(record):
    """By graph, the variants that are there whatever is chosen for the calls of the record."""
    return {graph: graph.held({call.key for call in record.calls if call.graph is graph})
            for graph in {call.graph: None for call in record.calls}}


def _chosen(record, room_bytes, fronts, there, floor):
    """A variant for each call. Where the compiled graphs take other than was planned, variants are chosen again: all of
    those that run are accounted for."""
    def variants(accounted=False):
        return {graph: [one for one in (graph.compiled if graph.refused else front.variants)
                        if one.accounted or not accounted] for graph, front in fronts.items()}
    picks = None
    for _ in range(1 + AGAIN):
        picks = _choose(record, room_bytes, variants())
        if picks is None:
            raise Infeasible(_account(fronts), _smallest(record, room_bytes, variants(), floor), floor)
        _refine(record, room_bytes, fronts, picks)
        picks = _of_few(record, room_bytes, variants(), there)
        if picks is None or not any([front.account(picks) for front in fronts.values()]):
            break
    else:
        picks = _of_few(record, room_bytes, variants(accounted=True), there)
    if picks is None:
        compiled = {graph: graph.compiled for graph in fronts}
        raise Infeasible(_account(fronts), _smallest(record, room_bytes, compiled, floor), floor)
    return picks


def _account(fronts):
    """The largest peak of those above what was planned, for messages."""
    above = [(one.option.peak_bytes, one.planned.peak_bytes) for front in fronts.values() for one in front.variants
             if one.accounted and one.option.peak_bytes > one.planned.peak_bytes]
    return "; Inductor's kernels take up to {} bytes, by its own account, where {} are planned".format(
        *max(above)) if above else ""


def _moments(calls, room_bytes, live):
    def moment(call, event):
        holders = frozenset(index for index, other in enumerate(calls)
                            if other is not call and other.forward < event < other.backward)
        return Moment(room_bytes - live[event], holders)
    return [(moment(call, call.forward), moment(call, call.backward)) for call in calls]


def _calls(record, room_bytes, live, options):
    return [choice.Call(tuple(options[call.graph]), *moments)
            for call, moments in zip(record.calls, _moments(record.calls, room_bytes, live))]


def _choose(record, room_bytes, variants):
    """A variant of those of its graph for each call, or None. Whatever one of them keeps stands throughout."""
    kept = {graph: Kept(frozenset().union(*(one.kept_inputs for one in found)),
                        frozenset().union(*(one.kept_results for one in found))) for graph, found in variants.items()}
    live = record.live(lambda call: kept[call.graph])
    options = {graph: [one.option for one in found] for graph, found in variants.items()}
    found = choice.choose(_calls(record, room_bytes, live, options))
    return found and [variants[call.graph][index] for call, index in zip(record.calls, found[1])]


def _taken(record, picks):
    """Of each call and pass: (what stands and what other calls keep, the peak of the pass itself, holders)."""
    chosen = dict(zip(record.calls, picks))
    live = record.live(chosen.get)
    found = []
    for call, moments in zip(record.calls, _moments(record.calls, 0, live)):
        option = chosen[call].option
        found.append([(sum(picks[index].option.kept_bytes for index in moment.holders) - moment.room_bytes, own,
                       moment.holders) for moment, own in
                      zip(moments, (option.forward_peak_bytes, option.backward_peak_bytes))])
    return found


def peak(record, picks):
    return max(beside + own for passes in _taken(record, picks) for beside, own, _ in passes)


def _refine(record, room_bytes, fronts, picks):
    """Variants that take just what is left to a call where it is slowest."""
    taken = _taken(record, picks)
    passes = [one for both in taken for one in both]
    for graph, front in fronts.items():
        mine = [index for index, call in enumerate(record.calls) if call.graph is graph]
        for index in sorted(mine, key=lambda index: -picks[index].option.time_ns)[:REFINED]:
            spare = min((room_bytes - beside - own for beside, own, holders in passes if index in holders), default=0)
            front.add(picks[index].option.kept_bytes + max(spare, 0),
                      min(room_bytes - beside for beside, _, _ in taken[index]))


def _of_few(record, room_bytes, variants, there):
    """The choice with at most MOST variants of a graph, with all that are `there`; those go that are missed least. None
    where no such choice fits."""
    picks = _choose(record, room_bytes, variants)
    while True:
        used = {graph: [one for one in found if one in there[graph] or one in picks] for graph, found in
                variants.items()}
        many = next((graph for graph, found in used.items() if len({*found, *there[graph]}) > MOST), None)
        if many is None:
            return picks
        tried = [used | {many: [one for one in used[many] if one is not without]}
                 for without in used[many] if without not in there[many]]
        found = [(again, left) for left in tried if (again := _choose(record, room_bytes, left))]
        if not found:
            return None
        picks, variants = min(found, key=lambda one: sum(pick.option.time_ns for pick in one[0]))


def _floor(record, fronts, must):
    """What stands, what other calls must keep and the smallest peak, at one pass of each call at least."""
    floors = []
    for call, moments in zip(record.calls, _moments(record.calls, 0, must)):
        passes = [sum(fronts[record.calls[index].graph].part.kept_floor_bytes for index in moment.holders) -
                  moment.room_bytes for moment in moments]
        floors.append(min(passes) + fronts[call.graph].peak_floor_bytes)
    return max(floors)


def _smallest(record, room_bytes, variants, floor):
    """The fewest bytes for which a choice is found."""
    low, high = max(room_bytes, floor) - 1, max(room_bytes, floor)
    while _choose(record, high, variants) is None:
        low, high = high, 2 * high
    while high - low > max(high // 1000, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if _choose(record, middle, variants) is None else (low, middle)
    return high
