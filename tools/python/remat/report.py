# SPDX-License-Identifier: Apache-2.0
"""What was planned, for people and for programs."""
import dataclasses
import json

from . import nodes
from .bare_problem import BORDER, MARK
from .sizes import format_bytes


@dataclasses.dataclass
class Module:
    """Of the values made in a module of the user's: bytes that are saved for the backward pass, and values that run
    again there."""
    path: str
    saved_bytes: int = 0
    saved: int = 0
    recomputed_bytes: int = 0
    recomputed: int = 0


@dataclasses.dataclass
class Graph:
    """One planned graph. Bytes are of what it allocates; times of one step, in ns, under `costs`. With Inductor's kernels
    `estimated_peak_bytes` is its own account of the compiled graphs, `fastest_bytes` the peak of the plan without a
    budget, and with eager ones `everything_saved_bytes` that of the plan that runs nothing again."""
    number: int
    given_bytes: int
    planned_peak_bytes: int
    everything_saved_bytes: int | None
    peak_at: str
    held_at_border_bytes: int
    saved_bytes: int
    input_bytes: int
    time_ns: float
    everything_saved_ns: float
    lower_bound_ns: float
    floor_bytes: int
    costs: str
    rows: int
    reruns: int
    modules: list
    once: dict
    tags: dict
    symbolic: bool
    earlier_bytes: int
    found_by: str = "the search"
    kernels: str = "aot_eager"
    estimated_peak_bytes: int | None = None
    guarded: bool = False
    fastest_bytes: int | None = None

    @property
    def peak_bytes(self):
        """Of the graph as it runs."""
        return self.planned_peak_bytes if self.estimated_peak_bytes is None else self.estimated_peak_bytes

    @property
    def overhead(self):
        return self.time_ns / self.everything_saved_ns - 1 if self.everything_saved_ns else 0

    @property
    def bound(self):
        """No plan within the bytes has a smaller overhead. With kernels that fuse it may be below 0: to
        recompute may be faster than to save."""
        if not self.everything_saved_ns:
            return 0
        least = 0 if self.kernels == "aot_eager" else -1
        return max(self.lower_bound_ns / self.everything_saved_ns - 1, least)


@dataclasses.dataclass
class Call:
    """One call of a graph in a step that is planned together with others. `layer` is the module of the first parameter
    that it runs on; variants of a graph are numbered from 1."""
    layer: str
    graph: int
    variant: int
    kept_bytes: int
    forward_peak_bytes: int
    backward_peak_bytes: int
    time_ns: float
    overhead: float
    modules: list


@dataclasses.dataclass
class Step:
    """All calls of a step. Bytes are of what the graphs allocate and of what stands between them; `fastest_bytes` with
    the fastest variant of each call, which with eager kernels keeps everything."""
    given_bytes: int
    planned_peak_bytes: int
    fastest_bytes: int
    floor_bytes: int
    time_ns: float
    everything_saved_ns: float
    lower_bound_ns: float
    costs: str
    calls: list

    @classmethod
    def of(cls, plan):
        numbers, calls = {}, []
        for call, variant in zip(plan.record.calls, plan.variants):
            found = numbers.setdefault(call.graph, [])
            if not any(one is variant for one in found):
                found.append(variant)
            option = variant.option
            calls.append(Call(call.layer, call.graph.planning.graph.number,
                              1 + next(index for index, one in enumerate(found) if one is variant), option.kept_bytes,
                              option.forward_peak_bytes, option.backward_peak_bytes, option.time_ns, variant.overhead,
                              of_modules(variant.facts.rows, variant.sequence, variant.kept_rows)))
        return cls(plan.room_bytes, plan.peak_bytes, plan.fastest_bytes, plan.floor_bytes, plan.time_ns,
                   plan.everything_saved_ns, plan.lower_bound_ns, plan.variants[0].facts.costs, calls)

    @property
    def overhead(self):
        return self.time_ns / self.everything_saved_ns - 1 if self.everything_saved_ns else 0

    @property
    def bound(self):
        """No plan within the bytes has a smaller overhead; that may be below 0, as of a graph."""
        return self.lower_bound_ns / self.everything_saved_ns - 1 if self.everything_saved_ns else 0

    def line(self):
        return (f"{format_bytes(self.given_bytes)} given, {format_bytes(self.planned_peak_bytes)} planned, "
                f"{format_bytes(self.fastest_bytes)} without a budget; overhead "
                f"{percent(self.overhead)}, no plan that fits has less than {percent(self.bound)}")


def of_modules(rows, sequence, saved):
    """Modules by the bytes that they save or recompute, largest first."""
    runs = {}
    for row in sequence:
        runs[row] = runs.get(row, 0) + 1
    found = {}

    def entry(row):
        path = nodes.module_path(rows[row].run) or "(no module)"
        return found.setdefault(path, Module(path))
    for row in saved:
        if rows[row].run not in (BORDER, MARK):
            entry(row).saved += 1
            entry(row).saved_bytes += rows[row].bytes
    for row, times in runs.items():
        if times > 1:
            entry(row).recomputed += times - 1
            entry(row).recomputed_bytes += rows[row].bytes
    return sorted(found.values(), key=lambda one: (-one.saved_bytes - one.recomputed_bytes, one.path))


def percent(share):
    return f"{100 * share:.2f} %"


class Report:
    """`print(report)` for people, `report.json()` for programs. `measured_bytes` is None where the device's allocator
    does not count."""

    def __init__(self, budget_bytes, margin_bytes, outside, graphs, step, measured_bytes, remarks):
        self.budget_bytes, self.margin_bytes, self.outside = budget_bytes, margin_bytes, outside
        self.graphs, self.step, self.measured_bytes, self.remarks = graphs, step, measured_bytes, remarks

    @property
    def planned_peak_bytes(self):
        """Of the step: the largest of the planned graphs, those of Inductor by its own account, and, where a model is
        known, the update."""
        peaks = ([self.step.planned_peak_bytes + self.outside.step_bytes] if self.step else
                 [graph.peak_bytes + graph.earlier_bytes + graph.input_bytes + self.outside.step_bytes
                  for graph in self.graphs])
        return max([*peaks, self.outside.update_peak_bytes if self.outside.counted else 0], default=0)

    def json(self):
        fields = {"budget_bytes": self.budget_bytes, "margin_bytes": self.margin_bytes,
                  "outside": dataclasses.asdict(self.outside), "planned_peak_bytes": self.planned_peak_bytes,
                  "measured_peak_bytes": self.measured_bytes, "remarks": self.remarks,
                  "graphs": [dataclasses.asdict(graph) | {"overhead": graph.overhead, "bound": graph.bound}
                             for graph in self.graphs],
                  "step": self.step and dataclasses.asdict(self.step) | {"overhead": self.step.overhead,
                                                                         "bound": self.step.bound}}
        return json.dumps(fields, indent=2)

    def __str__(self):
        lines = [f"budget           {format_bytes(self.budget_bytes)}, "
                 f"{format_bytes(self.margin_bytes)} of it a margin for what kernels do that no graph shows"]
        lines += self._outside_lines()
        for graph in self.graphs:
            lines += _graph_lines(graph)
        lines += _step_lines(self.step) if self.step else []
        if not self.graphs:
            lines.append("no graph with a backward pass was compiled yet")
        lines.append(f"planned peak     {format_bytes(self.planned_peak_bytes)}" + self._measured())
        lines += [f"note: {remark}" for remark in self.remarks]
        return "\n".join(lines)

    def _outside_lines(self):
        outside = self.outside
        if not outside.counted:
            return ["outside          not counted: the budget is of what the graphs allocate; model= counts the rest"]
        optimizer = outside.optimizer
        name = f"{optimizer.name}, whose states are counted once they exist" if optimizer.unknown else optimizer.name
        states = f"optimizer states {format_bytes(optimizer.state_bytes)} ({name})"
        parts = [f"parameters {format_bytes(outside.parameter_bytes)}", f"buffers {format_bytes(outside.buffer_bytes)}",
                 f"earlier gradients {format_bytes(outside.gradient_bytes)}", states]
        parts += [f"{name} {format_bytes(size)}" for name, size in
                  (("buckets", outside.bucket_bytes), ("gathered", outside.gathered_bytes)) if size]
        return [f"outside          {format_bytes(outside.step_bytes)}: {', '.join(parts)}",
                f"update           {format_bytes(outside.update_peak_bytes)}, of it "
                f"{format_bytes(optimizer.update_bytes)} of temporaries"]

    def _measured(self):
        if self.measured_bytes is None:
            return "; measured: this device's allocator does not count"
        return f"; measured {format_bytes(self.measured_bytes)}"


def _step_lines(step):
    lines = [f"step             {step.line()} (costs: {step.costs})",
             f"  floor          {format_bytes(step.floor_bytes)}: no plan of the step has a smaller peak"]
    lines += [f"  {call.layer or '(none)':30} graph {call.graph}, variant {call.variant}: keeps "
              f"{format_bytes(call.kept_bytes):>10}, overhead {percent(call.overhead):>8}" for call in step.calls]
    return lines


def _whole(graph):
    if graph.estimated_peak_bytes is None:
        return f"{format_bytes(graph.everything_saved_bytes)} with everything saved"
    guard = ", with its guard against fusions that raise the peak" if graph.guarded else ""
    return (f"{format_bytes(graph.estimated_peak_bytes)} by Inductor's own account{guard}; the fastest plan of all takes "
            f"{format_bytes(graph.fastest_bytes)}")


def _graph_lines(graph):
    lines = [f"graph {graph.number}          {format_bytes(graph.given_bytes)} given, "
             f"{format_bytes(graph.planned_peak_bytes)} planned, {_whole(graph)}; inputs "
             f"{format_bytes(graph.input_bytes)}",
             f"  peak at        {graph.peak_at}",
             f"  saved          {format_bytes(graph.saved_bytes)} for the backward pass",
             f"  overhead       {percent(graph.overhead)} of the step with everything saved, {graph.reruns} reruns; "
             f"no plan that fits has less than {percent(graph.bound)} (costs: {graph.costs}; "
             f"found by {graph.found_by})"]
    shown = graph.modules[:12]
    lines += [f"  {one.path:30} saved {format_bytes(one.saved_bytes):>10} in {one.saved:3}, "
              f"recomputed {format_bytes(one.recomputed_bytes):>10} in {one.recomputed:3}" for one in shown]
    if len(graph.modules) > len(shown):
        lines.append(f"  ... and {len(graph.modules) - len(shown)} modules more (JSON has all)")
    return lines
