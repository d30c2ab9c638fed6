# SPDX-License-Identifier: Apache-2.0
"""Plans of several ranks under mpirun: loss, gradients and weights have the bits of threads of one process; rank 0
alone prints and writes; unfit numbers of processes are refused, and a rank that fails ends the job with its code.

    run_mpi.py TOOLS_DIRECTORY MPIRUN [all | part]     all: every family, dtype, number of ranks and --zero, ten steps of each;
                                                      part: what runs other code, for builds with sanitizers"""
import itertools
import json
import os
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import (INTERRUPTED, IO, NOT_FINITE, TEXT, USAGE, Tools, check, faults, finish, graph_of_input, json_lines, must, read_json,
                     refused, run, safetensors, scratch)

tool, MPIRUN = Tools(sys.argv[1]), sys.argv[2]
STRETCH = tool.folder.parent / "tests/e2e/stretch"  # transfers beside commands
DEADLINE_S, GRACE_S = 2, 3
PAD_BYTES = 1 << 28


def ranks(count, *arguments):
    return run([MPIRUN, "-n", count, tool.path("run"), *arguments, "--text", TEXT])


def make_plan(family, dtype, *options):
    dropout = () if family == "llama" else ("--dropout", 0.1)
    tool.must("graph", f"{family}-tiny", "--batch", 8, "--seq", 16, "--dtype", dtype, *dropout,
              "-o", "model.fbs")
    tool.must("compile", "model.fbs", *options, "-o", "model.plan")


def bits(line):
    return {key: value for key, value in line.items() if "hash" in key or key == "loss"}


def hashes(done):
    return [*map(bits, json_lines(done))]


def same_as_threads(family, dtype, count, *options, steps=3):
    mesh = () if "--mesh" in options else ("--mesh", f"dp={count}")
    make_plan(family, dtype, *mesh, *options)
    must(run([STRETCH, "model.plan"]))
    say = ["--steps", steps, "--hash", "--json"]
    threads = tool.must("run", "model.plan", "--text", TEXT, *say, "--save-weights", "threads",
                        "--checkpoint", "of_threads", "--every", 2)
    processes = ranks(count, "model.plan", *say, "--save-weights", "processes", "--report", "report.json",
                      "--checkpoint", "of_processes", "--every", 2)
    what = f"{family} {dtype} on {count} ranks {options}"
    check(hashes(threads) == hashes(processes) and len(hashes(processes)) == steps, f"{what}: {processes.stdout}")
    check(pathlib.Path("threads").read_bytes() == pathlib.Path("processes").read_bytes(), f"{what}: weights differ")
    written = [{path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
               for folder in ("of_threads", "of_processes")]
    shutil.rmtree("of_threads")
    shutil.rmtree("of_processes")
    check(written[0] == written[1] and len(written[0]) == 2, f"{what}: checkpoints differ")
    report = read_json("report.json")
    check(report["ranks"] == count and report["engine"] == "mpi" and report["completed"], f"{what}: {report}")
    check(processes.stderr.endswith(f"remat-run: all {count} ranks have finished\n"), f"{what}: {processes.stderr}")
    check("processes that mpirun started" in processes.stderr and len(re.findall("predicted +measured", processes.stderr)) == 1,
          f"{what}: {processes.stderr}")
    return hashes(threads)


def same_as_one_rank(family, dtype, count):
    """Threads and processes have the bits of microbatches on one rank, with and without ZeRO."""
    make_plan(family, dtype, "--microbatches", count)
    one = hashes(tool("run", "model.plan", "--text", TEXT, "--steps", 10, "--hash", "--json",
                      "--save-weights", "one"))
    for zero in 0, 1, 3:
        ranks = same_as_threads(family, dtype, count, "--zero", zero, steps=10)
        check(ranks == one and pathlib.Path("one").read_bytes() == pathlib.Path("threads").read_bytes(),
              f"{family} {dtype} on {count} ranks, --zero {zero}: other bits than {count} microbatches on one")


def recorded():
    """Trace, profile and report of all ranks; the plan is the last one of four ranks."""
    os.environ["MALLOC_ARENA_MAX"] = "1"  # threads that meet in malloc would reserve addresses, now and then
    must(ranks(4, "model.plan", "--steps", 3, "--trace", "trace.json", "--profile", "profile.json",
               "--report", "report.json"))
    trace = read_json("trace.json")["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in trace if event["name"] == "process_name"}
    check(names == {f"rank {r}": r + 1 for r in range(4)}, f"processes of the trace: {names}")
    slices = [[event for event in trace if event["ph"] == "X" and event["pid"] == r + 1] for r in range(4)]
    for mine in slices:
        check([event["name"] for event in mine] == [event["name"] for event in slices[0]] and len(mine) > 100,
              "ranks run other commands")
        check(mine[0]["ts"] < slices[0][-1]["ts"] and slices[0][0]["ts"] < mine[-1]["ts"], "ranks do not run at one time")
    profile, report = (read_json(name) for name in ("profile.json", "report.json"))
    exchanges = [row for row in profile["kernels"] if row["kernel"] == "exchange"]
    check(exchanges and all(row["count"] % 3 == 0 for row in exchanges), f"profile: {exchanges}")
    for row in exchanges:
        longest = max(event["dur"] for event in slices[0] if event["args"]["moved_bytes"] == row["moved_bytes"])
        check(row["median_ns"] <= 1000 * longest + 1, f"{row}: {longest} us on rank 0")
    check(len(report["rank_step_ns"]) == 4 and max(report["rank_step_ns"]) == report["step_ns"], f"{report}")
    rank = [tool.path("run"), "model.plan", "--steps", 1, "--text", TEXT, "--report", "report.json"]
    must(run([MPIRUN, "-n", 3, *rank, ":", "-n", 1, "-x", f"MALLOC_TOP_PAD_={PAD_BYTES}", *rank]))
    del os.environ["MALLOC_ARENA_MAX"]
    fullest = read_json("report.json")["address_bytes"]
    sanitized = report["address_bytes"] > 1 << 40  # whose malloc knows no such padding
    check(sanitized or fullest >= report["address_bytes"] + 0.9 * PAD_BYTES, f"rank 3 is not the fullest: {fullest} of {report}")


def of_other_size():
    make_plan("gpt2", "fp32", "--mesh", "dp=4")
    begin = time.monotonic()
    done = ranks(2, "model.plan", "--steps", 1)
    check(time.monotonic() - begin < DEADLINE_S + GRACE_S, f"2 of 4: {time.monotonic() - begin:.1f} s")
    refused(done, USAGE, "the plan is for 4 ranks, mpirun started 2 processes", "2 of 4")
    make_plan("gpt2", "fp32")
    done = ranks(2, "model.plan", "--steps", 1)
    refused(done, USAGE, "the plan is for 1 ranks, mpirun started 2 processes", "2 of 1")
    check("loss" in must(ranks(1, "model.plan", "--steps", 1)).stdout, "one process")


def differ():
    """Ranks with another plan, build, text, beginning or options end before the first step, and write nothing."""
    for name, options in (("a.plan", ()), ("b.plan", ("--recompute-granularity", "selective"))):
        make_plan("gpt2", "fp32", "--mesh", "dp=2", *options)
        pathlib.Path("model.plan").rename(name)
    library = os.path.realpath(tool.folder / "../runtime/exec/libremat.so")
    pathlib.Path("lib").mkdir()
    pathlib.Path("lib/libremat.so.0").write_bytes(pathlib.Path(library).read_bytes() + b"another build")
    pathlib.Path("short").write_bytes(TEXT.read_bytes()[:-1])
    for name, rate in ("a", 1e-3), ("b", 2e-3):
        tool.must("run", "a.plan", "--text", TEXT, "--steps", 1, "--lr", rate, "--save-weights", f"{name}.w",
                  "--checkpoint", f"{name}.c")
    say = [tool.path("run"), "a.plan", "--steps", 2, "--timeout", DEADLINE_S, "--save-weights", "never", "--text", TEXT]
    options = "set of options, or other data,"
    cases = [("plan", say, [say[0], "b.plan", *say[2:]]),
             ("build of remat", say, ["env", f"LD_LIBRARY_PATH={os.getcwd()}/lib", *say]),
             (options, say, [*say[:3], 3, *say[4:]]),
             (options, say, [*say[:-1], "short"]),
             (options, say, [*say, "--trace", "t.json"]),
             (options, [*say, "--profile", "p.json"], say),
             (options, say, [*say, "--engine", "mpi"]),
             (options, [*say, "--device", "cpu"], say),
             ("file of --init", [*say, "--init", "a.w"], [*say, "--init", "b.w"]),
             ("file of --init", [*say, "--init", "a.w"], say),
             ("checkpoint of --resume", [*say, "--lr", 1e-3, "--resume", "a.c"], [*say, "--lr", 1e-3, "--resume", "b.c"])]
    pathlib.Path("extra.graph").write_text(graph_of_input(2))
    tool.must("compile", "extra.graph", "--mesh", "dp=2", "-o", "extra.plan")
    for name in "a", "b":
        pathlib.Path(f"{name}.in").write_bytes(safetensors({"extra": ("F32", [16, 8], name.encode() * 512)}))
    given = [say[0], "extra.plan", *say[2:], "--input"]
    cases.append((options, [*given, "extra=a.in"], [*given, "extra=b.in"]))
    for what, first, second in cases:
        begin = time.monotonic()
        done = run([MPIRUN, "-n", 1, *first, ":", "-n", 1, *second])
        check(time.monotonic() - begin < DEADLINE_S + GRACE_S, f"{what}: {time.monotonic() - begin:.1f} s")
        refused(done, USAGE, f"rank 1 has another {what} than rank 0", *second)
        check("step 1 loss" not in done.stdout and not pathlib.Path("never").exists(), f"{what}: {done.stdout}")


def fails():
    """A rank with a failure of its own: the job has its code, and its message."""
    make_plan("gpt2", "fp32", "--mesh", "dp=2")
    first = [tool.path("run"), "model.plan", "--text", TEXT, "--save-weights", "never", "--timeout", DEADLINE_S]
    begin = time.monotonic()
    done = run([MPIRUN, "-n", 1, *first, "--checkpoint", "/proc/none", ":", "-n", 1, *first, "--checkpoint", "/proc/none"])
    check(done.returncode == IO and "/proc/none" in done.stderr and time.monotonic() - begin < DEADLINE_S + GRACE_S,
          f"no folder for checkpoints: {done.returncode} after {time.monotonic() - begin:.1f} s: {done.stderr}")
    pathlib.Path("bad").write_bytes(b"\xff" * 100)
    done = run([MPIRUN, "-n", 2, tool.path("run"), "model.plan", "--text", "bad", "--steps", 3, "--lr", 1e30,
               "--save-weights", "never", "--report", "report.json"])
    check(done.returncode == NOT_FINITE and "step 2: the loss is not finite" in done.stderr
          and not read_json("report.json")["completed"], f"{done.returncode}: {done.stderr}")
    check(not pathlib.Path("never").exists(), "failed: weights were written")


def stops():
    """All ranks end after the same step when the time is over, and go on with the bits of threads that had the time."""
    make_plan("gpt2", "fp32", "--mesh", "dp=2")
    say = ["model.plan", "--json", "--checkpoint", "stopped", "--resume", "stopped"]
    done = ranks(2, *say, "--steps", 1000000, "--stop-after", "700ms")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    check(done.returncode == INTERRUPTED and done.stderr.count("stopped after step") == 1
          and f"stopped after step {len(lines)} of 1000000 (--stop-after 700ms)" in done.stderr, f"{done.returncode}: {done.stderr}")
    steps = len(lines) + 2
    more = ranks(2, *say, "--steps", steps, "--stop-after", "10min")
    whole = tool.must("run", "model.plan", "--text", TEXT, "--json", "--steps", steps)
    check([*map(bits, lines), *hashes(more)] == hashes(whole), f"{lines}, then {more.stdout}")


@scratch()
def main():
    if sys.argv[3:] == ["all"]:
        for family, dtype, count in itertools.product(("gpt2", "llama", "bert", "encdec"), ("fp32", "bf16"), (2, 4, 8)):
            same_as_one_rank(family, dtype, count)
            print(family, dtype, count, *faults, flush=True)
    if sys.argv[3:] != ["part"]:
        same_as_threads("llama", "bf16", 4, "--zero", 3, "--recompute", "*.gathered")
        same_as_threads("bert", "bf16", 2, "--microbatches", 2)
    same_as_threads("gpt2", "bf16", 4, "--mesh", "dp=2,tp=2", "--microbatches", 2, "--zero", 3, "--sequence-parallel")
    same_as_threads("llama", "bf16", 2, "--mesh", "tp=2", "--recompute-granularity", "full",
                    "--recompute-method", "uniform", "--distribute-saved-activations")
    same_as_threads("gpt2", "bf16", 4, "--zero", 1, "--exchange-size", 3000)
    recorded()
    stops()
    of_other_size()
    differ()
    fails()
    finish()


main()
