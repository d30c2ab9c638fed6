# SPDX-License-Identifier: Apache-2.0
"""One model under several budgets, traced once: Dynamo takes longer than all plans together."""
import copy

import torch

import remat

EVERYTHING = "1TB"


def plain(budget, kernels="aot_eager", **settings):
    """A backend that gives all of its budget to the graphs."""
    return remat.backend(budget, kernels=kernels, margin=0, **settings)


def smallest(module, inputs, **settings):
    """The smallest budget for which a plan of the graph is found."""
    try:
        plain("1B", **settings)(copy.deepcopy(module), inputs)
    except remat.InfeasibleBudget as error:
        return error.smallest_bytes
    raise AssertionError("one byte is enough")


class Fan:
    """A backend that compiles its one graph for everything saved, for shares of that peak where they are feasible, and
    for the smallest budget. `chosen` is the index of the one that runs."""

    def __init__(self, shares=(0.75,), **settings):
        self.shares, self.settings, self.chosen = shares, settings, 0
        self.backends, self.runs = [], []

    def __call__(self, module, inputs):
        if self.backends:
            raise AssertionError("a second graph")
        self._compile(EVERYTHING, module, inputs)
        full = self.graph(0).everything_saved_bytes
        least = smallest(module, inputs, **self.settings)
        for share in self.shares:
            self._compile(max(int(share * full), least), module, inputs)
        if least < full:
            self._compile(least, module, inputs)
        return lambda *arguments: self.runs[self.chosen](*arguments)

    def _compile(self, budget, module, inputs):
        backend = plain(budget, **self.settings)
        self.runs.append(backend(copy.deepcopy(module), inputs))
        self.backends.append(backend)

    def graph(self, index):
        return self.backends[index].report().graphs[0]


def observe(model, step, f, state, seed=7):
    """Loss, gradients, buffers and the generator's state after two steps from `state`."""
    model.load_state_dict(state)
    torch.manual_seed(seed)
    seen = []
    for _ in range(2):
        model.zero_grad()
        loss = step(f)
        loss.backward()
        seen.append(loss.detach())
    seen += [buffer.clone() for buffer in model.buffers()]
    seen += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return seen + [torch.get_rng_state()]


def equal(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))
