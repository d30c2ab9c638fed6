"""A session on the host's stream and in the host's device memory (host.c), of plans with and without a workspace.

    host.py TOOLS LIBRARIES COMPILER PROGRAM"""
import os
import subprocess
import sys

from doubles import CACHE, COMPILER, DOUBLES, LIBRARIES, check, finish, folder, graph, pathlib, plan

with folder() as work:
    graph(work, "gpt2-tiny", "--layers", "1", "--batch", "2", "--seq", "16", "--dropout", "0.1")
    plan(work, "cpu.plan")
    plan(work, "gpu.plan", "--target", "h200")
    for name in ["cpu.plan", "gpu.plan"]:
        environment = {**os.environ, "REMAT_DOUBLE_COMPILER": COMPILER, "REMAT_DOUBLE_CACHE": str(CACHE)}
        done = subprocess.run([pathlib.Path(sys.argv[4]).resolve(), name, LIBRARIES or "-", *(["--doubles"] if DOUBLES else [])],
                              cwd=work, encoding="utf-8", capture_output=True, env=environment)
        check(done.returncode == 0, f"{name}: exit code {done.returncode}: {done.stdout} {done.stderr}")
finish()
