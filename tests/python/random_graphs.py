# SPDX-License-Identifier: Apache-2.0
"""Small modules composed at random, of views, changes in place, dropout, several results, shared and unused parameters,
each at three budgets: the bits of eager mode.

    main(FIRST, COUNT, MOST)   seeds, and how many operators a module has at most; where eager mode itself has no gradient
    the next seed is taken"""
import copy
import random

import torch
from torch import nn
from torch.nn import functional as F

import budgets
import harness

ROWS, WIDTH = 16, 16


class Composed(nn.Module):
    """Values are matrices of ROWS x WIDTH; each operator takes one or two made before it and makes one. Results are
    those that no operator takes: AOTAutograd drops draws that nothing reads, eager mode does not."""

    def __init__(self, seed, most):
        super().__init__()
        draw = random.Random(seed)
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.unused = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("seen", torch.zeros(WIDTH))
        self.steps = []
        for made in range(2, 2 + draw.randint(3, most)):
            operator = draw.choice(OF_ONE + OF_TWO)
            self.steps.append((operator, *(draw.randrange(made) for _ in range(1 + (operator in OF_TWO)))))
        read = {index for _, *operands in self.steps for index in operands}
        self.results = sorted(set(range(2 + len(self.steps))) - read)

    def forward(self, x):
        values = [self.linears[0](x), x * 2]
        for operator, *operands in self.steps:
            values.append(operator(self, *(values[index] for index in operands)))
        return {str(index): values[index] for index in self.results}


def in_place_on_strided(net, a, b):
    c = a.clone()
    c[:, ::2] += b[:, 1::2]
    return c


def into_buffer(net, a, b):
    net.seen.add_(a.detach().mean(0))
    return b + net.seen


OF_ONE = [
    lambda net, a: net.linears[1](a), lambda net, a: net.linears[2](torch.tanh(a)), lambda net, a: F.dropout(a, 0.3),
    lambda net, a: F.dropout(a.t(), 0.2).t(), lambda net, a: net.norm(a), lambda net, a: F.gelu(a),
    lambda net, a: a.view(ROWS // 2, 2, WIDTH).transpose(0, 1).reshape(ROWS, WIDTH), lambda net, a: a.cumsum(0),
    lambda net, a: a[torch.arange(ROWS - 1, -1, -1)], lambda net, a: a.sort(-1).values,
    lambda net, a: a + torch.rand_like(a), lambda net, a: a.chunk(2, 1)[1].repeat(1, 2),
]
OF_TWO = [
    lambda net, a, b: a * b, lambda net, a, b: a @ b.t() / WIDTH, lambda net, a, b: torch.softmax(a, -1) + b,
    lambda net, a, b: torch.cat([a[:, :WIDTH // 2], b[:, WIDTH // 2:]], 1), lambda net, a, b: (a + b).relu_(),
    lambda net, a, b: a.sin().mul_(b), lambda net, a, b: a.mean(0, keepdim=True).expand(ROWS, WIDTH) + b,
    lambda net, a, b: torch.where(a > 0, a, b.exp()), lambda net, a, b: a.var(1, keepdim=True) * b, in_place_on_strided,
    into_buffer,
]


def compare(seed, most):
    """Whether eager mode runs the module, and all budgets agree with it."""
    torch.compiler.reset()
    torch.manual_seed(seed)
    model = Composed(seed, most)
    x = torch.randn(ROWS, WIDTH)
    state = copy.deepcopy(model.state_dict())

    def step(f):
        return sum((index + 1) * one.square().mean() for index, one in enumerate(f(x.clone()).values()))
    try:
        expected = budgets.observe(model, step, model, state)
    except RuntimeError:
        return False
    fan = budgets.Fan((0.7,))
    compiled = torch.compile(model, backend=fan)
    for index in range(3):
        fan.chosen = min(index, max(len(fan.backends) - 1, 0))
        seen = budgets.observe(model, step, compiled, state)
        harness.check(budgets.equal(seen, expected),
                      f"seed {seed}: bits differ at {fan.graph(fan.chosen).given_bytes} bytes")
    return True


def main(first="0", count="20", most="9"):
    seed, done = int(first), 0
    while done < int(count):
        done += compare(seed, int(most))
        seed += 1
    print(f"  {done} modules, {seed - int(first) - done} without a gradient in eager mode", flush=True)
