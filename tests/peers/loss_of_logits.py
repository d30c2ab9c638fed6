# SPDX-License-Identifier: Apache-2.0
"""Under Inductor's kernels the loss of a language model needs no copy of its logits in f32: at the peak of PyTorch's
own graphs, which make none, there is a plan, and as Inductor lowers it, it takes no more. It is no slower, and reduces
no row again to normalize it: its mean and variance are saved.

    loss_of_logits.py BUILD_DIRECTORY"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ["PATH"] = os.path.join(os.path.abspath(sys.argv[1]), "tools") + os.pathsep + os.environ["PATH"]
import cuts
import harness
import joint_graphs
import meter
import torch

SLOWER_PERCENT = 0.3  # than PyTorch's default at its peak


def main():
    joint = joint_graphs.capture("gpt2-2")
    theirs = meter.measure(*cuts.by_torch(joint, "dp", 1.0))
    forward, backward, facts = cuts.ByInductor(joint).plan(theirs.peak_bytes)
    harness.check(facts["planned_bytes"] <= theirs.peak_bytes, f"{facts['planned_bytes']} bytes are planned")
    ours = cuts.measure_as_planned(forward, backward)
    harness.check(ours.peak_bytes <= theirs.peak_bytes, f"{ours.peak_bytes} bytes, PyTorch's {theirs.peak_bytes}")
    slower = 100 * (ours.seconds / theirs.seconds - 1)
    harness.check(slower <= SLOWER_PERCENT, f"{slower:.2f} % slower than PyTorch's")
    again = [node.name for node in backward.graph.nodes if node.target is torch.ops.aten.var_mean.correction]
    harness.check(not again, f"{again} run in the backward pass")
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
