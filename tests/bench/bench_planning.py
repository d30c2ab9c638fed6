# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of remat-compile where transfers overlap with computation, and each decision is tried at each depth:

    python3 tests/bench/bench_planning.py BUILD [--before BUILD] [--runs N] [--small]

Plans are for 80 GB of an A100. A row: the least of N runs (3), user and system time; with --before also that of another
build, run in turn, and the ratio. --small plans one tiny model."""
import argparse
import os
import subprocess
import tempfile

LLAMA2_13B = "llama --layers 40 --width 5120 --heads 40 --hidden 13824 --vocab 32000 --context 4096 --seq 4096"
CASES = [
    ("Llama 2 13B", LLAMA2_13B + " --batch 128 --dtype bf16", "--mesh dp=64 --zero 3"),
    ("Llama 3 70B", "llama3-70b --batch 64 --seq 8192 --dtype bf16", "--mesh dp=64 --zero 3"),
    ("Llama 3 70B", "llama3-70b --batch 64 --seq 8192 --dtype bf16", "--mesh dp=8,tp=8 --zero 1 --sequence-parallel"),
]
SMALL = [("gpt2-tiny", "gpt2-tiny --batch 8 --dtype bf16", "--mesh dp=4 --zero 3")]


def cpu_s(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with process.stderr:
        errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)}: {errors}")
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--before")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    builds = [given.build] + ([given.before] if given.before else [])
    print("| model | options | CPU s |" + (" before | ratio |" if given.before else ""))
    print("| --- | --- | --- |" + (" --- | --- |" if given.before else ""))
    with tempfile.TemporaryDirectory() as folder:
        graph, plan = os.path.join(folder, "model.fbs"), os.path.join(folder, "model.plan")
        for name, model, options in SMALL if given.small else CASES:
            cpu_s([os.path.join(given.build, "tools/remat-graph"), *model.split(), "-o", graph])
            rest = [graph, *options.split(), "--budget", "80GB", "--target", "a100-80", "--arch", "none", "-o", plan]
            runs = [[cpu_s([os.path.join(build, "tools/remat-compile"), *rest]) for build in builds]
                    for _ in range(given.runs)]
            least = [min(column) for column in zip(*runs)]
            cells = [f"{s:.2f}" for s in least] + ([f"{least[0] / least[1]:.2f}"] if given.before else [])
            print(f"| {name} | `{options}` | {' | '.join(cells)} |", flush=True)


main()
