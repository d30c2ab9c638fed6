# SPDX-License-Identifier: Apache-2.0
"""Who lives at a command, as remat-dump --at says it, against a replay of --memory and --schedule: at every command of
several plans the buffers whose lives contain it, each with its place, class, value and decision, and by class the bytes
that add up to its live bytes; at the peak what --memory says. Commands have the same answer by number and by name. Names that
are none are answered with those that may be meant. What is said to go if it is recomputed is not there in the plan where it
is.

    at.py TOOLS"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import USAGE, Tools, check, finish, refused, scratch

tool = Tools(sys.argv[1])
PLANS = [  # preset and options, options of remat-compile, of how many commands one is looked at
    (["gpt2-tiny", "--layers", 2, "--seq", 64, "--batch", 2], ["--budget", "136.3MB"], 1),
    (["gpt2-tiny", "--layers", 10, "--seq", 64, "--batch", 2], ["--microbatches", 2, "--budget", "143.08MB"], 9),
    (["encdec-tiny", "--layers", 1, "--batch", 4], ["--microbatches", 2, "--ac-mode", "full"], 3),
    (["gpt2-tiny", "--layers", 1, "--batch", 4], ["--mesh", "dp=2,tp=2", "--zero", 3, "--ac-mode", "full"], 1),
    (["llama-tiny", "--layers", 1, "--dtype", "bf16"], ["--target", "h100-sxm", "--arch", "none", "--ac-mode", "full"], 1),
    (["llama-tiny", "--layers", 1, "--forward-only"], [], 1),
]
LETTERS = {"P": "parameters", "O": "optimizer state", "G": "gradients", "K": "activations kept", "R": "recomputed",
           "t": "transients", "i": "inputs and outputs"}


class Plan:
    def __init__(self, path):
        self.path = path
        self.of = self.view("--summary")
        self.memory = self.view("--memory")
        self.commands = self.view("--schedule")["schedule"]
        self.decisions = {d["name"]: d for d in self.view("--decisions")["decisions"]}

    def view(self, *options):
        return tool.json("dump", self.path, *options, "--format", "json")

    def decision(self, name):
        decision = self.decisions.get(name) or self.decisions.get(name.removesuffix(".part"))
        return decision and {"action": decision["action"], "reason": decision["reason"]}


def padded(size):
    return -(-size // 256) * 256


def label(command):
    return command["name"] + (f" #{command['instance']}" if command["instance"] else "")


def replay(plan):
    """By command: the value in each buffer that has been written in its segment."""
    held, segment = {}, None
    for command in plan.commands:
        if command["segment"] != segment:
            held, segment = {}, command["segment"]
        for operand in command["operands"]:
            if operand["access"] != "read":
                held[operand["buffer"]] = operand["value"], operand["instance"]
        yield command, held


def check_residents(plan, said, held):
    index, found = said["command"], {r["buffer"]: r for r in said["residents"]}
    expected = {b for b, buffer in enumerate(plan.memory["buffers"]) if buffer["persistent"] or buffer["born"] <= index < buffer["dies"]}
    check(found.keys() == expected and len(said["residents"]) == len(expected), index, found.keys() ^ expected)
    for b, r in found.items():
        buffer = plan.memory["buffers"][b]
        same = all(r[key] == buffer[key] for key in ("bytes", "offset", "born", "dies", "persistent", "class"))
        value = held.get(b, (buffer["name"], r["instance"]))
        check(same and (r["name"], r["instance"]) == value, index, r, buffer, value)
        activation = r["class"] in ("activations kept", "recomputed", "transients")
        check(r["decision"] == plan.decision(r["name"]) or not activation and r["decision"] is None, index, r)
        check(value != (buffer["name"], 0) or r["persistent"] or r["layer"] == buffer["layer"], index, r)
    return {b: padded(buffer["bytes"]) for b, buffer in enumerate(plan.memory["buffers"]) if b in expected}


def check_command(plan, command, held):
    index, of = command["index"], plan.of
    said = plan.view("--at", index)
    sizes = check_residents(plan, said, held)
    live = command["live_bytes"]
    check(all(said[key] == command[key] for key in ("segment", "phase", "name", "instance", "live_bytes")), index, said)
    classes = dict.fromkeys(LETTERS.values(), 0)
    for b, size in sizes.items():
        classes[plan.memory["buffers"][b]["class"]] += size
    check(said["classes"] == classes, index, said["classes"], classes)
    check(sum(said["classes"].values()) + said["workspace_bytes"] == live, index, said["classes"])
    room = of["budget_bytes"] - of["reserve_bytes"] - live if of["budget_bytes"] else None
    check((said["bytes_to_peak"], said["bytes_to_budget"]) == (of["peak_bytes"] - live, room), index, room)
    if index == of["peak_command"]:
        check([{k: v for k, v in r.items() if k != "decision"} for r in said["residents"]] == plan.memory["residents_at_peak"], index)
        check(said["classes"] == plan.memory["classes_at_peak"] and said["bytes_to_peak"] == 0, index)
    return said


ROW = re.compile(r"(\S.*?) +(?:([\d-]+) +)?([A-Za-z]) +([\d,]+) +([\d,]+|-) +(\d+-\d+|-) +(\S.*)")


def check_text(plan, said):
    """Sums and rows are those of the object, the persistent ones of a class as one."""
    text = tool.text("dump", plan.path, "--at", said["command"])
    check(all(len(line) <= 100 for line in text.splitlines()), text)
    head, classes, table = text.split("\n\n")
    number = lambda words: int(words.replace(",", ""))
    check(number(re.search(r"^live +([\d,]+) B", head, re.M)[1]) == said["live_bytes"] and
          number(re.search(r"^to peak +([\d,]+) B", head, re.M)[1]) == said["bytes_to_peak"], head)
    budget = re.search(r"^to budget +([\d,]+) B", head, re.M)
    check((number(budget[1]) if budget else None) == said["bytes_to_budget"], head)
    sums = {line[3:21].strip(): number(line.split(" %")[0].rsplit(None, 1)[0].rsplit(None, 1)[1]) for line in classes.splitlines()}
    check(sums == {k: v for k, v in {**said["classes"], "workspace": said["workspace_bytes"]}.items() if v}, classes)
    rows = [ROW.fullmatch(line).groups() for line in table.splitlines()[1:-2]]
    shown = sorted((LETTERS[c], number(b), number(o), lives, d) for _, _, c, b, o, lives, d in rows if o != "-")
    own = [r for r in said["residents"] if not r["persistent"]]
    check(shown == sorted((r["class"], padded(r["bytes"]), r["offset"], f"{r['born']}-{r['dies'] - 1}",
                           r["decision"]["action"] if r["decision"] else "-") for r in own), table)
    check(sum(number(row[3]) for row in rows) + said["workspace_bytes"] == said["live_bytes"], table)


def check_names(plan, said, first):
    """The first segment of the schedule that has the name counts; --segment chooses another."""
    word = label(said)
    number = first.setdefault(word, said["command"])
    by_name = plan.view("--at", word)
    order = list(dict.fromkeys([*(call["segment"] for call in plan.of["entries"].get("train", plan.of["entries"]["eval"])),
                                *(c["segment"] for c in plan.commands)]))
    named = [c for c in plan.commands if label(c) == word]
    expected = min(named, key=lambda c: order.index(c["segment"]))
    check(by_name["command"] == expected["index"], word, number, expected["index"])
    check(plan.view("--at", word, "--segment", said["segment"]) == said, word)


def check_plan(graph, options, every):
    tool.must("graph", *graph, "-o", "m.fbs")
    tool.must("compile", "m.fbs", *options, "-o", "m.plan")
    plan, first = Plan("m.plan"), {}
    check(len(plan.commands) > 30 and (plan.of["recomputed"] > 0 or not options), len(plan.commands))
    for command, held in replay(plan):
        index = command["index"]
        if index % every and index != plan.of["peak_command"]:
            continue
        said = check_command(plan, command, held)
        if index % (8 * every) == 0:
            check_text(plan, said)
            check_names(plan, said, first)


def check_near():
    """Every value that is decided about leads to the command that writes it; a letter too many, to the name without it."""
    plan = Plan("m.plan")
    written = {}
    for c in plan.commands:
        for o in c["operands"]:
            if o["access"] == "write":
                written.setdefault(o["value"], c)
    named = {c["name"] for c in plan.commands}
    asked = [name for name in written if name not in named][:8]
    check(len(asked) > 3, asked)
    for name in asked:
        refused(tool("dump", "m.plan", "--at", name), USAGE, f"the value is written by {written[name]['index']} {label(written[name])}")
    for c in [c for c in plan.commands if c["segment"] == "step"][::25]:
        refused(tool("dump", "m.plan", "--at", c["name"] + "x"), USAGE, f" {c['name']}")
    count = len(plan.commands)
    refused(tool("dump", "m.plan", "--at", count), USAGE, f"--at {count}: the plan has {count} commands")


def check_removal():
    """At any command, not at the peak alone."""
    policy = ["--ac-mode", "selective", "--ac-option", 2]
    tool.must("graph", "gpt2-tiny", "--layers", 2, "--batch", 2, "--seq", 64, "-o", "m.fbs")
    tool.must("compile", "m.fbs", *policy, "-o", "m.plan")
    plan, checked = Plan("m.plan"), 0
    for command in [c for c in plan.commands if c["segment"] == "step"][3::11]:
        said = plan.view("--at", command["index"])
        gone = [r["name"] for r in said["residents"] if r["removal"] == "recompute"][:2]
        for name in gone:
            tool.must("compile", "m.fbs", *policy, "--recompute", name, "-o", "n.plan")
            there = tool.json("dump", "n.plan", "--at", label(command), "--segment", "step", "--format", "json")
            check(name not in [r["name"] for r in there["residents"]], label(command), name)
            checked += 1
    check(checked > 10, checked)


with scratch():
    for plan in PLANS:
        check_plan(*plan)
        if plan is PLANS[0]:
            check_near()
    check_removal()
finish()
