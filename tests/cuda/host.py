# SPDX-License-Identifier: Apache-2.0
"""A session on the host's stream and in the host's device memory (host.c), of plans with and without a workspace.

    host.py TOOLS LIBRARIES COMPILER PROGRAM"""
import sys

from doubles import CACHE, COMPILER, DOUBLES, LIBRARIES, check, finish, folder, graph, pathlib, plan, run, small_target

with folder() as work:
    graph(work, "gpt2-tiny", "--layers", "1", "--batch", "2", "--seq", "16", "--dropout", "0.1")
    plan(work, "cpu.plan")
    plan(work, "gpu.plan", "--target", small_target(work))


    def host(name, *options, **environment):
        environment |= {"REMAT_DOUBLE_COMPILER": COMPILER, "REMAT_DOUBLE_CACHE": str(CACHE)}
        return run([pathlib.Path(sys.argv[4]).resolve(), name, LIBRARIES or "-", *options], cwd=work, env=environment)

    for name in ["cpu.plan", "gpu.plan"]:
        one = ["--one-stream"] if name == "cpu.plan" else []  # its products fill 32 MiB each
        done = host(name, *(["--doubles", *one] if DOUBLES else []))
        check(done.returncode == 0, f"{name}: exit code {done.returncode}: {done.stdout} {done.stderr}")
    # On a GPU the driver may keep 64 MiB: twenty launches of graphs, each of which takes so many MiB for ever.
    for each_mib, kept in [(3, True), (4, False)] if DOUBLES else []:
        done = host("gpu.plan", REMAT_DOUBLE_LEAK=str(each_mib << 20), REMAT_DOUBLE_MEMORY=str(256 << 20))
        check((done.returncode == 0) == kept and ("a session left something" not in done.stderr) == kept,
              f"{each_mib} MiB each: {done.stderr}")
finish()
