# SPDX-License-Identifier: Apache-2.0
"""Transfers that start ahead of what reads them: plans of many budgets have many depths, more budget is never slower, and
at each depth the bits are those of everything saved. Plans of e2e-depths, each at a depth of its own, have the bits of
blocking transfers in a process for each rank, too.

    depths.py TOOLS SOURCE TEXT E2E_DEPTHS [MPIRUN [all]]    all: every plan, without the budgets"""
import json
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INFEASIBLE, Tools, check, finish, json_lines, must, run, scratch

tool = Tools(sys.argv[1])
SOURCE, TEXT = map(os.path.abspath, sys.argv[2:4])
E2E_DEPTHS, *MPIRUN = map(os.path.abspath, sys.argv[4:6])
ALL = sys.argv[6:] == ["all"]
SLICE = "0", "4", "16"  # depths under MPI in a short run
PARTS = 8  # between static bytes and everything saved


def describe_device():
    """A link whose groups are small, and which is busy for about as long as computation."""
    with open(os.path.join(SOURCE, "schemas", "devices", "h100-sxm.json"), encoding="utf-8") as file:
        description = json.load(file)
    description["links"].update({"within_latency_ns": 10, "within_bytes_per_s": 4e9})
    with open("small.json", "w", encoding="utf-8") as file:
        json.dump(description, file)


def hashes(plan, *launcher):
    done = run([*launcher, tool.path("run"), plan, "--device", "cpu", "--text", TEXT, "--steps", 2, "--threads", 1, "--hash", "--json"])
    return [{key: value for key, value in line.items() if "hash" in key or key == "loss"} for line in json_lines(done)]


def try_model(model, *division):
    tool.text("graph", model, "--layers", 4, "--batch", 8, "--seq", 32, "--dropout", 0.1, "-o", "m.fbs")
    options = ["--target", "small.json", "--reserve", "200MB", "--arch", "none", "--format", "json", "-o", "m.plan", *division]
    none = tool.json("compile", "m.fbs", *options)
    transient = none["arena_bytes"] - none["static_bytes"]
    depths, bits, last = set(), hashes("m.plan"), None
    for part in range(1, PARTS + 2):
        budget = none["reserve_bytes"] + none["static_bytes"] + transient * part // PARTS
        made = tool.must("compile", "m.fbs", *options, "--budget", budget, code=(0, INFEASIBLE))
        if made.returncode:
            continue
        report = json.loads(made.stdout)
        check(not last or report["step_ns"] <= last["step_ns"], f"{model} {division}: {budget} B are slower")
        depth = report.get("depth", 0)
        if depth not in depths:
            check(hashes("m.plan") == bits, f"{model} {division}: other bits at depth {depth}")
        depths.add(depth)
        last = report
    print(model, *division, "depths", *sorted(depths))
    return depths


def try_every_depth():
    """MODEL-DIVISION.blocking.plan, and MODEL-DIVISION.DEPTH.plan for each depth with a plan of its own."""
    must(run([E2E_DEPTHS, "write", *(["all"] if ALL else [])]))
    tried = set()
    for blocking in sorted(pathlib.Path().glob("*.blocking.plan")):
        name = blocking.name.removesuffix(".blocking.plan")
        ranks = tool.json("dump", blocking, "--format", "json")["ranks"]
        bits = hashes(blocking)
        for plan in sorted(pathlib.Path().glob(f"{name}.*.plan")):
            depth = plan.suffixes[-2][1:]
            if ALL or depth in SLICE:
                check(hashes(plan, *MPIRUN, "-n", ranks) == bits, f"{plan}: other bits under MPI")
                tried.add(depth)
        print(name, "under MPI")
    check(tried >= {*SLICE}, f"only depths {tried}")


def main():
    with scratch():
        if MPIRUN:
            try_every_depth()
        if ALL:
            return finish()
        describe_device()
        found = try_model("llama-tiny", "--mesh", "dp=2", "--zero", 3)
        found |= try_model("gpt2-tiny", "--mesh", "dp=4", "--zero", 3)
        found |= try_model("bert-tiny", "--mesh", "dp=2,tp=2", "--zero", 3)
        found |= try_model("encdec-tiny", "--mesh", "dp=2", "--zero", 1)
    check(0 in found and len(found) > 3, f"only depths {found}")
    finish()


main()
