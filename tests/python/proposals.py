# SPDX-License-Identifier: Apache-2.0
"""At the peak of PyTorch's default cut, with and without the user's checkpoints, and of full checkpointing by block our
plan is not slower under our costs; and where the search finds nothing, what others would do is done, with eager mode's
bits. Where kernels fuse, there is a plan at the peaks that Inductor has for their graphs, with and without a search."""
import copy
from unittest import mock

import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch.utils.checkpoint import checkpoint

import budgets
import graphs
import harness
from remat import _planner, costs, errors, fused, lowered
from remat.joint import after_border

WIDTH, ROWS = 64, 256
FUSED_BLOCKS = 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                  nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.body(x).sin().cos().sin()


class Attention(Block):
    """With a small part of an operator, the logarithms of sums, which its backward pass reads."""

    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.heads(x).view(4, ROWS // 4, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        return super().forward(x + nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Network(nn.Module):
    def __init__(self, checkpointed, block, count):
        super().__init__()
        self.layers, self.checkpointed = nn.ModuleList(block() for _ in range(count)), checkpointed

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return x.square().mean()


def network(checkpointed=False, block=Block, count=4):
    torch.compiler.reset()
    torch.manual_seed(0)
    return Network(checkpointed, block, count), torch.randn(ROWS, WIDTH)


def theirs(partition, checkpointed):
    """Peak and time of the two graphs that a partitioner of PyTorch's makes."""
    net, x = network(checkpointed)
    kept = []

    def keep(*arguments, **settings):
        kept.append((settings["num_fwd_outputs"], *partition(*arguments, **settings)))
        return kept[0][1:]
    compiled = torch.compile(net, backend=aot_autograd(fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=keep))
    compiled(x).backward()
    (count, forward, backward), = kept
    prices = costs.resolve(None, forward)
    run = [node for graph in (forward, backward) for node in graph.graph.nodes if allocates(node)]
    time_ns = sum(map(prices.time_ns, run))
    return peak(forward, backward, count), time_ns


def storages(node):
    values = node.meta.get("val")
    values = values if isinstance(values, (tuple, list)) else [values]
    return {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in values
            if isinstance(one, torch.Tensor)}


def allocates(node):
    return node.op == "call_function" and bool(set(storages(node)) - {
        storage for operand in node.all_input_nodes for storage in storages(operand)})


def peak(forward, backward, result_count):
    """The largest sum of bytes that live at once, of all but inputs. Results live to the end, tangents from the
    backward pass on."""
    steps = [(side, node) for side, graph in enumerate((forward, backward)) for node in graph.graph.nodes]
    inputs = {key for side, node in steps if side == 0 and node.op == "placeholder" for key in storages(node)}
    outputs = [list(graph.graph.nodes)[-1].args[0] for graph in (forward, backward)]
    crossing = {key for node in outputs[0][result_count:] if isinstance(node, torch.fx.Node) for key in storages(node)}
    held = {(side, key) for side, nodes in ((0, outputs[0][:result_count]), (1, outputs[1]))
            for node in nodes if isinstance(node, torch.fx.Node) for key in storages(node)}
    tangents = {(1, key) for side, node in steps if side and "tangents" in node.name for key in storages(node)}
    last, size = {}, {}
    for time, (side, node) in enumerate(steps):
        for one in [node, *node.all_input_nodes]:
            for key, count in storages(one).items():
                key = (0 if key in crossing else side, key)
                size[key] = count
                last[key] = len(steps) if key in held | tangents else time
    live, largest = {}, 0
    for time, (side, node) in enumerate(steps):
        for key in storages(node):
            key = (0 if key in crossing else side, key)
            if key[1] not in inputs:
                live[key] = size[key]
        largest = max(largest, sum(live.values()))
        live = {key: count for key, count in live.items() if last[key] > time}
    return largest


def ours(budget):
    net, x = network()
    backend = budgets.plain(budget)
    torch.compile(net, backend=backend)(x).backward()
    return backend.report().graphs[0], [one.grad for one in net.parameters()]


def early(module):
    """A copy with what no tangent leads to before all else, as passes over a joint graph may order it."""
    module = copy.deepcopy(module)
    late = after_border(module.graph.nodes)
    last = next(node for node in module.graph.nodes if node in late)
    for node in [node for node in module.graph.nodes if node.op == "call_function" and node not in late]:
        last.prepend(node)
    module.graph.lint()
    return module


def fitted(module, count, budget_bytes):
    planner = fused.Planner(fused.joint_of(early(module), count), costs.resolve("h100-sxm", module))
    try:
        return fused.fit(planner, budget_bytes, count, [])
    except errors.InfeasibleBudget as error:
        harness.check(False, f"nothing fits the peak of another's graphs: {error}")


DEFAULT = "PyTorch's default cut", False, Block
CHECKPOINTS = f"checkpoints of {FUSED_BLOCKS} blocks", True, Attention


def of_fused_kernels(*cases):
    for name, checkpointed, block in cases or (DEFAULT, CHECKPOINTS):
        module, count = graphs.joint(*network(False, block, FUSED_BLOCKS))
        given = graphs.joint(*network(True, block, FUSED_BLOCKS))[0] if checkpointed else copy.deepcopy(module)
        pair = min_cut_rematerialization_partition(given, (), num_fwd_outputs=count)
        theirs_are = lowered.estimate(*pair, count)
        peak_bytes = theirs_are.peak_bytes
        found = fitted(module, count, peak_bytes)
        with mock.patch.object(fused.Planner, "decide", without_search):
            alone = fitted(module, count, peak_bytes)
        if not found or not alone:
            continue
        times_ns = found.info.time_ns, alone.info.time_ns
        harness.check(times_ns[0] <= times_ns[1] and alone.info.found_by == name,
                      f"{name}: with and without a search {times_ns} ns, without by {alone.info.found_by}")
        harness.check(max(found.estimate_bytes, alone.estimate_bytes) <= peak_bytes, f"{name}: above {peak_bytes}")
        harness.check(alone.estimate.kept_bytes <= theirs_are.kept_bytes,
                      f"{name}: {theirs_are.kept_bytes} bytes are kept, without a search {alone.estimate.kept_bytes}")
        print(f"  {name}, fused: {peak_bytes} bytes, ours {found.estimate_bytes} in "
              f"{found.info.time_ns / alone.info.time_ns:.3f} of its time", flush=True)


def without_search(planner, budget_bytes=None, decide=fused.Planner.decide):
    """Of its own it knows but the fastest plan."""
    return decide(planner, budget_bytes if planner.foreign.pins else None)


def main():
    of_fused_kernels()
    plans = {"PyTorch's default cut": (min_cut_rematerialization_partition, False),
             "checkpoints of 3 blocks": (default_partition, True)}
    net, x = network()
    net(x).backward()
    eager = [one.grad for one in net.parameters()]
    for name, (partition, checkpointed) in plans.items():  # by which name it is found where nothing else is
        peak_bytes, time_ns = theirs(partition, checkpointed)
        graph, gradients = ours(peak_bytes)
        harness.check(graph.time_ns <= time_ns and graph.planned_peak_bytes <= peak_bytes,
                      f"{name}: {time_ns} ns in {peak_bytes} bytes, ours {graph.time_ns} in {graph.planned_peak_bytes}")
        harness.check(budgets.equal(gradients, eager), f"{name}: bits differ at its peak")

        def searched(rows, budget, solve=_planner.solve):
            found = solve(rows, budget)
            return found.__class__(**vars(found) | {"sequence": (), "smallest_bytes": 10**12})
        with mock.patch.object(_planner, "solve", searched):
            graph, gradients = ours(int(1.01 * peak_bytes))
        harness.check(graph.time_ns <= 1.001 * time_ns and graph.found_by == name,
                      f"{name}: {time_ns} ns, without a search {graph.time_ns} ns, by {graph.found_by}")
        harness.check(budgets.equal(gradients, eager), f"{name}: bits differ without a search")
        print(f"  {name}: {peak_bytes} bytes, ours in {graph.time_ns / time_ns:.3f} of its time, without a search by "
              f"{graph.found_by}", flush=True)
