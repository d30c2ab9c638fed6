# SPDX-License-Identifier: Apache-2.0
"""The backend for torch.compile: each graph with a backward pass is planned within a budget in bytes."""
import logging
import math

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import _planner, bare_problem, costs as costs_of, keys, nodes, outside, proposals, rules
from ._torch import aot_autograd, boxed_nop, default_partition, functorch_config
from .errors import Error, InfeasibleBudget
from .joint import Joint
from .prepare import prepare
from .replay import replay
from .report import Graph, Report, of_modules
from .sizes import format_bytes, parse_bytes
from .unroll import Unrolled, split

LOG = logging.getLogger("remat")
KERNELS = ("inductor", "aot_eager")
OPTIONS = ("recomputable",)
ROUNDING_BYTES = {"cuda": 512}  # what the device's allocator rounds up to
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
        if kernels not in KERNELS:
            raise Error(f"kernels '{kernels}' is not one of {', '.join(KERNELS)}")
        if kernels == "inductor":
            raise Error('kernels="inductor" is not built yet: use kernels="aot_eager", PyTorch\'s eager kernels')
        if not 0 <= margin < 1:
            raise Error(f"margin {margin} is not a share of the budget in [0, 1)")
        unknown = sorted(set(options or {}) - set(OPTIONS))
        if unknown:
            raise Error(f"unknown option '{unknown[0]}' (accepted: {', '.join(OPTIONS)})")
        self.margin, self.margin_bytes = margin, int(self.budget_bytes * margin)
        self.model, self.optimizer, self.accumulate = model, optimizer, accumulate
        self.costs, self.recomputable = costs, tuple((options or {}).get("recomputable", ()))
        self.outside = outside.count(model, optimizer, accumulate)
        self.planned, self.remarks = [], []

    def __call__(self, module, example_inputs, **settings):
        if settings.get("mode"):
            raise Error(f"mode '{settings['mode']}' is of Inductor: kernels=\"aot_eager\" takes none")
        rules.check_settings()
        compiled = []

        def partition(joint, joint_inputs, **facts):
            return self._partition(joint, joint_inputs, compiled, **facts)

        def forward_compiler(graph, inputs):
            run = boxed_nop(graph, inputs)
            return self._watched(run, compiled[-1]) if compiled else run
        # Eager kernels never write into saved values, and without donated buffers retain_graph works.
        with functorch_config.patch(donated_buffer=False):
            return aot_autograd(fw_compiler=forward_compiler, bw_compiler=boxed_nop, inference_compiler=boxed_nop,
                                partition_fn=partition, keep_inference_input_mutations=True)(module, example_inputs)

    def report(self):
        """What was planned so far, and the largest number of bytes that the device's allocator has seen."""
        graphs = [planned.graph for planned in self.planned]
        return Report(self.budget_bytes, self.margin_bytes, self.outside, graphs, _measured(), list(self.remarks))

    def _partition(self, joint_module, joint_inputs, compiled, *, num_fwd_outputs, static_lifetime_input_indices=None,
                   **_):
        static = static_lifetime_input_indices or []
        nested = not joint_inputs  # a region of its own within a graph: it has no budget of its own
        if nested or not any(map(nodes.is_tangent, joint_module.graph.nodes)):
            return default_partition(joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs,
                                     static_lifetime_input_indices=static)
        tags = rules.count_tags(joint_module)
        prepare(joint_module, num_fwd_outputs)
        joint = Joint(joint_module, num_fwd_outputs, _rounding(joint_module), self.recomputable)
        self.outside = outside.count(self.model, self.optimizer, self.accumulate)
        given = outside.input_bytes(joint_inputs, static) if self.outside.counted else 0
        graph, sequence, rows = self._plan(joint, given, tags, num_fwd_outputs)
        forward, backward = split(Unrolled(joint, rows, sequence), num_fwd_outputs, static)
        planned = Planned(graph, num_fwd_outputs)
        self.planned.append(planned)
        compiled.append(planned)
        return forward, backward

    def _plan(self, joint, input_bytes, tags, forward_count):
        costs = costs_of.resolve(self.costs, joint.module)
        rows = bare_problem.build(joint, costs)
        earlier = self._earlier_bytes()
        if earlier:
            self._remark(f"graph {len(self.planned) + 1} was planned for what earlier graphs of the step left, not "
                         f"together with them: {format_bytes(earlier)} are theirs")
        beside = self.margin_bytes + self.outside.step_bytes + earlier + input_bytes
        self._check_update()
        left = self.budget_bytes - beside
        plain = [row.plain() for row in rows]
        decision = proposals.better(_planner.solve(plain, max(left, 1)), joint, rows, left, forward_count)
        if not decision.sequence:
            raise self._infeasible(rows, decision, beside, earlier)
        memory = replay(rows, decision.sequence)
        if memory.peak_bytes != decision.peak_bytes or memory.peak_bytes > left:
            raise Error(f"internal error: the plan's peak is {memory.peak_bytes} bytes, not {decision.peak_bytes}, "
                        f"of {left}")
        told = sum(rows[index].time_ns for index in bare_problem.twins(rows))
        symbolic = any(isinstance(nodes.value(node), torch.SymInt) for node in joint.nodes if node.op == "placeholder")
        if symbolic:
            self._remark(f"graph {len(self.planned) + 1} has sizes that may change: it is planned for those it was "
                         "traced with; no promise above")
        preferred = sum(count for name, count in tags.items() if name.startswith("PREFER_"))
        if preferred:
            self._remark(f"{preferred} PREFER_* tags of checkpointing are ignored: the plan decides; MUST_* tags hold")
        graph = Graph(len(self.planned) + 1, left, memory.peak_bytes, decision.given_peak_bytes,
                      _place(rows[memory.peak_row]), memory.border_bytes, sum(rows[row].bytes for row in memory.saved),
                      input_bytes, decision.time_ns, decision.total_ns - told, decision.lower_bound_ns,
                      decision.floor_bytes, costs.name, len(rows), len(decision.sequence) - len(rows),
                      of_modules(rows, decision.sequence, memory.saved), _count(joint.once.values()), tags, symbolic,
                      earlier, decision.found_by)
        return graph, decision.sequence, rows

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

    def _infeasible(self, rows, decision, beside, earlier):
        smallest = self._budget_for(decision.smallest_bytes, beside) if decision.smallest_bytes else None
        floor = self._budget_for(decision.floor_bytes, beside)
        found = f"the smallest for which a plan was found is {format_bytes(smallest)} ({smallest})" if smallest else \
            "no plan was found for any smaller one"
        message = (f"no plan fits the budget of {format_bytes(self.budget_bytes)}: {found}; none exists below "
                   f"{format_bytes(floor)} ({floor}), which {_place(rows[decision.floor_row])} needs. Of the budget, "
                   f"{format_bytes(beside)} are outside this graph (margin, parameters, optimizer, inputs, earlier "
                   "graphs)")
        if earlier:
            message += (f"; {format_bytes(earlier)} are held by earlier graphs of the step, which were planned first: "
                        "compile the loss with the model, and see torch.compile(..., fullgraph=True) for breaks")
        return InfeasibleBudget(message, smallest, floor)

    def _budget_for(self, graph_bytes, beside):
        """The budget that leaves so much to a graph; the margin is a share of it."""
        return math.ceil((graph_bytes + beside - self.margin_bytes) / (1 - self.margin))

    def _watched(self, run, planned):
        """The compiled forward pass, which notes what it leaves, and warns of gradients that were not counted."""
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
        present = sum(one.grad.untyped_storage().nbytes() for one in self.model.parameters() if one.grad is not None)
        if present:
            self._remark(f"gradients of earlier microbatches ({format_bytes(present)}) live when a step begins and are "
                         "not counted: pass accumulate=True, or zero_grad(set_to_none=True) before each step")

    def _remark(self, text):
        if text not in self.remarks:
            self.remarks.append(text)
            LOG.warning("%s", text)

    def key(self, inputs=()):
        """What the plan of a graph with these inputs, compiled now, is a function of, beside the graph."""
        count = outside.count(self.model, self.optimizer, self.accumulate)
        left = self.budget_bytes - self.margin_bytes - count.step_bytes - self._earlier_bytes()
        return keys.key(left, count.counted, inputs, self.costs, self.recomputable)


def _rounding(module):
    for node in module.graph.nodes:
        if node.op == "call_function" and nodes.tensors(node):
            return ROUNDING_BYTES.get(nodes.tensors(node)[0].device.type, 1)
    return 1


def _place(row):
    """An operator and the user's line, for messages."""
    if row.run is bare_problem.BORDER:
        return "what lives between the forward and the backward pass"
    if row.run is bare_problem.MARK:
        return row.name
    path = nodes.module_path(row.run)
    where = nodes.user_line(row.run) or (f"module {path}" if path else "")
    return f"{row.name} ({nodes.operator_name(row.run)}{', ' + where if where else ''})"


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
