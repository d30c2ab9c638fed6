# SPDX-License-Identifier: Apache-2.0
"""Inductor with a partitioner of ours. A plan is made in every process, so no cache can hold one of another budget; what
Inductor caches is the code of the two graphs, by their text."""
import collections

from . import bare_problem, costs as costs_of, fused, ranks
from ._torch import (CustomPartitionerFn, compile_fx, compile_fx_inner, functorch_config, inductor_config,
                     list_mode_options)
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
        if not isinstance(name, str) or name.replace("-", "_") not in known:
            raise Error(f"option {name!r} is neither remat's nor a setting of torch._inductor.config")
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


class Inductor:
    """The kernels of one graph of Dynamo's, as eager.py has them."""

    def __init__(self, backend, mode=None, options=None, **_):
        self.backend, self.key, self.layer = backend, None, ""
        given = {**backend.settings, **of_mode(mode), **(options or {})}
        check_settings(given)
        self.settings = {name.replace("-", "_"): value for name, value in given.items()}

    def joint(self, module, forward_count):
        return fused.joint_of(module, forward_count, rounding(module), self.backend.recomputable)

    def facts(self, joint):
        costs = costs_of.resolve(self.backend.costs, joint.module)
        return fused.facts_of(joint, bare_problem.build(joint, costs), costs)

    def graphs(self, joint, facts, variant, forward_count, static):
        return fused.graphs_of(joint, facts.rows, variant.sequence, variant.written, forward_count, static)

    def compile(self, module, inputs, partition, watched, chosen):
        self.key = self.key or self.backend.key(inputs)

        def inner(graph, inputs, is_backward=False, **facts):
            variant = chosen()
            with inductor_config.patch(variant.settings if variant else {}):
                compiled = compile_fx_inner(graph, inputs, is_backward=is_backward, **facts)
            if variant and not is_backward:
                compiled.current_callable = watched(compiled.current_callable)
            return compiled
        patches = {**self.settings, "custom_partitioner_fn": Partitioner(partition, self.key)}
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_fx(module, inputs, inner_compile=inner, config_patches=patches)

    def whole(self, joint, input_bytes, tags, forward_count, static):
        """Of a graph that is all of a step: the part, its first variant, what the report says, and its graphs."""
        backend = self.backend
        left, beside, earlier = backend.room(input_bytes)
        planner = fused.Planner(joint, costs_of.resolve(backend.costs, joint.module))
        ranks.agree(backend.group, planner.rows, self.layer)
        try:
            fit = ranks.decided(backend.group, lambda: fused.fit(planner, max(left, 1), forward_count, static),
                                "waits for a plan", fused.Fit.spoken,
                                lambda spoken: fused.heard(planner, spoken, forward_count, static))
        except InfeasibleBudget as error:
            raise backend.infeasible(error.smallest_bytes, error.floor_bytes, f" as planned: {error}", beside,
                                     earlier) from None
        part = self._part(planner.another(fused.Beside()), forward_count, static)
        first = fused.accounted(fused.variant(part.facts, fit.info, fit.settings), fit.estimate)
        return part, first, self._planning(planner, fit, left, input_bytes, earlier, tags), fit.graphs

    def smallest(self, joint, input_bytes, tags, forward_count, static):
        """Of any other graph: its first variant has the smallest peak, in which it must fit alone."""
        backend = self.backend
        left, beside, _ = backend.room(input_bytes, alone=True)
        planner = fused.Planner(joint, costs_of.resolve(backend.costs, joint.module), fused.Beside())
        part = self._part(planner, forward_count, static)
        info = planner.smallest
        fit = fused.lower(info, planner.graphs(info, forward_count, static), forward_count, fused.AS_PLANNED)
        if fit.estimate_bytes > left:
            floor = min(info.floor_bytes, fit.estimate_bytes)
            raise backend.infeasible(fit.estimate_bytes, floor, f" as planned: {fused.above(fit, left)}", beside, 0)
        first = fused.accounted(fused.variant(part.facts, info), fit.estimate)
        return part, first, self._planning(planner, fit, left, input_bytes, 0, tags), fit.graphs

    def _part(self, planner, forward_count, static):
        facts = fused.facts_of(planner.joint, planner.rows, planner.costs)

        def account(variant):
            graphs = self.graphs(planner.joint, facts, variant, forward_count, static)
            with inductor_config.patch(self.settings):
                return fused.account(variant, graphs, forward_count)
        return fused.Part(planner, facts, account)

    def _planning(self, planner, fit, left, input_bytes, earlier, tags):
        """What the report says of it."""
        info, joint, rows = fit.info, planner.joint, planner.rows
        once = dict(collections.Counter(filter(None, joint.once.values())))
        saved = planner.kept(info)
        return Graph(
            number=len(self.backend.planned) + 1, given_bytes=left, planned_peak_bytes=info.peak_bytes,
            everything_saved_bytes=None, peak_at=fit.estimate.place, held_at_border_bytes=fit.estimate.held_bytes,
            saved_bytes=fit.estimate.kept_bytes, input_bytes=input_bytes, time_ns=info.time_ns,
            everything_saved_ns=info.everything_saved_ns, lower_bound_ns=info.lower_bound_ns,
            floor_bytes=info.floor_bytes, costs=planner.costs.name, rows=len(rows),
            reruns=len(info.sequence) - len(rows), modules=of_modules(rows, info.sequence, saved), once=once, tags=tags,
            symbolic=self.backend.note(joint, tags), earlier_bytes=earlier, kernels="inductor",
            estimated_peak_bytes=fit.estimate.peak_bytes, guarded=fit.guarded,
            fastest_bytes=planner.fastest.peak_bytes, found_by=info.found_by)
