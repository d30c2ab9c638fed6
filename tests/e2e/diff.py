# SPDX-License-Identifier: Apache-2.0
"""remat-dump --diff of random plans: it lists exactly the values whose actions differ by the plans' own --decisions, the
costs that differ by their summaries, the kernels that differ by their schedules; in text each value is in one row, under
its layer. A plan and itself differ in nothing.

    diff.py TOOLS"""
import collections
import itertools
import os
import random
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, check, finish

tool = Tools(sys.argv[1])
os.chdir(tempfile.mkdtemp())
random.seed(1)
LAYERS = 4
COSTS = {"step": "step_ns", "step, everything saved": "base_step_ns", "lower bound": "bound_step_ns", "arena": "arena_bytes",
         "live peak": "peak_bytes", "persistent": "static_bytes", "budget": "budget_bytes", "reserve": "reserve_bytes",
         "tokens": "tokens", "commands": "commands", "kernels": "kernels", "proven floor": "floor_bytes",
         "workspace": "workspace_bytes"}


class Plan:
    def __init__(self, name, *options):
        self.path = f"{name}.plan"
        tool.must("compile", "m.fbs", *options, "-o", self.path)
        view = lambda *of: tool.json("dump", self.path, *of, "--format", "json")
        self.of = view()
        self.actions = {d["name"]: d["action"] for d in view("--decisions")["decisions"]}
        self.layers = {d["name"]: d["layer"] for d in view("--decisions")["decisions"]}
        self.classes = view("--memory")["classes_at_peak"]
        times = collections.Counter()
        for call in self.of["entries"]["train"]:
            times[call["segment"]] += call["times"]
        self.kernels = collections.defaultdict(lambda: [0, 0])
        for c in view("--schedule")["schedule"]:
            if times[c["segment"]]:
                self.kernels[c["key"]][0] += times[c["segment"]]
                self.kernels[c["key"]][1] += times[c["segment"]] * c["estimated_ns"]


def pins():
    """A random action for some values."""
    names = ["attn.qkv", "attn.core", "attn.residual", "mlp.fc", "mlp.act", "mlp.residual", "ln_1", "ln_2"]
    chosen = random.sample(list(itertools.product(range(LAYERS), names)), 6)
    return [word for layer, name in chosen for word in (random.choice(("--save", "--recompute")), f"h.{layer}.{name}")]


def rows_of(text):
    """(value, this plan's action, the other's) by its rows: --diff's table of values, columns apart by two spaces."""
    table = text.partition("with other actions\n")[2].partition("\n\n")[0].splitlines()
    found = []
    for row in table[1:]:
        cells = re.split(r" {2,}", row)
        for part in cells[1].split(","):
            first, _, last = part.partition("-") if part != "-" else ("", "", "")
            for layer in range(int(first), int(last or first) + 1) if first else [None]:
                found.append((cells[0] if layer is None else cells[0].replace(".*", f".{layer}", 1), cells[2], cells[3]))
    return found


def settings_of(plan):
    """All values of an option that was given several times."""
    values = collections.defaultdict(list)
    for setting in plan.of["settings"]:
        values[setting["name"]].append(setting["value"])
    return {name: " ".join(each) for name, each in values.items()}


def check_pair(a, b):
    diff = tool.json("dump", a.path, "--diff", b.path, "--format", "json")
    expected = {(name, a.actions.get(name), b.actions.get(name)) for name in a.actions.keys() | b.actions.keys()
                if a.actions.get(name) != b.actions.get(name)}
    listed = [(d["name"], d["this"], d["other"]) for d in diff["decisions"]]
    check(sorted(listed, key=str) == sorted(expected, key=str), f"{a.path}, {b.path}: {set(listed) ^ expected}")
    check(all(d["layer"] == {**b.layers, **a.layers}[d["name"]] for d in diff["decisions"]), "layers")
    costs = {c["name"]: (c["this"], c["other"]) for c in diff["costs"]}
    check({n: c for n, c in costs.items() if n in COSTS} ==
          {n: (a.of[k], b.of[k]) for n, k in COSTS.items() if a.of[k] != b.of[k]}, costs)
    check({n.removesuffix(" at the peak"): c for n, c in costs.items() if n.endswith(" at the peak")} ==
          {n: (v, b.classes[n]) for n, v in a.classes.items() if v != b.classes[n]}, costs)
    kernels = {k["kernel"]: ([k["this_count"], k["this_ns"]], [k["other_count"], k["other_ns"]]) for k in diff["kernels"]}
    check(kernels == {k: (list(a.kernels[k]), list(b.kernels[k])) for k in {*a.kernels, *b.kernels}
                      if list(a.kernels[k]) != list(b.kernels[k])}, f"{a.path}, {b.path}: kernels")
    settings = {s["name"]: (s["this"], s["other"]) for s in diff["settings"] if not s["name"].startswith("graph")}
    mine, others = map(settings_of, (a, b))
    check(settings == {n: (mine.get(n, "-"), others.get(n, "-")) for n in {*mine, *others} if mine.get(n) != others.get(n)},
          settings)
    text = tool.text("dump", a.path, "--diff", b.path)
    check(sorted(rows_of(text)) == sorted((n, x or "-", y or "-") for n, x, y in expected), f"{a.path}, {b.path}: {text}")
    check(all(len(line) <= 100 for line in text.splitlines() if not line.startswith("  ")), "lines of more than 100 columns")
    return len(expected)


tool.must("graph", "gpt2-tiny", "--layers", LAYERS, "--seq", 64, "--batch", 2, "-o", "m.fbs")
plans = [Plan("full", "--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", 2),
         Plan("microbatches", "--microbatches", 2, "--budget", "138.6MB"),
         *(Plan(f"pins{i}", *pins()) for i in range(5))]
differing = [check_pair(a, b) for a, b in itertools.permutations(plans, 2)]
check(sum(count > 3 for count in differing) > len(differing) // 2, f"plans hardly differ: {differing}")
for plan in plans[:3]:
    check(tool.text("dump", plan.path, "--diff", plan.path) == "", f"{plan.path} and itself")
    itself = tool.json("dump", plan.path, "--diff", plan.path, "--format", "json")
    check(all(itself[key] == [] for key in ("costs", "settings", "decisions", "kernels")), itself)
finish()
