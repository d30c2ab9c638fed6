# SPDX-License-Identifier: Apache-2.0
"""A joint graph as a forward and a backward graph: by PyTorch's partitioner, and as remat plans them for each kind of
kernels."""
import pathlib
import sys

from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config

import joint_graphs
import meter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/python"))
from remat import _planner, bare_problem, costs, fused
from remat.joint import Joint
from remat.prepare import prepare
from remat.unroll import Unrolled, split

TARGET = "h100-sxm"
ROUNDING_BYTES = 512  # of CUDA's allocator


def by_torch(joint, solver, setting):
    """`setting`: activation_memory_budget; with 1 no solver is asked."""
    with joint_graphs.attention_counts_as_product(), functorch_config.patch(
            activation_memory_budget=setting, activation_memory_budget_solver=solver):
        return joint.partitioned(min_cut_rematerialization_partition)


class ByOperators:
    """kernels="aot_eager"."""

    def __init__(self, joint):
        self.given, module = joint, meter.copied(joint.module)
        prepare(module, joint.result_count)
        self.costs = costs.resolve(TARGET, module)
        self.joint = Joint(module, joint.result_count, ROUNDING_BYTES)
        self.rows = bare_problem.build(self.joint, self.costs)

    def plan(self, budget_bytes):
        """(forward, backward, facts), or None."""
        decision = _planner.solve([row.plain() for row in self.rows], budget_bytes)
        if not decision.sequence:
            return None
        unrolled = Unrolled(self.joint, self.rows, decision.sequence)
        return *split(unrolled, self.given.result_count, list(self.given.static)), {
            "time_ns": decision.time_ns, "bound_ns": decision.lower_bound_ns, "planned_bytes": decision.peak_bytes}


def measure_as_planned(forward, backward):
    """What Inductor makes of remat's graphs, with the settings that remat compiles them with."""
    with config.patch(fused.AS_PLANNED):
        return meter.measure(forward, backward)


class ByInductor:
    """kernels="inductor", without its lowering: `budget_bytes` is of what is planned, not of what Inductor makes; below
    the smallest plan it is that."""

    def __init__(self, joint):
        self.given, module = joint, meter.copied(joint.module)
        self.planner = fused.Planner(fused.joint_of(module, joint.result_count), costs.resolve(TARGET, module))

    def plan(self, budget_bytes):
        """(forward, backward, facts)"""
        return self._cut(self.planner.decide(budget_bytes) or self.planner.smallest)

    def proposed(self, budget_bytes, bound_ns, times_ns):
        """Plans of others that remat tries: faster by its costs than what fits, which takes these times."""
        return map(self._cut, fused.proposed(self.planner, budget_bytes, bound_ns, times_ns))

    def _cut(self, info):
        return *self.planner.graphs(info, self.given.result_count, list(self.given.static)), {
            "time_ns": info.time_ns, "bound_ns": info.lower_bound_ns, "planned_bytes": info.peak_bytes}
