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
SUMS = ("bytes", "this_recompute_ns", "other_recompute_ns")


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


def layers_of(ranges):
    """Of "0-2,5"; of values outside layers [None]."""
    found = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1) if first else [None]
    return found


def named(pattern, layer):
    return pattern if layer is None else pattern.replace(".*", f".{layer}", 1)


WORDS = {"saved": "save", "recomputed": "recompute", "recomputed inline": "recompute inline", "recomputed twice": "twice",
         "recomputed twice, inline": "twice inline"}
HEADING = re.compile(r"(?:layers? (\S+)|outside layers): (\d+) values?( each)? (.*), [\d.]+ k?M?B")


def actions_of(words):
    for place, of in enumerate((" in this plan alone", " in the other alone")):
        if words.endswith(of):
            return [WORDS[words.removesuffix(of)], "-"][::1 - 2 * place]
    return [WORDS[word] for word in words.split(" instead of ")]


def rows_of(text):
    """(value, this plan's action, the other's) by the values of --diff, under headings of their layers and actions."""
    found, counted = [], collections.Counter()
    for line in re.split(" kernels? with ", text.partition("with other actions\n")[2])[0].splitlines()[1:-1]:
        heading = HEADING.fullmatch(line)
        if heading:
            key = heading[1] or "", heading[4]
            check(key not in counted, f"two headings {key}")
            counted[key] = -int(heading[2])
            check(bool(heading[3]) == (len(layers_of(key[0])) > 1), line)
        elif line:
            counted[key] += 1
            found += [(named(line.split()[0], layer), *actions_of(key[1])) for layer in layers_of(key[0])]
    check(not any(counted.values()), f"headings count other values: {counted}")
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
    runs = [(named(value["name"], layer), run["this"], run["other"]) for run in diff["by_layers"] for value in run["values"]
            for layer in run["layers"] or [None]]
    check(sorted(runs, key=str) == sorted(expected, key=str), f"{a.path}, {b.path}: by layers {set(runs) ^ expected}")
    for run, value in ((run, value) for run in diff["by_layers"] for value in run["values"]):
        of = [d for d in diff["decisions"] if d["name"] in {named(value["name"], layer) for layer in run["layers"] or [None]}]
        check([value["count"], *(value[key] for key in SUMS)] == [len(of), *(sum(d[key] for d in of) for key in SUMS)], value)
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
    for count, noun, rest in ((len(diff["settings"]), "other setting", ""), (len(expected), "value", " with other actions"),
                              (len(kernels), "kernel", " with another number of commands or time in a step")):
        line = f"{count} {noun}{'s' * (count > 1)}{rest}"
        check((line in text.splitlines()) == (count > 0), f"{a.path}, {b.path}: {line}")
    check(all(len(line) <= 100 for line in text.splitlines() if not line.startswith("  ")), "lines of more than 100 columns")
    return len(expected)


tool.must("graph", "gpt2-tiny", "--layers", LAYERS, "--seq", 64, "--batch", 2, "-o", "m.fbs")
plans = [Plan("full", "--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", 2),
         Plan("microbatches", "--microbatches", 2, "--budget", "138.6MB"),
         *(Plan(f"pins{i}", *pins()) for i in range(5))]
differing = [check_pair(a, b) for a, b in itertools.permutations(plans, 2)]
check(sum(count > 3 for count in differing) > len(differing) // 2, f"plans hardly differ: {differing}")
check_pair(Plan("all"), Plan("one", "--recompute", "h.1.mlp.act"))
for plan in plans[:3]:
    check(tool.text("dump", plan.path, "--diff", plan.path) == "", f"{plan.path} and itself")
    itself = tool.json("dump", plan.path, "--diff", plan.path, "--format", "json")
    check(all(itself[key] == [] for key in ("costs", "settings", "by_layers", "decisions", "kernels")), itself)
finish()
