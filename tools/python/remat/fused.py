# SPDX-License-Identifier: Apache-2.0
"""Plans for kernels that fuse: the joint graph as foreign nodes, its order by libremat-compiler, and that order as a
forward and a backward graph.

What the plan computes inside a kernel of the backward pass is one run there, before the first such kernel; whoever
compiles the graph decides again what is computed where it is read."""
import collections
import dataclasses
import functools
import itertools
import math

from . import bare_problem, classes, fronts, lowered, nodes, proposals
from ._orders import device
from ._torch import fx_graph_cse, inductor_config, make_graph_module
from .errors import InfeasibleBudget
from .classes import prims
from .foreign import BACKWARD, Beside, Foreign
from .fusion import Fusion
from .joint import Joint
from .nodes import aten
from .prepare import prepare
from .replay import replay
from .bare_problem import BORDER, MARK
from .unroll import WRITTEN, Unrolled, split


ATTEMPTS = 3  # to plan again
SLACKS = (1, 1.01, 1.03, 1.1, 1.3)
ENOUGH = 1.02  # times what was asked for, above which it is worth to plan for more
# Inductor would keep freed buffers for later ones, and run kernels in another order, where that raises no peak by an
# estimate that counts what fused kernels keep inside.
AS_PLANNED = {"allow_buffer_reuse": False, "reorder_for_peak_memory": False}
GUARD = {"fusion_memory_timeline_peak_memory_pct_threshold": 0.001,
         "fusion_memory_timeline_peak_memory_increase_gb": 0.001}


@dataclasses.dataclass(frozen=True)
class Info:
    """An order: `sequence` of the rows, the places in it whose results are `written` to memory in the backward pass, and
    those whose results stay `inside` a kernel; bytes are of what the graph allocates, times of a step, in ns."""
    sequence: list
    written: set
    inside: set
    peak_bytes: int
    time_ns: float
    everything_saved_ns: float
    lower_bound_ns: float
    floor_bytes: int
    found_by: str = "the search"


class Planner:
    """Plans one joint graph, for any number of budgets: all of a step, or with `beside` one of several, and with `pins`
    of some values (foreign.py). What it shares with one of the same graph is taken from `like`."""

    def __init__(self, joint, costs, beside=None, pins=None, like=None):
        self.joint, self.costs, self.device = joint, costs, device(costs)
        self.rows = like.rows if like else bare_problem.build(joint, costs)
        self.fusion = like.fusion if like else Fusion(joint)
        self.foreign = Foreign(self.fusion, costs, beside, pins)
        self.at = {row.run: index for index, row in enumerate(self.rows) if row.run is not MARK}

    def another(self, beside=None, pins=None):
        """A planner of the same graph."""
        return Planner(self.joint, self.costs, beside, pins, self)

    @functools.cached_property
    def fastest(self):
        return self.decide()

    @functools.cached_property
    def _unlimited(self):
        return self.foreign.graph.order(self.device)

    @property
    def input_bytes(self):
        return self._unlimited[0].static_bytes

    def decide(self, budget_bytes=None):
        """The fastest order within bytes of what the graph allocates; None if there is none."""
        found = self._unlimited
        if budget_bytes is not None:
            found = self.foreign.graph.order(self.device, budget_bytes + self.input_bytes)
        if found is None:
            return None
        info, runs = found
        return Info(*self._sequence(runs), info.peak_bytes - self.input_bytes, info.step_ns, info.base_step_ns,
                    info.bound_step_ns, max(info.floor_bytes - self.input_bytes, 0))

    @functools.cached_property
    def smallest(self):
        """An order of nearly the smallest peak; packed, it may need a little more."""
        peak_bytes = self.foreign.graph.smallest_bytes(self.device) - self.input_bytes
        orders = (self.decide(int(peak_bytes * slack)) for slack in SLACKS)
        return next(filter(None, orders), self.fastest)

    @functools.cached_property
    def proposals(self):
        """(name, sequence, the planner's own order of the same decisions, which prices them) of the plans of others."""
        return [(name, list(proposals.keeping(name, self.rows, kept).sequence), self._priced(kept))
                for name, kept in proposals.cuts(self.joint, self.rows, len(self.joint.forward_outputs))]

    def _priced(self, kept):
        saved = {self.rows[index].run for index in kept}
        pins = {node: "save" if node in saved else "recompute" for node in self.joint.scheduled}
        return self.another(pins=pins).smallest

    def kept(self, info):
        """Rows whose values the backward pass reads as the forward pass made them."""
        return replay(self.rows, info.sequence).saved

    def graphs(self, info, forward_count, static):
        return graphs_of(self.joint, self.rows, info.sequence, info.written, forward_count, static)

    def _sequence(self, runs):
        """(rows in the order of the kernels, places written, places inside). What a kernel of the backward pass computes
        for itself is a run of its own. What has no value in the plan runs before it is read, in each pass and again where
        what it is made of ran again."""
        sequence, written, inside, done = [], set(), set(), set()
        border, within = self.at[BORDER], {self.at[node] for node in self.fusion.within}
        remade = set(self.fusion.remade)
        made_of_it = collections.defaultdict(list)  # of a row: readers that have no value in the plan
        for row in within:
            for source in self.rows[row].inputs:
                made_of_it[source].append(row)

        def forget(row):
            for reader in made_of_it[row]:
                if reader in done:
                    done.discard(reader)
                    forget(reader)

        def add(row):
            for source in self.rows[row].inputs:
                if source not in done:
                    add(source)
            sequence.append(row)
            done.add(row)
            forget(row)

        for kernel in _kernels(runs):
            late = any(run.round or self.foreign.phases[run.node] == BACKWARD for run in kernel)
            if late and border not in done:
                add(border)
                done -= within
            here, stored = {}, set()
            for run in kernel:
                node = self.foreign.stands_for[run.node]
                row, again = self.at.get(node), run.round or node in remade
                if row is None or row not in here and row in done and (not again or self.rows[row].once):
                    continue
                if row not in here:
                    add(row)
                    here[row] = len(sequence) - 1
                if run.stored:
                    stored.add(here[row])
            written |= stored if late else set()
            inside |= {*here.values()} - stored
        for row in range(len(self.rows)):
            if row not in done | within:
                add(row)
        inside |= {place for place, row in enumerate(sequence) if row in within}
        return sequence, written, inside


def graphs_of(joint, rows, sequence, written, forward_count, static):
    """The forward and the backward graph of a sequence of rows."""
    graphs = split(Unrolled(joint, rows, sequence, written, parts_again=True), forward_count, static)
    for graph in graphs:
        write_out(graph)
        keep_products_in_place(graph)
        graph.recompile()
    return graphs


class Part(fronts.Part):
    """Variants of a graph that is one of several in a step, of kernels that fuse. `account(variant)` lowers it."""
    levels_of_bound, peaks_of_bound = 16, 4

    def __init__(self, planner, facts, account):
        super().__init__(dataclasses.replace(facts, everything_saved_ns=planner.fastest.everything_saved_ns))
        self.planner, self.account = planner, account

    @functools.cached_property
    def fastest(self):
        return variant(self.facts, self.planner.fastest)

    @property
    def least_ns(self):
        return self.planner.fastest.lower_bound_ns

    @property
    def peak_floor_bytes(self):
        return self.planner.smallest.floor_bytes

    def least_kept(self):
        """Beside what stands, the peak is at the border."""
        peak_bytes = 2 * self.planner.fastest.peak_bytes
        return variant(self.facts, self._planner(0, peak_bytes).smallest)

    def within(self, kept_bytes, peak_bytes, effort):
        info = self._planner(kept_bytes, peak_bytes).decide(max(peak_bytes, 1))
        return variant(self.facts, info) if info else None

    def bound(self, kept_bytes, late_bytes, inputs):
        peak_bytes = 2 * self.planner.fastest.peak_bytes + kept_bytes + late_bytes
        planner = self._planner(kept_bytes, peak_bytes, peak_bytes - late_bytes, inputs)
        info = planner.decide(peak_bytes)
        found = variant(self.facts, info) if info else None
        # What bounds more memory bounds less.
        return fronts.Bound.of(info or planner.smallest, peak_bytes, late_bytes, self.least_ns, found)

    def _planner(self, kept_bytes, peak_bytes, late_bytes=0, inputs=()):
        primals = [node for node in self.planner.joint.nodes if node.op == "placeholder"
                   and node not in self.planner.joint.tangents]
        return self.planner.another(Beside(
            self.facts.beside(kept_bytes, peak_bytes), late_bytes, tuple(primals[index] for index in inputs)))


def facts_of(joint, rows, costs):
    """Of a graph that is one of several. Kernels that fuse have no scratch memory."""
    rows = [dataclasses.replace(row, workspace=0) if row.run not in (BORDER, MARK) and not row.once
            and classes.of(row.run) != classes.OPAQUE else row for row in rows]
    return fronts.of_joint(joint, rows, costs.name)


def variant(facts, info, settings=AS_PLANNED):
    border = info.sequence.index(facts.border)

    def lifted(places):
        return frozenset(place + (place > border) for place in places)
    found = fronts.variant(facts, facts.lifted(info.sequence), info.time_ns, info.peak_bytes, lifted(info.inside),
                           written=lifted(info.written), settings=settings)
    return dataclasses.replace(found, accounted=False)


def _kernels(runs):
    return [list(kernel) for _, kernel in itertools.groupby(runs, key=lambda run: run.kernel)]


@dataclasses.dataclass(frozen=True)
class Fit:
    """Graphs of a plan and their memory as Inductor allocates it with these settings."""
    info: Info
    graphs: tuple
    estimate: lowered.Estimate
    settings: dict

    @property
    def estimate_bytes(self):
        return self.estimate.peak_bytes

    @property
    def guarded(self):
        return self.settings != AS_PLANNED

    def spoken(self):
        """For other ranks, which have the same joint graph."""
        return dataclasses.replace(self, graphs=())


def heard(planner, spoken, forward_count, static):
    """Another rank's fit, with graphs of this one's."""
    return dataclasses.replace(spoken, graphs=planner.graphs(spoken.info, forward_count, static))


def account(one, graphs, forward_count):
    """The variant with what Inductor allocates for its graphs."""
    with inductor_config.patch(one.settings):
        found = lowered.estimate(*graphs, forward_count)
    return accounted(one, found)


def accounted(one, found):
    option = dataclasses.replace(one.option, kept_bytes=found.kept_bytes, forward_peak_bytes=found.forward_peak_bytes,
                                 backward_peak_bytes=found.backward_peak_bytes)
    return dataclasses.replace(one, option=option, accounted=True)


def fit(planner, budget_bytes, forward_count, static):
    """Plans, asks Inductor what the graphs take, and plans again for as much less or more; the plan of the smallest peak
    and a guard against fusions that raise it are the last resort. The fastest that fits, or InfeasibleBudget, of bytes
    that the graphs allocate."""
    tried, asked = [], budget_bytes
    for _ in range(1 + ATTEMPTS):
        info = planner.decide(asked) or planner.smallest
        if any(one.info == info for one in tried):
            break
        graphs = planner.graphs(info, forward_count, static)
        one = lower(info, graphs, forward_count, AS_PLANNED)
        tried.append(one)
        fits = one.estimate_bytes <= budget_bytes
        again = int(min(asked, info.peak_bytes) * budget_bytes / max(one.estimate_bytes, 1))
        if fits and (info.time_ns <= planner.fastest.time_ns or again <= asked * ENOUGH):
            break
        asked = again
    times_ns = [one.info.time_ns for one in tried if one.estimate_bytes <= budget_bytes]
    for info in proposed(planner, budget_bytes, tried[0].info.lower_bound_ns, times_ns):
        one = lower(info, planner.graphs(info, forward_count, static), forward_count, AS_PLANNED)
        tried.append(dataclasses.replace(one, info=dataclasses.replace(info, peak_bytes=one.estimate_bytes)))
    least = min(tried, key=lambda one: one.estimate_bytes)
    smallest = planner.smallest if least.estimate_bytes > budget_bytes else least.info
    for info, settings in ((smallest, AS_PLANNED), (least.info, AS_PLANNED | GUARD), (smallest, AS_PLANNED | GUARD)):
        if all(one.estimate_bytes > budget_bytes and (one.info, one.settings) != (info, settings) for one in tried):
            tried.append(lower(info, planner.graphs(info, forward_count, static), forward_count, settings))
    fitting = [one for one in tried if one.estimate_bytes <= budget_bytes]
    if fitting:
        return min(fitting, key=lambda one: (one.info.time_ns, one.estimate_bytes))
    least = min(tried, key=lambda one: one.estimate_bytes)
    raise InfeasibleBudget(above(least, budget_bytes), least.estimate_bytes,
                           min(least.info.floor_bytes, least.estimate_bytes))


def proposed(planner, budget_bytes, bound_ns, times_ns):
    """Plans that others would make, as they would order them, where they are faster than all that fit, which take these
    times, none less than the bound; with the bounds of every plan."""
    fastest_ns = min(times_ns, default=math.inf)
    if fastest_ns <= bound_ns * proposals.NOTHING_TO_WIN:
        return
    for name, sequence, priced in planner.proposals:
        if priced.time_ns < fastest_ns:
            free = planner.decide(max(budget_bytes, priced.peak_bytes)) or planner.smallest
            yield dataclasses.replace(free, sequence=sequence, written=set(), inside=set(), time_ns=priced.time_ns,
                                      peak_bytes=priced.peak_bytes, found_by=name)


def above(fit, budget_bytes):
    return (f"Inductor's kernels take {fit.estimate_bytes} bytes of the {budget_bytes} that are left to this graph, by "
            f"its own account, where {fit.info.peak_bytes} are planned")


def lower(info, graphs, forward_count, settings):
    with inductor_config.patch(settings):
        return Fit(info, graphs, lowered.estimate(*graphs, forward_count), settings)


def plan(joint_module, forward_count, static, budget_bytes, costs, recomputable=()):
    """(forward graph, backward graph, Info) of a joint graph, of which they allocate at most `budget_bytes` as planned;
    nothing is lowered."""
    planner = Planner(joint_of(joint_module, forward_count, recomputable=recomputable), costs)
    info = planner.decide(budget_bytes)
    if info is None:
        smallest = planner.smallest.peak_bytes
        raise InfeasibleBudget(f"no plan fits {budget_bytes} bytes; the smallest for which one was found is {smallest}",
                               smallest)
    return *planner.graphs(info, forward_count, static), info


def write_out(module):
    """Inductor would compute some of the values that the plan writes once again in each kernel that reads them, and keep
    what they are made of instead."""
    for node in list(module.graph.nodes):
        if node.meta.get(WRITTEN) and classes.of(node) == classes.POINTWISE and len(node.users) > 1 and not widens(node):
            _fix(module.graph, node)


def widens(node):
    """A cast of what is in memory in fewer bytes: each reader casts for itself."""
    operands = [one for one in node.all_input_nodes if nodes.tensors(one)]
    return (node.target is prims.convert_element_type.default
            and nodes.storage_bytes(nodes.tensors(operands[0])[0]) < nodes.storage_bytes(nodes.value(node))
            and (operands[0].op != "call_function" or classes.of(nodes.base(operands[0])) == classes.OPAQUE))


def keep_products_in_place(module):
    """Inductor makes one operator of a product and a sum that reads it, where the sum is. So a product that waits for
    the other summand would keep its own operands alive."""
    made = set()
    for node in list(module.graph.nodes):
        made.add(node)
        if node.target is aten.mm.default and any(
                user.target is aten.add.Tensor and not all(nodes.base(one) in made for one in user.all_input_nodes)
                for user in node.users):
            _fix(module.graph, node)


def _fix(graph, node):
    """Puts a node after it that asks for the strides that it has, and so for memory."""
    with graph.inserting_after(node):
        fixed = graph.call_function(prims.inductor_force_stride_order.default,
                                    (node, list(nodes.value(node).stride())))
    fixed.meta = {**node.meta, WRITTEN: False}
    node.replace_all_uses_with(fixed, delete_user_cb=lambda user: user is not fixed)


def joint_of(module, forward_count, rounding=1, recomputable=()):
    module = make_graph_module(module, fx_graph_cse(module.graph))  # as PyTorch's own partitioner does
    prepare(module, forward_count)
    return Joint(module, forward_count, rounding, recomputable)
