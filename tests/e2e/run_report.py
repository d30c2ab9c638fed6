# SPDX-License-Identifier: Apache-2.0
"""The page of a run, without a browser: its steps are the lines of the log, after a resumption the later ones; of a long log
those that draw the same picture; it names no other place. What is no log is refused by line and key.

    run_report.py TOOLS"""
import os
import random
import sys

from report_page import check_text, data_of, unpacked
from run_logs import KEYS, MANY, make_logs, read_steps, write_many
from harness import INVALID, USAGE, check, finish, refused, scratch

DRAWN = ("loss", "eval_loss", "lr", "tokens_per_s")
STRETCHES = 4000
LINE = '{"step":1,"loss":2.5}\n'


def page_of(name):
    with open(f"{name}.html", encoding="ascii") as file:
        page = file.read()
    data = data_of(page)
    return page, data["summary"], unpacked(data["tables"], data["tables"]["texts"])["steps"]


def shown(name):
    """As in the log, or null."""
    page, summary, rows = page_of(name)
    steps = read_steps(name)
    check([{key: row[key] for key in KEYS} for row in rows] == steps, name, "steps")
    check(summary["steps"] == len(steps) and summary["name"] == f"{name}.jsonl" and not summary["cut_off"], name, summary)
    check(summary["ns"] == sum(step["step_ns"] for step in steps), name, "time")
    check([row["step"] for row in rows if row.get("resumed")] == ([4] if name == "json" else []) and summary["resumed"] == (name == "json"),
          name, "resumed")
    return check_text(name, page)


def thinned(name):
    """The least and the most of each stretch, in their lines, and what is not finite."""
    page, summary, rows = page_of(name)
    check_text(name, page)
    steps = read_steps(name)
    found = {row["step"]: {key: row[key] for key in KEYS} for row in rows}
    check(summary["steps"] == len(steps) and len(rows) <= STRETCHES * 9 + 2, name, len(rows))
    check(all(found[step["step"]] == step for step in steps if step["step"] in found), name, "lines")
    check({steps[0]["step"], steps[-1]["step"]} <= found.keys(), name, "first and last")
    length = -(-len(steps) // STRETCHES)
    for begin in range(0, len(steps), length):
        stretch = steps[begin:begin + length]
        for key in DRAWN:
            values = [step[key] for step in stretch if step[key] is not None]
            kept = [step[key] for step in stretch if step[key] is not None and step["step"] in found]
            check(not values or (min(values), max(values)) == (min(kept), max(kept)), name, begin, key)
        check(all(step["loss"] is not None for step in stretch) or any(step["loss"] is None and step["step"] in found for step in stretch),
              name, begin, "not finite")


REFUSED = [  # text, what is said of it after the file's name
    ("{\n", ":1:1: string or '}' expected near end of file"),
    (LINE + "\n" + LINE, ":2:0: '[' or '{' expected near end of file"),
    (LINE + '{"step":2}\n', ":2: loss is missing: no line of a step"),
    ('{"schema":"remat-run/1"}\n', ":1: step is missing: no line of a step"),
    (LINE + "[1]\n", ":2: step is missing: no line of a step"),
    ('{"step":1.5,"loss":2}\n', ":1: step is no whole number from 1 to 9.00719925e+15"),
    ('{"step":0,"loss":2}\n', ":1: step is no whole number from 1 to 9.00719925e+15"),
    ('{"step":1,"loss":"2"}\n', ":1: loss is no number from -3.40282357e+38 to 3.40282357e+38"),
    (LINE + '{"step":2,"loss":1e39}\n', ":2: loss is no number from -3.40282357e+38 to 3.40282357e+38"),
    ('{"step":1,"loss":1,"eval_loss":true}\n', ":1: eval_loss is no number from -3.40282357e+38 to 3.40282357e+38"),
    ('{"step":1,"loss":1,"lr":null}\n', ":1: lr is no number from 0 to 3.40282357e+38"),
    ('{"step":1,"loss":1,"tokens":-1}\n', ":1: tokens is no number from 0 to 9.00719925e+15"),
    ('{"step":1,"loss":1,"tokens_per_s":[1]}\n', ":1: tokens_per_s is no number from 0 to 9.00719925e+15"),
    ('{"step":1,"loss":1,"step_ns":1e300}\n', ":1: step_ns is no number from 0 to 9.00719925e+15"),
    ('{"step":1,"loss":1,"unix_s":-0.5}\n', ":1: unix_s is no number from 0 to 9.00719925e+15"),
    ('{"step":1,"loss":1,"loss":1}\n', ":1:25: duplicate object key near '\"loss\"'"),
    (LINE + '{"step":2,"loss":1,"' + "x" * 65536 + '":1}\n', ":2: longer than 65536 bytes: no line of a step"),
    (LINE + '{"step":2,"loss":1e999}\n', ":2:22: real number overflow near '1e999'"),
]


def refusals(tool):
    for text, said in REFUSED:
        with open("given", "w", encoding="utf-8") as file:
            file.write(text)
        done = tool("dump", "given", "--format", "html", "-o", "none.html")
        check(done.returncode == INVALID and done.stderr == f"remat-dump: error: given{said}\n" and not os.path.exists("none.html"), text[:80], said)
    for options, said in ([], "run.jsonl is a log: --format html draws it"), (["--memory"], "--memory needs a plan, and run.jsonl is a log"), \
            (["--format", "html", "--bind", "batch=2"], "--bind needs a plan, and run.jsonl is a log"):
        refused(tool("dump", "run.jsonl", *options), USAGE, said, options)


def cut_off(tool):
    """A line that is being written is left out; one without its end alone is not."""
    with open("run.jsonl", encoding="utf-8") as file:
        lines = file.readlines()
    for end in len(lines[-1]) - 1, 40, 1:
        with open("cut.jsonl", "w", encoding="utf-8") as file:
            file.writelines([*lines[:-1], lines[-1][:end]])
        tool.must("dump", "cut.jsonl", "--format", "html", "-o", "cut.html")
        _, summary, rows = page_of("cut")
        whole = end == len(lines[-1]) - 1
        check(summary["cut_off"] != whole and len(rows) == len(lines) - (not whole), end, summary)


def mutated(tool):
    """Lines with bytes changed, left out and repeated: drawn or refused, as step_lines.c is fuzzed by fuzz_logs."""
    chance, codes = random.Random(41), set()
    with open("run.jsonl", "rb") as file:
        whole = file.read()
    for _ in range(40):
        data, at = bytearray(whole), chance.randrange(len(whole))
        size = chance.choice([1, 1, 2, 8, 100])
        data[at:at + size] = chance.choice([b"", bytes(data[:size]), bytes([chance.randrange(256)]), b"-", b"7", b"1e999", b"null", b"[", b"\n", b"\xff\0"])
        with open("mutant", "wb") as file:
            file.write(data)
        done = tool("dump", "mutant", "--format", "html", "-o", "mutant.html", errors="replace")
        codes.add(done.returncode)
        check(done.returncode in (0, INVALID) and (done.returncode == 0 or "mutant:" in done.stderr), at, done.stderr)
    check(codes == {0, INVALID}, codes)


def main():
    tools = os.path.abspath(sys.argv[1])
    with scratch():
        tool = make_logs(tools)
        check(len({shown(name) for name in ("run", "json", "lost")}) == 1, "the page depends on more than its data")
        write_many("dense.jsonl", MANY // 2, 1)
        tool.must("dump", "dense.jsonl", "--format", "html", "-o", "dense.html")
        for name in "many", "dense":
            thinned(name)
        refusals(tool)
        cut_off(tool)
        mutated(tool)
    finish()


main()
