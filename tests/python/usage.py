# SPDX-License-Identifier: Apache-2.0
"""A compiled model used as people use one, each against the same use of the model itself, to the bit, at a budget that
makes the plan recompute."""
import os
import sys
import tempfile

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import budgets
import harness
import peaks
from graphs import Graphs

WIDTH = 32
USES = {}


def use(check):
    USES[check.__name__] = check
    return check


class Block(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1),
                                  nn.Linear(2 * width, width))

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


class Repeated(nn.Module):
    """The same blocks twice, as in pytorch#193193, in a checkpoint each if told so."""

    def __init__(self, checkpointed):
        super().__init__()
        torch.manual_seed(0)
        self.blocks, self.checkpointed = nn.ModuleList(Block(256) for _ in range(4)), checkpointed

    def forward(self, x):
        for block in [*self.blocks, *self.blocks]:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x.square().mean()


def peak_of_step(model, f, x):
    """As the allocator sees it, after a first step."""
    f(x).backward()
    model.zero_grad(set_to_none=True)
    return peaks.measure(lambda: f(x).backward())[0]


@use
def same_blocks_twice():
    """The smallest plan holds less than eager mode with a checkpoint of each block."""
    x = torch.randn(2048, 256)
    eager = Repeated(True)
    needed = peak_of_step(eager, eager, x)
    for checkpointed in (False, True):
        torch.compiler.reset()
        model = Repeated(checkpointed)
        graphs = Graphs(budgets.plain(budgets.EVERYTHING), look=True)
        torch.compile(model, backend=graphs)(x)
        torch.compiler.reset()
        measured = peak_of_step(model, torch.compile(model, backend=budgets.plain(graphs.least_bytes)), x)
        harness.check(measured < needed, f"the same blocks twice: {measured} bytes, eager checkpoints {needed}")
        print(f"    {measured / needed:.3f} of what eager checkpoints need")


@use
def budgets_that_fall():
    """The peak that is measured falls with the budget, as that of activation_memory_budget does not (pytorch#197838)."""
    x, found = torch.randn(2048, 256), []
    model = Repeated(False)
    graphs = Graphs(budgets.plain(budgets.EVERYTHING), look=True)
    torch.compile(model, backend=graphs)(x)
    whole, least = graphs.report().graphs[0].everything_saved_bytes, graphs.least_bytes
    for step in range(8):
        torch.compiler.reset()
        budget = int(least + (whole - least) * step / 7)
        measured = peak_of_step(model, torch.compile(model, backend=budgets.plain(budget)), x)
        harness.check(measured <= 1.02 * budget, f"measured {measured} bytes, the budget is {budget}")
        found.append(measured)
    harness.check(found == sorted(found), f"the measured peak does not fall with the budget: {found}")
    print(f"    {[round(one / whole, 3) for one in found]} of everything saved")


PROGRAM = """
import sys, torch, remat, usage
model = usage.network()
optimizer = {"SGD": lambda p: torch.optim.SGD(p, 0.1), "AdamW": torch.optim.AdamW}[sys.argv[1]](model.parameters())
backend = remat.backend(int(sys.argv[2]), model=model, optimizer=optimizer, kernels="aot_eager", margin=0)
f = torch.compile(model, backend=backend)
torch.manual_seed(5)
for _ in range(2):
    optimizer.zero_grad()
    f(usage.batch()).square().mean().backward()
    optimizer.step()
expected = usage.network()
other = type(optimizer)(expected.parameters(), lr=optimizer.param_groups[0]["lr"])
torch.manual_seed(5)
for _ in range(2):
    other.zero_grad()
    expected(usage.batch()).square().mean().backward()
    other.step()
assert all(map(torch.equal, model.parameters(), expected.parameters()))
graph = backend.report().graphs[0]
assert backend.report().planned_peak_bytes <= int(sys.argv[2])
print(graph.given_bytes, graph.reruns)
"""


@use
def warm_cache_in_another_process():
    """SGD, then AdamW, with all of PyTorch's caches on: the second plans for the bytes that its states leave."""
    parameters = sum(one.numel() * one.element_size() for one in network().parameters())
    inputs = 64 * WIDTH * 4
    budget = 3 * parameters + inputs + least_bytes()
    plans = []
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
                  "TORCHINDUCTOR_AUTOGRAD_CACHE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        for optimizer in ("SGD", "SGD", "AdamW"):
            done = harness.run([sys.executable, "-c", PROGRAM, optimizer, budget], env=caches)
            harness.check(done.returncode == 0, f"{optimizer} in a process of its own: {done.stderr[-500:]}")
            plans.append(tuple(map(int, done.stdout.split())) if done.returncode == 0 else ())
    harness.check(plans[0] == plans[1] and plans[0] and plans[0][0] == plans[2][0] + 2 * parameters
                  and plans[2][1] > plans[0][1], f"plans (bytes, reruns) of SGD, SGD, AdamW: {plans}")


def main(*names):
    for name in names or USES:
        USES[name]()
        print(f"  {name}", flush=True)
