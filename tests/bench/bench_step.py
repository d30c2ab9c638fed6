"""Times GPT-2's training step and single kernels against PyTorch CPU eager, fp32, in one run.

    .venv/bin/python tests/bench/bench_step.py BUILD_DIRECTORY [--output FILE] [--force] [--small]

PyTorch (with default and with fused AdamW) and remat (nothing recomputed, everything, and a budget
half way between) are processes that live side by side and take turns, a step each; figures are minima
over the turns. Prints Markdown; --output writes it between the marks in that file instead. Refuses a
machine that is not idle, and says so when it was not idle during the run; --force measures anyway."""
import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(os.path.dirname(HERE), "peers")
BEGIN, END = "<!-- bench_step.py begins -->", "<!-- bench_step.py ends -->"
BUSY_LIMIT, LOAD_LIMIT = 0.03, 0.5
PAUSE_S = 0.05  # after a turn, so that the other's spinning threads have gone to sleep
# model, (batch, seq) of the steps, measured turns of each size, threads, seconds for an operation
FULL = ("gpt2-124m", [(1, 256, 4), (2, 512, 2)], [1, 2], 0.4)
SMALL = ("gpt2-tiny", [(1, 64, 3), (2, 96, 2)], [1, 2], 0.01)


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

def torch_worker(model, batch, seq, threads, optimizer):
    """A step for each line of standard input, as bench_session.c does it."""
    sys.path.insert(0, PEERS)
    import torch
    import torch_gpt2
    from bench_torch import PRESETS
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    config = PRESETS[model]
    gpt2 = torch_gpt2.Gpt2(config, torch_gpt2.random_weights(config))
    adamw = torch_gpt2.adamw(gpt2, 3e-4, fused=optimizer == "fused")
    tokens, targets = (torch.randint(0, 251, (int(batch), int(seq))) for _ in range(2))
    for _ in sys.stdin:
        start = time.perf_counter_ns()
        adamw.zero_grad(set_to_none=True)
        gpt2.loss(tokens, targets).backward()
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


def compile_plans(build, work, model, batch, seq):
    """name, path, summary of three plans."""
    graph = os.path.join(work, "model.fbs")
    tool = os.path.join(build, "tools/remat-")
    subprocess.run([tool + "graph", model, "--batch", str(batch), "--seq", str(seq), "-o", graph],
                   check=True)

    def plan(name, *options):
        path = os.path.join(work, name + ".plan")
        done = subprocess.run([tool + "compile", graph, *options, "-o", path, "--format", "json"],
                              check=True, stdout=subprocess.PIPE)
        return name, path, json.loads(done.stdout)

    none, full = plan("none"), plan("full", "--ac-mode", "full")
    reserve = none[2]["reserve_bytes"]
    budget = (none[2]["arena_bytes"] + full[2]["arena_bytes"]) // 2 + reserve
    return [none, plan("budget", "--budget", str(budget)), full]


def bench_steps(build, model, sizes, all_threads):
    """Rows of contestants, by batch, seq and threads."""
    tables = []
    for batch, seq, turns in sizes:
        with tempfile.TemporaryDirectory() as work:
            plans = compile_plans(build, work, model, batch, seq)
            for threads in all_threads:
                print(f"step, batch {batch}, seq {seq}, {threads} threads", file=sys.stderr)
                rows = [Contestant(f"PyTorch, {optimizer} AdamW",
                                   [sys.executable, os.path.abspath(__file__), "--torch-worker", model,
                                    str(batch), str(seq), str(threads), optimizer])
                        for optimizer in ("default", "fused")]
                for name, path, summary in plans:
                    facts = f"{summary['policy']}, arena {summary['arena_bytes'] / 1e9:.2f} GB"
                    label = {"none": "remat, nothing recomputed", "full": "remat, full",
                             "budget": f"remat, budget {summary['budget_bytes'] / 1e9:.2f} GB"}[name]
                    rows.append(Contestant(label, [os.path.join(build, "tests/bench/bench_session"),
                                                   path, str(threads)], facts))
                for turn in range(turns + 1):  # the first one warms up
                    for row in rows:
                        row.step(turn > 0)
                for row in rows:
                    row.end()
                tables.append((batch, seq, threads, rows))
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

def step_table(batch, seq, threads, rows):
    default, fused = rows[0].best_ns, rows[1].best_ns
    lines = [f"Batch {batch}, seq {seq}, {threads} thread{'s' if threads > 1 else ''}:", "",
             "| | ms per step | of default | of fused | resident peak, GB | plan |",
             "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        lines.append(f"| {row.name} | {row.best_ns / 1e6:.0f} | {row.best_ns / default:.2f} | "
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
    date = datetime.date.today().isoformat()
    lines = [f"Measured {date} in {seconds:.0f} s with `{command}` on {processor()}, "
             f"Linux {platform.release()}, PyTorch {torch_version()}. "
             f"Others used {100 * other:.1f} % of the processors during the run.", ""]
    if trouble:
        lines += [f"**Not a measurement to quote: {trouble}.**", ""]
    lines += [f"### The step of {(SMALL if options.small else FULL)[0]}", ""]
    for table in tables:
        lines += step_table(*table)
    lines += ["### Operations", ""] + operation_table(found)
    return "\n".join(lines)


def write_between_marks(path, text):
    with open(path, encoding="utf-8") as file:
        old = file.read()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        sys.exit(f"{path}: the marks {BEGIN} and {END} are not there once each")
    new = f"{old[:old.index(BEGIN)]}{BEGIN}\n\n{text}\n\n{old[old.index(END):]}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)


def main():
    if sys.argv[1:2] == ["--torch-worker"]:
        return torch_worker(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--output", help="write between the marks in this file")
    parser.add_argument("--force", action="store_true", help="also when the machine is not idle")
    parser.add_argument("--small", action="store_true", help="gpt2-tiny and small shapes: to try it out")
    options = parser.parse_args()
    if not torch_version():
        print("SKIP: no PyTorch: run tools/setup.sh --with-torch")
        return 77
    trouble = idleness()
    print(trouble or "the machine is idle", file=sys.stderr)
    if trouble and not options.force:
        return 1
    start, load = time.monotonic(), OtherLoad()
    model, sizes, all_threads, seconds = SMALL if options.small else FULL
    build = os.path.abspath(options.build)
    tables = bench_steps(build, model, sizes, all_threads)
    found = bench_operations(build, model, all_threads, seconds)
    other = load.fraction()
    if other > BUSY_LIMIT:
        during = f"others used {100 * other:.0f} % of the processors during the run"
        print(during, file=sys.stderr)
        trouble = f"{trouble}; {during}" if trouble else during
    text = report(options, tables, found, time.monotonic() - start, other, trouble)
    if not options.output:
        print(text)
        return 0
    if trouble and not options.force:
        sys.exit(f"{options.output} is not written")
    write_between_marks(options.output, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
