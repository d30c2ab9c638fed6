# SPDX-License-Identifier: Apache-2.0
"""Whole steps of plans of several ranks on the doubles, by every engine, each rank on a GPU: the bits of one rank
with as many microbatches, and of each other where ranks sum theirs first.

    ranks.py TOOLS LIBRARIES COMPILER"""
import os
import shutil
import subprocess
import sys

from doubles import CACHE, COMPILER, LIBRARIES, TEXT, TOOLS, check, finish, folder, graph, hashes, must, plan, train

# Open MPI keeps memory of its own.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
# preset, dtype, ranks, microbatches
MODELS = [("gpt2-tiny", "fp32", 2, 1), ("llama-tiny", "bf16", 4, 1), ("gpt2-tiny", "fp32", 2, 2)]
RUN = ["--steps", 3, "--hash", "--json"]


def threads(work, ranks, *options, **environment):
    return train(work, "ranks.plan", "cuda", *RUN, *options, REMAT_DOUBLE_GPUS=ranks, **environment)


def processes(work, ranks, *options, **environment):
    """By mpirun; each process sees all GPUs and has its own."""
    variables = {**os.environ, **MPI, "REMAT_DOUBLE_COMPILER": COMPILER, "REMAT_DOUBLE_CACHE": str(CACHE),
                 "REMAT_DOUBLE_GPUS": str(ranks), **environment}
    return subprocess.run(["mpirun", "-n", str(ranks), TOOLS / "remat-run", "ranks.plan", "--text", TEXT, "--device", "cuda",
                           "--cuda-libraries", LIBRARIES, *map(str, [*RUN, *options])], cwd=work, encoding="utf-8",
                          capture_output=True, env=variables)


def same_bits(work, preset, dtype, ranks, microbatches):
    graph(work, preset, "--dtype", dtype, "--layers", 1, "--batch", ranks * microbatches, "--seq", 19,
          *([] if preset == "llama-tiny" else ["--dropout", 0.1]))
    plan(work, "ranks.plan", "--mesh", f"dp={ranks}", "--microbatches", microbatches, "--target", "h200")
    plan(work, "parts.plan", "--microbatches", ranks * microbatches, "--target", "h200")
    runs = {"local": threads(work, ranks), "one GPU for all": threads(work, 1, REMAT_DOUBLE_MEMORY=256 << 20)}
    if shutil.which("mpirun"):
        runs["mpi"] = processes(work, ranks)
    one = train(work, "parts.plan", "cuda", *RUN)
    expected = hashes(one if microbatches == 1 else runs["local"])
    for name, done in runs.items():
        check(hashes(done) == expected and len(expected) == 3, f"{preset} {dtype} on {ranks} ranks, {name}: other bits")
        engine = name if name == "mpi" else "local"
        check(f"engine {engine}, " in done.stderr, f"{name}: {done.stderr}")


with folder() as work:
    for model in MODELS:
        same_bits(work, *model)
finish()
