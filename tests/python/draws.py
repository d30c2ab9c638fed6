# SPDX-License-Identifier: Apache-2.0
"""Random operators that run again from a kept state: results, gradients and the generator's state are eager mode's, at
the smallest budget masks are not saved, and each operator draws the same numbers again.

    main(NAME...)   dropout, noise, or models of models.py; none: dropout"""
import copy

import torch
from torch.nn import functional as F

import budgets
import harness
import models
import respects
from graphs import Graphs
from remat import draws

REPLAY = {"replay_random": True}
ROWS = (1024, 1024)  # a state has 5056 bytes, a mask must have more


def dropout(net, x):
    for _ in range(4):
        x = F.dropout(F.dropout(torch.tanh(net.a(x)), 0.3).t(), 0.3).t().sin()
    return net.b(x).cos()


def noise(net, x):
    h = torch.tanh(net.a(x) + torch.randn_like(x) * 0.1).exp() * torch.rand_like(x)
    return net.b(h.sin() * torch.bernoulli(torch.full_like(h, 0.5))).cos()


def replayed(forward):
    """Without replay masks are saved, with it less is held between the passes."""
    name = forward.__name__
    everything, least = respects.trained(name, forward, options=REPLAY, rows=ROWS)
    harness.check(least.count("run_with_rng_state", "backward") > 0, f"{name}: nothing is drawn again")
    harness.check(everything.count("run_with_rng_state") == 0, f"{name}: drawn again with everything saved")
    _, saved = respects.trained(name, forward, rows=ROWS)
    held = [graphs.report().graphs[0].held_at_border_bytes for graphs in (least, saved)]
    harness.check(held[0] < held[1], f"{name}: {held[0]} bytes are held with replay, {held[1]} without")


def model_with_dropout(name):
    torch.compiler.reset()
    model, step = models.make(name)
    state = copy.deepcopy(model.state_dict())
    eager = budgets.observe(model, step, model, state)
    fan = budgets.Fan(options=REPLAY)
    compiled = torch.compile(model, backend=fan)
    for index in range(3):
        fan.chosen = min(index, max(len(fan.backends) - 1, 0))
        seen = budgets.observe(model, step, compiled, state)
        harness.check(budgets.equal(seen, eager), f"{name}: bits differ at {fan.graph(fan.chosen).given_bytes} bytes")


def operators():
    """Each operator in the list, twice from one state."""
    x = torch.rand(8, 8)
    arguments = {"bernoulli": (x, 0.5), "bernoulli.default": (x,), "native_dropout": (x, 0.5, True)}
    for operator in draws.REPLAYED:
        name = operator._overloadpacket.__name__
        given = arguments.get(str(operator).removeprefix("aten."), arguments.get(name, (x,)))
        state = torch.get_rng_state()
        seen = []
        for _ in range(2):
            torch.set_rng_state(state)
            results = operator(*given)
            seen.append(results if isinstance(results, tuple) else (results,))
        harness.check(budgets.equal(*seen), f"{operator} draws other numbers from the same state")


def main(*names):
    operators()
    for name in names or ("dropout",):
        if name in models.MODELS:
            model_with_dropout(name)
        else:
            replayed({"dropout": dropout, "noise": noise}[name])
        print(f"  {name}", flush=True)
