# SPDX-License-Identifier: Apache-2.0
"""A compiled model used as people use one, each against the same use of the model itself, to the bit, at a budget that
makes the plan recompute."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import budgets
import harness

WIDTH = 32
USES = {}


def use(check):
    USES[check.__name__] = check
    return check


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Dropout(0.1),
                                  nn.Linear(64, WIDTH))

    def forward(self, x):
        return x + self.body(x)


def network():
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(3)))


def batch(rows=64, seed=1):
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def least_bytes():
    """The smallest budget found for a batch of the default size, found once."""
    if not LEAST:
        torch.compiler.reset()
        fan = budgets.Fan(())
        torch.compile(network(), backend=fan)(batch())
        LEAST.append(fan.graph(1).given_bytes)
    return LEAST[0]


LEAST = []


def compare(name, run, budget=None, make=network):
    """run(model, f) returns tensors, or nothing if gradients say it all."""
    seen = []
    for compiled in (False, True):
        torch.compiler.reset()
        model = make()
        backend = budgets.plain(budget or least_bytes())
        f = torch.compile(model, backend=backend) if compiled else model
        torch.manual_seed(5)
        results = run(model, f) or []
        gradients = [one.grad for one in model.parameters() if one.grad is not None]
        seen.append([*results, *gradients, torch.get_rng_state()])
    harness.check(budgets.equal(*seen), f"{name}: bits differ")
    harness.check(any(graph.reruns for graph in backend.report().graphs), f"{name}: nothing was recomputed")
    return backend


@use
def two_forwards_before_either_backward():
    def run(_, f):
        one, two = f(batch(seed=1)), f(batch(seed=2))
        two.square().mean().backward()
        one.square().mean().backward()
    compare("two forwards", run)


@use
def accumulation():
    def run(_, f):
        for seed in range(3):
            f(batch(seed=seed)).square().mean().backward()
    compare("accumulation", run)


@use
def evaluation_between():
    def run(model, f):
        loss = f(batch()).square().mean()
        model.eval()
        with torch.no_grad():
            evaluated = f(batch(seed=2))
        model.train()
        loss.backward()
        f(batch(seed=3)).square().mean().backward()
        return [evaluated]
    compare("evaluation under no_grad", run)


@use
def other_batch_sizes():
    def run(_, f):
        for rows in (64, 48, 64, 56):
            f(batch(rows)).square().mean().backward()
    backend = compare("other batch sizes", run)
    harness.check(len(backend.report().graphs) == 2 and backend.report().graphs[1].symbolic,
                  "a second batch size does not make one graph of any size")


@use
def autocast():
    def run(_, f):
        with torch.autocast("cpu", torch.bfloat16):
            result = f(batch())
        result.float().square().mean().backward()
    compare("autocast", run)


@use
def retained_graph():
    def run(_, f):
        loss = f(batch()).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()

    def after_another(_, f):
        f(batch()).square().mean().backward()
        run(_, f)
    compare("retain_graph", run)
    compare("retain_graph after a step", after_another)


@use
def inside_checkpoint():
    def run(_, f):
        checkpoint(f, batch(), use_reentrant=False).square().mean().backward()
    compare("inside the user's checkpoint", run)


@use
def optimizer_steps():
    """SGD, then AdamW, on one compiled model."""
    def run(model, f):
        for optimizer in (torch.optim.SGD(model.parameters(), 0.1), torch.optim.AdamW(model.parameters())):
            for _ in range(2):
                optimizer.zero_grad()
                f(batch()).square().mean().backward()
                optimizer.step()
        return [one.detach() for one in model.parameters()]
    compare("optimizer steps", run)


def main(*names):
    for name in names or USES:
        USES[name]()
        print(f"  {name}", flush=True)
