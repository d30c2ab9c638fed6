# SPDX-License-Identifier: Apache-2.0
"""The backend for torch.compile: graphs with a backward pass are planned within one budget in bytes.

A graph that takes all of a step is planned when it is compiled. Any other runs its first step at its smallest peak, in
which the calls of graphs are recorded; then all of them are planned together, and compiled again."""
import logging
import math

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import (_planner, arguments, bare_problem, costs as costs_of, draws, fronts, inductor, keys, nodes, outside,
               proposals, ranks, rules, steps)
from ._torch import default_partition
from .calls import Calls, in_backward_pass, named, parameter_module
from .eager import Eager
from .errors import Error, InfeasibleBudget
from .replay import replay
from .report import Report, Step, of_modules
from .report import Graph as Planning
from .sizes import format_bytes, parse_bytes
from .variants import Graph

LOG = logging.getLogger("remat")
KERNELS = {"inductor": inductor.Inductor, "aot_eager": Eager}
MODULES_SHOWN = 8  # in a remark
CALLS_WATCHED = 4  # first calls of a graph in which gradients of earlier microbatches would show


class Planned:
    """A graph that was planned, and whether what it saved in its last forward pass still lives."""

    def __init__(self, graph, result_count):
        self.graph, self.result_count, self.calls, self._sentinel = graph, result_count, 0, None

    def ran_forward(self, results, given):
        """Keeps an eye on the largest value that only the backward pass holds."""
        self.calls += 1
        others = given | {nodes.storage(one) for one in results[:self.result_count] if isinstance(one, torch.Tensor)}
        saved = [one for one in results[self.result_count:] if isinstance(one, torch.Tensor)]
        largest = max((one for one in saved if nodes.storage(one) not in others),
                      key=lambda one: one.untyped_storage().nbytes(), default=None)
        self._sentinel = StorageWeakRef(largest.untyped_storage()) if largest is not None else None

    def holds_memory(self):
        return self._sentinel is not None and not self._sentinel.expired()


class Backend:
    """Use as torch.compile(model, backend=remat.backend(...)). Calls of one backend come from one thread."""

    __name__ = "remat"

    def __init__(self, budget, model=None, optimizer=None, kernels="inductor", margin=0.05, accumulate=None, costs=None,
                 options=None):
        self.budget_bytes = parse_bytes(budget)
        arguments.check(model, optimizer, kernels, list(KERNELS), margin, accumulate, costs)
        options = arguments.options_of(options, kernels)
        self.recomputable, self.replay_random = options.recomputable, options.replay_random
        self.kernels, self.settings = kernels, options.settings
        self.margin, self.margin_bytes = margin, int(self.budget_bytes * margin)
        self.model, self.optimizer, self.accumulate, self.costs = model, optimizer, accumulate, costs
        self.outside = outside.count(model, optimizer, accumulate)
        self.planned, self.remarks = [], []
        self.group = ranks.group_of(model)
        wishes = ranks.Wishes(self.group) if self.group is not None else None
        self.calls = Calls(self._variant_of, self._finished, self.remark, model, wishes)
        self.step, self.failure = None, None  # what was planned for a step, or why not
        self.unplanned_bytes = 0  # that calls may have taken which no plan knew

    def __call__(self, module, example_inputs, **settings):
        rules.check_settings()
        kernels = KERNELS[self.kernels](self, **settings)
        kernels.layer = parameter_module(self.model, example_inputs)
        graph = Graph(module, kernels, self._partition, self._watched, self._is_whole(example_inputs))
        run = graph.compile_first(module, example_inputs)
        if graph.part is None:
            return run
        if not graph.whole:
            self.calls.want_record(f"graph {graph.planning.graph.number} was compiled")
            self._name_whole(graph)
        return lambda *arguments: self.calls.run(graph, arguments)

    def _is_whole(self, inputs):
        """Whether the graph is taken for all of the step: no other has begun it, and it trains all of the model. With
        many ranks only the first one is, as one may compile others alone."""
        if self.calls.begun() or self.group is not None and self.planned:
            return False
        given = {id(one) for one in inputs}
        return self.model is None or all(id(one) in given for one in self.model.parameters() if one.requires_grad)

    def report(self):
        """What was planned so far, and the largest number of bytes that the device's allocator has seen."""
        graphs = [planned.graph for planned in self.planned]
        remarks = self.remarks + ([self._of_unplanned()] if self.unplanned_bytes else [])
        return Report(self.budget_bytes, self.margin_bytes, self.outside, graphs, self.step, _measured(), remarks)

    def _partition(self, graph, variant, joint_module, joint_inputs, *, num_fwd_outputs,
                   static_lifetime_input_indices=None, **_):
        static = static_lifetime_input_indices or []
        if not rules.has_budget(joint_module, joint_inputs):
            return default_partition(joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs,
                                     static_lifetime_input_indices=static)
        tags, kernels = rules.count_tags(joint_module), graph.kernels
        joint = kernels.joint(joint_module, num_fwd_outputs)
        if variant is None:
            self.outside = outside.count(self.model, self.optimizer, self.accumulate)
            given = outside.input_bytes(joint_inputs, static) if self.outside.counted else 0
            first = kernels.whole if graph.whole else kernels.smallest
            part, variant, planning, graphs = first(joint, given, tags, num_fwd_outputs, static)
            graph.planned(part, variant, self.add(planning, num_fwd_outputs), static, joint.rounding)
            return graphs
        facts = kernels.facts(joint)
        if not facts.is_like(variant.facts):
            raise Error(f"internal error: graph {graph.planning.graph.number} was traced to another problem")
        return kernels.graphs(joint, facts, variant, num_fwd_outputs, static)

    def add(self, planning, result_count):
        self.planned.append(Planned(planning, result_count))
        return self.planned[-1]

    def plan(self, joint, input_bytes, tags, forward_count, layer):
        """(what the report says, a sequence of the rows, rows) of a graph that is all of a step, with eager kernels."""
        costs = costs_of.resolve(self.costs, joint.module)
        rows = ranks.agree(self.group, bare_problem.build(joint, costs), layer)
        left, beside, earlier = self.room(input_bytes)
        plain = [row.plain() for row in rows]
        decision = proposals.better(_planner.solve(plain, max(left, 1)), joint, rows, left, forward_count)
        decision = draws.join(decision, rows, left)
        if not decision.sequence:
            raise self.no_plan(rows, decision, beside, earlier)
        memory = replay(rows, decision.sequence)
        if memory.peak_bytes != decision.peak_bytes or memory.peak_bytes > left:
            raise Error(f"internal error: the plan's peak is {memory.peak_bytes} bytes, not {decision.peak_bytes}, "
                        f"of {left}")
        planning = self.planning(joint, rows, decision, memory, left, input_bytes, earlier, tags, costs.name)
        return planning, decision.sequence, rows

    def room(self, input_bytes, alone=False):
        """(bytes that are left to a graph, bytes outside it, those of them of earlier graphs, unless it is taken
        alone)"""
        earlier = 0 if alone else self._earlier_bytes()
        if earlier:
            self.remark(f"graph {len(self.planned) + 1} was planned for what earlier graphs of the step left, not "
                         f"together with them: {format_bytes(earlier)} are theirs")
        beside = self.margin_bytes + self.outside.step_bytes + earlier + input_bytes
        self._check_update()
        return self.budget_bytes - beside, beside, earlier

    def planning(self, joint, rows, decision, memory, left, input_bytes, earlier, tags, costs):
        """What the report says of it."""
        symbolic = self.note(joint, tags)
        told = sum(rows[index].time_ns for index in bare_problem.twins(rows))
        time_ns = sum(rows[row].time_ns for row in decision.sequence)
        return Planning(
            number=len(self.planned) + 1, given_bytes=left, planned_peak_bytes=memory.peak_bytes,
            everything_saved_bytes=decision.given_peak_bytes, peak_at=_place(rows[memory.peak_row]),
            held_at_border_bytes=memory.border_bytes, saved_bytes=sum(rows[row].bytes for row in memory.saved),
            input_bytes=input_bytes, time_ns=time_ns, everything_saved_ns=decision.total_ns - told,
            lower_bound_ns=decision.lower_bound_ns, floor_bytes=decision.floor_bytes, costs=costs, rows=len(rows),
            reruns=len(decision.sequence) - len(rows), modules=of_modules(rows, decision.sequence, memory.saved),
            once=_count(joint.once.values()), tags=tags, symbolic=symbolic, earlier_bytes=earlier,
            found_by=decision.found_by)

    def note(self, joint, tags):
        """Remarks on what a plan of the next graph does not promise. Returns whether sizes are symbolic."""
        number = len(self.planned) + 1
        symbolic = any(isinstance(nodes.value(node), torch.SymInt) for node in joint.nodes if node.op == "placeholder")
        if symbolic:
            self.remark(f"graph {number} has sizes that may change: it is planned for those it was traced with; no "
                         "promise above")
        other = costs_of.stand_in(self.costs, joint.module)
        if other:
            self.remark(other)
        preferred = sum(count for name, count in tags.items() if name.startswith("PREFER_"))
        if preferred:
            self.remark(f"{preferred} PREFER_* tags of checkpointing are ignored: the plan decides; MUST_* tags hold")
        return symbolic

    def _variant_of(self, graph, key):
        if self.failure is not None:
            raise self.failure
        found = graph.chosen.get(key)
        if found is None:
            self._look_at_unplanned(graph)
        return found

    def _look_at_unplanned(self, graph):
        """A call that no plan knows runs beside what earlier ones keep: it may take more than the budget."""
        kept = sum(call.variant.option.kept_bytes + call.graph.part.facts.results_bytes for call in self.calls.waiting)
        bytes_ = self.margin_bytes + self.outside.step_bytes + kept + graph.first.option.peak_bytes
        if bytes_ > max(self.budget_bytes, self.unplanned_bytes):
            first, self.unplanned_bytes = not self.unplanned_bytes, bytes_
            if first:
                LOG.warning("%s", self._of_unplanned())

    def _of_unplanned(self):
        return (f"a step with calls that no plan knew may have taken {format_bytes(self.unplanned_bytes)}, above the "
                "budget: from the next recorded step on they are planned together")

    def _name_whole(self, graph):
        whole = [call.graph.planning.graph.number for call in self.calls.waiting if call.graph.whole]
        if whole and self.model is None:
            self.remark(f"graph {whole[0]} was planned for all of the budget before graph "
                        f"{graph.planning.graph.number} was seen: pass model=, which tells what is all of a step; from a "
                        "recorded step on they are planned together")

    def _finished(self, record):
        """Plans all calls of a step that was recorded."""
        ranks.agree_on_calls(self.group, _descriptions(record.calls), record.reason)
        if not record.calls:
            self.calls.want_record(record.reason)
            return
        self.outside = outside.count(self.model, self.optimizer, self.accumulate)
        if self.outside.gradient_bytes or self.outside.bucket_bytes:
            record.forget(outside.local_gradients(self.model))
        beside = self.margin_bytes + self.outside.step_bytes
        self._check_update()
        for graph, layer in {call.graph: call.layer for call in reversed(record.calls)}.items():
            ranks.agree(self.group, graph.part.facts.rows, layer)
        try:
            plan = ranks.decided(self.group, lambda: steps.plan(record, self.budget_bytes - beside), "waits for a plan",
                                 steps.Plan.spoken, lambda spoken: steps.heard(record, spoken))
        except steps.Infeasible as error:
            self.failure = self._infeasible_step(record, error, beside)
            raise self.failure from None
        for call, pick in zip(record.calls, plan.variants):
            call.graph.chosen[call.key] = pick
        self.step = Step.of(plan)
        self._name_modules_outside(record)
        LOG.info("%d calls of %d graphs were planned together: %s", len(record.calls),
                 len({call.graph for call in record.calls}), self.step.line())

    def _name_modules_outside(self, record):
        names = {name.rpartition(".")[0] or name for name, one in
                 (self.model.named_parameters() if self.model is not None else ())
                 if one.requires_grad and name not in record.parameters}
        if names:
            shown = ", ".join(sorted(names)[:MODULES_SHOWN]) + (", ..." if len(names) > MODULES_SHOWN else "")
            self.remark(f"in the recorded step no planned graph ran {shown}: what they allocate is in no plan")

    def _infeasible_step(self, record, error, beside):
        smallest, floor = (self._budget_for(one, beside) for one in (error.smallest_bytes, error.floor_bytes))
        return InfeasibleBudget(
            f"no plan fits the budget of {format_bytes(self.budget_bytes)}: the smallest for which a plan of all "
            f"{len(record.calls)} calls of a step was found is {format_bytes(smallest)} ({smallest}); none exists "
            f"below {format_bytes(floor)} ({floor}). Of the budget, {format_bytes(beside)} are outside the graphs "
            f"(margin, parameters, optimizer){error}", smallest, floor)

    def _earlier_bytes(self):
        """What graphs of the same step hold that ran before."""
        return sum(one.graph.held_at_border_bytes + one.graph.input_bytes for one in self.planned if one.holds_memory())

    def _check_update(self):
        update = self.outside.update_peak_bytes if self.outside.counted else 0
        if update + self.margin_bytes > self.budget_bytes:
            optimizer = self.outside.optimizer
            advice = (f"; {format_bytes(optimizer.update_bytes)} are temporaries of its foreach form: "
                      f"{optimizer.name}(..., fused=True) makes none" if optimizer.foreach else "")
            raise InfeasibleBudget(f"the update alone needs {format_bytes(update + self.margin_bytes)}, the budget is "
                                   f"{format_bytes(self.budget_bytes)} (margin included){advice}",
                                   floor_bytes=update + self.margin_bytes)

    def no_plan(self, rows, decision, beside, earlier):
        why = f", which {_place(rows[decision.floor_row])} needs"
        return self.infeasible(decision.smallest_bytes, decision.floor_bytes, why, beside, earlier)

    def infeasible(self, smallest_bytes, floor_bytes, why, beside, earlier):
        """Of bytes that are left to a graph; `why` goes on after the floor."""
        smallest = self._budget_for(smallest_bytes, beside) if smallest_bytes else None
        floor = self._budget_for(floor_bytes, beside)
        found = f"the smallest for which a plan was found is {format_bytes(smallest)} ({smallest})" if smallest else \
            "no plan was found for any smaller one"
        message = (f"no plan fits the budget of {format_bytes(self.budget_bytes)}: {found}; none exists below "
                   f"{format_bytes(floor)} ({floor}){why}. Of the budget, "
                   f"{format_bytes(beside)} are outside this graph (margin, parameters, optimizer, inputs, earlier "
                   "graphs)")
        if earlier:
            message += (f"; {format_bytes(earlier)} are held by earlier graphs of the step, which were planned first: "
                        "compile the loss with the model, and see torch.compile(..., fullgraph=True) for breaks")
        return InfeasibleBudget(message, smallest, floor)

    def _budget_for(self, graph_bytes, beside):
        """The budget that leaves so much to a graph; the margin is a share of it."""
        return math.ceil((graph_bytes + beside - self.margin_bytes) / (1 - self.margin))

    def _watched(self, graph, run):
        """The compiled forward pass, which notes what it leaves, and warns of gradients that were not counted."""
        return self.noting(graph.planning, self.calls.watched(graph, run))

    def noting(self, planned, run):
        def forward(arguments):
            given = {nodes.storage(one) for one in arguments if isinstance(one, torch.Tensor)}
            self._look_for_gradients(planned)
            results = run(arguments)
            planned.ran_forward(results, given)
            return results
        forward._boxed_call = True
        return forward

    def _look_for_gradients(self, planned):
        if self.model is None or self.accumulate or self.outside.gradient_bytes or planned.calls >= CALLS_WATCHED:
            return
        if in_backward_pass() or self.group is not None:
            return
        present = outside.tensor_bytes(outside.local_gradients(self.model))
        if present:
            self.remark(f"gradients of earlier microbatches ({format_bytes(present)}) live when a step begins and are "
                         "not counted: pass accumulate=True, or zero_grad(set_to_none=True) before each step")

    def remark(self, text):
        if text not in self.remarks:
            self.remarks.append(text)
            LOG.warning("%s", text)

    def key(self, inputs=()):
        """What the plan of a graph with these inputs, compiled now, is a function of, beside the graph."""
        count = outside.count(self.model, self.optimizer, self.accumulate)
        left = self.budget_bytes - self.margin_bytes - count.step_bytes - self._earlier_bytes()
        return keys.key(self.kernels, left, count.counted, inputs, self.costs, self.recomputable, self.replay_random,
                        self._is_whole(inputs))


def _place(row):
    """An operator and the user's line, for messages."""
    if row.run is bare_problem.BORDER:
        return "what lives between the forward and the backward pass"
    if row.run is bare_problem.MARK:
        return row.name
    path = nodes.module_path(row.run)
    where = nodes.user_line(row.run) or (f"module {path}" if path else "")
    return f"{row.name} ({nodes.operator_name(row.run)}{', ' + where if where else ''})"


def _descriptions(calls):
    """Calls, with graphs numbered as they come: one rank may have compiled more than others."""
    numbers = {}
    return [named(call.layer, call, numbers.setdefault(call.graph, 1 + len(numbers))) for call in calls]


def _count(reasons):
    counts = {}
    for reason in reasons:
        if reason:
            counts[reason] = counts.get(reason, 0) + 1
    return counts


def _measured():
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    return None
