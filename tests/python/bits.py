# SPDX-License-Identifier: Apache-2.0
"""Training under a budget gives the bits of eager mode: loss, gradients, buffers and the generator's state after two
steps, dropout on, with everything saved, at three quarters of that peak, and at the smallest budget found.

    main(NAME...)   of models.py; "all" for each. With a last argument "ten" at ten budgets"""
import copy

import torch

import budgets
import harness
import models
import remat


def main(*names):
    ten = names[-1:] == ("ten",)
    names = names[:-1] if ten else names
    shares = [share / 100 for share in range(30, 100, 8)][-8:] if ten else [0.75]
    for name in models.MODELS if names == ("all",) else names:
        (several_graphs if name == "broken" else one_graph)(name, shares)


def one_graph(name, shares):
    torch.compiler.reset()
    model, step = models.make(name)
    state = copy.deepcopy(model.state_dict())
    eager = budgets.observe(model, step, model, state)
    fan = budgets.Fan(shares)
    compiled = torch.compile(model, backend=fan)
    for index in range(100):
        fan.chosen = index
        seen = budgets.observe(model, step, compiled, state)
        graph = fan.graph(index)
        harness.check(budgets.equal(seen, eager), f"{name}: bits differ from eager at {graph.given_bytes} bytes")
        if index + 1 == len(fan.backends):
            break
    last = fan.graph(len(fan.backends) - 1)
    print(f"{name:13} {last.rows:4} rows, smallest "
          f"{100 * last.planned_peak_bytes / last.everything_saved_bytes:5.1f} % of {last.everything_saved_bytes} "
          f"at {100 * last.overhead:5.1f} %, {last.reruns} reruns, once {last.once}", flush=True)


def several_graphs(name, shares):
    """The first of the two steps is recorded, the second runs the plan of all graphs together."""
    model, step = models.make(name)
    state = copy.deepcopy(model.state_dict())
    eager = budgets.observe(model, step, model, state)
    whole = feasible = 0
    for share in [None, *shares]:
        torch.compiler.reset()
        backend = budgets.plain(int(share * whole) if share else budgets.EVERYTHING, model=model)
        try:
            seen = budgets.observe(model, step, torch.compile(model, backend=backend), state)
        except Exception as error:
            if share and isinstance(getattr(error, "inner_exception", error), remat.InfeasibleBudget):
                continue
            raise
        feasible += 1
        report = backend.report()
        whole = whole or report.planned_peak_bytes
        harness.check(budgets.equal(seen, eager), f"{name}: bits differ from eager at {report.budget_bytes} bytes")
        harness.check(len(report.graphs) == len(report.step.calls) == 3, f"{name}: not 3 graphs, each called: {report}")
    harness.check(feasible > 1, f"{name}: no smaller budget has a plan")
    print(f"{name:13} {feasible} of {1 + len(shares)} budgets have a plan", flush=True)
