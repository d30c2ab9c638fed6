# SPDX-License-Identifier: Apache-2.0
"""Transfers beside computation: of every plan the predicted time is that of two clocks (clocks.py), what is exposed is
what the step takes longer for its transfers, more memory gives no slower plan, no plan is slower than in line, and none
is below its bound.

    beside.py TOOLS"""
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

from clocks import schedule_of, step_ns

TOOLS = pathlib.Path(sys.argv[1])
MODELS = ["gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"]
DTYPES = ["fp32", "bf16"]
RANKS, STAGES, MICROBATCHES, TARGETS = [2, 4, 8], [0, 1, 3], [1, 2], ["cpu", "h100-sxm", "rtx-4090"]
BUDGETS = [2, 6, 10]  # tenths of the way from full recomputation to everything saved
failures = 0


def check(condition, text):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", text)


def call(tool, *options, work):
    done = subprocess.run([TOOLS / f"remat-{tool}", *map(str, options)], cwd=work, encoding="utf-8", capture_output=True)
    assert done.returncode in (0, 3), (tool, options, done.stderr)
    return done.stdout if done.returncode == 0 else None


def plan(work, options):
    """Its report, checked against its schedule."""
    made = call("compile", "m.fbs", *options, "--arch", "none", "--format", "json", "-o", "m.plan", work=work)
    if made is None:
        return None
    report = json.loads(made)
    schedule = schedule_of(call("dump", "m.plan", "--schedule", "--format", "json", work=work))
    microbatches = report.get("microbatches", 1)
    predicted, name = step_ns(schedule, microbatches), " ".join(map(str, options))
    free = [dict(command, estimated_ns=0) if "transfer" in command else command for command in schedule]
    in_line = step_ns([{**command, "transfer": {}} if "transfer" in command else command for command in schedule], microbatches)
    check(report["step_ns"] == predicted, f"{name}: {report['step_ns']} ns, {predicted} by two clocks")
    check(report["exposed_ns"] == predicted - step_ns(free, microbatches), f"{name}: {report['exposed_ns']} ns are exposed")
    check(predicted <= in_line and report.get("bound_step_ns", 0) <= predicted, f"{name}: {predicted} ns, {in_line} in line")
    report["in_line_ns"] = in_line
    return report


def try_model(work, model, dtype, ranks, stage, microbatches, target):
    call("graph", model, "--dtype", dtype, "--layers", 3, "--batch", 8, "--seq", 32, "-o", "m.fbs", work=work)
    options = ["--mesh", f"dp={ranks}", "--zero", stage, "--target", target, "--reserve", 0]
    if microbatches > 1:
        call("graph", model, "--dtype", dtype, "--layers", 3, "--batch", 8 * microbatches, "--seq", 32, "-o", "m.fbs", work=work)
        options += ["--microbatches", microbatches]
    none, full = plan(work, options), plan(work, [*options, "--ac-mode", "full"])
    check(none["step_ns"] < none["in_line_ns"], f"{model} {options}: nothing runs beside computation")
    last = None
    for tenths in BUDGETS:
        budget = full["arena_bytes"] + (none["arena_bytes"] - full["arena_bytes"]) * tenths // 10
        found = plan(work, [*options, "--budget", budget])
        check(found and found["arena_bytes"] <= budget, f"{model} {options}: no plan for {budget} B")
        check(not last or found["step_ns"] <= last["step_ns"], f"{model} {options}: {tenths} tenths are slower")
        last = found
    check(last["step_ns"] <= none["step_ns"], f"{model} {options}: slower than everything saved, which fits")
    return none["in_line_ns"] - none["step_ns"]


def main():
    hidden = 0
    cases = list(itertools.product(MODELS, DTYPES, RANKS, STAGES, MICROBATCHES, TARGETS))
    with tempfile.TemporaryDirectory() as work:
        for number in range(0, len(cases), 41):  # of each list all
            model, dtype, ranks, stage, microbatches, target = cases[number]
            if dtype == "fp32" or target != "cpu":
                hidden += try_model(work, *cases[number]) > 0
    check(hidden > 4, f"{hidden} models hide something")
    sys.exit(failures > 0)


main()
