# SPDX-License-Identifier: Apache-2.0
"""Whole steps of plans of several ranks on the doubles, by every engine and rendezvous, each rank on a GPU: the bits
of one rank with as many microbatches, and of each other where ranks sum theirs first. What a failure says.

    ranks.py TOOLS LIBRARIES COMPILER LEAVE_LIBRARY"""
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from doubles import (CACHE, COMPILER, LIBRARIES, TEXT, check, finish, folder, graph, hashes, must, pathlib, plan,
                     run, tools, train)

# preset, dtype, ranks along dp and tp, microbatches, --zero, and how processes are started: the first in every way, the
# others in one
MODELS = [("gpt2-tiny", "fp32", 2, 1, 1, 3, ("torchrun", "srun", "mpi", "nccl by mpi")),
          ("llama-tiny", "bf16", 2, 2, 1, 1, ("torchrun",)), ("bert-tiny", "fp32", 3, 1, 1, 0, ("nccl by mpi",)),
          ("gpt2-tiny", "bf16", 2, 1, 2, 3, ("mpi",)), ("llama-tiny", "fp32", 1, 2, 1, 0, ("torchrun",))]
SHARDS = ["--recompute-granularity", "full", "--recompute-method", "uniform", "--distribute-saved-activations"]
RUN = ["--hash", "--json"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
USAGE, INFEASIBLE, IO, OTHER, LOST = 2, 3, 5, 1, 75
LEAVE = sys.argv[4]


def variables(work, **more):
    return {"REMAT_DOUBLE_NCCL": str(work), "REMAT_DOUBLE_COMPILER": COMPILER, "REMAT_DOUBLE_CACHE": str(CACHE),
            **{name: str(value) for name, value in more.items()}}


def threads(work, ranks, *options, of="ranks.plan", libraries=LIBRARIES, **more):
    return train(work, of, "cuda", *RUN, "--steps", 3, *options, libraries=libraries,
                 **variables(work, REMAT_DOUBLE_GPUS=ranks, **more))


def command(*options):
    steps = [] if "--steps" in options else ["--steps", 3]
    return [tools.path("run"), "ranks.plan", "--text", TEXT, "--device", "cuda", "--cuda-libraries", LIBRARIES,
            *map(str, [*RUN, *steps, *options])]


def mpirun(work, ranks, *options):
    """Each process sees all GPUs and has its own."""
    return run(["mpirun", "-n", ranks, *command(*options)], cwd=work, env=variables(work, REMAT_DOUBLE_GPUS=ranks))


LAUNCHERS = {"torchrun": lambda r, n, port: {"WORLD_SIZE": n, "RANK": r, "LOCAL_RANK": r, "LOCAL_WORLD_SIZE": n,
                                             "MASTER_ADDR": "localhost", "MASTER_PORT": port},
             "srun": lambda r, n, port: {"SLURM_STEP_NUM_TASKS": n, "SLURM_PROCID": r, "SLURM_LOCALID": r,
                                         "SLURM_STEP_TASKS_PER_NODE": f"{n}(x1)", "NCCL_COMM_ID": f"localhost:{port}"}}


def start(work, launcher, rank, ranks, port, *options, preload=""):
    """A process as a launcher without MPI starts it; it has one GPU, as with --gpus-per-task, under srun."""
    gpus = 1 if launcher == "srun" else ranks
    return subprocess.Popen(command(*options), cwd=work, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, **variables(work, REMAT_DOUBLE_GPUS=gpus, LD_PRELOAD=preload,
                                                           **LAUNCHERS[launcher](rank, ranks, port))})


def ended(process):
    out, error = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def together(work, launcher, ranks, *options):
    port = 20000 + time.monotonic_ns() // 1000 % 30000
    processes = [start(work, launcher, rank, ranks, port, *options) for rank in range(ranks)]
    return [ended(process) for process in processes]


def launched(work, launcher, ranks, *options):
    """Rank 0's; the others print nothing and end well."""
    done = together(work, launcher, ranks, *options)
    for each in done[1:]:
        check(each.returncode == 0 and not each.stdout, f"{launcher}: {each.stdout} {each.stderr}")
    return done[0]


def in_processes(work, ranks, ways):
    """What the engine is called, and the run."""
    nccl = "nccl, processes that"
    runs = {f"{nccl} {way} started, which met at localhost:": launched(work, way, ranks) for way in LAUNCHERS if way in ways}
    if shutil.which("mpirun") and "mpi" in ways:
        runs["mpi, processes that mpirun started"] = mpirun(work, ranks, "--engine", "mpi")
    if shutil.which("mpirun") and "nccl by mpi" in ways:
        runs[f"{nccl} mpirun started, which met by MPI"] = mpirun(work, ranks)
    return runs


def same_bits(work, preset, dtype, dp, tp, microbatches, zero, ways):
    ranks = dp * tp
    graph(work, preset, "--dtype", dtype, "--layers", 1, "--batch", dp * microbatches, "--seq", 18,
          *([] if preset == "llama-tiny" else ["--dropout", 0.1]))
    sequence = ["--sequence-parallel"] if tp > 1 and dp > 1 else []
    mesh = ["--mesh", f"dp={dp},tp={tp}", *sequence, "--microbatches", microbatches]
    policy = ["--recompute", "*.gathered"] if zero == 3 else SHARDS if tp > 1 and dp == 1 else []
    plan(work, "ranks.plan", *mesh, "--zero", zero, "--target", "h200", *policy,
         *(["--exchange-size", 3000] if zero else []))  # many tensors travel in pieces
    must(run([tools.folder.parent / "tests/e2e/stretch", "ranks.plan"], cwd=work))  # transfers go on beside commands
    parts = mesh if tp > 1 else ["--microbatches", dp * microbatches]
    plan(work, "parts.plan", *parts, "--target", "h200")
    runs = {"local, threads of this process": threads(work, ranks, "--engine", "local"),
            "local, threads": threads(work, 1, "--engine", "local", REMAT_DOUBLE_MEMORY=256 << 20),
            "nccl, threads of this process": threads(work, ranks), **in_processes(work, ranks, ways)}
    one = threads(work, 1, *(["--engine", "local"] if tp > 1 else []), of="parts.plan", REMAT_DOUBLE_MEMORY=256 << 20)
    expected = hashes(one if microbatches == 1 else runs["local, threads"])
    for name, done in runs.items():
        check(hashes(done) == expected and len(expected) == 3, f"{preset} {dtype} on {dp} x {tp} ranks, {name}: other bits")
        check(f"engine {name}" in done.stderr, f"{name}: {done.stderr}")


def says(done, code, *messages):
    check(done.returncode == code and all(message in done.stderr for message in messages)
          and done.stderr.count("error: ") == 1, f"expected {code} and {messages}: {done.returncode} {done.stderr}")


def with_nccl(work, nccl):
    """A folder of the other doubles, and this one."""
    made = pathlib.Path(work) / ("real" if nccl else "without")
    made.mkdir()
    for library in LIBRARIES.glob("lib*.so.*"):
        if library.is_file() and "nccl" not in library.name:
            shutil.copy(library, made)
    if nccl:
        (made / "libnccl.so.2").symlink_to(nccl)
    return made


def has_nccl():
    try:
        ctypes.CDLL("libnccl.so.2")
        return True
    except OSError:
        return False


def real_library(work):
    """NVIDIA's own makes its id, starts, and fails for want of a real driver, with one message."""
    wheels = sorted((ROOT / ".venv").glob("lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
    for wheel in wheels[-1:]:
        says(threads(work, 2, "--timeout", 60, libraries=with_nccl(work, wheel.resolve())), OTHER,
             "NCCL failed to bring all ranks together: ")
    print("NVIDIA's own NCCL:", *wheels[-1:])


def failures(work):
    """One message and a code other than 0, within the deadline."""
    graph(work, "gpt2-tiny", "--layers", 1, "--batch", 2, "--seq", 8)
    plan(work, "ranks.plan", "--mesh", "dp=2", "--target", "h200")
    if not has_nccl():
        says(threads(work, 2, libraries=with_nccl(work, None)), IO, "cannot open NCCL, libnccl.so.2")
    real_library(work)
    says(threads(work, 2, REMAT_DOUBLE_NCCL_VERSION=21212), IO, "NCCL has version 21212: install 2.14 or newer")
    says(threads(work, 2, REMAT_DOUBLE_FAIL="ncclGetUniqueId:2"), IO, "NCCL has no id for its ranks: ")
    says(threads(work, 2, REMAT_DOUBLE_FAIL="ncclCommInitRankConfig:1"), OTHER, "NCCL failed to bring all ranks together: ")
    says(threads(work, 2, REMAT_DOUBLE_FAIL="ncclSend:3"), OTHER, "NCCL failed to make connections: ")
    says(threads(work, 1), USAGE, "there is no GPU 1 for rank 1")
    says(threads(work, 2, REMAT_DOUBLE_NCCL_BREAK="1:9"), LOST, "rank 1 on ", ": NCCL failed at transfer",
         "remote process exited")
    begin = time.monotonic()
    says(threads(work, 2, "--timeout", 1, REMAT_DOUBLE_NCCL_BREAK="1:9", REMAT_DOUBLE_FAIL="ncclCommAbort:1"), LOST,
         "remote process exited")
    check(time.monotonic() - begin < 30, "an abort that hangs is not waited for")
    first, second = together(work, "torchrun", 2, "--report", "/dev/full", "--timeout", 3)
    says(first, IO, "/dev/full: cannot write")
    says(second, LOST, 'for NCCL at transfer', '"end"')
    plan(work, "ranks.plan", "--mesh", "dp=2", "--target", "h200", "--budget", "200MB", "--reserve", "20MB")
    must(threads(work, 2))
    says(threads(work, 2, REMAT_DOUBLE_NCCL_BYTES=64 << 20), INFEASIBLE, " bytes of the GPU are in use beside the arena")


def choice(work):
    """Without --device: GPUs where there is one for each rank, and NCCL; otherwise the CPU, if the plan is for one."""
    def choose(gpus, *options, **more):
        return train(work, "ranks.plan", None, "--steps", 1, *options, "--report", "report.json", libraries=LIBRARIES,
                     **variables(work, REMAT_DOUBLE_GPUS=gpus, **more))

    def chosen(*arguments, **more):
        done = must(choose(*arguments, **more))
        report = json.loads((pathlib.Path(work) / "report.json").read_text())
        return report["device"], report["engine"], done.stderr + done.stdout

    plan(work, "ranks.plan", "--mesh", "dp=2", "--target", "h200")
    check(chosen(2)[:2] == ("cuda", "nccl"), f"two GPUs: {chosen(2)}")
    check(chosen(1, "--device", "cpu")[:2] == ("cpu", "local"), "a plan for GPUs on the CPU")
    says(choose(1), IO, "the plan is for h200, and there is no GPU for each of its ranks: run it with --device cpu")
    says(choose(2, REMAT_DOUBLE_NCCL_VERSION=21212), IO, "NCCL has version 21212")
    says(choose(2, "--engine", "local"), USAGE, "the plan is for h200, and --engine does not say where it runs")
    plan(work, "ranks.plan", "--mesh", "dp=2")
    check(chosen(2)[:2] == ("cuda", "nccl"), f"two GPUs: {chosen(2)}")
    check(chosen(1)[:2] == ("cpu", "local"), f"one GPU: {chosen(1)}")
    check(chosen(2, "--engine", "local")[:2] == ("cpu", "local"), "an engine of the host's memory")
    old = chosen(2, REMAT_DOUBLE_NCCL_VERSION=21212)
    check(old[:2] == ("cpu", "local") and "the GPUs are not used: NCCL has version 21212" in old[2], f"an old NCCL: {old}")
    report = json.loads((pathlib.Path(work) / "report.json").read_text())
    check("2 x arena" in old[2] and report["engine_bytes"] == 0, f"memory on the CPU is that of two ranks: {old}")
    if shutil.which("mpirun"):
        for gpus, expected in [(2, "engine nccl"), (1, "engine mpi")]:
            command = ["mpirun", "-n", "2", tools.path("run"), "ranks.plan", "--text", TEXT, "--steps", "1",
                       "--cuda-libraries", LIBRARIES]
            done = must(run(command, cwd=work, env=variables(work, REMAT_DOUBLE_GPUS=gpus)))
            check(expected in done.stdout, f"mpirun with {gpus} GPUs: {done.stdout}")
    for options, message in [(["--engine", "nccl", "--device", "cpu"], "--engine nccl contradicts --device cpu"),
                             (["--engine", "mpi"], "--engine mpi: the ranks are threads of this process")]:
        says(train(work, "ranks.plan", None, *options), USAGE, message)


def traced(work):
    """Times of commands and transfers come from events on two streams, each of which does one thing after the other;
    transfers of a group have its time."""
    graph(work, "gpt2-tiny", "--layers", 1, "--batch", 2, "--seq", 8)
    plan(work, "ranks.plan", "--mesh", "dp=2", "--zero", 1, "--target", "h200")
    must(run([tools.folder.parent / "tests/e2e/stretch", "ranks.plan"], cwd=work))
    must(train(work, "ranks.plan", "cuda", "--steps", 3, "--trace", "trace.json",
               **variables(work, REMAT_DOUBLE_GPUS=2)))
    trace = json.loads((pathlib.Path(work) / "trace.json").read_text())["traceEvents"]
    for rank in range(2):
        lanes = [[event for event in trace if event["ph"] == "X" and (event["pid"], event["tid"]) == (rank + 1, tid)]
                 for tid in (1, 2)]
        check(all(event["args"]["kernel"] in ("exchange", "gather") for event in lanes[1]), "no transfer on its lane")
        for lane in lanes:
            spans = list(dict.fromkeys((event["ts"], event["dur"]) for event in lane))
            check(len(lane) > 50 and len(spans) > 20 and all(a[0] + a[1] <= b[0] + 0.01 for a, b in zip(spans, spans[1:])),
                  f"{len(lane)} on a lane of rank {rank}, not one after the other")


def absent(work):
    """A rank that never comes, and ones that stop, die or leave: the other ends by its deadline."""
    done = ended(start(work, "torchrun", 0, 2, 1, "--timeout", 1))
    says(done, LOST, "rank 0 on ", " waited 1 s for NCCL to bring all ranks together")
    ways = [signal.SIGSTOP, signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1, signal.SIGUSR2] # the last two: exit(0), exit(3)
    for number, way in enumerate(ways):
        victim = number % 2
        pair = [start(work, "torchrun", rank, 2, 3 + 2 * number, "--timeout", 2, "--steps", 100000, preload=LEAVE)
                for rank in range(2)]
        pair[0].stdout.readline()
        pair[victim].send_signal(way)
        begin = time.monotonic()
        says(ended(pair[1 - victim]), LOST, f"rank {1 - victim} on ", " waited 2 s for ", " (2 ranks)")
        check(time.monotonic() - begin < 2 + 3, f"{way}: it took {time.monotonic() - begin:.1f} s")
        pair[victim].kill()
        pair[victim].communicate()


def graphs(work):
    """With --cuda-graph ranks the third step on is a graph, transfers included: same losses and weights, in any order in
    which streams may run; an engine of the host's memory is refused. A rank that never comes to it is told by its run, and
    by its first and last transfer."""
    def trained(name, *options, steps=5, **more):
        log = pathlib.Path(work) / "log"
        log.unlink(missing_ok=True)
        done = train(work, "ranks.plan", "cuda", "--steps", steps, "--save-weights", name, *options,
                     **variables(work, REMAT_DOUBLE_GPUS=4, REMAT_DOUBLE_LOG=log, **more))
        launches = log.read_text().splitlines() if log.exists() else []
        losses = [line.split()[:4] for line in done.stdout.splitlines() if "loss" in line]
        return done, losses, (pathlib.Path(work) / name).read_bytes() if done.returncode == 0 else b"", launches

    graph(work, "llama-tiny", "--dtype", "bf16", "--layers", 1, "--batch", 12, "--seq", 18)
    for options in (["--mesh", "dp=2,tp=2", "--sequence-parallel", "--zero", 1, "--microbatches", 2],
                    ["--mesh", "dp=3", "--zero", 3]):
        plan(work, "ranks.plan", *options, "--target", "h200")
        must(run([tools.folder.parent / "tests/e2e/stretch", "ranks.plan"], cwd=work))
        ranks = 4 if "dp=3" not in options else 3
        without, losses, weights, launches = trained("a.safetensors")
        must(without)
        check(not launches and len(losses) == 5, f"graphs without --cuda-graph: {launches}, {losses}")
        if ranks == 3:
            done, found, bits, launches = trained("b.safetensors", "--engine", "local")
            check(found == losses and bits == weights and not launches, f"by local: {launches}, {found}: {done.stderr}")
        for eager in (0, 1, 2) if ranks == 4 else (0,):
            done, found, bits, launches = trained("b.safetensors", "--cuda-graph", "ranks", REMAT_DOUBLE_EAGER=eager)
            check(found == losses and bits == weights, f"{options}: eager {eager}: {found}, expected {losses}: {done.stderr}")
            check(len(launches) == 4 * ranks, f"{options}: {len(launches)} launches of graphs on {ranks} ranks")
    says(trained("c.safetensors", "--cuda-graph", "ranks", "--engine", "local")[0], USAGE,
         "--cuda-graph ranks: engine local moves memory of the host, and no graph has that")
    if shutil.which("mpirun"):
        log = pathlib.Path(work) / "log"
        log.unlink(missing_ok=True)
        say = command("--engine", "mpi", "--steps", 4)
        settings = {"cwd": work, "env": variables(work, REMAT_DOUBLE_GPUS=3, REMAT_DOUBLE_LOG=log)}
        must(run(["mpirun", "-n", 3, *say], **settings))
        check(not log.exists() or not log.read_text(), "by mpi a step is a graph")
        refusal = run(["mpirun", "-n", 3, *say, "--cuda-graph", "ranks"], **settings)
        check(refusal.returncode == USAGE and "--cuda-graph ranks: engine mpi moves memory of the host" in refusal.stderr, refusal.stderr)


def late_graph(work):
    """A rank that stops in a step that is a graph: its third or a later one, as each has at most 40 transfers."""
    graph(work, "gpt2-tiny", "--layers", 1, "--batch", 2, "--seq", 8)
    plan(work, "ranks.plan", "--mesh", "dp=2", "--target", "h200")
    done = train(work, "ranks.plan", "cuda", "--steps", 1000, "--cuda-graph", "ranks", "--timeout", 2,
                 **variables(work, REMAT_DOUBLE_GPUS=2, REMAT_DOUBLE_NCCL_STOP="1:150"))
    says(done, LOST, " waited 2 s for its GPU, last with run ", 'of "train" as one graph, from transfer ', " to transfer ",
         ": the GPU hangs, or another rank does not come")
    places = re.search(r'run (\d+) of "train" as one graph, from transfer (\d+) "[^"]+" to transfer (\d+) "', done.stderr)
    number, first, last = map(int, places.groups()) if places else (0, 0, 0)
    length = last - first + 1
    check(number > 2 and first == (number - 1) * length and 4 < length < 40, f"run {number}, transfers {first} to {last}")


with folder() as work:
    for model in MODELS:
        same_bits(work, *model)
    failures(work)
    choice(work)
    traced(work)
    graphs(work)
    late_graph(work)
    absent(work)
finish()
