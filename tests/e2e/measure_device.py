# SPDX-License-Identifier: Apache-2.0
"""remat-run --measure-device writes a description that remat-compile takes, with rates above 0; plans with it run.
remat-compile --threads puts in place what a description has for that number. No time is demanded.

    measure_device.py BUILD_DIRECTORY"""
import os
import re
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, read_json, scratch, write_json

tool = Tools(sys.argv[1])
RATES = [("memory", "peak_bytes_per_s"), ("pointwise", "peak_flops_per_s"), ("matmul", "fp32_flops_per_s"),
         ("matmul", "bf16_flops_per_s"), ("attention", "forward_efficiency"), ("attention", "backward_efficiency")]


def refused(code, message, *arguments):
    said = tool.text(*arguments, code=code)
    lines = [line for line in said.splitlines() if not line.startswith("Try ")]
    assert len(lines) == 1 and message in lines[0], (arguments, said)


def step_ns(model, *arguments):
    return tool.json("compile", model, "--format", "json", "-o", "x.plan", *arguments)["step_ns"]


def check_measured():
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        said = tool.must("run", "--measure-device", "m.json", "--threads", "1").stderr.splitlines()
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    measured = read_json("m.json")
    warned = [re.search(r"other processes kept (\S+) of the machine's (\d+) cores busy", line) for line in said]
    others, cores = next((float(found[1]), int(found[2])) for found in warned if found)
    assert cores == os.cpu_count() and cores / 3 < others <= cores + 0.1, said
    assert measured["name"].endswith(", 1 thread") and list(measured["threads"]) == ["1"], measured
    for rates in measured, measured["threads"]["1"]:
        assert all(rates[part][key] > 0 for part, key in RATES) and rates["launch_ns"] > 0, rates
    for dtype in "fp32", "bf16":
        tool.text("graph", "llama-tiny", "--dtype", dtype, "-o", dtype + ".fbs")
        assert step_ns(dtype + ".fbs", "--target", "m.json") == \
            step_ns(dtype + ".fbs", "--target", "m.json", "--threads", "1") > 0
        tool.text("compile", dtype + ".fbs", "--target", "m.json", "--budget", "143MB", "-o", "b.plan")
        tool.text("run", "b.plan", "--ids", "zipf", "--steps", "1", "--threads", "1")
    return measured


def check_threads(measured):
    """What `threads` has for a number is the same as a description with these keys; the rest stays."""
    base = {key: value for key, value in measured.items() if key != "threads"}
    changes = {"launch_ns": 70000, "matmul": {"fp32_flops_per_s": 3e9}, "memory": {"peak_bytes_per_s": 2e9}}
    merged = {**base, "launch_ns": 70000, "matmul": {**base["matmul"], "fp32_flops_per_s": 3e9},
              "memory": {**base["memory"], "peak_bytes_per_s": 2e9}}
    write_json("base.json", base)
    write_json("merged.json", merged)
    write_json("both.json", {**base, "threads": {"1": {}, "3": changes}})
    own, changed = step_ns("fp32.fbs", "--target", "base.json"), step_ns("fp32.fbs", "--target", "merged.json")
    assert own != changed
    assert step_ns("fp32.fbs", "--target", "both.json") == own
    assert step_ns("fp32.fbs", "--target", "both.json", "--threads", "1") == own
    assert step_ns("fp32.fbs", "--target", "both.json", "--threads", "3") == changed
    tool.text("compile", "fp32.fbs", "--target", "both.json", "--threads", "3", "--budget", "143MB", "-o", "t.plan")
    assert "--threads 3" in tool.text("dump", "t.plan")
    for threads, runs in ("3", True), ("1", False):
        said = tool.must("run", "t.plan", "--ids", "zipf", "--steps", "1", "--threads", threads).stderr.splitlines()
        assert runs != any(f"predicted for --threads 3, this run has {threads}" in line for line in said), said
        assert (int(threads) > len(os.sched_getaffinity(0))) == any(f"{threads} threads share" in line for line in said)
    for target, message in [("both.json", "both.json has no rates of that number (accepted: 1, 3)"),
                            ("base.json", "base.json has no rates by number of threads"),
                            ("cpu", "cpu has no rates by number of threads"),
                            ("h200", "h200 has no rates by number of threads")]:
        refused(2, message, "compile", "fp32.fbs", "--target", target, "--threads", "2", "-o", "no.plan")
    assert not os.path.exists("no.plan")


def check_refusals():
    measure = ["run", "--measure-device", "new.json"]
    for arguments in (["--ids", "zipf"], ["--text", "m.json"], ["--steps", "3"], ["--device", "cpu"], ["--hash"],
                      ["--profile", "p.json"], ["--seed", "1"]):
        refused(2, f"{arguments[0]} contradicts --measure-device", *measure, *arguments)
    refused(2, "--measure-device runs plans of its own, not 'b.plan'", *measure, "b.plan")
    refused(2, "must end in .json", "run", "--measure-device", "new.txt")
    refused(2, "PLAN is missing", "run")
    refused(2, "PLAN is missing", "run", "--ids", "zipf")
    refused(5, "nowhere/new.json", "run", "--measure-device", "nowhere/new.json")
    os.mkdir("folder.json")
    refused(5, "folder.json", "run", "--measure-device", "folder.json")
    assert not os.path.exists("new.json") and not os.path.exists("p.json")
    # An old file stays until the new one is whole.
    write_json("old.json", {"old": 1})
    os.chmod("old.json", stat.S_IRUSR | stat.S_IWUSR)
    refused(2, "contradicts", "run", "--measure-device", "old.json", "--hash")
    assert read_json("old.json") == {"old": 1} and not [name for name in os.listdir(".") if "remat-tmp" in name]


@scratch()
def main():
    check_threads(check_measured())
    check_refusals()


main()
