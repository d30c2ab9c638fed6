# SPDX-License-Identifier: Apache-2.0
"""Plans value by value beside manual policies, at ten budgets for each model, sequence and device.

    python3 tests/bench/plan_tables.py BUILD_DIRECTORY [--output FILE] [--small] [--model NAME...]

Compiles only: step times are those of the cost model, the same on every machine; CPU times of the
compiler are measured. Prints Markdown; with --output docs/benchmarks.md it goes to docs/tables/plans.md,
and its summary into docs/benchmarks.md."""
import argparse
import concurrent.futures
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

import knapsack
from bench_step import OtherLoad, processor
from tables import DOES_NOT_FIT, commit, first_line, markdown, publish, read

NAME = "plans"
MICROBATCHES = 8
MEMORY_BUDGETS = [step / 20 for step in range(21)]  # of the knapsack
MODELS = {  # preset: form of attention
    "gpt3-175b": "written-out",
    "llama3-70b": "fused",
    "llama3.2-3b": "fused",
}
SMALL = {"llama-tiny": "fused"}
TIMED_TARGET = "h100-sxm"  # of planning times and of the summary
TIMED_PERCENT, RUNS = 30, 3
SUMMARY_BUDGETS = ("80 %", "50 %", "20 %")
HEAD = ["transient memory", "per-op", "gap", "none", "selective", "block k", "uniform k", "knapsack b", "full", "CPU s"]
TIMES_HEAD = ["model", "`--curve`", "`--budget`"]


def run(command):
    """Exit code, standard output, standard error, resource usage."""
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        return process.returncode, output.read(), errors.read(), usage


class Experiment:
    """One model, one sequence length, one device."""

    def __init__(self, tools, work, model, attention, seq, target):
        self.tools, self.target = tools, target
        self.graph = os.path.join(work, f"{model}-{seq}.fbs")
        self.name = f"{model}, sequence {seq}"
        self.compiled = {}
        context = ["--context", str(seq)] if model.startswith("gpt") else []
        subprocess.run([f"{tools}/remat-graph", model, "--dtype", "bf16", "--seq", str(seq), "--batch",
                        str(MICROBATCHES), "--attention", attention, *context, "-o", self.graph],
                       check=True)
        self.none = self.manual("--ac-mode", "none")
        self.layers = self.none["layers"]
        self.transient_bytes = self.none["arena_bytes"] - self.none["static_bytes"]

    def dump(self, view, *options):
        """A view of the plan that these options ask for."""
        plan = self.graph + ".dumped.plan"
        self.compile(*options, output=plan)
        view = subprocess.run([f"{self.tools}/remat-dump", plan, view, "--format", "json"],
                              check=True, stdout=subprocess.PIPE, text=True)
        os.remove(plan)
        return json.loads(view.stdout)

    def compile(self, *options, output=None):
        plan = output or f"{self.graph}.{threading.get_ident()}.plan"
        code, output, errors, usage = run(self.command("--format", "json", "-o", plan, *options))
        if code not in (0, DOES_NOT_FIT):
            sys.exit(f"{self.name}, {self.target} {options}: {errors}")
        if code == 0 and not output:
            os.remove(plan)
        return (json.loads(output) if code == 0 else None), errors, usage.ru_utime

    def command(self, *options):
        return [f"{self.tools}/remat-compile", self.graph, "--microbatches", str(MICROBATCHES),
                "--target", self.target, "--arch", "none", *options]

    def manual(self, *options):
        """The report on a manual policy, which no budget changes."""
        if options not in self.compiled:
            self.compiled[options] = self.compile(*options)[0]
        return self.compiled[options]

    def full(self, method, layers):
        return self.manual("--recompute-granularity", "full", "--recompute-method", method,
                           "--recompute-num-layers", str(layers))

    def best_block(self, limit_bytes):
        """The fewest layers that fit: more layers are slower, and hold less until all but the last are
        recomputed. Each layer saves about as much."""
        low, high = 1, self.layers
        while low < high:
            most, least = (self.full("block", k)["arena_bytes"] for k in (low, high))
            share = (most - limit_bytes) / max(1, most - least)
            middle = min(max(low, low + int((high - low) * share)), high - 1)
            if self.full("block", middle)["arena_bytes"] <= limit_bytes:
                high = middle
            else:
                low = middle + 1
        return [(f"block {low}", self.full("block", low))]

    def uniforms(self):
        sizes = [k for k in (1, 2, 3, 4, 6, 8, 12, 16) if k <= self.layers]
        return [(f"uniform {k}", self.full("uniform", k)) for k in sizes]

    def knapsacks(self, pool):
        """A report for each memory budget. Layers are recomputed but for what the knapsack saves."""
        forward = knapsack.Forward(self.dump("--schedule", "--ac-mode", "none")["schedule"],
                                   self.dump("--memory", "--ac-mode", "none")["buffers"])
        decisions = self.dump("--decisions", "--ac-mode", "full")["decisions"]
        kept = {d["name"] for d in decisions if d["layer"] >= 0 and d["action"] == "save"}

        def compile(saved):
            pins = ([f"--save={glob}" for glob in knapsack.patterns(saved, forward.bytes)] +
                    [f"--recompute={name}" for name in sorted(kept - saved)])
            return self.compile("--ac-mode", "full", *pins)[0]
        choices = {}
        for budget, saved in zip(MEMORY_BUDGETS, forward.saved(MEMORY_BUDGETS)):
            choices.setdefault(frozenset(saved), f"knapsack {budget:g}")
        return list(zip(choices.values(), pool.map(compile, choices)))

    def cell(self, candidates, limit_bytes, named=False):
        """The overhead of the fastest candidate that fits."""
        fitting = [(report["step_ns"], name) for name, report in candidates
                   if report["arena_bytes"] <= limit_bytes]
        if not fitting:
            return "–"
        step_ns, name = min(fitting)
        text = f"{100 * (step_ns / self.none['step_ns'] - 1):.2f}"
        return f"{text} ({name.split()[-1]})" if named else text

    def budget_bytes(self, percent):
        return (self.none["static_bytes"] + self.transient_bytes * percent // 100 + self.none["reserve_bytes"])

    def row(self, percent, knapsacks):
        limit_bytes = self.budget_bytes(percent) - self.none["reserve_bytes"]
        report, errors, cpu_s = self.compile("--budget", str(self.budget_bytes(percent)))
        if report:
            plan = f"{100 * (report['step_ns'] / self.none['step_ns'] - 1):.2f}"
            gap = f"{100 * (report['step_ns'] / report['bound_step_ns'] - 1):.2f}"
        else:
            static_bytes = self.none["static_bytes"] + self.none["reserve_bytes"]
            needs, floor = (100 * (int(re.search(pattern, errors)[1]) - static_bytes) / self.transient_bytes
                            for pattern in (r" needs (\d+) B", r"less than (\d+) B"))
            plan, gap = f"needs {needs:.1f} %", f"floor {floor:.1f} %"
        selective = self.manual("--recompute-granularity", "selective")
        cells = [f"{percent} %", plan, gap, self.cell([("none", self.none)], limit_bytes),
                 self.cell([("selective", selective)], limit_bytes),
                 self.cell(self.best_block(limit_bytes), limit_bytes, True),
                 self.cell(self.uniforms(), limit_bytes, True),
                 self.cell(knapsacks, limit_bytes, True),
                 self.cell([("full", self.full("uniform", 1))], limit_bytes), f"{cpu_s:.2f}"]
        return cells

    def seconds(self, *options):
        """User and system time of one processor, the smallest of the runs."""
        times = []
        for _ in range(RUNS):
            code, _, errors, usage = run(["taskset", "-c", "0", *self.command(*options)])
            if code not in (0, DOES_NOT_FIT):
                sys.exit(f"{self.name}, {self.target} {options}: {errors}")
            times.append(usage.ru_utime + usage.ru_stime)
        return min(times)

    def times(self):
        """A row of planning times."""
        return [self.name, f"{self.seconds('--curve', self.graph + '.csv'):.2f}",
                f"{self.seconds('--budget', str(self.budget_bytes(TIMED_PERCENT)), '-o', self.graph + '.plan'):.2f}"]

    def markdown(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            knapsacks = self.knapsacks(pool)
            rows = list(pool.map(lambda percent: self.row(percent, knapsacks), range(100, 0, -10)))
        return "\n".join(
            [f"## {self.name}, {self.target}", "",
             f"{self.none['static_bytes'] / 1e9:.1f} GB persistent, {self.transient_bytes / 1e9:.2f} GB transient; "
             f"{self.none['step_ns'] / 1e9:.3f} s with everything saved.", "", markdown(HEAD, rows)])


def make_tables(build, models, sequences, targets):
    tools = os.path.join(build, "tools")
    load = OtherLoad()
    with tempfile.TemporaryDirectory() as work:
        experiments = [Experiment(tools, work, model, attention, seq, target)
                       for model, attention in models.items() for seq in sequences for target in targets]
        parts = [experiment.markdown() for experiment in experiments]
        times = [experiment.times() for experiment in experiments if experiment.target == TIMED_TARGET]
        other = load.fraction()
    return "\n\n".join([
        f"Commit {commit()}.", *parts, "## Planning times", f"{datetime.date.today().isoformat()}, {processor()}; during "
        f"the run others used {100 * other:.1f} % of the processors.", markdown(TIMES_HEAD, times)])


# --- summary ---

def fastest(head, row):
    """Of the manual policies."""
    found = [(float(cell.split()[0]), name, cell) for name, cell in zip(head, row)
             if name in ("none", "selective", "block k", "uniform k", "full") and cell != "–"]
    if not found:
        return "–"
    _, name, cell = min(found)
    overhead, _, k = cell.partition(" (")
    return f"{overhead} ({name[:-1] + k[:-1] if k else name})"


def summary(text):
    """A loose, a middle and a tight budget of each model and sequence, and the planning times."""
    *plans, times = read(text)
    rows = []
    for table in plans:
        name, target = table.title.rsplit(", ", 1)
        if target != TIMED_TARGET:
            continue
        for row in (row for row in table.rows if row[0] in SUMMARY_BUDGETS):
            rows.append([name, row[0], row[1], row[2], fastest(table.head, row), row[7]])
            name = ""
    return "\n\n".join([
        first_line(text), markdown(["model", "transient memory", "per-op", "gap", "manual policy", "knapsack b"], rows),
        f"CPU seconds, {times.caption}", markdown(times.head, times.rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    parser.add_argument("--small", action="store_true", help="a tiny model, to see that it works")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    arguments = parser.parse_args()
    if arguments.small:
        tables = make_tables(arguments.build, SMALL, (64,), ("h100-sxm",))
    else:
        models = {name: MODELS[name] for name in arguments.model}
        tables = make_tables(arguments.build, models, (2048, 8192), ("h100-sxm", "h200"))
    publish(__file__, NAME, "Plans beside manual policies", tables, summary, arguments.output)


if __name__ == "__main__":
    main()
