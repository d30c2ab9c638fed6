# SPDX-License-Identifier: Apache-2.0
"""A key of a plan says all that the plan is a function of: whatever differs in what the planner is asked, for one
graph, differs in the key.

    main(LEFT_OUT...)   facts that are left out of the keys, which must be noticed; none: none must"""
import json
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

import harness
from remat import Costs, _planner, backend as make, costs, keys

WIDTH = 32


class Asked:
    """A backend that notes the graph, the key, and what the planner is asked, for each of the backends in it."""

    def __init__(self, backends):
        self.backends, self.seen = backends, []

    def __call__(self, module, inputs):
        graph = module.code + str([node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")])
        for one in self.backends:
            key = one.key(inputs)
            with mock.patch.object(_planner, "_solved", side_effect=_planner._solved) as solved:
                run = one(torch.fx.GraphModule(module, module.graph), inputs)
            self.seen.append((graph, key, json.dumps(solved.call_args.args)))
        return run


@torch.library.custom_op("rematcheck::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)
twice.register_autograd(lambda ctx, gradient: gradient * 2)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, WIDTH))


def backend(budget="1GB", **settings):
    return make(budget, kernels="aot_eager", **settings)


def asked(backends, rows=64, dynamic=None, net=None):
    """What one graph is asked for by each of the backends."""
    torch.compiler.reset()
    net, asking = net or network(), Asked(backends)
    f = torch.compile(lambda x: F.dropout(twice(net(x)), 0.5).square().mean(), backend=asking, dynamic=dynamic)
    f(torch.randn(rows, WIDTH)).backward()
    return asking.seen


def settings(model):
    return [{}, {"budget": "2GB"}, {"margin": 0.1}, {"model": model}, {"model": nn.Identity()}, {"model": network()},
            {"model": model, "optimizer": torch.optim.AdamW(model.parameters())}, {"model": model, "accumulate": True},
            {"costs": "h100-sxm"}, {"costs": Costs("mine", 1e12, 1e11, 100)},
            {"costs": Costs("mine", 2e12, 1e11, 100)}, {"options": {"recomputable": ["rematcheck::twice"]}},
            {"options": {"replay_random": True}}]


def after_another_graph():
    """A second graph while the first one's values live, and again when they do not."""
    one = backend(budget="1MB")
    first = network()
    loss = torch.compile(lambda x: first(x).sin().sum(), backend=one)(torch.randn(128, WIDTH))
    seen = asked([one])
    loss.backward()
    return seen + asked([one])


def described_otherwise():
    faster = costs.described("cpu") | {"launch_ns": 1}
    with mock.patch.object(costs, "described", lambda name: faster):
        return asked([backend(costs="cpu"), backend()])


def main(*left_out):
    def facts(*arguments, whole=keys.facts):
        return {name: fact for name, fact in whole(*arguments).items() if name not in left_out}
    with mock.patch.object(keys, "facts", facts):
        net = network()
        seen = asked([backend(**one) for one in settings(net)], net=net)
        seen += asked([backend(model=net)], net=net)  # now with gradients
        seen += described_otherwise()
        torch.compiler.reset()
        seen += after_another_graph()
        for rows in (64, 48):
            seen += asked([backend()], rows, dynamic=True)
        versions = [backend().key()]
        other = backend()
        other.kernels = "inductor"
        versions.append(other.key())
        for place, name, value in ((torch, "__version__", "2.15.1"), (keys, "planner", lambda: "another")):
            with mock.patch.object(place, name, value):
                versions.append(backend().key())
    plans = {}
    for graph, key, problem in seen:
        plans.setdefault((graph, key), set()).add(problem)
    shared = [key for key, problems in plans.items() if len(problems) > 1]
    harness.check(not shared, f"{len(shared)} keys of {len(plans)} stand for several plans")
    harness.check(len(set(versions)) == len(versions), "other kernels, or another version, have the same key")
    harness.check(len({problem for _, _, problem in seen}) >= 14, "the cases differ too little to show anything")
    print(f"  {len(seen)} plans, {len(plans)} keys", flush=True)
