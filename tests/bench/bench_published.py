# SPDX-License-Identifier: Apache-2.0
"""Published training steps beside what remat predicts for them: a test of the costs.

    python3 tests/bench/bench_published.py BUILD_DIRECTORY PUBLISHED.csv [--output FILE] [--small] [--check]

Each row of the CSV that a mesh can say is planned as its setting was, without a budget. Its columns: source, model,
hardware, gpus, parallelism, micro_batch (a GPU's), global_batch, seq, precision, recompute, tokens_s_gpu. Ratios are
predicted time / published time. Prints Markdown; with --output docs/benchmarks.md it goes to docs/tables/published.md,
and its summary into docs/benchmarks.md. --small makes the same of a small file.

Transfers are checked apart from kernels by what several machines do to a ratio: that of rows on several machines over
that of rows on one, of the same source, model and hardware. --check fails (exit code 1) if it is outside ACROSS, or if
torchtitan's 13B does not come in the order that was published (ORDER)."""
import argparse
import collections
import csv
import datetime
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile

from tables import commit, markdown, publish, read

NAME = "published"
TARGETS = {"A100-40 SXM": "a100-40", "A100-80 SXM": "a100-80", "H100-80 SXM": "h100-sxm",
           "H100-96 HBM2e 500 W": "h100-96"}
MACHINE = 8  # GPUs; with all of these targets
ACROSS = (0.92, 1.08)
# Steps of the 13B by what they recompute: the first is the fastest, the others take so much of it longer, and differ by
# at most so much.
ORDER = ("torchtitan docs/performance.md", "Llama2-13B", ["none", "selective, every 2nd layer", "per-op SAC (every second mm)"],
         (0.08, 0.16), 0.02)
POLICIES = {"none": ["--ac-mode", "none"], "full (every block)": ["--ac-mode", "full"], "full": ["--ac-mode", "full"],
            "selective, every 2nd layer": ["--ac-mode", "selective", "--ac-option", "2"],
            "per-op SAC (every second mm)": ["--ac-mode", "selective", "--ac-option", "op"]}
MESHES = {"FSDP FULL_SHARD": 3, "FSDP SHARD_GRAD_OP": 1}  # ZeRO-2 keeps parameters whole, as --zero 1
LLAMA = {"Llama3.1-8B": ["llama3-8b"], "Llama-3.2-1B": ["llama3.2-1b"]}
HEADS = {768: 12, 1024: 16}  # of MPT-125m and 350m; larger models have heads of 128
COLUMNS = ["source", "model", "hardware", "GPUs", "seq", "sequences a GPU", "precision", "recomputed",
           "published, tokens/s a GPU", "predicted", "ratio", "exposed transfers", "ratio without"]

Row = collections.namedtuple("Row", "source model hardware gpus seq batch precision recompute published predicted exposed")


class Unsaid(Exception):
    """Why a row has no plan."""


def model_of(text, seq):
    """Arguments of remat-graph. MPT is a GPT-2 without biases; for ALiBi it has learned positions."""
    name = text.split(" ")[0]
    sizes = re.match(r"(\S+) \((\d+)x(\d+), (?:(\d+) heads|heads of .*?), MLP (\d+|4x), vocab (\d+)(.*)\)$", text)
    if name in LLAMA:
        return LLAMA[name]
    if not sizes:
        raise Unsaid(f"no model {text}")
    _, layers, width, heads, hidden, vocab, rest = sizes.groups()
    common = ["--layers", layers, "--width", width, "--vocab", vocab]
    if name.startswith("Llama"):
        return ["llama", *common, "--heads", heads, "--hidden", hidden, "--context", str(seq)]
    if name.startswith("MPT") and hidden == "4x":
        heads = heads or HEADS.get(int(width), int(width) // 128)
        return ["gpt2", *common, "--heads", str(heads), "--context", str(seq), "--no-bias"]
    raise Unsaid(f"no model {text}")


def mesh_of(text, gpus):
    """(dp, tp, ZeRO stage)"""
    if text in ("-", "") and gpus == 1:
        return 1, 1, 0
    if text in MESHES:
        return gpus, 1, MESHES[text]
    parts = re.fullmatch(r"FSDP(\d+)(?: TP(\d+))?", text)
    if not parts or int(parts[1]) * int(parts[2] or 1) != gpus:
        raise Unsaid(f"no mesh for {text} on {gpus} GPUs")
    return int(parts[1]), int(parts[2] or 1), 3


def commands_of(row):
    """Arguments of remat-graph and of remat-compile, and the sequences of a step on each GPU."""
    gpus, seq = int(row["gpus"]), int(row["seq"])
    if not row["tokens_s_gpu"]:
        raise Unsaid("no time is published")
    if row["hardware"] not in TARGETS:
        raise Unsaid(f"no description of {row['hardware']}")
    if row["recompute"] not in POLICIES or row["offload"]:
        raise Unsaid(f"no policy {row['recompute']}{', ' * bool(row['offload'])}{row['offload']}")
    if row["precision"] not in ("bf16", "amp_bf16", "BF16"):
        raise Unsaid(f"no precision {row['precision']}")
    dp, tp, zero = mesh_of(row["parallelism"], gpus)
    micro = int(row["micro_batch"])
    batch = int(row["global_batch"] or micro * dp)
    if batch % (micro * dp):
        raise Unsaid(f"{batch} sequences are no multiple of {micro} on each of {dp} ranks")
    graph = [*model_of(row["model"], seq), "--seq", str(seq), "--batch", str(batch), "--dtype", "bf16"]
    plan = ["--target", TARGETS[row["hardware"]], *POLICIES[row["recompute"]], "--arch", "none"]
    if gpus > 1:
        plan += ["--mesh", f"dp={dp}" + f",tp={tp}" * (tp > 1), "--zero", str(zero)]
    if tp > 1:
        plan.append("--sequence-parallel")
    if batch > micro * dp:
        plan += ["--microbatches", str(batch // (micro * dp))]
    return graph, plan, batch / gpus


def planned(build, work, row):
    graph, plan, batch = commands_of(row)
    model, out = os.path.join(work, "model.fbs"), os.path.join(work, "model.plan")
    report = None
    for command in (["remat-graph", *graph, "-o", model], ["remat-compile", model, *plan, "--format", "json", "-o", out]):
        done = subprocess.run([os.path.join(build, "tools", command[0]), *command[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8")
        if done.returncode:
            raise Unsaid(done.stderr.strip().splitlines()[0].split("error: ")[-1])
        report = done.stdout
    report = json.loads(report)
    step_s = report["step_ns"] / 1e9
    return Row(row["source"], row["model"].split(" ")[0], row["hardware"], int(row["gpus"]), int(row["seq"]), batch,
               row["precision"], row["recompute"], float(row["tokens_s_gpu"]), batch * int(row["seq"]) / step_s,
               report.get("exposed_ns", 0) / report["step_ns"])


# --- statistics, of (published, predicted) rates ---

def ratio(row):
    return row.published / row.predicted


def geometric(ratios):
    """(geometric mean, geometric standard deviation)"""
    logs = [math.log(value) for value in ratios]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1)) if len(logs) > 1 else 0
    return math.exp(mean), math.exp(spread)


def sign(value):
    return (value > 0) - (value < 0)


def concordance(pairs):
    """Of (x, y): concordant less discordant pairs of pairs, and those without a tie in x, in y."""
    score = in_x = in_y = 0
    for (x, y), (other_x, other_y) in itertools.combinations(pairs, 2):
        score += sign(x - other_x) * sign(y - other_y)
        in_x += x != other_x
        in_y += y != other_y
    return score, in_x, in_y


def tau(groups):
    """Kendall's tau-b of all pairs of rows that are of one group; None: there is no pair without a tie."""
    totals = [sum(column) for column in zip(*map(concordance, groups))]
    return totals[0] / math.sqrt(totals[1] * totals[2]) if totals and totals[1] and totals[2] else None


def tau_text(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row.source, row.model, row.hardware].append((row.published, row.predicted))
    value = tau(groups.values())
    return "–" if value is None else f"{value:.2f}"


def sequence_class(row):
    return "up to 2048" if row.seq <= 2048 else "4096 and 8192" if row.seq <= 8192 else "16,384 to 65,536"


def exposed_class(row):
    return "below 10 %" if row.exposed < 0.1 else "10 to 40 %" if row.exposed < 0.4 else "40 % and more"


# (what rows have in common, key) in the order of the table
CLASSES = [("all", lambda row: ""), ("source", lambda row: row.source), ("hardware", lambda row: row.hardware),
           ("machines", lambda row: "one" if row.gpus <= MACHINE else "several"),
           ("exposed transfers", exposed_class), ("recomputed", lambda row: row.recompute),
           ("tokens of a sequence", sequence_class), ("model", lambda row: row.model)]


def class_table(rows):
    lines = []
    for what, key in CLASSES:
        groups = collections.defaultdict(list)
        for row in rows:
            groups[key(row)].append(row)
        for name, group in groups.items():
            mean, spread = geometric(list(map(ratio, group)))
            without = geometric([ratio(row) * (1 - row.exposed) for row in group])[0]
            lines.append([what, name, str(len(group)), f"{mean:.2f}", f"{spread:.2f}", f"{without:.2f}", tau_text(group)])
    return markdown(["rows", "", "number", "ratio, geometric mean", "geometric standard deviation",
                     "mean without exposed transfers", "Kendall's tau"], lines)


def good(yes):
    return "yes" if yes else "no"


def across(rows):
    """By (source, model): (hardware, rows on one machine, on several, ratio on one, on several), where there are both."""
    groups = collections.defaultdict(lambda: ([], []))
    for row in rows:
        groups[row.source, row.model, row.hardware][row.gpus > MACHINE].append(ratio(row))
    found = collections.defaultdict(list)
    for (source, model, hardware), (one, several) in groups.items():
        if one and several:
            found[source, model].append((hardware, len(one), len(several), geometric(one)[0], geometric(several)[0]))
    return found


def across_table(rows):
    """The table, and whether all is as it should be. Of a model on several kinds of hardware the mean counts."""
    lines, all_good = [], True
    for (source, model), kinds in across(rows).items():
        mean = geometric([several / one for *_, one, several in kinds])[0]
        within = ACROSS[0] <= mean <= ACROSS[1]
        all_good &= within
        for hardware, ones, severals, one, several in kinds:
            lines.append([source, model, hardware, str(ones), f"{one:.2f}", str(severals), f"{several:.2f}", f"{several / one:.2f}",
                          f"{mean:.2f}", good(within)])
    return markdown(["source", "model", "hardware", "rows on one machine", "ratio", "on several", "their ratio", "several / one",
                     "of the model", f"{ACROSS[0]} to {ACROSS[1]}"], lines), all_good


def order_of(rows):
    """What is said of the steps of ORDER, and whether they are as published; None without them."""
    source, model, policies, (least, most), apart = ORDER
    steps = {row.recompute: row.batch * row.seq / row.predicted for row in rows if (row.source, row.model) == (source, model)}
    if any(policy not in steps for policy in policies):
        return None, True
    first, *others = (steps[policy] for policy in policies)
    longer = [step / first - 1 for step in others]
    yes = all(least <= value <= most for value in longer) and max(others) / min(others) - 1 <= apart
    return (f"Steps of {model} ({source}) with {policies[0]}: {first:.2f} s; " +
            "; ".join(f"{policy}: {step:.2f} s, {100 * value:+.1f} %" for policy, step, value in zip(policies[1:], others, longer)) +
            f". As published ({100 * least:.0f} to {100 * most:.0f} % more, at most {100 * apart:.0f} % apart): {good(yes)}."), yes


def row_cells(row):
    return [row.source, row.model, row.hardware, str(row.gpus), str(row.seq), f"{row.batch:g}", row.precision,
            row.recompute, f"{row.published:g}", f"{row.predicted:.0f}", f"{ratio(row):.2f}", f"{100 * row.exposed:.0f} %",
            f"{ratio(row) * (1 - row.exposed):.2f}"]


def summary(text):
    """The classes but the models, and the reasons of rows that are missing."""
    tables = {table.title: table for table in read(text)}
    head, rows = tables["Ratios"].head, tables["Ratios"].rows
    missing = [f"{row[1]} rows have no plan ({row[0]})" for row in tables["Rows without a plan"].rows]
    return "\n\n".join([text[:text.index("\n")], markdown(head, [row for row in rows if row[0] != "model"]),
                        "; ".join(missing) + "." if missing else "Every row has a plan."])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("csv")
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    parser.add_argument("--small", action="store_true", help="to try it out")
    parser.add_argument("--check", action="store_true", help="whether several machines change ratios too much")
    options = parser.parse_args()
    rows, missing = [], collections.Counter()
    with open(options.csv, encoding="utf-8", newline="") as file, tempfile.TemporaryDirectory() as work:
        published = list(csv.DictReader(file))
        for number, row in enumerate(published, 1):
            try:
                rows.append(planned(os.path.abspath(options.build), work, row))
                print(f"{number} of {len(published)}: {' | '.join(row_cells(rows[-1]))}", file=sys.stderr)
            except Unsaid as reason:
                missing[str(reason)] += 1
                print(f"{number} of {len(published)}: {reason}", file=sys.stderr)
    machines, machines_good = across_table(rows)
    order, order_good = order_of(rows)
    text = (f"Planned {datetime.date.today().isoformat()} with `bench_published.py build {os.path.basename(options.csv)}`, "
            f"commit {commit()}: {len(rows)} of {len(published)} rows.\n\n## Ratios\n\nPredicted time / published time. Tau "
            "is of the rates of rows of one source, model and hardware.\n\n" + class_table(rows) +
            "\n\n## Several machines\n\nRatios on several machines over those on one.\n\n" + machines + (f"\n\n{order}" if order else "") +
            "\n\n## Rows without a plan\n\n" + markdown(["reason", "rows"], [[reason, str(count)]
                                                                       for reason, count in missing.items()]) +
            "\n\n## Rows\n\n" + markdown(COLUMNS, map(row_cells, rows)))
    publish(__file__, NAME, "Published steps", text, summary, options.output)
    return int(options.check and not (machines_good and order_good))


if __name__ == "__main__":
    sys.exit(main())
