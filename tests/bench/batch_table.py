# SPDX-License-Identifier: Apache-2.0
"""The largest batch that fits under each policy, and tokens a second by the cost model.

    python3 tests/bench/batch_table.py BUILD_DIRECTORY [--output FILE] [--small]

Compiles a model for each batch from 1 to 64 under fixed policies and each solver: nothing is run, so
the figures are the same on every machine. Prints Markdown; with --output docs/benchmarks.md it goes to
docs/tables/batches.md, and its summary into docs/benchmarks.md."""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

from tables import DOES_NOT_FIT, commit, first_line, markdown, publish, read

NAME = "batches"
POLICIES = {
    "none": ["--ac-mode", "none"],
    "every 3": ["--ac-mode", "selective", "--ac-option", "3"],
    "every 2": ["--ac-mode", "selective", "--ac-option", "2"],
    "full": ["--ac-mode", "full"],
    "manual": ["--solver", "manual"],
    "per-op": ["--solver", "per-op"],
}
AGAIN = ["--recompute", "model.layers.*.gathered"]  # none as FSDP has it: other policies gather again anyway
SHOWN = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64]


class Experiment:
    """A model under a budget. Several ranks have ZeRO-3; budget and batch are those of one of them."""

    def __init__(self, build, work, model, seq, target, budget_bytes, largest, ranks=1):
        self.tool = os.path.join(build, "tools", "remat-compile")
        self.graph = os.path.join(work, model + ".fbs")
        self.model, self.seq, self.target, self.largest = model, seq, target, largest
        self.budget_bytes, self.ranks = budget_bytes, ranks
        subprocess.run([os.path.join(build, "tools", "remat-graph"), model, "--dtype", "bf16",
                        "--seq", str(seq), "-o", self.graph], check=True)
        jobs = [(policy, batch) for batch in range(largest, 0, -1) for policy in POLICIES]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            reports = pool.map(lambda job: self.compile(job[1], job[0]), jobs)
            self.reports = {job: report for job, report in zip(jobs, reports) if report}

    def compile(self, batch, policy):
        """The report as JSON; None where the batch does not fit."""
        options = list(POLICIES[policy])
        if self.ranks > 1:
            options += ["--mesh", f"dp={self.ranks}", "--zero", "3", *(AGAIN if policy == "none" else [])]
        result = subprocess.run(
            [self.tool, self.graph, "--bind", f"batch={batch * self.ranks}", "--target", self.target, "--arch",
             "none", "--format", "json", "-o", f"{self.graph}.{policy}.{batch}", "--budget", str(self.budget_bytes),
             *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        if result.returncode not in (0, DOES_NOT_FIT):
            sys.exit(f"{self.model}, batch {batch}, {policy}: {result.stderr}")
        return json.loads(result.stdout) if result.returncode == 0 else None

    def tokens_per_s(self, policy, batch):
        return batch * self.seq / (self.reports[policy, batch]["step_ns"] * 1e-9)

    def policy_row(self, policy, full_best):
        fitting = [batch for batch in range(1, self.largest + 1) if (policy, batch) in self.reports]
        if not fitting:
            return f"| {policy} | none | | | | |"
        largest = max(fitting)
        best = max(fitting, key=lambda batch: self.tokens_per_s(policy, batch))
        at_best = self.tokens_per_s(policy, best)
        report = self.reports[policy, largest]
        name = policy if policy == report["policy"] else f"{policy}: {report['policy']}"
        return (f"| {name} | {largest} | {report['arena_bytes'] / 1e9:.1f} "
                f"| {self.tokens_per_s(policy, largest):.0f} | {at_best:.0f} (batch {best}) "
                f"| {100 * (at_best / full_best - 1):+.1f} % |")

    def comparison(self):
        """What the cited experiment asks: does a larger batch pay for recomputing?"""
        none, every = (max(batch for p, batch in self.reports if p == policy)
                       for policy in ("none", "every 3"))
        none_s, every_s = (self.reports[policy, batch]["step_ns"] * 1e-9
                           for policy, batch in (("none", none), ("every 3", every)))
        extra_s = (none * every_s - every * none_s) / (every - none) if every > none else 0
        text = (f"Every 3 at batch {every} would overtake none at batch {none} if a step took "
                f"{1e3 * extra_s:.0f} ms longer, whatever its batch. ") if extra_s > 0 else ""
        gain = self.tokens_per_s("every 2", 2) / self.tokens_per_s("none", 1) - 1
        return text + f"Every 2 at batch 2 has {100 * gain:+.0f} % tokens/s over none at batch 1."

    def markdown(self):
        full_best = max(self.tokens_per_s("full", batch) for batch in range(1, self.largest + 1)
                        if ("full", batch) in self.reports)
        lines = ["| policy | largest batch | its arena, GB | its tokens/s | most tokens/s | over full |",
                 "| --- | --- | --- | --- | --- | --- |"]
        lines += [self.policy_row(policy, full_best) for policy in POLICIES]
        shown = [batch for batch in SHOWN if ("full", batch) in self.reports or
                 ("manual", batch) in self.reports]
        lines += ["", "Tokens/s by batch:", "",
                  "| policy | " + " | ".join(map(str, shown)) + " |", "| --- |" + " --- |" * len(shown)]
        for policy in POLICIES:
            cells = []
            for batch in shown:
                fits = (policy, batch) in self.reports
                cells.append(f"{self.tokens_per_s(policy, batch):.0f}" if fits else "")
            lines.append(f"| {policy} | " + " | ".join(cells) + " |")
        return "\n".join(lines + ["", self.comparison()])


def make_tables(build, small):
    with tempfile.TemporaryDirectory() as work:
        if small:
            tiny = Experiment(build, work, "llama-tiny", 64, "h100-sxm", 1_250_000_000, 4, ranks=2)
            return f"Commit {commit()}.\n\n## llama-tiny, sequence 64\n\n{tiny.markdown()}"
        one = Experiment(build, work, "llama3.2-3b", 2048, "h100-sxm", 80 * 10**9, 64)
        eight = Experiment(build, work, "llama3-8b", 2048, "h100-sxm", 91 * 10**9, 64, ranks=8)
        return (f"Commit {commit()}.\n\n"
                f"## llama3.2-3b, sequence 2048, bf16, `--budget 80GB --target h100-sxm`\n\n"
                f"{one.markdown()}\n\n"
                f"## llama3-8b, sequence 2048, bf16, `--budget 91GB --target h100-sxm --mesh dp=8 --zero 3`\n\n"
                f"Batch and tokens/s are those of one rank. *none* has `--recompute 'model.layers.*.gathered'`.\n\n"
                f"{eight.markdown()}")


def summary(text):
    """For each model the largest batch and the most tokens/s of each policy."""
    policies = [table for table in read(text) if "largest batch" in table.head]
    names = [row[0].split(":")[0] for row in policies[0].rows]
    head, rows = ["policy"], [[name] for name in names]
    for table in policies:
        model = table.title.split(",")[0]
        head += [f"{model}: largest batch", "most tokens/s", "over full"]
        for row, found in zip(rows, table.rows):
            assert found[0].split(":")[0] == row[0], found
            row += [found[1], found[4], found[5]]
    return f"{first_line(text)}\n\n{markdown(head, rows)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    parser.add_argument("--small", action="store_true", help="a tiny model, to see that it works")
    arguments = parser.parse_args()
    tables = make_tables(arguments.build, arguments.small)
    publish(__file__, NAME, "Batch and recomputation by the cost model", tables, summary, arguments.output)


if __name__ == "__main__":
    main()
