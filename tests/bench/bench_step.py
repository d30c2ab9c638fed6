# SPDX-License-Identifier: Apache-2.0
"""Times training steps of GPT-2, Llama and BERT and single kernels against PyTorch CPU eager, in one run.

    .venv/bin/python tests/bench/bench_step.py BUILD_DIRECTORY [--output FILE] [--force] [--small]

PyTorch (with default and with fused AdamW) and remat (nothing recomputed, everything, and a budget
half way between) are processes that live side by side and take turns, a step each; figures are minima
over the turns. Steps are in fp32 and bf16, operations in fp32. Prints Markdown; with --output
docs/benchmarks.md it goes to docs/tables/cpu_steps.md, and its summary into docs/benchmarks.md. Refuses a
machine that is not idle, and says so when it was not idle during the run; --force measures anyway."""
import argparse
import datetime
import json
import math
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time

from tables import markdown, publish, read

NAME = "cpu_steps"
HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(os.path.dirname(HERE), "peers")
BUSY_LIMIT, LOAD_LIMIT = 0.03, 0.5
PAUSE_S = 0.05  # after a turn, so that the other's spinning threads have gone to sleep
# name: family, heads, arguments of remat-graph
WIDE = ["--layers", "12", "--width", "768", "--heads", "12"]
MODELS = {"gpt2-124m": ("gpt2", 12, ["gpt2-124m"]), "gpt2-tiny": ("gpt2", 4, ["gpt2-tiny"]),
          "llama-124m": ("llama", 12, ["llama", *WIDE, "--kv-heads", "4", "--hidden", "2048", "--vocab",
                                       "32000", "--context", "1024"]),
          "llama-tiny": ("llama", 4, ["llama-tiny"]),
          "bert-base": ("bert", 12, ["bert", *WIDE]), "bert-tiny": ("bert", 4, ["bert-tiny"])}
# model, dtype, batch, seq, measured turns, threads
FULL_STEPS = [("gpt2-124m", "fp32", 1, 256, 4, [1, 2]), ("gpt2-124m", "fp32", 2, 512, 2, [1, 2])] + [
    (model, dtype, 1, 256, 2, [2]) for model in ("llama-124m", "bert-base") for dtype in ("fp32", "bf16")] + [
    (model, dtype, 4, 128, 20, [1]) for model in ("llama-tiny", "bert-tiny") for dtype in ("fp32", "bf16")]
SMALL_STEPS = [("gpt2-tiny", "fp32", 1, 64, 3, [1, 2]), ("gpt2-tiny", "fp32", 2, 96, 2, [1, 2])] + [
    (model, dtype, 2, 64, 2, [1]) for model in ("llama-tiny", "bert-tiny") for dtype in ("fp32", "bf16")]
# steps, and of operations: model, threads, seconds for each
FULL = (FULL_STEPS, "gpt2-124m", [1, 2], 0.4)
SMALL = (SMALL_STEPS, "gpt2-tiny", [1, 2], 0.01)


# --- the machine ---

def cpu_ticks():
    """All and idle, of all processors."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def idleness():
    """What is against measuring now, as text; "" when nothing is."""
    total, idle = cpu_ticks()
    time.sleep(2)
    total_after, idle_after = cpu_ticks()
    busy = 1 - (idle_after - idle) / max(1, total_after - total)
    with open("/proc/loadavg", encoding="ascii") as file:
        load = float(file.read().split()[0])
    if busy <= BUSY_LIMIT and load <= LOAD_LIMIT:
        return ""
    return (f"the machine is not idle: {100 * busy:.0f} % busy (accepted: {100 * BUSY_LIMIT:.0f} %), "
            f"load average {load:.2f} (accepted: {LOAD_LIMIT})")


class OtherLoad:
    """The share of the processors that others used while this run lasted."""

    def __init__(self):
        self.begin = cpu_ticks()

    def fraction(self):
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(u.ru_utime + u.ru_stime for u in usage) * os.sysconf("SC_CLK_TCK")
        total, idle = (now - then for now, then in zip(cpu_ticks(), self.begin))
        return max(0.0, total - idle - own) / max(1, total)


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        info = [line.split(":", 1) for line in file if ":" in line]
    fields = {key.strip(): value.strip() for key, value in info}
    isa = "AVX-512" if " avx512f" in fields["flags"] else "AVX2" if " avx2" in fields["flags"] else "SSE2"
    return f"{fields['model name']}, {os.cpu_count()} processors, {isa}"


# --- steps ---

def parameter_shapes(graph_text):
    """Name -> shape, from remat-graph's text form: parameter %NAME : DTYPE[ROWS,COLUMNS] = ..."""
    found = re.findall(r"^parameter %(\S+) : \w+\[([\d,]+)\]", graph_text, re.M)
    return {name: [int(axis) for axis in shape.split(",")] for name, shape in found}


def torch_worker(shapes, model, dtype, batch, seq, threads, optimizer):
    """A step for each line of standard input, as bench_session.c does it."""
    sys.path.insert(0, PEERS)
    import torch
    import torch_families
    import torch_gpt2
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    family, heads, _ = MODELS[model]
    with open(shapes, encoding="utf-8") as file:
        weights_shapes = json.load(file)
    weights = {name: torch.randn(shape) * 0.02 if len(shape) > 1 else  # vectors: biases and norms
                   torch.full(shape, float(name.endswith(".weight"))) for name, shape in weights_shapes.items()}
    net = torch_families.build(family, weights, heads, {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype])
    del weights
    adamw = torch_gpt2.adamw(net, 3e-4, fused=optimizer == "fused")
    rows = max(shape[0] for shape in weights_shapes.values() if len(shape) > 1)  # as text.h has it
    tokens, targets = (torch.exp(torch.rand(int(batch), int(seq)) * math.log(rows + 1)).long() - 1 for _ in range(2))
    for _ in sys.stdin:
        start = time.perf_counter_ns()
        adamw.zero_grad(set_to_none=True)
        net.loss(tokens, targets).backward()
        adamw.step()
        elapsed = time.perf_counter_ns() - start
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"step_ns": elapsed, "peak_rss_bytes": rss}), flush=True)


class Contestant:
    """A process that runs a step when told to."""

    def __init__(self, name, command, facts=""):
        self.name, self.facts, self.best_ns, self.rss = name, facts, float("inf"), 0
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        encoding="utf-8")

    def step(self, counts):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: stopped with exit code {self.process.wait()}")
        record = json.loads(line)
        self.rss = record["peak_rss_bytes"]
        if counts:
            self.best_ns = min(self.best_ns, record["step_ns"])
        time.sleep(PAUSE_S)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compile_plans(build, work, model, dtype, batch, seq):
    """name, path, summary of three plans; parameter shapes go to shapes.json."""
    graph = os.path.join(work, "model.fbs")
    tool = os.path.join(build, "tools/remat-")
    command = [tool + "graph", *MODELS[model][2], "--dtype", dtype, "--batch", str(batch), "--seq", str(seq)]
    subprocess.run([*command, "-o", graph], check=True)
    text = subprocess.run([*command, "--text"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    with open(os.path.join(work, "shapes.json"), "w", encoding="utf-8") as file:
        json.dump(parameter_shapes(text), file)

    def plan(name, *options):
        path = os.path.join(work, name + ".plan")
        done = subprocess.run([tool + "compile", graph, *options, "-o", path, "--format", "json"],
                              check=True, stdout=subprocess.PIPE)
        return name, path, json.loads(done.stdout)

    none, full = plan("none"), plan("full", "--ac-mode", "full")
    reserve = none[2]["reserve_bytes"]
    budget = (none[2]["arena_bytes"] + full[2]["arena_bytes"]) // 2 + reserve
    return [none, plan("budget", "--budget", str(budget)), full]


def contestants(build, work, plans, model, dtype, batch, seq, threads):
    worker = [sys.executable, os.path.abspath(__file__), "--torch-worker", os.path.join(work, "shapes.json"),
              model, dtype, str(batch), str(seq), str(threads)]
    rows = [Contestant(f"PyTorch, {optimizer} AdamW", [*worker, optimizer])
            for optimizer in ("default", "fused")]
    for name, path, summary in plans:
        facts = f"{summary['policy']}, arena {cased_bytes(summary['arena_bytes'])}"
        label = {"none": "remat, nothing recomputed", "full": "remat, full",
                 "budget": f"remat, budget {cased_bytes(summary['budget_bytes'])}"}[name]
        rows.append(Contestant(label, [os.path.join(build, "tests/bench/bench_session"), path,
                                       str(threads), "cpu"], facts))
    return rows


def bench_steps(build, cases):
    """(model, dtype, batch, seq, threads, contestants)."""
    tables = []
    for model, dtype, batch, seq, turns, all_threads in cases:
        with tempfile.TemporaryDirectory() as work:
            plans = compile_plans(build, work, model, dtype, batch, seq)
            for threads in all_threads:
                print(f"step of {model}, {dtype}, batch {batch}, seq {seq}, {threads} threads", file=sys.stderr)
                rows = contestants(build, work, plans, model, dtype, batch, seq, threads)
                for turn in range(turns + 1):  # the first one warms up
                    for row in rows:
                        row.step(turn > 0)
                for row in rows:
                    row.end()
                tables.append((model, dtype, batch, seq, threads, rows))
    return tables


# --- operations ---

def key_of(record):
    if record["name"] == "sgemm":
        return f"sgemm {record['layout']} {record['m']} {record['n']} {record['k']}"
    return record["name"] + (f", {record['optimizer']}" if "optimizer" in record else "")


def run_lines(command, into, field, factor):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    for line in done.stdout.splitlines():
        record = json.loads(line)
        key, ns = key_of(record), record[field] * factor
        if ns <= into.get(key, {"ns": float("inf")})["ns"]:
            into[key] = dict(record, ns=ns)


def bench_operations(build, model, all_threads, seconds, repetitions=2):
    """{threads: (ours, theirs)}, each {key: record with ns}."""
    found = {}
    small = ["--small"] if model == "gpt2-tiny" else []
    for threads in all_threads:
        ours, theirs = found.setdefault(threads, ({}, {}))
        print(f"operations, {threads} threads", file=sys.stderr)
        for _ in range(repetitions):
            run_lines([os.path.join(build, "tests/bench/bench_kernels"), "--threads", str(threads),
                       "--seconds", str(seconds), *small], ours, "min_ns", 1)
            if not small:
                run_lines([sys.executable, os.path.join(PEERS, "bench_torch.py"), "--case", "operations",
                           "--threads", str(threads), "--seconds", str(seconds), "--model", model],
                          theirs, "min_ms", 1e6)
    return found


# --- Markdown ---

def cased_bytes(count):
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def step_table(dtype, batch, seq, threads, rows):
    default, fused = rows[0].best_ns, rows[1].best_ns
    lines = [f"{dtype}, batch {batch}, seq {seq}, {threads} thread{'s' if threads > 1 else ''}:", "",
             "| | ms per step | of default | of fused | resident peak, GB | plan |",
             "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        ms = row.best_ns / 1e6
        lines.append(f"| {row.name} | {ms:.{0 if ms >= 100 else 1}f} | {row.best_ns / default:.2f} | "
                     f"{row.best_ns / fused:.2f} | {row.rss / 1e9:.2f} | {row.facts} |")
    return lines + [""]


def operation_table(found):
    """Minimum of both in microseconds, ratio, and the rate of ours."""
    threads = sorted(found)
    head = "".join(f" remat, us ({t}) | PyTorch, us ({t}) | ratio ({t}) | rate ({t}) |" for t in threads)
    lines = ["| operation (threads) |" + head, "| --- |" + " --- |" * 4 * len(threads)]
    for key in found[threads[0]][0]:
        line = f"| {key.replace('_', ' ')} |"
        for t in threads:
            ours, theirs = found[t][0][key], found[t][1]
            rival = theirs.get(key) or theirs.get(key + ", fused")
            rate = (f"{ours['gflops']:.0f} GFLOP/s" if key.startswith(("sgemm", "attention"))
                    else f"{ours['gbytes_per_s']:.0f} GB/s" if not key.startswith("embedding")
                    else "")  # its bytes count the whole table
            line += f" {ours['ns'] / 1e3:.0f} |"
            line += f" {rival['ns'] / 1e3:.0f} | {ours['ns'] / rival['ns']:.2f} |" if rival else " | |"
            line += f" {rate} |"
        lines.append(line)
    return lines + ["", "AdamW is compared with PyTorch's fused one."]


def torch_version():
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"],
                          stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout.strip() if done.returncode == 0 else ""


def report(options, tables, found, seconds, other, trouble):
    command = "bench_step.py build" + " --small" * options.small + " --force" * options.force
    command += f" --models {options.models}" if options.models else ""
    date = datetime.date.today().isoformat()
    lines = [f"Measured {date} in {seconds:.0f} s with `{command}` on {processor()}, "
             f"Linux {platform.release()}, PyTorch {torch_version()}. "
             f"Others used {100 * other:.1f} % of the processors during the run.", ""]
    if trouble:
        lines += [f"**Not a measurement to quote: {trouble}.**", ""]
    for i, (model, *table) in enumerate(tables):
        if i == 0 or model != tables[i - 1][0]:
            lines += [f"## {model}", ""]
        lines += step_table(*table)
    if found is not None:
        lines += ["## Operations", ""] + operation_table(found)
    return "\n".join(lines).rstrip()


def summary(text):
    """Each step: the faster of PyTorch's two optimizers beside ours with everything saved and everything recomputed."""
    head = ["model", "step", "PyTorch, ms", "remat, ms", "of PyTorch", "full, ms", "of PyTorch", "PyTorch, GB", "remat, GB"]
    rows = []
    for table in read(text):
        ms = {row[0]: float(row[1]) for row in table.rows if "ms per step" in table.head}
        if not ms:
            continue
        torch = min(("PyTorch, default AdamW", "PyTorch, fused AdamW"), key=ms.get)
        resident = {row[0]: row[4] for row in table.rows}
        none, full = "remat, nothing recomputed", "remat, full"
        rows.append([table.title, table.caption.rstrip(":"), f"{ms[torch]:g}", f"{ms[none]:g}", f"{ms[none] / ms[torch]:.2f}",
                     f"{ms[full]:g}", f"{ms[full] / ms[torch]:.2f}", resident[torch], resident[none]])
    measured = [line for line in text.splitlines() if line.startswith(("Measured ", "**Not a measurement"))]
    return "\n\n".join([*measured, markdown(head, rows)])


def main():
    if sys.argv[1:2] == ["--torch-worker"]:
        return torch_worker(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    parser.add_argument("--force", action="store_true", help="also when the machine is not idle")
    parser.add_argument("--small", action="store_true", help="tiny models and small shapes: to try it out")
    parser.add_argument("--models", help="only the steps of these, comma-separated, and no operations")
    options = parser.parse_args()
    if options.models and options.output:
        parser.error("--models prints on standard output, --output takes all")
    if not torch_version():
        print("SKIP: no PyTorch: run tools/setup.sh --with-torch")
        return 77
    trouble = idleness()
    print(trouble or "the machine is idle", file=sys.stderr)
    if trouble and not options.force:
        return 1
    start, load = time.monotonic(), OtherLoad()
    cases, model, all_threads, seconds = SMALL if options.small else FULL
    build = os.path.abspath(options.build)
    if options.models:
        cases = [case for case in cases if case[0] in options.models.split(",")]
    tables = bench_steps(build, cases)
    found = None if options.models else bench_operations(build, model, all_threads, seconds)
    other = load.fraction()
    if other > BUSY_LIMIT:
        during = f"others used {100 * other:.0f} % of the processors during the run"
        print(during, file=sys.stderr)
        trouble = f"{trouble}; {during}" if trouble else during
    text = report(options, tables, found, time.monotonic() - start, other, trouble)
    if options.output and trouble and not options.force:
        sys.exit(f"{options.output} is not written")
    publish(__file__, NAME, "Steps and kernels on the CPU", text, summary, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
