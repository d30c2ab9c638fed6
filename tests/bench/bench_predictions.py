# SPDX-License-Identifier: Apache-2.0
"""Predicted step times, with the rates that remat-run --measure-device measured just before, beside measured ones.

    python3 tests/bench/bench_predictions.py BUILD_DIRECTORY [--output FILE] [--force] [--small]

Plans are compiled for the description and the number of threads; figures are minima over steps. Prints
Markdown; with --output docs/benchmarks.md it goes to docs/tables/cpu_predictions.md, and its summary into
docs/benchmarks.md. Refuses a machine that is not idle, and says so when it was not idle during the run;
--force measures anyway."""
import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time

from bench_budgets import Planner, measure
from bench_step import BUSY_LIMIT, MODELS, OtherLoad, idleness, processor
from tables import markdown, publish, read

NAME = "cpu_predictions"
# model, dtype, batch, seq, budget ("": everything saved), measured steps, threads
FULL = [("gpt2-124m", "fp32", 2, 512, "2.2GB", 4, [1, 2]), ("gpt2-124m", "fp32", 2, 512, "", 4, [2]),
        ("llama-124m", "fp32", 1, 256, "", 4, [2]), ("llama-124m", "bf16", 1, 256, "", 4, [2]),
        ("bert-base", "fp32", 1, 256, "", 4, [2]), ("gpt2-tiny", "fp32", 4, 128, "", 20, [1])]
SMALL = [(model, dtype, 2, 64, "", 2, [1]) for model in ("gpt2-tiny", "llama-tiny") for dtype in ("fp32", "bf16")]


def rows_of(build, case, description, work):
    model, dtype, batch, seq, budget, steps, counts = case
    planner = Planner(build, work, [*MODELS[model][2], "--dtype", dtype], batch, seq)
    for threads in counts:
        print(f"{model}, {dtype}, {threads} threads", file=sys.stderr)
        report = planner.compile("--target", description, "--threads", str(threads),
                                 *(["--budget", budget] if budget else []))
        measured_ns = measure(build, [report], steps, threads)[0]
        yield [model, f"{dtype}, batch {batch}, seq {seq}", budget or "everything saved", str(threads),
               f"{report['step_ns'] / 1e6:.4g}", f"{measured_ns / 1e6:.4g}", f"{report['step_ns'] / measured_ns:.2f}"]


def summary(text):
    """The table itself: it is short."""
    said = [line for line in text.splitlines() if line.startswith(("Measured ", "**Not a measurement"))]
    return "\n\n".join([*said, *(markdown(table.head, table.rows) for table in read(text))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    parser.add_argument("--force", action="store_true", help="also when the machine is not idle")
    parser.add_argument("--small", action="store_true", help="tiny models: to try it out")
    options = parser.parse_args()
    trouble = idleness()
    print(trouble or "the machine is idle", file=sys.stderr)
    if trouble and not options.force:
        return 1
    start, load, build, rows = time.monotonic(), OtherLoad(), os.path.abspath(options.build), []
    with tempfile.TemporaryDirectory() as work:
        description = os.path.join(work, "measured.json")
        threads = ["--threads", "1"] if options.small else []
        subprocess.run([os.path.join(build, "tools/remat-run"), "--measure-device", description, *threads], check=True)
        for case in SMALL if options.small else FULL:
            rows += rows_of(build, case, description, work)
    other = load.fraction()
    if other > BUSY_LIMIT:
        during = f"others used {100 * other:.0f} % of the processors during the run"
        print(during, file=sys.stderr)
        trouble = f"{trouble}; {during}" if trouble else during
    if options.output and trouble and not options.force:
        sys.exit(f"{options.output} is not written")
    command = "bench_predictions.py build" + " --small" * options.small + " --force" * options.force
    text = (f"Measured {datetime.date.today().isoformat()} in {time.monotonic() - start:.0f} s with `{command}` on "
            f"{processor()}, Linux {platform.release()}. Others used {100 * other:.1f} % of the processors during the "
            "run.\n\n" + f"**Not a measurement to quote: {trouble}.**\n\n" * bool(trouble) +
            markdown(["model", "step", "budget", "threads", "predicted, ms", "measured, ms", "predicted / measured"],
                     rows))
    publish(__file__, NAME, "Predicted and measured steps on the CPU", text, summary, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
