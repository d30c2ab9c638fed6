# SPDX-License-Identifier: Apache-2.0
"""CPU steps of plans decided value by value beside the best manual policies, at the same ten budgets, in one run.

    python3 tests/bench/bench_budgets.py BUILD_DIRECTORY [--output FILE] [--force] [--small]

Budgets go evenly from what everything saved takes to the smallest that a manual policy has a plan for. At each
budget both plans, and the one that saves everything, are processes that live side by side and take
turns, a step each; figures are minima over the turns. Prints Markdown; with --output docs/benchmarks.md
it goes to docs/tables/cpu_budgets.md, and its summary into docs/benchmarks.md. Refuses a machine that is
not idle, and says so when it was not idle during the run; --force measures anyway."""
import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time

from bench_step import BUSY_LIMIT, Contestant, OtherLoad, cased_bytes, idleness, processor
from tables import markdown, publish, read

NAME = "cpu_budgets"
WIDE = ["--layers", "12", "--width", "768", "--heads", "12"]
# name: arguments of remat-graph, batch, sequence, measured turns, threads, budgets
FULL = {"gpt2-124m": (["gpt2-124m"], 1, 512, 4, 2, 10),
        "llama-124m": (["llama", *WIDE, "--kv-heads", "4", "--hidden", "2048", "--vocab", "32000",
                        "--context", "1024"], 1, 256, 4, 2, 10)}
SMALL = {name: ([name], 2, 64, 2, 1, 3) for name in ("gpt2-tiny", "encdec-tiny")}


class Planner:
    """Plans of one model; each is compiled once."""

    def __init__(self, build, work, arguments, batch, seq):
        self.tools, self.work, self.count = os.path.join(build, "tools/remat-"), work, 0
        self.graph = os.path.join(work, "model.fbs")
        subprocess.run([self.tools + "graph", *arguments, "--batch", str(batch), "--seq", str(seq),
                        "-o", self.graph], check=True)

    def compile(self, *options):
        """The report, with the path of the plan as "plan"."""
        self.count += 1
        path = os.path.join(self.work, f"{self.count}.plan")
        done = subprocess.run([self.tools + "compile", self.graph, *options, "-o", path, "--format", "json"],
                              check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def smallest(self):
        """The smallest budget of a manual policy."""
        done = subprocess.run([self.tools + "compile", self.graph, "--budget", "1", "--solver", "manual", "-o",
                               os.path.join(self.work, "none.plan")], stderr=subprocess.PIPE, encoding="utf-8")
        return int(re.search(r" needs (\d+) B", done.stderr)[1])


def measure(build, reports, turns, threads):
    """Nanoseconds of each plan's fastest step; plans that are the same have one process."""
    session = os.path.join(build, "tests/bench/bench_session")
    keys = [(report["step_ns"], report["arena_bytes"]) for report in reports]
    rows = {key: Contestant(report["policy"], [session, report["plan"], str(threads), "cpu"])
            for key, report in dict(zip(keys, reports)).items()}
    for turn in range(turns + 1):  # the first one warms up
        for row in rows.values():
            row.step(turn > 0)
    for row in rows.values():
        row.end()
    return [rows[key].best_ns for key in keys]


def bench_model(build, name, arguments, batch, seq, turns, threads, budgets):
    """Rows: share of what lies between the budgets, reports of everything saved, manual and per-op, their
    measured ns."""
    with tempfile.TemporaryDirectory() as work:
        planner = Planner(build, work, arguments, batch, seq)
        none, least = planner.compile(), planner.smallest()
        most = none["arena_bytes"] + none["reserve_bytes"]
        rows = []
        for k in range(budgets):
            share = 1 - k / (budgets - 1)
            budget = least + round((most - least) * share)
            print(f"{name}, budget {cased_bytes(budget)}", file=sys.stderr)
            reports = [none] + [planner.compile("--budget", str(budget), "--solver", solver)
                                for solver in ("manual", "per-op")]
            rows.append((share, reports, measure(build, reports, turns, threads)))
        return rows


# --- Markdown ---

def table(rows):
    lines = ["| budget | arena, MB | manual policy | manual: predicted | measured | per-op: predicted | measured |"
             " per-op of manual: predicted | measured |", "| --- " * 9 + "|"]
    ratios, predicted = [], []
    for share, (none, manual, per_op), (none_ns, manual_ns, per_op_ns) in rows:
        ratios.append(per_op_ns / manual_ns)
        predicted.append(per_op["step_ns"] / manual["step_ns"])
        times = (manual["step_ns"] / none["step_ns"], manual_ns / none_ns, per_op["step_ns"] / none["step_ns"],
                 per_op_ns / none_ns, predicted[-1], ratios[-1])
        lines.append(f"| {100 * share:.0f} % | {per_op['arena_bytes'] / 1e6:.1f} | {manual['policy']} | " +
                     " | ".join(f"{multiple:.3f}" for multiple in times) + " |")
    return lines + ["", f"per-op takes {sum(ratios) / len(ratios):.3f} of the manual policy's time on average, predicted "
                    f"{sum(predicted) / len(predicted):.3f}; the largest ratio measured is {max(ratios):.3f}.", ""]


def report(options, results, cases, seconds, other, trouble):
    command = "bench_budgets.py build" + " --small" * options.small + " --force" * options.force
    lines = [f"Measured {datetime.date.today().isoformat()} in {seconds:.0f} s with `{command}` on {processor()}, "
             f"Linux {platform.release()}. Others used {100 * other:.1f} % of the processors during the run.", ""]
    if trouble:
        lines += [f"**Not a measurement to quote: {trouble}.**", ""]
    for name, rows in results.items():
        _, batch, seq, turns, threads, _ = cases[name]
        none = rows[0][1][0]
        fastest = min(times[0] for _, _, times in rows)
        lines += [f"## {name}, fp32, batch {batch}, seq {seq}, {threads} thread{'s' if threads > 1 else ''}, "
                  f"minima of {turns} turns", "",
                  f"Everything saved: predicted {none['step_ns'] / 1e6:.1f} ms, measured {fastest / 1e6:.1f} ms, "
                  f"arena {cased_bytes(none['arena_bytes'])}. Times are multiples of its own in the same turns; a "
                  "budget of 0 % is the manual policies' smallest, one of 100 % this one's.", "", *table(rows)]
    return "\n".join(lines).rstrip()


def summary(text):
    """Step time of per-op over the manual policy's at ten budgets: mean and largest measured ratio, and the predicted mean."""
    rows = []
    for table in read(text):
        predicted, measured = ([float(row[column]) for row in table.rows] for column in (7, 8))
        rows.append([table.title.split(", minima")[0], f"{sum(measured) / len(measured):.3f}",
                     f"{sum(predicted) / len(predicted):.3f}", f"{max(measured):.3f}"])
    said = [line for line in text.splitlines() if line.startswith(("Measured ", "**Not a measurement"))]
    return "\n\n".join([*said, markdown(["model", "mean, measured", "mean, predicted", "largest, measured"], rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    parser.add_argument("--force", action="store_true", help="also when the machine is not idle")
    parser.add_argument("--small", action="store_true", help="two tiny models at three budgets: to try it out")
    options = parser.parse_args()
    trouble = idleness()
    print(trouble or "the machine is idle", file=sys.stderr)
    if trouble and not options.force:
        return 1
    start, load = time.monotonic(), OtherLoad()
    cases, build = SMALL if options.small else FULL, os.path.abspath(options.build)
    results = {name: bench_model(build, name, *case) for name, case in cases.items()}
    other = load.fraction()
    if other > BUSY_LIMIT:
        during = f"others used {100 * other:.0f} % of the processors during the run"
        print(during, file=sys.stderr)
        trouble = f"{trouble}; {during}" if trouble else during
    text = report(options, results, cases, time.monotonic() - start, other, trouble)
    if options.output and trouble and not options.force:
        sys.exit(f"{options.output} is not written")
    publish(__file__, NAME, "Plans at ten budgets on the CPU", text, summary, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
