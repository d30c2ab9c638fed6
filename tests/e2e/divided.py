# SPDX-License-Identifier: Apache-2.0
"""Runs of a model that is divided among microbatches and ranks, or recomputes: pairs of a run's lines, with hashes, and
the gradients of its first step."""
from harness import check

LOSS, GRADIENT = 1e-6, 2e-5  # relative: of the loss, of the largest element of a gradient
POLICIES = [["--recompute-granularity", "full", "--recompute-method", "uniform"],
            ["--recompute-granularity", "selective", "--recompute-modules", "core_attn"]]


def hashes(run):
    return [(line["loss_hash"], line["grad_hash"]) for line in run[0]]


def near(what, run, other):
    for a, b in zip(run[0], other[0], strict=True):
        check(abs(a["loss"] - b["loss"]) <= LOSS * abs(b["loss"]), what, a["loss"], b["loss"])
    largest = max(max(map(abs, tensor)) for tensor in other[1].values())
    for name in other[1]:
        limit = GRADIENT * max(max(map(abs, other[1][name])), 0.01 * largest)
        worst = max(abs(a - b) for a, b in zip(run[1][name], other[1][name], strict=True))
        check(worst <= limit, what, name, worst, limit)
