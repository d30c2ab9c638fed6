# SPDX-License-Identifier: Apache-2.0
"""Many graphs under one budget with Inductor's kernels: gradients of a recorded step and of planned ones are within 1e-5
of the largest of those with everything saved, dropout on; the peak that the allocator sees in a planned step is at most
the budget, and the planned one within 2 %.

    main([KIND,] CASE...)   or all but against_one_graph; KIND of kernels.py, without peaks where eager kernels
    interpret Inductor's graphs"""
import dataclasses
import re
from unittest import mock

import torch

import harness
import kernels
import peaks
import remat
import several
from remat import fused

# Model, how it is compiled, a budget under which values run again, and the graphs and calls of a step.
CASES = {"four_blocks": (several.Few, several.by_block, "5.5MB", 2, 4),
         "twelve_blocks": (several.Blocks, several.by_block, "9MB", 2, 12),
         "three_breaks": (several.Breaks, several.whole, "6MB", 4, 4),
         "one_module_many_times": (several.Shared, several.by_block, "5MB", 2, 4),
         "blocks_twice": (several.Twice, several.by_block, "9MB", 2, 8),
         "two_models": (several.Pair, several.by_model, "8MB", 2, 2),
         "break_in_a_loop": (several.Loop, several.whole, "6MB", 2, 4)}
PEAK_BETWEEN_CALLS = ("blocks_twice",)  # the product of both, which no plan knows
ABOVE, BESIDE = "account_above_the_plan", "against_one_graph"
STEPS = 3  # one module many times is planned for one call until the first has run


def compare(name, kind, make, compiled, budget, graph_count, call_count):
    seen = []
    for backend in (kind.everything_saved, remat.backend):
        torch.compiler.reset()
        torch.manual_seed(0)
        model, x = make(), several.batch()
        if backend is remat.backend:
            backend = remat.backend(budget, model=model, margin=0)
        f = compiled(model, backend)
        seen.append(several.trained(model, f, x, STEPS))
    off = kernels.off(seen[1], seen[0])
    harness.check(off <= kind.tolerance, f"{name}: {off} of the largest gradient off, or the generator is left otherwise")
    report = backend.report()
    calls = report.step.calls if report.step else []
    harness.check(len(report.graphs) == graph_count and len(calls) == call_count, f"{name}: {report}")
    harness.check(len({(call.graph, call.variant) for call in calls}) <= 4 * graph_count, f"{name}: {report}")
    harness.check(any(call.overhead > 0 for call in calls), f"{name}: nothing is recomputed")
    harness.check(report.planned_peak_bytes <= report.budget_bytes and report.step.bound <= report.step.overhead,
                  f"{name}: {report}")
    share = measured(name, report, model, f, x) if kind.compiled and name not in PEAK_BETWEEN_CALLS else None
    print(f"  {name:22} measured {share} of what is planned, {off:.1e} off; {report.step.line()}", flush=True)


def measured(name, report, model, f, x):
    """The peak of a step as a share of the planned one."""
    most, running = peaks.measure(lambda: f(x).square().mean().backward())
    most += several.outside_bytes(model, x)
    harness.check(most <= report.budget_bytes, f"{name}: {most} of {report.budget_bytes} bytes; running {running}")
    share = most / report.planned_peak_bytes
    harness.check(abs(share - 1) <= several.TOLERANCE,
                  f"{name}: measured {most}, planned {report.planned_peak_bytes}; running {running}")
    return share


def account_above_the_plan():
    """Where Inductor's account stays above what is planned, the error has both numbers."""
    accounted = fused.accounted

    def larger(one, found):
        return accounted(one, dataclasses.replace(found, backward_peak_bytes=3 * one.planned.backward_peak_bytes,
                                                  kept_bytes=3 * one.planned.kept_bytes))
    torch.compiler.reset()
    torch.manual_seed(0)
    model = several.Few()
    backend = remat.backend("5MB", model=model, margin=0)
    f = several.by_block(model, backend)
    with mock.patch.object(fused, "accounted", larger):
        try:
            several.steps(2)(model, f)
            harness.check(False, f"a plan for an account three times as large: {backend.report()}")
        except remat.InfeasibleBudget as error:
            found = re.search(r"Inductor's kernels take up to (\d+) bytes, by its own account, where (\d+) are planned",
                              str(error))
            harness.check(found and int(found[1]) == 3 * int(found[2]), f"without both numbers: {error}")


def main(*arguments):
    name, *names = arguments if arguments and arguments[0] in kernels.KINDS else ("inductor", *arguments)
    kind = kernels.KINDS[name]
    with kernels.cache(), kind.compiling():
        for case in names or [*CASES, ABOVE]:
            if case == ABOVE:
                account_above_the_plan()
            elif case == BESIDE:
                several.against_one_graph("inductor")
            else:
                compare(case, kind, *CASES[case])
