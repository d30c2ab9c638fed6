# SPDX-License-Identifier: Apache-2.0
"""Two ranks by gloo train one model of blocks that are compiled one by one, under DistributedDataParallel, with and
without its optimizer's splits, and under FSDP2: gradients are those of one process at 1e-6, both ranks have the same
plan though their costs differ, and the peak is the planned one within 5 %. Another graph on one rank, other calls in a
recorded step, and a rank that asks the others alone are errors.

    main(CASE...)   or all"""
import datetime
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
import peaks
import remat
import several
from remat import ranks as agreement, steps

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


# How a model is wrapped, how it is compiled, its blocks, and a budget. "splits" are graphs that torch.compile makes of
# one, one for each bucket.
WRAPS = {
    "views": (views, None, 6, "9MB"),
    "copies": (nn.parallel.DistributedDataParallel, None, 6, "9MB"),
    "shards": (sharded, None, 6, "9MB"),
    "splits": (lambda model: views(model, bucket_cap_mb=1), several.whole, 12, "20MB"),
}


def backend_of(model, rank, budget="9MB"):
    costs = remat.Costs(f"rank {rank}", 1e11 * (1 + rank), 1e10 * (1 + 3 * rank), 1000)
    return remat.backend(budget, model=model, kernels="aot_eager", margin=0, costs=costs)


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def trains(rank, wrap):
    """What a rank found: its plan, and gradients and peak beside those expected."""
    wrapped, compiled, count, budget = WRAPS[wrap]
    model, x = made(count), batches()[rank]
    for one in batches():
        (model(one).square().mean() / RANKS).backward()
    expected = [one.grad for one in model.parameters()]
    model = made(count)
    f = wrapped(model)
    backend = backend_of(f, rank, budget)
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
    calls = [[call.graph, call.layer, call.time_ns, call.kept_bytes] for call in report.step.calls]
    return {"error": error, "plan": calls, "planned": report.planned_peak_bytes,
            "measured": measured + standing_bytes(model, wrap != "shards", x)}


def trains_deaf(rank, wrap):
    """Each rank plans by its own costs: a planted fault."""
    with mock.patch.object(agreement, "told", lambda group, value, what: value), \
            mock.patch.object(agreement, "agree", lambda group, rows, layer: rows), \
            mock.patch.object(remat._backend.Backend, "_planned_by_rank_0", lambda _, *facts: steps.plan(*facts)):
        return trains(rank, wrap)


def standing_bytes(model, buckets, x):
    """Before a step: parameters or shards, buckets, inputs."""
    return (1 + buckets) * sum(map(local_bytes, model.parameters())) + local_bytes(x)


def local_bytes(tensor):
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return tensor.numel() * tensor.element_size()


def differs(rank, _):
    """Rank 1 has blocks of another activation."""
    model = made()
    if rank:
        for block in model.blocks:
            block.body[2] = nn.Tanh()
    f = views(model)
    several.by_block(model, backend_of(f, rank))
    try:
        f(batches()[rank])
    except Exception as raised:
        return str(getattr(raised, "inner_exception", raised))
    return ""


def calls_differ(rank, _):
    """Rank 1 leaves out a block in the recorded step."""
    model = made()
    f = views(model, find_unused_parameters=True)
    several.by_block(model, backend_of(f, rank))
    if rank:
        model.forward = types.MethodType(without_a_block, model)
    try:
        for _ in range(2):
            f(batches()[rank]).square().mean().backward()
    except Exception as raised:
        return str(getattr(raised, "inner_exception", raised))
    return ""


def asks_alone(rank, wrap):
    """In the third step rank 1 makes a call that no plan knows: a block runs twice, or on half of the rows."""
    agreement.TIMEOUT = ALONE
    model, x = made(), batches()[rank]
    f = views(model)
    several.by_block(model, backend_of(f, rank))
    try:
        for number in range(5):
            if rank and number == 2:
                model.forward = types.MethodType(CALLS_ALONE[wrap], model)
            f(x).square().mean().backward()
    except Exception as raised:
        return str(getattr(raised, "inner_exception", raised))
    return ""


def with_a_block_twice(self, x):
    for block in [*self.blocks[:3], *self.blocks[2:]]:
        x = block(x)
    return x


def with_half_of_the_rows(self, x):
    return several.Blocks.forward(self, x[:several.ROWS // 2])


ALONE = datetime.timedelta(seconds=20)
CALLS_ALONE = {"recorded a step, since no plan knew module.blocks.2.body.0 (graph 2, call 2 of it)": with_a_block_twice,
               "compiles a graph for module.blocks.0.body.0": with_half_of_the_rows}


def without_a_block(self, x):
    for block in [*self.blocks[:2], *self.blocks[3:]]:
        x = block(x)
    return x


def work(rank, run, wrap, port, folder):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    found = run(rank, wrap)
    with open(f"{folder}/{rank}", "w", encoding="utf-8") as file:
        json.dump(found, file)
    distributed.destroy_process_group()


def on_ranks(run, wrap):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (run, wrap, port, folder), nprocs=RANKS)
        return [json.loads(open(f"{folder}/{rank}", encoding="utf-8").read()) for rank in range(RANKS)]


def trained(wrap):
    found = on_ranks(trains, wrap)
    print(f"  {wrap}: " + ", ".join(f"gradients differ by {one['error']:.1e}, measured "
                                    f"{one['measured'] / one['planned']:.3f} of what is planned" for one in found))
    harness.check(all(one["error"] <= GRADIENTS for one in found), f"{wrap}: gradients differ")
    harness.check(found[0]["plan"] == found[1]["plan"], f"{wrap}: plans differ: {found}")
    for one in found:
        harness.check(abs(one["measured"] / one["planned"] - 1) <= PEAK,
                      f"{wrap}: measured {one['measured']}, planned {one['planned']}")


def another_graph():
    for rank, error in enumerate(on_ranks(differs, "")):
        harness.check("ranks compile different graphs: rank 1" in error and "rank 0" in error, f"rank {rank}: {error}")


def other_calls():
    for rank, error in enumerate(on_ranks(calls_differ, "")):
        harness.check("ranks make different calls: rank 1: call 3 of the step is module.blocks.3" in error
                      and "on rank 0 module.blocks.2" in error, f"rank {rank}: {error}")


def asked_alone():
    for alone in CALLS_ALONE:
        errors = on_ranks(asks_alone, alone)
        harness.check(f"rank 1 {alone}; other ranks did not" in errors[1] and errors[0], f"{alone}: {errors}")


ERRORS = {one.__name__: one for one in (another_graph, other_calls, asked_alone)}


def main(*names):
    for name in names or [*WRAPS, *ERRORS]:
        if name in ERRORS:
            ERRORS[name]()
        else:
            trained(name)
        print(f"  {name}", flush=True)
