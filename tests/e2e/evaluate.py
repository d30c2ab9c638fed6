# SPDX-License-Identifier: Apache-2.0
"""remat-run --eval: the losses of training with learning rate 0 and no dropout, their mean, and what it
refuses.

    evaluate.py TOOLS_DIRECTORY"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(sys.argv[1]).resolve()
TEXT = pathlib.Path(__file__).resolve().parent.parent / "data/genesis_exodus.txt"
STEPS, USAGE, INVALID = 4, 2, 4
faults = []


def tool(work, name, *arguments):
    return subprocess.run([TOOLS / name, *map(str, arguments)], cwd=work, encoding="utf-8", capture_output=True)


def must(done):
    if done.returncode != 0:
        sys.exit(f"{done.args}: {done.stderr}")
    return done


def compile_plan(work, plan, family, *options):
    must(tool(work, "remat-graph", f"{family}-tiny", "--batch", 2, "--seq", 24, *options, "-o", "model.fbs"))
    must(tool(work, "remat-compile", "model.fbs", "-o", plan))


def run(work, plan, *options):
    return tool(work, "remat-run", plan, "--text", TEXT, "--steps", STEPS, *options)


def losses(done):
    return [json.loads(line)["loss"] for line in must(done).stdout.splitlines()]


def check(good, what):
    if not good:
        faults.append(f"FAILED: {what}")


def evaluates(work, family):
    compile_plan(work, "plain.plan", family, "--weight-decay", 0)
    compile_plan(work, "dropout.plan", family, "--dropout", 0.3)
    compile_plan(work, "forward.plan", family, "--dropout", 0.3, "--forward-only")
    must(run(work, "plain.plan", "--lr", 1e-2, "--save-weights", "w.safetensors"))
    init = "--init", "w.safetensors"
    expected = losses(run(work, "plain.plan", *init, "--lr", 0, "--json"))
    check(len(set(expected)) == STEPS, f"{family}: windows differ: {expected}")
    check(losses(run(work, "dropout.plan", *init, "--lr", 0, "--json")) != expected, f"{family}: dropout")
    for plan in ("plain.plan", "dropout.plan", "forward.plan"):
        done = run(work, plan, *init, "--eval", "--json")
        found, mean = losses(done), re.search(r"mean loss ([\d.]+) of (\d+) steps", done.stderr)
        check(found == expected, f"{family}, {plan}: {found} is not {expected}")
        check(mean and abs(float(mean[1]) - sum(expected) / STEPS) < 1e-6 and int(mean[2]) == STEPS,
              f"{family}, {plan}: mean in {done.stderr}")
    check("mean loss" in must(run(work, "forward.plan", "--eval")).stdout, f"{family}: mean in the text form")


def refuses(work):
    for option in ("--lr", "--save-weights", "--save-gradients", "--report"):
        done = run(work, "plain.plan", "--eval", option, 1)
        check(done.returncode == USAGE and f"{option} contradicts --eval" in done.stderr, f"{option}: {done.stderr}")
    done = run(work, "forward.plan")
    check(done.returncode == INVALID and "--eval evaluates it" in done.stderr, f"training: {done.stderr}")


def main():
    for family in ("gpt2", "bert", "encdec"):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            evaluates(work, family)
            if family == "gpt2":
                refuses(work)
    print("\n".join(faults) or "as it should be")
    return len(faults) > 0


sys.exit(main())
