# SPDX-License-Identifier: Apache-2.0
"""A backend of remat's that keeps the two graphs it made, and counts what they do without the package's help."""
import copy
from unittest import mock

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table

import budgets
import remat.eager
import remat.fused


class Graphs:
    """Use as a backend. With `look`, `least_bytes` is the smallest budget found for its last graph with a backward
    pass."""

    def __init__(self, backend, look=False):
        self.backend, self.look, self.least_bytes = backend, look, None
        self.forward, self.backward, self.result_count = None, None, 0

    def __call__(self, module, inputs, **settings):
        another = copy.deepcopy(module) if self.look else None
        with self._kept(remat.eager, "split", lambda found: found), \
                self._kept(remat.fused, "fit", lambda found: found.graphs):
            run = self.backend(module, inputs, **settings)
        if another is not None and self.backward is not None:
            options = {"recomputable": list(self.backend.recomputable), "replay_random": self.backend.replay_random}
            self.least_bytes = budgets.smallest(another, inputs, kernels=self.backend.kernels, options=options)
        return run

    def _kept(self, module, name, graphs_of, at=-2):
        """Keeps the graphs that a function of the package makes; its last arguments are the count of results, and which
        inputs are static."""
        function = getattr(module, name)

        def kept(*arguments):
            found = function(*arguments)
            self.forward, self.backward = map(copy.deepcopy, graphs_of(found))
            self.result_count = arguments[at]
            return found
        return mock.patch.object(module, name, kept)

    def report(self):
        return self.backend.report()

    def count(self, name, where=None):
        """Operators of that name in the forward graph, the backward graph, or both."""
        modules = {"forward": [self.forward], "backward": [self.backward], None: [self.forward, self.backward]}[where]
        return sum(node.op == "call_function" and named(node) == name
                   for module in modules for node in module.graph.nodes)

    def saved(self):
        """Nodes of the forward graph that it returns for the backward pass."""
        return list(self.forward.graph.nodes)[-1].args[0][self.result_count:]

    def saved_names(self):
        return {named(node) for node in self.saved()}

    def saved_bytes(self):
        """Bytes of the storages that are saved, without inputs and results of the forward pass."""
        outputs = list(self.forward.graph.nodes)[-1].args[0]
        others = [node for node in self.forward.graph.nodes if node.op == "placeholder"]
        others += outputs[:self.result_count]
        known = {storage(node) for node in others if is_tensor(node)}
        sizes = {storage(node): node.meta["val"].untyped_storage().nbytes() for node in self.saved() if is_tensor(node)}
        return sum(size for key, size in sizes.items() if key not in known)


def joint(function, *inputs):
    """What Inductor gives to a partitioner: a joint graph, and how many results the forward pass has."""
    kept = []

    def keep(module, inputs, *, num_fwd_outputs, **settings):
        kept.append((copy.deepcopy(module), num_fwd_outputs))
        return min_cut_rematerialization_partition(module, inputs, num_fwd_outputs=num_fwd_outputs, **settings)
    torch.compile(function, backend=aot_autograd(fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=keep,
                                                 decompositions=select_decomp_table()))(*inputs)
    return kept[0]


def is_tensor(node):
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def storage(node):
    return node.meta["val"].untyped_storage()._cdata


def named(node):
    target = getattr(node.target, "_overloadpacket", node.target)
    return getattr(target, "__name__", str(target))
