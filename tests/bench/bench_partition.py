# SPDX-License-Identifier: Apache-2.0
"""CPU seconds from a joint graph to its forward and its backward graph, of PyTorch's partitioner with its solver dp at
0.5 and of remat at the same peak, in turns in one process; of remat also of planning alone.

    bench_partition.py BUILD [--models gpt2-124m,llama3-8b-8] [--turns 3] [--kernels aot_eager,inductor]

Figures are minima over the turns. Inductor's lowering is in none of them. Code of graphs is generated when they run, as
in Inductor, so in none of them, either. Needs PyTorch (tools/setup.sh --with-torch)."""
import argparse
import contextlib
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/peers"), str(ROOT / "tools/python")]

import torch

import cuts
import joint_graphs
import meter
import operators
from remat import _orders, _planner
from remat._torch import lazy_modules


class Watch:
    """CPU seconds inside a function."""

    def __init__(self, owner, name):
        self.owner, self.name, self.seconds = owner, name, 0

    @contextlib.contextmanager
    def running(self):
        original, self.seconds = getattr(self.owner, self.name), 0

        def timed(*arguments, **settings):
            begin = time.process_time()
            try:
                return original(*arguments, **settings)
            finally:
                self.seconds += time.process_time() - begin
        setattr(self.owner, self.name, timed)
        try:
            yield self
        finally:
            setattr(self.owner, self.name, original)


def timed(function, *arguments):
    begin = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - begin


def by_torch(joint):
    return cuts.by_torch(joint, "dp", 0.5)


def operators_peak(joint, forward, backward):
    return operators.run(forward, backward, lambda node: 0, cuts.ROUNDING_BYTES).peak_bytes


def inductor_peak(_, forward, backward):
    return meter.measure(forward, backward).peak_bytes


# By kernels: what plans a joint graph and cuts it, what plans alone, and the peak that it is given.
PLANNERS = {"aot_eager": (lambda joint, budget_bytes: cuts.ByOperators(joint).plan(budget_bytes),
                          Watch(_planner, "solve"), operators_peak),
            "inductor": (lambda joint, budget_bytes: cuts.ByInductor(joint).plan(budget_bytes),
                         Watch(_orders.Graph, "order"), inductor_peak)}


def row_of(name, kernels, turns):
    joint = joint_graphs.capture(name)
    ours, watch, peak_of = PLANNERS[kernels]
    peak_bytes = peak_of(joint, *by_torch(joint))
    theirs, whole, planning = [], [], []
    for _ in range(turns):
        theirs.append(timed(by_torch, joint)[1])
        with watch.running():
            whole.append(timed(ours, joint, peak_bytes)[1])
        planning.append(watch.seconds)
    dp, all_of_it, alone = map(min, (theirs, whole, planning))
    return [name, kernels, str(len(joint.module.graph.nodes)), f"{dp:.2f}", f"{alone:.2f}", f"{alone / dp:.2f}",
            f"{all_of_it:.2f}", f"{all_of_it / dp:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--models", default="gpt2-124m,llama3-8b-8")
    parser.add_argument("--kernels", default="aot_eager,inductor")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    os.environ["PATH"] = str(options.build.resolve() / "tools") + os.pathsep + os.environ["PATH"]
    torch.set_num_threads(1)
    print("| model | kernels | nodes | dp, CPU s | planning | of dp | joint graph to split graphs | of dp |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with lazy_modules():
        for name in options.models.split(","):
            for kernels in options.kernels.split(","):
                print(f"| {' | '.join(row_of(name, kernels, options.turns))} |", flush=True)


if __name__ == "__main__":
    main()
