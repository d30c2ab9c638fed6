# SPDX-License-Identifier: Apache-2.0
"""torch.cuda._memory_viz, which is Python alone, reads snapshots of remat-dump: what it prints of the trace has the
plan's peak, its summary and its flame graphs the arena and what stays in it. Sizes are printed as bytes.

    memory_viz.py BUILD_DIRECTORY

Exit code 0: all of that, 1: not, 77: PyTorch is absent (1 when CI=true)."""
import importlib.util
import os
import pathlib
import pickle
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, check, finish

torch = importlib.util.find_spec("torch")
if torch is None:
    print("PyTorch is absent")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)
spec = importlib.util.spec_from_file_location("viz", pathlib.Path(torch.origin).parent / "cuda/_memory_viz.py")
viz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viz)
viz._format_size = str

tool = Tools(sys.argv[1])
os.chdir(tempfile.mkdtemp())
PLANS = [(["gpt2-tiny", "--layers", 3, "--seq", 64, "--batch", 2], ["--budget", "137.4MB"]),
         (["llama-tiny", "--dtype", "bf16", "--batch", 4], ["--microbatches", 2, "--ac-mode", "full"]),
         (["gpt2-tiny", "--layers", 2], ["--target", "h100-sxm", "--arch", "none"])]


def peak_printed(text):
    """Of a program in Python: allocations with names, which frees give back."""
    live, sizes, peak = 0, {}, 0
    for line in text.splitlines():
        if found := re.fullmatch(r"(\w+) = (?:\w+\[\d+:(\d+)\]|cudaMalloc\(.*\))", line):
            sizes[found[1]] = int(found[2] or 0)
            live += sizes[found[1]]
        elif found := re.fullmatch(r"# free completed for (\w+) (\d+)", line):
            check(sizes[found[1]] == int(found[2]), f"{line}: it has {sizes[found[1]]}")
            live -= sizes.pop(found[1], 0)
        peak = max(peak, live)
    return peak, live


for graph, options in PLANS:
    tool.must("graph", *graph, "-o", "m.fbs")
    tool.must("compile", "m.fbs", *options, "-o", "m.plan")
    tool.must("dump", "m.plan", "--format", "snapshot", "-o", "m.pickle")
    plan = tool.json("dump", "m.plan", "--format", "json")
    snapshot = pickle.loads(pathlib.Path("m.pickle").read_bytes())
    check(peak_printed(viz.trace(snapshot)) == (plan["peak_bytes"], plan["static_bytes"]), "trace")
    summary = dict(re.findall(r"^(total_\w+): (\d+)", viz.segsum(snapshot), re.M))
    check(summary == {"total_reserved": str(plan["arena_bytes"]), "total_allocated": str(plan["static_bytes"]),
                      "total_free": str(plan["arena_bytes"] - plan["static_bytes"])}, summary)
    for show in viz.segments, viz.memory:
        lines = show(snapshot, lambda text: text).splitlines()
        sizes = {state: sum(int(line.split()[-1]) for line in lines if f";{state};" in line)
                 for state in ("active_allocated", "inactive")}
        check(list(sizes.values()) == [plan["static_bytes"], plan["arena_bytes"] - plan["static_bytes"]], sizes)
        check(any(f";graph:0:{plan['graph']};" in line for line in lines), "flame graphs begin with the graph")
finish()
