# SPDX-License-Identifier: Apache-2.0
"""Transfers beside computation: of every plan the predicted time is that of two clocks (clocks.py), what is exposed is
what the step takes longer for its transfers, and so long computation waits for all of them, more memory gives no slower
plan, no plan is slower than with blocking transfers, and none is below its bound. Of two settings every pair of values is tried.

    beside.py TOOLS SOURCE"""
import itertools
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clocks import exposed_ns, schedule_of, step_ns
from harness import INFEASIBLE, Tools, check, finish, must, run, scratch

tool = Tools(sys.argv[1])
STRETCH = tool.folder.parent / "tests/e2e/stretch"
SOURCE = sys.argv[2]
MODELS = ["gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"]
DTYPES = ["fp32", "bf16"]
RANKS, STAGES, MICROBATCHES, TARGETS = [2, 4, 8], [0, 1, 3], [1, 2], ["cpu", "h100-sxm", "rtx-4090"]
BUDGETS = [2, 6, 10]  # tenths of the way from full recomputation to everything saved
grouped = {True: 0, False: 0}  # transfers that continue a group, blocking or not


def plan(options):
    """Its report, checked against its schedule."""
    made = tool.must("compile", "m.fbs", *options, "--arch", "none", "--format", "json", "-o", "m.plan", code=(0, INFEASIBLE))
    if made.returncode:
        return None
    report = compare(json.loads(made.stdout), options)
    check(report["step_ns"] <= report["in_line_ns"] and report.get("bound_step_ns", 0) <= report["step_ns"],
          f"{options}: {report['step_ns']} ns, {report['in_line_ns']} blocking")
    return report


def compare(report, options):
    """Of m.plan, with its schedule; adds `in_line_ns`, with blocking transfers."""
    schedule = schedule_of(tool.text("dump", "m.plan", "--schedule", "--format", "json"))
    microbatches = report.get("microbatches", 1)
    predicted, name = step_ns(schedule, microbatches), " ".join(map(str, options))
    free = [dict(command, estimated_ns=0) if "transfer" in command else command for command in schedule]
    blocking = step_ns([{**command, "transfer": {}} if "transfer" in command else command for command in schedule], microbatches)
    check(report["step_ns"] == predicted, f"{name}: {report['step_ns']} ns, {predicted} by two clocks")
    check(report["exposed_ns"] == predicted - step_ns(free, microbatches), f"{name}: {report['exposed_ns']} ns are exposed")
    waits = 0
    for segment, times in ("step", 1), ("microbatch", microbatches), ("update", 1), ("forward", 0):
        commands = [command for command in schedule if command["segment"] == segment]
        exposed = exposed_ns(commands)
        waits += times * sum(exposed.values())
        check(all(command["transfer"]["exposed_ns"] == exposed[command["index"]] <= command["estimated_ns"]
                  for command in commands if "transfer" in command), f"{name}: {segment}: exposed {exposed}")
    check(waits == report["exposed_ns"], f"{name}: {waits} ns are exposed in all, {report['exposed_ns']} reported")
    for command in schedule:
        if "transfer" in command and command["transfer"]["group"] != command["index"]:
            grouped["complete_before" not in command["transfer"]] += 1
    report["in_line_ns"] = blocking
    return report


def try_model(model, dtype, ranks, stage, microbatches, target):
    tool.text("graph", model, "--dtype", dtype, "--layers", 3, "--batch", 8, "--seq", 32, "-o", "m.fbs")
    options = ["--mesh", f"dp={ranks}", "--zero", stage, "--target", target, "--reserve", 0]
    if microbatches > 1:
        tool.text("graph", model, "--dtype", dtype, "--layers", 3, "--batch", 8 * microbatches, "--seq", 32, "-o", "m.fbs")
        options += ["--microbatches", microbatches]
    none, full = plan(options), plan([*options, "--ac-mode", "full"])
    check(none["step_ns"] < none["in_line_ns"], f"{model} {options}: nothing runs beside computation")
    last = None
    for tenths in BUDGETS:
        budget = full["arena_bytes"] + (none["arena_bytes"] - full["arena_bytes"]) * tenths // 10
        found = plan([*options, "--budget", budget])
        check(found and found["arena_bytes"] <= budget, f"{model} {options}: no plan for {budget} B")
        check(not last or found["step_ns"] <= last["step_ns"], f"{model} {options}: {tenths} tenths are slower")
        last = found
    check(last["step_ns"] <= none["step_ns"], f"{model} {options}: slower than everything saved, which fits")
    return none["in_line_ns"] - none["step_ns"]


def try_slowdown():
    """Links that slow computation: a step takes longer for that alone, up to all that its transfers take; a rate without
    effect changes nothing. The others are the plans of a description that does not say so."""
    tool.text("graph", "gpt2-tiny", "--dtype", "bf16", "--layers", 3, "--batch", 16, "--seq", 32, "-o", "m.fbs")
    with open(os.path.join(SOURCE, "schemas/devices/h100-sxm.json"), encoding="utf-8") as file:
        description = json.load(file)
    for options in ["--zero", 1], ["--zero", 3, "--microbatches", 2]:
        steps = []
        for factor in None, 1, 1.15, 1.5, 10:
            description["links"].pop("within_slowdown", None)
            description["links"].update({"within_slowdown": factor} if factor else {})
            with open("slow.json", "w", encoding="utf-8") as file:
                json.dump(description, file)
            report = plan(["--mesh", "dp=4", "--target", "slow.json", "--reserve", 0, *options, "--ac-mode", "none"])
            check(report["step_ns"] <= report["in_line_ns"], f"{options}: {report['step_ns']} ns with transfers beside computation")
            steps.append(report["step_ns"])
        check(steps[0] == steps[1] and steps == sorted(steps) and len(set(steps)) == 4, f"{options}: steps of {steps} ns")
    steps = []
    for machine_ranks in 2, 4:  # the link that is slow is used, or not
        description["links"].update({"machine_ranks": machine_ranks, "within_slowdown": 1, "between_slowdown": 1.5})
        for name in "bytes_per_s", "latency_ns":
            description["links"]["between_" + name] = description["links"]["within_" + name]
        with open("slow.json", "w", encoding="utf-8") as file:
            json.dump(description, file)
        steps.append(plan(["--mesh", "dp=4", "--target", "slow.json", "--reserve", 0, "--zero", 1, "--ac-mode", "none"])["step_ns"])
    check(steps[0] > steps[1], f"slow between machines: {steps}")


def try_links():
    """Transfers along two axes in flight at once, some of which wait for others."""
    for model, division in ("gpt2-tiny", ["--zero", 3]), ("bert-tiny", ["--zero", 3, "--sequence-parallel", "--microbatches", 2]):
        tool.text("graph", model, "--batch", 8, "--seq", 16, "-o", "m.fbs")
        for target in TARGETS:
            options = ["--mesh", "dp=2,tp=2", *division, "--target", target, "--reserve", 0, "--ac-mode", "full"]
            report = plan(options)
            waits = int(must(run([STRETCH, "m.plan"])).stdout.split("; ")[1].split()[0])
            check(waits > 5, f"{model} {options}: {waits} transfers wait for another link")
            compare({**report, **tool.json("dump", "m.plan", "--format", "json")}, [model, *options])


def try_budgets():
    """More memory gives no slower plan in a graph whose decisions are more than what small ones list (queue.h)."""
    options = ["--mesh", "dp=2", "--zero", 1, "--target", "h100-sxm", "--arch", "none", "--format", "json", "-o", "m.plan"]
    tool.text("graph", "encdec-tiny", "--batch", 8, "--dropout", 0.1, "-o", "m.fbs")
    none = tool.json("compile", "m.fbs", *options)
    least = none["static_bytes"] + none["reserve_bytes"]
    steps = []
    for part in range(28, 41):
        budget = least + (none["arena_bytes"] - none["static_bytes"]) * part // 40
        steps.append(tool.json("compile", "m.fbs", *options, "--budget", budget)["step_ns"])
    check(steps == sorted(steps, reverse=True) and steps[-1] < steps[0], f"more memory is slower: {steps}")


def pairs(case):
    return {(i, case[i], j, case[j]) for i, j in itertools.combinations(range(len(case)), 2)}


def chosen_cases():
    """Each the one with the most pairs that were not tried before."""
    cases = list(itertools.product(MODELS, DTYPES, RANKS, STAGES, MICROBATCHES, TARGETS))
    left = set().union(*map(pairs, cases))
    while left:
        case = max(cases, key=lambda case: len(pairs(case) & left))
        left -= pairs(case)
        yield case


def main():
    cases = list(chosen_cases())
    with scratch():
        hidden = sum(try_model(*case) > 0 for case in cases)
        try_links()
        try_budgets()
        try_slowdown()
    check(hidden > 4, f"{hidden} of {len(cases)} models hide something")
    check(min(grouped.values()) > 50, f"blocking transfers that continue a group, and others: {grouped}")
    finish()


main()
