# SPDX-License-Identifier: Apache-2.0
"""The stage ranks: plans of two ranks on GPUs by each engine, and a rank that is killed. With one GPU ranks share it,
which NCCL refuses."""
import json
import os
import subprocess
import time

from machine import Fault, Skip

MODELS = {"gpt2 fp32": ["gpt2-tiny", "--dtype", "fp32", "--dropout", "0.1"], "llama bf16": ["llama-tiny", "--dtype", "bf16"]}
ZERO = {"gpt2 fp32": ["--zero", "3", "--recompute", "*.gathered"], "llama bf16": ["--zero", "1"]}
SHAPE = ["--layers", "1", "--batch", "2", "--seq", "19"]
RANKS, STEPS, LATE_S, SLACK_S = 2, 3, 5, 10
PORT = 23456
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def command(machine, work, name, *options):
    libraries = ["--cuda-libraries", machine.options.libraries] if machine.options.libraries else []
    return [machine.options.build / "tools/remat-run", work / name, "--ids", "zipf", "--device", "cuda", *libraries,
            "--hash", "--json", *options]


def environment(machine, work, more):
    return machine.for_tools | {"REMAT_DOUBLE_NCCL": str(work)} | more


def of_launcher(rank):
    """What torchrun leaves in the environment."""
    return {"WORLD_SIZE": str(RANKS), "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": "localhost", "MASTER_PORT": str(PORT + os.getpid() % 1000)}


def start(machine, work, rank, *options):
    return subprocess.Popen(list(map(str, command(machine, work, "ranks.plan", *options))), encoding="utf-8",
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environment(machine, work, of_launcher(rank)))


def end(machine, process):
    try:
        out, err = process.communicate(timeout=machine.limit())
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def needed(done):
    """Skips where the machine has too little for NCCL."""
    for lack in ["there is no GPU 1 for rank 1", "cannot open NCCL", "has version", "Duplicate GPU detected"]:
        if done.returncode and lack in done.stderr:
            raise Skip(next(line for line in done.stderr.splitlines() if lack in line))
    if done.returncode:
        raise Fault(f"exit code {done.returncode}: {done.stderr[-700:].strip()}")
    return done


def hashes(done):
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(line["loss_hash"], line["grad_hash"]) for line in lines]


def make_plans(machine, work, model):
    machine.graph(work, *MODELS[model], *SHAPE)
    machine.compile(work, "ranks.plan", "--mesh", f"dp={RANKS}", *ZERO[model])
    machine.compile(work, "parts.plan", "--microbatches", RANKS)


def run(machine, work, how):
    steps = ["--steps", STEPS]
    if how == "nccl, processes":
        processes = [start(machine, work, rank, *steps) for rank in range(RANKS)]
        done = [end(machine, process) for process in processes]
        return needed(done[1]) and needed(done[0])
    more, before = {}, []
    if how.endswith("mpirun"):
        more, before = MPI, ["mpirun", "-n", RANKS]
    engine = how.split(",")[0]
    return needed(machine.run(*before, *command(machine, work, "ranks.plan", *steps, "--engine", engine),
                              environment=environment(machine, work, more), accept=range(256)))


def bits(machine, work, model, how):
    """Those of one rank with as many microbatches."""
    make_plans(machine, work, model)
    done = run(machine, work, how)
    one = machine.run(*command(machine, work, "parts.plan", "--steps", STEPS), environment=machine.for_tools)
    said = next(line for line in done.stderr.splitlines() if line.startswith("ranks "))
    if hashes(done) != hashes(one) or len(hashes(one)) != STEPS:
        raise Fault(f"other bits than those of {RANKS} microbatches: {hashes(done)}, {hashes(one)}")
    return {"said": " ".join(said.split())}


def killed(machine, work):
    """The other rank says so, ends by its deadline, and not with 0."""
    make_plans(machine, work, "gpt2 fp32")
    pair = [start(machine, work, rank, "--steps", 1000000, "--timeout", LATE_S) for rank in range(RANKS)]
    if not pair[0].stdout.readline():
        pair[1].kill()
        needed(end(machine, pair[0]))
    pair[1].kill()
    begin = time.monotonic()
    done = end(machine, pair[0])
    seconds = time.monotonic() - begin
    end(machine, pair[1])
    if done.returncode == 0 or seconds > LATE_S + SLACK_S or done.stderr.count("error: ") != 1:
        raise Fault(f"exit code {done.returncode} after {seconds:.1f} s: {done.stderr[-700:]}")
    return {"said": done.stderr.strip().splitlines()[-1], "after_s": round(seconds, 1)}


def items():
    ways = ["local", "nccl", "nccl, processes", "nccl, mpirun"]
    return {**{f"{model} {how}": (bits, model, how) for model in MODELS for how in ways}, "killed": (killed,)}
