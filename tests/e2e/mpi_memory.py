# SPDX-License-Identifier: Apache-2.0
"""Eight ranks under mpirun have the budget of a recomputing plan as the limit of their address space, which the plan's
reserve leaves what Open MPI maps, 0.4 GB here. Of that, they touch 10 MB: with the reserve of a CPU the budget is the
limit of their private memory, and they are never resident beyond it. With the arena missing, they do not run. They have
the bits of threads, which have no such limit.

    mpi_memory.py TOOLS_DIRECTORY MPIRUN"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INFEASIBLE, TEXT, Tools, must, run, scratch

tool, MPIRUN = Tools(sys.argv[1]), sys.argv[2]
RANKS = 8
LIMITED = """import os, resource, subprocess, sys
limits = getattr(resource, sys.argv[1]), (int(sys.argv[2]),) * 2
code = subprocess.run(sys.argv[3:], preexec_fn=lambda: resource.setrlimit(*limits)).returncode
os.write(2, b"resident %d\\n" % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))  # at once
sys.exit(code)"""
WATCHED = """import os, re, subprocess, sys, time
child, peak = subprocess.Popen(sys.argv[1:]), 0
while child.poll() is None:
    found = re.search(rb"VmPeak:\\s*(\\d+)", open(f"/proc/{child.pid}/status", "rb").read())
    peak = max(peak, int(found[1]) if found else 0)
    time.sleep(0.01)
os.write(2, b"mapped %d\\n" % (peak * 1024))
sys.exit(child.returncode)"""


def compiled(budget, code, *options):
    return tool.json("compile", "model.fbs", "--mesh", f"dp={RANKS}", "--budget", budget, "--format", "json", "-o", "model.plan",
                     *options, code=code)


def smallest(*options):
    plan = compiled(compiled("1MB", INFEASIBLE, *options)["smallest_budget_bytes"], 0, *options)
    assert plan["recomputed"] > 0 and plan["arena_bytes"] > 15e6, plan
    return plan


def each(done, what):
    found = list(map(int, re.findall(rf"^{what} (\d+)$", must(done).stderr, re.M)))
    assert len(found) == RANKS, done.stderr
    return found


def steps(done):
    return re.findall(r'"loss_hash":"\w+","grad_hash":"\w+"', done.stdout)


@scratch()
def main():
    say = [tool.path("run"), "model.plan", "--text", TEXT, "--steps", 2, "--hash", "--json"]
    python = [MPIRUN, "-n", RANKS, sys.executable, "-c"]

    def limited(resource, limit):
        return run([*python, LIMITED, resource, limit, *say])

    tool.must("graph", "encdec-tiny", "--batch", RANKS, "--seq", 16, "--layers", 2, "--width", 192, "--dropout", 0.1,
              "-o", "model.fbs")
    plan = smallest()
    arena, budget, bits = plan["arena_bytes"], plan["budget_bytes"], steps(run(say))
    assert len(bits) == 2, bits
    done = limited("RLIMIT_DATA", budget)
    peaks = each(done, "resident")
    print(f"arena {arena}, budget {budget}, resident {min(peaks)} to {max(peaks)}")
    assert arena < min(peaks) and max(peaks) <= budget and steps(done) == bits, (peaks, done.stdout)
    done = limited("RLIMIT_DATA", arena)
    assert done.returncode != 0 and not steps(done), (done.returncode, done.stdout)

    mapped = max(each(run([*python, WATCHED, *say]), "mapped"))
    plan = smallest("--reserve", mapped - arena)
    budget = plan["budget_bytes"]
    print(f"mapped {mapped}, budget {budget}")
    done = limited("RLIMIT_AS", budget)
    assert done.returncode == 0 and steps(done) == bits, (done.stdout, done.stderr)
    done = limited("RLIMIT_AS", budget - arena)
    assert done.returncode != 0 and not steps(done), (done.returncode, done.stdout)


main()
