# SPDX-License-Identifier: Apache-2.0
"""Plans of several ranks under mpirun: loss, gradients and weights have the bits of threads of one process; rank 0
alone prints and writes; unfit numbers of processes are refused, and a rank that fails ends the job with its code.

    run_mpi.py TOOLS_DIRECTORY MPIRUN [all | part]     all: every family, dtype, number of ranks and --zero, ten steps of each;
                                                      part: what runs other code, for builds with sanitizers"""
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TOOLS, MPIRUN = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
STRETCH = TOOLS.parent / "tests/e2e/stretch"  # transfers beside commands
TEXT = pathlib.Path(__file__).resolve().parent.parent / "data/genesis_exodus.txt"
USAGE, IO, NOT_FINITE = 2, 5, 8
DEADLINE_S, GRACE_S = 2, 3
PAD_BYTES = 1 << 28
EXTRA = """graph "extra"
optimizer sgd { weight_decay = 0.0 }
symbol batch = 2
input %tokens : i32[batch,16]
input %targets : i32[batch,16]
input %extra : f32[16,8]
parameter %table : f32[256,8] = normal(0.0, 0.02)
%x : f32[batch,16,8] = embedding %table %tokens phase forward
%y : f32[batch,16,8] = add %x %extra phase forward
%logits : f32[batch,16,256] = linear %y %table { transpose_weight = 1 } phase forward
%loss : f32[] output, %loss.1 : f32[batch,16,1] = cross_entropy %logits %targets phase loss
output %loss
"""
faults = []


def check(good, what):
    if not good:
        faults.append(f"FAILED: {what}")


def run(work, *command):
    return subprocess.run([str(part) for part in command], cwd=work, encoding="utf-8", capture_output=True)


def must(done):
    if done.returncode != 0:
        sys.exit(f"{done.args}: {done.stderr}")
    return done


def ranks(work, count, *arguments):
    return run(work, MPIRUN, "-n", count, TOOLS / "remat-run", *arguments, "--text", TEXT)


def make_plan(work, family, dtype, *options):
    dropout = () if family == "llama" else ("--dropout", 0.1)
    must(run(work, TOOLS / "remat-graph", f"{family}-tiny", "--batch", 8, "--seq", 16, "--dtype", dtype, *dropout,
             "-o", "model.fbs"))
    must(run(work, TOOLS / "remat-compile", "model.fbs", *options, "-o", "model.plan"))


def hashes(done):
    return [{key: value for key, value in json.loads(line).items() if "hash" in key or key == "loss"}
            for line in must(done).stdout.splitlines()]


def same_as_threads(work, family, dtype, count, *options, steps=3):
    mesh = () if "--mesh" in options else ("--mesh", f"dp={count}")
    make_plan(work, family, dtype, *mesh, *options)
    must(run(work, STRETCH, "model.plan"))
    say = ["--steps", steps, "--hash", "--json"]
    threads = must(run(work, TOOLS / "remat-run", "model.plan", "--text", TEXT, *say, "--save-weights", "threads",
                       "--checkpoint", "of_threads", "--every", 2))
    processes = ranks(work, count, "model.plan", *say, "--save-weights", "processes", "--report", "report.json",
                      "--checkpoint", "of_processes", "--every", 2)
    what = f"{family} {dtype} on {count} ranks {options}"
    check(hashes(threads) == hashes(processes) and len(hashes(processes)) == steps, f"{what}: {processes.stdout}")
    check((work / "threads").read_bytes() == (work / "processes").read_bytes(), f"{what}: weights differ")
    written = [{path.name: path.read_bytes() for path in (work / folder).iterdir()}
               for folder in ("of_threads", "of_processes")]
    shutil.rmtree(work / "of_threads")
    shutil.rmtree(work / "of_processes")
    check(written[0] == written[1] and len(written[0]) == 2, f"{what}: checkpoints differ")
    report = json.loads((work / "report.json").read_text())
    check(report["ranks"] == count and report["engine"] == "mpi" and report["completed"], f"{what}: {report}")
    check(processes.stderr.endswith(f"remat-run: all {count} ranks have finished\n"), f"{what}: {processes.stderr}")
    check("processes that mpirun started" in processes.stderr and processes.stderr.count("predicted") == 1,
          f"{what}: {processes.stderr}")
    return hashes(threads)


def same_as_one_rank(work, family, dtype, count):
    """Threads and processes have the bits of microbatches on one rank, with and without ZeRO."""
    make_plan(work, family, dtype, "--microbatches", count)
    one = hashes(run(work, TOOLS / "remat-run", "model.plan", "--text", TEXT, "--steps", 10, "--hash", "--json",
                     "--save-weights", "one"))
    for zero in 0, 1, 3:
        ranks = same_as_threads(work, family, dtype, count, "--zero", zero, steps=10)
        check(ranks == one and (work / "one").read_bytes() == (work / "threads").read_bytes(),
              f"{family} {dtype} on {count} ranks, --zero {zero}: other bits than {count} microbatches on one")


def recorded(work):
    """Trace, profile and report of all ranks; the plan is the last one of four ranks."""
    must(ranks(work, 4, "model.plan", "--steps", 3, "--trace", "trace.json", "--profile", "profile.json",
               "--report", "report.json"))
    trace = json.loads((work / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in trace if event["name"] == "process_name"}
    check(names == {f"rank {r}": r + 1 for r in range(4)}, f"processes of the trace: {names}")
    slices = [[event for event in trace if event["ph"] == "X" and event["pid"] == r + 1] for r in range(4)]
    for mine in slices:
        check([event["name"] for event in mine] == [event["name"] for event in slices[0]] and len(mine) > 100,
              "ranks run other commands")
        check(mine[0]["ts"] < slices[0][-1]["ts"] and slices[0][0]["ts"] < mine[-1]["ts"], "ranks do not run at one time")
    profile, report = (json.loads((work / name).read_text()) for name in ("profile.json", "report.json"))
    exchanges = [row for row in profile["kernels"] if row["kernel"] == "exchange"]
    check(exchanges and all(row["count"] % 3 == 0 for row in exchanges), f"profile: {exchanges}")
    for row in exchanges:
        longest = max(event["dur"] for event in slices[0] if event["args"]["moved_bytes"] == row["moved_bytes"])
        check(row["median_ns"] <= 1000 * longest + 1, f"{row}: {longest} us on rank 0")
    check(len(report["rank_step_ns"]) == 4 and max(report["rank_step_ns"]) == report["step_ns"], f"{report}")
    rank = [TOOLS / "remat-run", "model.plan", "--steps", 1, "--text", TEXT, "--report", "report.json"]
    must(run(work, MPIRUN, "-n", 3, *rank, ":", "-n", 1, "-x", f"MALLOC_TOP_PAD_={PAD_BYTES}", *rank))
    fullest = json.loads((work / "report.json").read_text())["address_bytes"]
    sanitized = report["address_bytes"] > 1 << 40  # whose malloc knows no such padding
    check(sanitized or fullest >= report["address_bytes"] + 0.9 * PAD_BYTES, f"rank 3 is not the fullest: {fullest} of {report}")


def refused(work):
    make_plan(work, "gpt2", "fp32", "--mesh", "dp=4")
    begin = time.monotonic()
    done = ranks(work, 2, "model.plan", "--steps", 1)
    check(time.monotonic() - begin < DEADLINE_S + GRACE_S, f"2 of 4: {time.monotonic() - begin:.1f} s")
    check(done.returncode == USAGE and "the plan is for 4 ranks, mpirun started 2 processes" in done.stderr,
          f"2 of 4: {done.returncode} {done.stderr}")
    make_plan(work, "gpt2", "fp32")
    done = ranks(work, 2, "model.plan", "--steps", 1)
    check(done.returncode == USAGE and "the plan is for 1 ranks, mpirun started 2 processes" in done.stderr,
          f"2 of 1: {done.returncode} {done.stderr}")
    check("loss" in must(ranks(work, 1, "model.plan", "--steps", 1)).stdout, "one process")


def differ(work):
    """Ranks with another plan, build, text, beginning or options end before the first step, and write nothing."""
    for name, options in (("a.plan", ()), ("b.plan", ("--recompute-granularity", "selective"))):
        make_plan(work, "gpt2", "fp32", "--mesh", "dp=2", *options)
        (work / "model.plan").rename(work / name)
    library = os.path.realpath(TOOLS / "../runtime/exec/libremat.so")
    (work / "lib").mkdir()
    (work / "lib/libremat.so.0").write_bytes(pathlib.Path(library).read_bytes() + b"another build")
    (work / "short").write_bytes(pathlib.Path(TEXT).read_bytes()[:-1])
    for name, rate in ("a", 1e-3), ("b", 2e-3):
        must(run(work, TOOLS / "remat-run", "a.plan", "--text", TEXT, "--steps", 1, "--lr", rate, "--save-weights", f"{name}.w",
                 "--checkpoint", f"{name}.c"))
    say = [TOOLS / "remat-run", "a.plan", "--steps", 2, "--timeout", DEADLINE_S, "--save-weights", "never", "--text", TEXT]
    options = "set of options, or other data,"
    cases = [("plan", say, [say[0], "b.plan", *say[2:]]),
             ("build of remat", say, ["env", f"LD_LIBRARY_PATH={work}/lib", *say]),
             (options, say, [*say[:3], 3, *say[4:]]),
             (options, say, [*say[:-1], "short"]),
             (options, say, [*say, "--trace", "t.json"]),
             (options, [*say, "--profile", "p.json"], say),
             (options, say, [*say, "--engine", "mpi"]),
             (options, [*say, "--device", "cpu"], say),
             ("file of --init", [*say, "--init", "a.w"], [*say, "--init", "b.w"]),
             ("file of --init", [*say, "--init", "a.w"], say),
             ("checkpoint of --resume", [*say, "--lr", 1e-3, "--resume", "a.c"], [*say, "--lr", 1e-3, "--resume", "b.c"])]
    (work / "extra.graph").write_text(EXTRA)
    must(run(work, TOOLS / "remat-compile", "extra.graph", "--mesh", "dp=2", "-o", "extra.plan"))
    for name in "a", "b":
        header = b'{"extra":{"dtype":"F32","shape":[16,8],"data_offsets":[0,512]}}'
        (work / f"{name}.in").write_bytes(len(header).to_bytes(8, "little") + header + name.encode() * 512)
    given = [say[0], "extra.plan", *say[2:], "--input"]
    cases.append((options, [*given, "extra=a.in"], [*given, "extra=b.in"]))
    for what, first, second in cases:
        begin = time.monotonic()
        done = run(work, MPIRUN, "-n", 1, *first, ":", "-n", 1, *second)
        check(time.monotonic() - begin < DEADLINE_S + GRACE_S, f"{what}: {time.monotonic() - begin:.1f} s")
        check(done.returncode == USAGE and f"rank 1 has another {what} than rank 0" in done.stderr,
              f"{second}: {done.returncode} {done.stderr}")
        check("step 1 loss" not in done.stdout and not (work / "never").exists(), f"{what}: {done.stdout}")


def fails(work):
    """A rank with a failure of its own: the job has its code, and its message."""
    make_plan(work, "gpt2", "fp32", "--mesh", "dp=2")
    first = [TOOLS / "remat-run", "model.plan", "--text", TEXT, "--save-weights", "never", "--timeout", DEADLINE_S]
    begin = time.monotonic()
    done = run(work, MPIRUN, "-n", 1, *first, "--checkpoint", "/proc/none", ":", "-n", 1, *first, "--checkpoint", "/proc/none")
    check(done.returncode == IO and "/proc/none" in done.stderr and time.monotonic() - begin < DEADLINE_S + GRACE_S,
          f"no folder for checkpoints: {done.returncode} after {time.monotonic() - begin:.1f} s: {done.stderr}")
    (work / "bad").write_bytes(b"\xff" * 100)
    done = run(work, MPIRUN, "-n", 2, TOOLS / "remat-run", "model.plan", "--text", "bad", "--steps", 3, "--lr", 1e30,
               "--save-weights", "never", "--report", "report.json")
    check(done.returncode == NOT_FINITE and "step 2: the loss is not finite" in done.stderr
          and not json.loads((work / "report.json").read_text())["completed"], f"{done.returncode}: {done.stderr}")
    check(not (work / "never").exists(), "failed: weights were written")


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if sys.argv[3:] == ["all"]:
            for family, dtype, count in itertools.product(("gpt2", "llama", "bert", "encdec"), ("fp32", "bf16"), (2, 4, 8)):
                same_as_one_rank(work, family, dtype, count)
                print(family, dtype, count, *faults, flush=True)
        if sys.argv[3:] != ["part"]:
            same_as_threads(work, "llama", "bf16", 4, "--zero", 3, "--recompute", "*.gathered")
            same_as_threads(work, "bert", "bf16", 2, "--microbatches", 2)
        same_as_threads(work, "gpt2", "bf16", 4, "--mesh", "dp=2,tp=2", "--microbatches", 2, "--zero", 3, "--sequence-parallel")
        same_as_threads(work, "llama", "bf16", 2, "--mesh", "tp=2", "--recompute-granularity", "full",
                        "--recompute-method", "uniform", "--distribute-saved-activations")
        same_as_threads(work, "gpt2", "bf16", 4, "--zero", 1, "--exchange-size", 3000)
        recorded(work)
        refused(work)
        differ(work)
        fails(work)
    sys.exit("\n".join(faults) or 0)


main()
