# SPDX-License-Identifier: Apache-2.0
"""Eight ranks under mpirun have the budget of a recomputing plan as the limit of their private memory, and are never
resident beyond it; of the arena alone they do not run. They have the bits of threads, which have no such limit.

Address space is no measure of them: beside the arena Open MPI maps 0.4 GB, of which a rank touches 10 MB.

    mpi_memory.py TOOLS_DIRECTORY MPIRUN"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TOOLS, MPIRUN = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
TEXT = pathlib.Path(__file__).resolve().parent.parent / "data/genesis_exodus.txt"
RANKS, INFEASIBLE = 8, 3
LIMITED = """import os, resource, subprocess, sys
limit = int(sys.argv[1])
code = subprocess.run(sys.argv[2:], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))).returncode
os.write(2, b"resident %d\\n" % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))  # at once
sys.exit(code)"""


def run(work, *command):
    return subprocess.run([str(part) for part in command], cwd=work, encoding="utf-8", capture_output=True)


def compiled(work, budget, code):
    done = run(work, TOOLS / "remat-compile", "model.fbs", "--mesh", f"dp={RANKS}", "--budget", budget, "--format", "json", "-o",
               "model.plan")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def steps(done):
    return re.findall(r'"loss_hash":"\w+","grad_hash":"\w+"', done.stdout)


def main():
    with tempfile.TemporaryDirectory() as work:
        run(work, TOOLS / "remat-graph", "encdec-tiny", "--batch", RANKS, "--seq", 16, "--layers", 2, "--width", 192,
            "--dropout", 0.1, "-o", "model.fbs")
        budget = compiled(work, "1MB", INFEASIBLE)["smallest_budget_bytes"]
        plan = compiled(work, budget, 0)
        assert plan["recomputed"] > 0 and plan["arena_bytes"] > 15e6, plan
        say = [TOOLS / "remat-run", "model.plan", "--text", TEXT, "--steps", 2, "--hash", "--json"]
        under = [MPIRUN, "-n", RANKS, sys.executable, "-c", LIMITED]
        done = run(work, *under, budget, *say)
        peaks = list(map(int, re.findall(r"^resident (\d+)$", done.stderr, re.M)))
        assert done.returncode == 0 and len(peaks) == RANKS, done.stderr
        print(f"arena {plan['arena_bytes']}, budget {budget}, resident {min(peaks)} to {max(peaks)}")
        assert plan["arena_bytes"] < min(peaks) and max(peaks) <= budget, peaks
        assert len(steps(done)) == 2 and steps(done) == steps(run(work, *say)), done.stdout
        done = run(work, *under, plan["arena_bytes"], *say)
        assert done.returncode != 0 and not steps(done), (done.returncode, done.stdout)


main()
