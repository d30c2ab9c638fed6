# SPDX-License-Identifier: Apache-2.0
"""What the tests of a run's page share: logs, a page of each, and the steps that it shows."""
import json
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import NOT_FINITE, TEXT, Tools

KEYS = ("step", "loss", "eval_loss", "lr", "tokens", "tokens_per_s", "step_ns", "unix_s")
MANY = 100_000


def write_many(path, steps, evaluated):
    """A log as of a long run; a loss that is not finite now and then."""
    chance = random.Random(41)
    with open(path, "w", encoding="ascii") as file:
        for step in range(1, steps + 1):
            row = {"step": step, "loss": None if step % 30_011 == 0 else round(3 + 5 / (1 + step / 1e4) + chance.gauss(0, 0.2), 8)}
            if step % evaluated == 0:
                row["eval_loss"] = round(3 + 5 / (1 + step / 1e4) + chance.gauss(0, 0.01), 8)
            row |= {"lr": float(f"{1.5e-4 * (1 + math.cos(math.pi * step / steps)):.7g}"), "tokens": step * 524288,
                    "tokens_per_s": round(2e6 + chance.gauss(0, 1e5), 3), "step_ns": chance.randrange(2 * 10**8, 3 * 10**8),
                    "unix_s": round(1.79e9 + step / 5, 3)}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def make_logs(tools, names=("run", "json", "lost", "many")):
    """NAME.jsonl and NAME.html in the working folder. run: resumed twice, with evaluations; json: of --json, where a run that
    goes on has steps again; lost: it ends with a loss that is not finite; many: a long one."""
    tool = Tools(tools)
    tool.must("graph", "gpt2-tiny", "--batch", 2, "--seq", 32, "-o", "m.fbs")
    tool.must("compile", "m.fbs", "-o", "m.plan")
    train = ["run", "m.plan", "--text", TEXT, "-j", 1, "--checkpoint", "c", "--every", 10]
    for steps in 25, 31, 40:
        tool.must(*train, "--resume", "c", "--lr", 1e-3, "--warmup", 8, "--schedule", "cosine", "--decay-steps", 40, "--eval-every", 5,
                  "--eval-steps", 1, "--steps", steps, "--log", "run.jsonl")
    with open("json.jsonl", "w", encoding="utf-8") as file:
        file.write(tool.must("run", "m.plan", "--text", TEXT, "-j", 1, "--steps", 6, "--json").stdout)
        file.writelines(file for file in tool.must("run", "m.plan", "--text", TEXT, "-j", 1, "--steps", 8, "--json").stdout.splitlines(True)[3:])
    tool.must("run", "m.plan", "--text", TEXT, "-j", 1, "--steps", 5, "--lr", 1e30, "--log", "lost.jsonl", code=NOT_FINITE)
    write_many("many.jsonl", MANY, 250)
    for name in names:
        tool.must("dump", f"{name}.jsonl", "--format", "html", "-o", f"{name}.html")
    return tool


def read_steps(name):
    """The last line of each step, as the page has it."""
    steps = []
    with open(f"{name}.jsonl", encoding="utf-8") as file:
        for line in map(json.loads, file):
            while steps and steps[-1]["step"] >= line["step"]:
                steps.pop()
            steps.append({key: line.get(key) for key in KEYS})
    return steps
