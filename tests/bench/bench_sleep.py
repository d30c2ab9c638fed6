# SPDX-License-Identifier: Apache-2.0
"""Steps of plans on meshes of ranks that sleep (tests/sleep): what a session's streams make of a plan, beside what the
plan predicts.

    python3 tests/bench/bench_sleep.py BUILD_DIRECTORY [--output FILE] [--small] [--seconds N]

Every rank is a session of this process whose commands take their predicted times, stretched so that a step takes N
seconds (5). Ranks go before all else on the machine where that is allowed (root). Then each command takes half to
double its time, by three seeds: no rank may use bytes that it may not use. Prints Markdown; with --output
docs/benchmarks.md it goes to docs/tables/sleep.md, and its summary into docs/benchmarks.md. --small runs one small
plan."""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile

from tables import ROOT, commit, markdown, publish, read

NAME = "sleep"
LIMIT = 0.03  # by which measured and predicted times differ, as a share of the step
SEEDS = [1, 2, 3]
LLAMA2_13B = "llama --layers 40 --width 5120 --heads 40 --hidden 13824 --vocab 32000 --context 4096 --seq 4096"
CASES = [  # model and target; what the mesh is; how the step is divided and what is recomputed
    ("gpt2-124m --batch 16 --seq 256", "cpu", "dp=4", "--zero 0"),
    ("gpt2-124m --batch 64 --seq 1024 --dtype bf16", "rtx-4090", "dp=8", "--zero 1 --microbatches 2"),
    ("gpt2-124m --batch 32 --seq 1024 --dtype bf16", "h100-sxm", "dp=16", "--zero 3"),
    ("bert-large --batch 64 --dtype bf16", "a100-40", "dp=8", "--zero 0 --ac-mode full"),
    ("llama3.2-1b --batch 16 --seq 8192 --dtype bf16", "h100-sxm", "dp=8", "--zero 3 --ac-mode full"),
    ("llama3.2-1b --batch 32 --seq 4096 --dtype bf16", "h100-sxm", "dp=16", "--zero 1"),
    ("llama3.2-1b --batch 16 --seq 8192 --dtype bf16", "h100-sxm", "dp=4,tp=4", "--zero 1 --sequence-parallel"),
    ("llama3-8b --batch 16 --seq 8192 --dtype bf16", "h100-sxm", "dp=8", "--zero 1 --budget 80GB"),
    ("llama3-8b --batch 16 --seq 8192 --dtype bf16", "h100-sxm", "dp=8", "--zero 3 --budget 60GB"),
    ("llama3-8b --batch 16 --seq 8192 --dtype bf16", "h100-sxm, slowed by 1.15", "dp=8", "--zero 3 --budget 60GB"),
    ("llama3-8b --batch 32 --seq 8192 --dtype bf16", "h100-sxm", "dp=16", "--zero 3 --microbatches 2 --budget 50GB"),
    ("llama3-8b --batch 16 --seq 8192 --dtype bf16", "h100-sxm", "tp=8", "--sequence-parallel --budget 80GB"),
    ("llama3-8b --batch 16 --seq 8192 --dtype bf16", "h100-sxm", "tp=8", "--budget 60GB"),
    ("llama3-8b --batch 16 --seq 8192 --dtype bf16", "h100-sxm", "dp=2,tp=8", "--sequence-parallel --zero 3"),
    ("llama3-8b --batch 64 --seq 4096 --dtype bf16", "a100-80", "dp=32", "--zero 3 --ac-mode full"),
    (LLAMA2_13B + " --batch 32 --dtype bf16", "a100-80", "dp=16", "--zero 3 --ac-mode none"),
    (LLAMA2_13B + " --batch 32 --dtype bf16", "a100-80", "dp=16", "--zero 3 --ac-mode selective --ac-option op"),
    (LLAMA2_13B + " --batch 128 --dtype bf16", "a100-80", "dp=64", "--zero 3 --ac-mode selective --ac-option 2"),
    (LLAMA2_13B + " --batch 32 --dtype bf16", "a100-80", "dp=16", "--zero 1"),
    ("llama3-70b --batch 16 --seq 8192 --dtype bf16", "h200", "dp=2,tp=8", "--sequence-parallel --zero 3 --budget 141GB"),
    ("llama3-70b --batch 16 --seq 4096 --dtype bf16", "h200", "dp=16", "--zero 3 --ac-mode full"),
]
SMALL = [("gpt2-tiny --batch 8 --dtype bf16", "h100-sxm", "dp=4", "--zero 3")]
HEAD = ["model", "target", "mesh", "options", "ranks", "commands", "predicted", "measured", "ratio", "transfers",
        "exposed, predicted", "measured ", "difference, of the step", "random times"]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def target_of(text, work):
    """A name, or a description whose links slow computation by a factor."""
    name, _, factor = text.partition(", slowed by ")
    if not factor:
        return name
    with open(os.path.join(ROOT, "schemas/devices", name + ".json"), encoding="utf-8") as file:
        description = json.load(file)
    description["links"].update({"within_slowdown": float(factor), "between_slowdown": float(factor)})
    path = os.path.join(work, "slow.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(description, file)
    return path


def milliseconds(ns):
    return f"{ns / 1e6:.4g} ms"


def measured(build, work, case, seconds):
    """The cells of a row."""
    graph, target, mesh, options = case
    model, plan = os.path.join(work, "model.fbs"), os.path.join(work, "model.plan")
    run([os.path.join(build, "tools/remat-graph"), *graph.split(), "-o", model])
    run([os.path.join(build, "tools/remat-compile"), model, "--target", target_of(target, work), "--mesh", mesh, *options.split(), "--arch", "none",
         "-o", plan])
    sleep = [os.path.join(build, "tests/sleep/sleep-plan"), plan]
    found = json.loads(run([*sleep, str(seconds)]))
    if not found["before_all"]:
        print("no real-time priority: other processes delay the ranks", file=sys.stderr)
    for seed in SEEDS:
        run([*sleep, str(seconds / 4), str(seed)])
    exposed = [found["predicted_exposed_ns"], found["measured_exposed_ns"]]
    return ["Llama 2 13B" if graph.startswith(LLAMA2_13B) else graph.split(" ")[0], target, mesh, options,
            str(found["ranks"]), str(found["commands"]), milliseconds(found["predicted_step_ns"]),
            milliseconds(found["measured_step_ns"]), f"{found['measured_step_ns'] / found['predicted_step_ns']:.4f}",
            milliseconds(found["transfers_ns"]), *map(milliseconds, exposed),
            f"{100 * (exposed[1] - exposed[0]) / found['predicted_step_ns']:+.2f} %", f"{len(SEEDS)} good"]


def summary(text):
    """The widest differences, and how many rows are within the limit."""
    rows = [row for table in read(text) for row in table.rows]
    ratios = [float(row[HEAD.index("ratio")]) for row in rows]
    within = sum(abs(ratio - 1) <= LIMIT for ratio in ratios)
    line = [str(len(rows)), f"{min(ratios):.4f} to {max(ratios):.4f}", str(within), str(len(rows) * len(SEEDS))]
    return text[:text.index("\n")] + "\n\n" + markdown(
        ["plans", "measured / predicted", f"within {100 * LIMIT:.0f} %", "runs with random times, all good"], [line])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    parser.add_argument("--small", action="store_true", help="to try it out")
    parser.add_argument("--seconds", type=float, default=5, help="that a step takes")
    options = parser.parse_args()
    rows, seconds = [], 0.5 if options.small else options.seconds
    with tempfile.TemporaryDirectory() as work:
        for case in SMALL if options.small else CASES:
            rows.append(measured(os.path.abspath(options.build), work, case, seconds))
            print(" | ".join(rows[-1]), file=sys.stderr)
    text = (f"Measured {datetime.date.today().isoformat()} with `bench_sleep.py`, steps of {seconds:g} s, commit {commit()}.\n\n"
            "Ranks sleep longer than predicted by one factor, by which measured times are divided. Exposed time is the part "
            "of a step in which no command computes, the mean of all ranks. \"Random times\" are runs in which each command takes half to double its time, without a wrong access.\n\n" +
            markdown([cell.strip() for cell in HEAD], rows))
    publish(__file__, NAME, "Ranks that sleep", text, summary, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
