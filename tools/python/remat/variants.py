# SPDX-License-Identifier: Apache-2.0
"""A graph of Dynamo's that is compiled more than once: it, its fake inputs and its tracing context are kept, and the
callable that Dynamo keeps chooses which of the compiled variants runs.

A variant is compiled when it is first called, under the global state that Dynamo has guards for. The forward and the
backward pass of a variant are one autograd function, so another variant changes a peak, never a value."""
import copy
import dataclasses

from torch import fx

from ._torch import TracingContext, lazy_modules, tracing
from .fronts import Variant

MOST = 4  # variants of a graph


class Graph:
    """`partition(graph, variant, ...)` cuts the joint graph as a variant has it, the first time as it decides itself,
    and then says so by `planned`; `kernels` compile it; `watch(graph, run)` wraps forward passes. `part` is None without
    a backward pass. With `whole` the graph was taken for all of the step. `chosen` has the variants of calls by their
    keys."""

    def __init__(self, module, kernels, partition, watch, whole):
        self.module = _copied(module)
        self.kernels, self.partition, self.watch, self.whole = kernels, partition, watch, whole
        self.fakes = [node.meta.get("example_value") for node in module.graph.nodes if node.op == "placeholder"]
        self.context = copy.copy(TracingContext.try_get())
        if self.context is not None:  # else it is to count each bucket's passes
            self.context.ddp_optimizer_ctx, self.context.fakify_first_call = None, False
        self.part, self.planning, self.static, self.rounding = None, None, frozenset(), 1
        self.first, self.compiled, self.refused, self.chosen = None, {}, [], {}

    def planned(self, part, variant, planning, static, rounding):
        """Of the first variant: what the backend notes of it, indices of parameters among the inputs, and what sizes
        are rounded up to."""
        self.part, self.first, self.planning = part, variant, planning
        self.static, self.rounding = frozenset(static), rounding

    def held(self, keys):
        """Variants that are there whatever is chosen for calls with these keys: compiled ones, and those of other
        calls."""
        others = [one for key, one in self.chosen.items() if key not in keys and one not in self.refused]
        return list(dict.fromkeys([*self.compiled, *others]))

    def heard(self, plain):
        """The variant that rank 0 told of: one that is there, or a new one. If it runs as the first one does, which was
        made here, it takes its place."""
        same = next((one for one in self.held(()) if one is not self.first and one.runs_as(plain)), None)
        if same is not None:
            return same
        found = Variant(**plain | {"facts": dataclasses.replace(self.part.facts, **plain["facts"])})
        if self.first.runs_as(plain):
            self.compiled[found] = self.compiled.pop(self.first)
            self.first = found
        return found

    def account(self, variant):
        """The variant with what its compiled graphs take."""
        with tracing(self.context):
            return self.part.account(variant)

    def compile_first(self, module, example_inputs):
        """The callable of the first variant; of a graph without a backward pass, its only one."""
        run = self._compile(None, module, example_inputs)
        if self.first is not None:
            self.compiled[self.first] = run
        return run

    def run(self, variant):
        """The variant, or the first one where it is None or could not be compiled, and its callable."""
        if variant is not None and variant not in self.compiled and variant not in self.refused:
            self._compile_again(variant)
        variant = variant if variant in self.compiled else self.first
        return variant, self.compiled[variant]

    def _compile_again(self, variant):
        before = self._guards()
        with tracing(self.context):
            run = self._compile(variant, _copied(self.module), self.fakes)
        if self._guards() == before:
            self.compiled[variant] = run
        else:
            self.refused.append(variant)

    def _guards(self):
        """What Dynamo has checked for before it calls: a variant must not need more."""
        guards, shapes = self.context.guards_context, self.context.fake_mode.shape_env
        return (set(guards.dynamo_guards), set(map(repr, guards.aotautograd_guards)),
                len(shapes.guards) if shapes is not None else 0)

    def _compile(self, variant, module, inputs):
        def partition(joint_module, joint_inputs, **facts):
            with lazy_modules():
                return self.partition(self, variant, joint_module, joint_inputs, **facts)

        def watched(run):
            return self.watch(self, run) if self.part is not None else run
        return self.kernels.compile(module, inputs, partition, watched, lambda: variant or self.first)


def _copied(module):
    """Another graph over the same parameters and constants."""
    found = fx.GraphModule(module, copy.deepcopy(module.graph))
    found.meta = dict(module.meta)
    return found
