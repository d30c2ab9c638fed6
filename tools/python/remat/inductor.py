# SPDX-License-Identifier: Apache-2.0
"""Inductor with a partitioner of ours. A plan is made in every process, so no cache can hold one of another budget; what
Inductor caches is the code of the two graphs, by their text."""
import collections

from . import costs as costs_of, fused, nodes, outside, rules
from ._torch import (CustomPartitionerFn, compile_fx, compile_fx_inner, default_partition, functorch_config,
                     inductor_config, list_mode_options)
from .errors import Error, InfeasibleBudget, Refused
from .joint import rounding
from .report import Graph, of_modules


class Partitioner(CustomPartitionerFn):
    """All that Inductor's caches know of it is the key."""

    def __init__(self, partition, key):
        self.partition, self.key = partition, key

    def __call__(self, joint_module, joint_inputs, **facts):
        return self.partition(joint_module, joint_inputs, **facts)

    def uuid(self):
        return self.key

    def __getstate__(self):
        return {"key": self.key}


def check_settings(settings):
    """Refuses what is no setting of Inductor's, and what allocates by rules of its own."""
    known = inductor_config.get_config_copy()
    for name in settings:
        if name.replace("-", "_") not in known:
            raise Error(f"option '{name}' is neither remat's nor a setting of torch._inductor.config")
    if settings.get("triton.cudagraphs", known["triton.cudagraphs"]):
        raise Refused("triton.cudagraphs: CUDA graphs keep memory of their own beside the budget: leave them off")
    for name in fused.AS_PLANNED:
        if settings.get(name):
            raise Refused(f"{name}: Inductor would keep other buffers than planned: leave it to remat")


def of_mode(mode):
    """The settings that torch.compile(mode=...) stands for."""
    settings = list_mode_options(mode) if mode and mode != "default" else {}
    if settings.get("triton.cudagraphs"):
        raise Refused(f"mode '{mode}' makes CUDA graphs, which keep memory of their own beside the budget: "
                      "take 'max-autotune-no-cudagraphs', or none")
    return settings


class Compilation:
    """Of one graph of Dynamo's, which is planned for what earlier graphs of the step leave."""

    def __init__(self, backend, mode=None, options=None, **_):
        self.backend = backend
        self.settings = {**backend.settings, **of_mode(mode), **(options or {})}
        check_settings(self.settings)
        self.planned, self.extra_settings = None, {}

    def run(self, module, inputs):
        patches = {**self.settings, "custom_partitioner_fn": Partitioner(self._partition, self.backend.key(inputs))}
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_fx(module, inputs, inner_compile=self._compile, config_patches=patches)

    def _compile(self, graph, inputs, is_backward=False, **facts):
        with inductor_config.patch(self.extra_settings):
            compiled = compile_fx_inner(graph, inputs, is_backward=is_backward, **facts)
        if self.planned is not None and not is_backward:
            compiled.current_callable = self.backend.noting(self.planned, compiled.current_callable)
        return compiled

    def _partition(self, joint_module, joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices=None, **_):
        static = static_lifetime_input_indices or []
        if not rules.has_budget(joint_module, joint_inputs):
            return default_partition(joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs,
                                     static_lifetime_input_indices=static)
        backend, tags = self.backend, rules.count_tags(joint_module)
        joint = fused.joint_of(joint_module, num_fwd_outputs, rounding(joint_module), backend.recomputable)
        backend.outside = outside.count(backend.model, backend.optimizer, backend.accumulate)
        given = outside.input_bytes(joint_inputs, static) if backend.outside.counted else 0
        left, beside, earlier = backend.room(given)
        planner = fused.Planner(joint, costs_of.resolve(backend.costs, joint.module))
        try:
            fit = fused.fit(planner, max(left, 1), num_fwd_outputs, static)
        except InfeasibleBudget as error:
            raise backend.infeasible(error.smallest_bytes, error.floor_bytes, f" as planned: {error}", beside,
                                     earlier) from None
        planning = self._planning(planner, fit, left, given, earlier, tags)
        self.planned, self.extra_settings = backend.add(planning, num_fwd_outputs), fit.settings
        return fit.graphs

    def _planning(self, planner, fit, left, input_bytes, earlier, tags):
        """What the report says of it."""
        info, joint, rows = fit.info, planner.joint, planner.rows
        once = dict(collections.Counter(filter(None, joint.once.values())))
        saved = planner.kept(info)
        return Graph(len(self.backend.planned) + 1, left, info.peak_bytes, None, fit.estimate.place,
                     fit.estimate.held_bytes, fit.estimate.saved_bytes, input_bytes, info.time_ns,
                     info.everything_saved_ns, info.lower_bound_ns, info.floor_bytes, planner.costs.name, len(rows),
                     len(info.sequence) - len(rows), of_modules(rows, info.sequence, saved), once, tags,
                     self.backend.note(joint, tags), earlier, kernels="inductor",
                     estimated_peak_bytes=fit.estimate.peak_bytes, guarded=fit.guarded,
                     fastest_bytes=planner.fastest.peak_bytes)
