# SPDX-License-Identifier: Apache-2.0
"""Two ranks by gloo train one model of blocks that are compiled one by one, under DistributedDataParallel, with and
without its optimizer's splits, and under FSDP2: gradients are those of one process at 1e-6, both ranks have the same
plan though their costs differ, and the peak is the planned one within 5 %. Another graph on one rank and other calls in
a recorded step are errors on both; a call of one rank alone that does not come again is none.

    main([KIND,] CASE...)   or all; KIND of kernels.py, aot_eager unless told"""
import dataclasses
import json
import os
import socket
import tempfile
import types
from unittest import mock

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import harness
import kernels
import peaks
import remat
import several
from remat import ranks as agreement

RANKS = 2
GRADIENTS, PEAK = 1e-6, 0.05


class Model(several.Blocks):
    """Without dropout, whose masks would differ from one process's."""

    def __init__(self, count=6):
        super().__init__()
        self.blocks = self.blocks[:count]
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0


def made(count=6):
    torch.manual_seed(0)
    return Model(count)


def batches():
    return [several.batch(rank) for rank in range(RANKS)]


def sharded(model):
    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def views(model, **settings):
    return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, **settings)


# How a model is wrapped, how it is compiled, its blocks, and budgets of eager kernels and of Inductor's. "splits" are
# graphs that torch.compile makes of one, one for each bucket; "whole" is one graph.
WRAPS = {
    "views": (views, None, 6, {"aot_eager": "9MB", "inductor": "8MB"}),
    "copies": (nn.parallel.DistributedDataParallel, None, 6, {"aot_eager": "9MB", "inductor": "8.5MB"}),
    "shards": (sharded, None, 6, {"aot_eager": "9MB", "inductor": "8MB"}),
    "splits": (lambda model: views(model, bucket_cap_mb=1), several.whole, 12,
               {"aot_eager": "20MB", "inductor": "16MB"}),
    "whole": (views, several.whole, 6, {"aot_eager": "9MB", "inductor": "8MB"}),
}


def backend_of(model, rank, budget="9MB", kind="aot_eager"):
    costs = remat.Costs(f"rank {rank}", 1e11 * (1 + rank), 1e10 * (1 + 3 * rank), 1000)
    return remat.backend(budget, model=model, kernels=kernels.KINDS[kind].kernels, margin=0, costs=costs)


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def trains(rank, wrap, kind):
    """What a rank found: its plan, and gradients and peak beside those expected."""
    with kernels.KINDS[kind].compiling():
        return _trains(rank, wrap, kind)


def _trains(rank, wrap, kind):
    wrapped, compiled, count, budgets = WRAPS[wrap]
    model, x = made(count), batches()[rank]
    for one in batches():
        (model(one).square().mean() / RANKS).backward()
    expected = [one.grad for one in model.parameters()]
    model = made(count)
    f = wrapped(model)
    backend = backend_of(f, rank, budgets[kernels.KINDS[kind].kernels], kind)
    if compiled is None:
        several.by_block(model, backend)
    else:
        f = compiled(f, backend)

    def step():
        f(x).square().mean().backward()
    for _ in range(3):
        f.zero_grad()
        step()
    error = max((full(one.grad) - other).abs().max().item() / other.abs().max().item()
                for one, other in zip(model.parameters(), expected))
    f.zero_grad()
    report = backend.report()
    measured, _ = peaks.measure(step)
    planned = report.step.calls if report.step else report.graphs
    own = {"costs": "", "fastest_bytes": 0}  # of the costs of each rank
    plan = [json.dumps(dataclasses.asdict(one) | own, default=str) for one in planned]
    return {"error": error, "plan": plan, "planned": report.planned_peak_bytes,
            "measured": measured + standing_bytes(model, wrap != "shards", x)}


def trains_deaf(rank, wrap, kind):
    """Each rank plans by its own costs: a planted fault."""
    with mock.patch.object(agreement, "agree", lambda group, rows, layer: rows), \
            mock.patch.object(agreement, "decided", lambda group, decide, *_: decide()):
        return trains(rank, wrap, kind)


def standing_bytes(model, buckets, x):
    """Before a step: parameters or shards, buckets, inputs."""
    return (1 + buckets) * sum(map(local_bytes, model.parameters())) + local_bytes(x)


def local_bytes(tensor):
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return tensor.numel() * tensor.element_size()


def error_of(steps):
    try:
        steps()
    except Exception as raised:
        return str(getattr(raised, "inner_exception", raised))
    return ""


def differs(rank, *_):
    """Rank 1 has blocks of another activation."""
    model = made()
    if rank:
        for block in model.blocks:
            block.body[2] = nn.Tanh()
    return error_of(lambda: train(rank, model, 3))


def calls_differ(rank, *_):
    """Rank 1 leaves out a block in the recorded step."""
    model = made()
    if rank:
        model.forward = types.MethodType(without_a_block, model)
    return error_of(lambda: train(rank, model, 3, find_unused_parameters=True))


def train(rank, model, count, alone=None, until=None, **settings):
    """Steps, in which rank 1 does otherwise `alone` from the third one on, `until` one. Returns the backend."""
    x, f = batches()[rank], views(model, **settings)
    several.by_block(model, backend := backend_of(f, rank))
    for number in range(count):
        if rank and alone and number == 2:
            model.forward = types.MethodType(alone, model)
        if number == until:
            model.__dict__.pop("forward", None)
        f(x).square().mean().backward()
    return backend


def alone(rank, case, _):
    """From the third step on rank 1 makes calls that no plan knows: a block runs twice, or on half of the rows."""
    return error_of(lambda: train(rank, made(), 6, CALLS_ALONE[case][0]))


def once_alone(rank, case, _):
    """Then all do the same again. Whether the step was planned twice."""
    planned = mock.Mock(side_effect=remat._backend.Step.of)
    with mock.patch.object(remat._backend.Step, "of", planned):
        train(rank, made(), 6, CALLS_ALONE[case][0], until=3)
    return planned.call_count


def with_a_block_twice(self, x):
    for block in [*self.blocks[:3], *self.blocks[2:]]:
        x = block(x)
    return x


def with_half_of_the_rows(self, x):
    return several.Blocks.forward(self, x[:several.ROWS // 2])


CALLS_ALONE = {"twice": (with_a_block_twice, "ranks make different calls: rank 1: call 4 of the step is "
                         "module.blocks.2.body.0 (graph 2, call 2 of it), on rank 0 module.blocks.3.body.0"),
               "half": (with_half_of_the_rows, "ranks compile different graphs: rank 1: ")}


def without_a_block(self, x):
    for block in [*self.blocks[:2], *self.blocks[3:]]:
        x = block(x)
    return x


def work(rank, run, case, kind, port, folder):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    found = run(rank, case, kind)
    with open(f"{folder}/{rank}", "w", encoding="utf-8") as file:
        json.dump(found, file)
    distributed.destroy_process_group()


def on_ranks(run, case="", kind="aot_eager"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (run, case, kind, port, folder), nprocs=RANKS)
        return [json.loads(open(f"{folder}/{rank}", encoding="utf-8").read()) for rank in range(RANKS)]


def trained(wrap, kind):
    found = on_ranks(trains, wrap, kind)
    print(f"  {kind}, {wrap}: " + ", ".join(
        f"gradients differ by {one['error']:.1e}, measured {one['measured'] / one['planned']:.4f} of what is planned"
        for one in found), flush=True)
    harness.check(all(one["error"] <= GRADIENTS for one in found), f"{wrap}: gradients differ")
    harness.check(found[0]["plan"] == found[1]["plan"], f"{wrap}: plans differ: {found}")
    for one in found if kernels.KINDS[kind].compiled or kind == "aot_eager" else ():
        harness.check(abs(one["measured"] / one["planned"] - 1) <= PEAK,
                      f"{wrap}: measured {one['measured']}, planned {one['planned']}")


def another_graph():
    for rank, error in enumerate(on_ranks(differs)):
        harness.check("ranks compile different graphs: rank 1" in error and "rank 0" in error, f"rank {rank}: {error}")


def other_calls():
    for rank, error in enumerate(on_ranks(calls_differ)):
        harness.check("ranks make different calls: rank 1: call 3 of the step is module.blocks.3" in error
                      and "on rank 0 module.blocks.2" in error, f"rank {rank}: {error}")


def calls_alone():
    for case, (_, expected) in CALLS_ALONE.items():
        for rank, error in enumerate(on_ranks(alone, case)):
            harness.check(error.startswith(expected), f"{case}, rank {rank}: {error}")


def calls_once_alone():
    counts = on_ranks(once_alone, "twice")
    harness.check(counts == [2, 2], f"planned {counts} times")


ERRORS = {one.__name__: one for one in (another_graph, other_calls, calls_alone, calls_once_alone)}


def main(*arguments):
    kind, *names = arguments if arguments and arguments[0] in kernels.KINDS else ("aot_eager", *arguments)
    with kernels.cache():
        for name in names or [*WRAPS, *ERRORS]:
            if name in ERRORS:
                ERRORS[name]()
            else:
                trained(name, kind)
            print(f"  {name}", flush=True)
