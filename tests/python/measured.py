# SPDX-License-Identifier: Apache-2.0
"""Measured costs: each operator is timed once and kept, in a file that is whole whenever it is read; training is that
of eager mode."""
import os
import tempfile
from unittest import mock

import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition

import budgets
import harness
from remat import measured

WIDTH, ROWS = 32, 64
OTHERS = (".t.", "view", "detach", "expand", "dropout")  # views, and what becomes other operators


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(16, WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Dropout(0.2),
                         nn.Linear(64, WIDTH), nn.LayerNorm(WIDTH))


def train(backend):
    """Gradients and the generator's state after a step, and how many operators were timed."""
    torch.compiler.reset()
    model = network()
    f = torch.compile(model, backend=backend) if backend else model
    torch.manual_seed(3)
    with mock.patch.object(measured, "time_operator", side_effect=measured.time_operator) as timed:
        f(torch.arange(ROWS) % 16).square().mean().backward()
    return [one.grad for one in model.parameters()] + [torch.get_rng_state()], timed.call_count


def operators():
    """Names and shapes of what the joint graph computes."""
    found = set()

    def look(joint, inputs, **settings):
        for node in joint.graph.nodes:
            operands = [one.meta["val"] for one in node.all_input_nodes]
            name = str(node.target)
            if name.startswith("aten.") and not any(word in name for word in OTHERS):
                found.add((name, str([tuple(one.shape) for one in operands])))
        return default_partition(joint, inputs, **settings)

    def run(graph, _):
        return graph
    torch.compiler.reset()
    torch.compile(network(), backend=aot_autograd(fw_compiler=run, bw_compiler=run, partition_fn=look))(
        torch.arange(ROWS) % 16)
    return found


def once():
    expected, _ = train(None)
    keys = []
    for count in range(2):
        backend = budgets.plain("100kB", costs="measured")
        keys.append(backend.key([torch.empty(1)]))
        seen, timed = train(backend)
        harness.check(budgets.equal(seen, expected), "measured costs: gradients or the generator's state differ")
        harness.check((timed == 0) == (count == 1), f"{timed} operators were timed in step {count}")
    keys += [backend.key([torch.empty(1)])]
    harness.check(len(set(keys)) == 2 and keys[1] == keys[2], "the key does not follow what was measured")
    harness.check("measured on cpu" in str(backend.report()), f"the report: {backend.report()}")
    times = measured.read(measured.cache_file(torch.device("cpu")))
    harness.check(all(time_ns and time_ns > 0 for time_ns in times.values()), f"times: {times}")
    for name, _ in operators():
        harness.check(any(key.startswith(name) for key in times), f"{name} was not timed: {list(times)}")
    harness.check(len(times) >= len(operators()), f"{len(times)} times of {len(operators())} operators")


def files():
    path = measured.cache_file(torch.device("cpu"))
    whole = measured.read(path)
    with mock.patch.object(os, "replace", side_effect=OSError("no space")):
        try:
            measured.write(path, {"another": 1.0})
        except OSError:
            pass
    harness.check(measured.read(path) == whole and len(list(path.parent.iterdir())) == 1, "a failed write shows")
    for damaged in ("", "[]", '{"a": "fast"}', path.read_text()[:100]):
        path.write_text(damaged)
        train(budgets.plain("100kB", costs="measured"))
        harness.check(measured.read(path).keys() == whole.keys(), f"after {damaged[:10]} not all was timed again")
    with mock.patch.object(torch, "__version__", "2.15.1"):
        harness.check(measured.cache_file(torch.device("cpu")) != path, "another PyTorch has the same times")


def main():
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"XDG_CACHE_HOME": folder}):
        for check in (once, files):
            check()
            print(f"  {check.__name__}", flush=True)
