# SPDX-License-Identifier: Apache-2.0
"""A run with a time: after it no step begins, the run ends as an interrupted one does, and has the bits of an
uninterrupted one when it is resumed, on one rank and on two.

    watched.py TOOLS"""
import json
import os
import re
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INTERRUPTED, TEXT, USAGE, Tools, check, finish, json_lines, must, read_json, refused, scratch

LIMIT_S = 120  # of a process; a loaded machine takes its time: nothing may wait for ever
tool = Tools(sys.argv[1], timeout=LIMIT_S)
TIMES = {"tokens_per_s", "step_ns", "unix_s"}


def make_plans():
    """Of one training, on one rank and on two."""
    tool.must("graph", "gpt2-tiny", "--batch", 4, "--seq", 64, "--dropout", 0.1, "-o", "m.fbs")
    tool.must("compile", "m.fbs", "-o", "one.plan")
    tool.must("compile", "m.fbs", "--mesh", "dp=2", "-o", "two.plan")


def training(plan, *arguments):
    return ["run", plan, "--text", TEXT, "-j", 1, "--lr", 1e-3, "--schedule", "cosine", "--decay-steps", 1000, "--json", *arguments]


# --- --stop-after ---

def without_times(lines):
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def read_log(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def stop_while_it_waits(plan, seconds):
    """A run that stands still when its time passes: steps that it had done before, and all that it did."""
    begin = time.monotonic()
    with tool.start(*training(plan, "--steps", 10**9, "--stop-after", f"{seconds}s", "--checkpoint", "c", "--every", 3,
                              "--log", "stopped.jsonl", "--save-weights", "stopped.w", "--report", "report.json")) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        before = len(read_log("stopped.jsonl")) if first else 0
        time.sleep(max(0, begin + seconds - time.monotonic()))
        process.send_signal(signal.SIGCONT)
        rest, said = process.communicate(timeout=LIMIT_S)
    lines = [json.loads(line) for line in (first + rest).splitlines()]
    check(process.returncode == INTERRUPTED and f"stopped after step {len(lines)} of 1000000000 (--stop-after {seconds}s)\n" in said,
          plan, process.returncode, said)
    return before, lines


def stopped(plan):
    for seconds in 1, 2, 4, 8, 16, 32:  # until a step has begun in time
        shutil.rmtree("c", ignore_errors=True)
        before, lines = stop_while_it_waits(plan, seconds)
        if lines:
            break
    check(before <= len(lines) <= before + 1, plan, before, "steps in time, in all", len(lines))
    check(read_json("report.json")["completed"] is False and os.path.exists("stopped.w"), plan, "outputs")
    check(os.path.exists(f"c/step-{len(lines):010}.safetensors"), plan, os.listdir("c"))
    steps = len(lines) + 2
    more = json_lines(tool(*training(plan, "--steps", steps, "--resume", "c", "--log", "stopped.jsonl", "--save-weights", "stopped.w",
                                     "--stop-after", "5h30m")))
    whole = json_lines(tool(*training(plan, "--steps", steps, "--log", "whole.jsonl", "--save-weights", "whole.w")))
    check(without_times(lines + more) == without_times(whole) and len(whole) == steps, plan, lines + more, whole)
    check(without_times(read_log("stopped.jsonl")) == without_times(read_log("whole.jsonl")), plan, "the log")
    check(open("stopped.w", "rb").read() == open("whole.w", "rb").read(), plan, "the weights")


def without_a_step():
    """The time is over when all is loaded; then an evaluation; a time that is none."""
    for options in [], ["--eval"]:
        done = tool("run", "one.plan", "--text", TEXT, "--steps", 5, "--stop-after", "1ms", *options)
        check(done.returncode == INTERRUPTED and "step 1 " not in done.stdout and
              done.stderr == "remat-run: stopped after step 0 of 5 (--stop-after 1ms)\n", done.stdout, done.stderr)
    done = must(tool("run", "one.plan", "--text", TEXT, "--steps", 1, "--stop-after", "3h50m"))
    check("stopped" not in done.stderr, done.stderr)
    for text in "soon", "0", "1h30", "12d":
        refused(tool("run", "one.plan", "--text", TEXT, "--stop-after", text), USAGE, re.compile(
            f"--stop-after '{text}' is not a time \\(accepted: 1ms to 1000000s, as 500ms, 10s, 2min, 3h50m\\)"), text)


def main():
    with scratch():
        make_plans()
        stopped("one.plan")
        stopped("two.plan")
        without_a_step()
    finish()


main()
