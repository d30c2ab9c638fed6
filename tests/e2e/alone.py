# SPDX-License-Identifier: Apache-2.0
"""A run that is left alone: killed or interrupted at random moments and begun again by the same command until that
succeeds, under another plan each time, it ends with the bits of one that was not killed, in steps, log, checkpoints and
weights. Its log and its last words.

    alone.py TOOLS_DIRECTORY [KILLS [SEED]]      5 kills in the suite, 100 by hand"""
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INTERRUPTED, IO, NOT_FINITE, USAGE, Tools, check, faults, finish, scratch

tool = Tools(sys.argv[1], timeout=300)
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
STEPS, EVERY, SEQ, BATCH = 40, 3, 16, 4
PLANS = {"one.plan": ["--microbatches", 2], "small.plan": ["--microbatches", 2, "--budget", "138MB"], "two.plan": ["--mesh", "dp=2"],
         "zero.plan": ["--mesh", "dp=2", "--zero", 1], "three.plan": ["--mesh", "dp=2", "--zero", 3]}
SUMS = {f"sums{zero}.plan": ["--mesh", "dp=2", "--microbatches", 2, "--zero", zero] for zero in (0, 1, 3)}  # other bits, and with 3 others again
FALL = ["--lr", 3e-3, "--schedule", "cosine", "--warmup", 5, "--min-lr", 1e-4]
RUN = ["--tokens", "a.bin", "b.bin", "--steps", STEPS, *FALL, "--eval-every", 7, "--eval-steps", 2, "--threads", 1, "--hash"]
TIMES = "tokens_per_s", "step_ns", "unix_s"


def steps_of(output):
    """Those whose line is whole."""
    return {int(step): line for line, step in re.findall(r"^(step (\d+) .*)\n", output, re.M)}


def log_of(path, killed=False):
    """Of a run that was killed without a line that is not whole."""
    lines = pathlib.Path(path).read_text().splitlines(keepends=True)
    lines = [json.loads(line) for line in lines if line.endswith("\n") or not killed]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def prepare():
    generator = random.Random(3)
    for name, count in (("a.bin", 1000), ("b.bin", 700)):  # ids with something to learn, nearly three epochs
        ids = [7 * i % 31 + generator.randrange(3) for i in range(count)]
        pathlib.Path(name).write_bytes(struct.pack(f"<{count}H", *ids))
    tool.must("graph", "gpt2-tiny", "--layers", 2, "--batch", BATCH, "--seq", SEQ, "--dropout", 0.1, "--dtype", "bf16", "-o", "m.fbs")
    for name, options in {**PLANS, **SUMS}.items():
        tool.must("compile", "m.fbs", *options, "-o", name)


# --- kills ---

def repeatable(plan):
    return ["run", plan, *RUN, "--checkpoint", "c", "--every", EVERY, "--resume", "c", "--log", "log",
            "--save-weights", "w"]


def check_life(whole):
    check(pathlib.Path("w").read_bytes() == pathlib.Path("whole.w").read_bytes(), "other weights")
    check(log_of("log") == log_of("whole.log"), "another log:", log_of("log"))
    last = f"step-{STEPS:010}.safetensors"
    check(sorted(os.listdir("c"))[-1] == last and len(os.listdir("c")) <= 2, os.listdir("c"))
    check(pathlib.Path("c", last).read_bytes() == pathlib.Path("whole.c", last).read_bytes(), "another checkpoint")
    shutil.rmtree("c")
    for name in "w", "log":
        os.unlink(name)


def kill(plans, count, whole, longest):
    """At moments of a run's whole life: `longest` follows what this machine makes of it. At least half of the kills are
    after a checkpoint, so that a later process goes on from there."""
    generator = random.Random(SEED)
    kills = lives = runs = late = 0
    while kills < count or late < count / 2 or os.path.exists("c"):
        more = kills < count or late < count / 2
        process = tool.start(*repeatable(plans[runs % len(plans)]))
        runs += 1
        try:
            output, errors = process.communicate(timeout=generator.random() * longest if more else 300)
            longest *= 0.8
        except subprocess.TimeoutExpired:
            process.send_signal(generator.choice((signal.SIGKILL, signal.SIGTERM)))
            output, errors = process.communicate()
            longest *= 1.1
        check(process.returncode in (0, INTERRUPTED, -signal.SIGKILL, -signal.SIGTERM), process.returncode, errors)
        for step, line in steps_of(output).items():
            check(line == whole[step], "step", step, line, whole[step])
        if process.returncode == 0:
            lives += 1
            check_life(whole)
        else:
            kills += 1
            late += os.path.isdir("c") and len(os.listdir("c")) > 0
        if faults:
            break
    print(f"{kills} kills in {runs} runs, {late} of them behind a checkpoint; {lives} came to their end")


def kills():
    *sums, parts = SUMS
    for plans, count in (sums, KILLS // 2), ([parts], KILLS // 4), (list(PLANS), KILLS):
        begin = time.monotonic()
        done = tool.must("run", plans[0], *RUN, "--log", "whole.log", "--save-weights", "whole.w", "--checkpoint", "whole.c",
                         "--every", EVERY)
        whole = steps_of(done.stdout)
        check(list(whole) == list(range(1, STEPS + 1)), "steps", list(whole))
        kill(plans, count, whole, time.monotonic() - begin)
        shutil.rmtree("whole.c")


# --- the log ---

def expected_lr(step):
    if step <= 5:
        return 3e-3 * step / 5
    return 1e-4 + (3e-3 - 1e-4) * (1 + math.cos(math.pi * (step - 6) / (STEPS - 5))) / 2


def logs():
    for line in map(json.loads, pathlib.Path("whole.log").read_text().splitlines()):
        step = line["step"]
        check(abs(line["lr"] - expected_lr(step)) < 1e-6 * line["lr"], "lr", line)
        check(("eval_loss" in line) == (step % 7 == 0 or step == STEPS), "evaluations", line)
        check(line["tokens"] == step * BATCH * SEQ and line["step_ns"] > 0 and abs(line["unix_s"] - time.time()) < 3600, line)
    losses = [line["eval_loss"] for line in log_of("whole.log") if "eval_loss" in line]
    check(losses[-1] < losses[0] - 0.5, "nothing is learned", losses)
    short = "one.plan", "--tokens", "a.bin", "--threads", 1
    tool.must("run", *short, "--steps", 4, "--checkpoint", "d", "--every", 2, "--log", "x")
    whole = pathlib.Path("x").read_text()
    again = [*short, "--steps", 6, "--resume", "d"]
    reward = '{"step":5,"reward":1}\n'  # another program's
    for foreign in ("mine\n", "mine", whole + "mine\n", '{"st', whole.splitlines()[0], reward, whole + reward, "x" * 2000,
                    whole + '{"step":5,' * 100):
        for command in again, [*short, "--steps", 2]:
            pathlib.Path("notes").write_text(foreign)
            done, line = tool("run", *command, "--log", "notes"), 1 + whole.count("\n") * foreign.startswith(whole)
            check(done.returncode == USAGE and f"--log notes: line {line} is no step's: take another file" in done.stderr and
                  pathlib.Path("notes").read_text() == foreign, done.stderr)
    for before in "", whole:
        longer_than_memory(before, [*short, "--steps", 2])
    pathlib.Path("x").write_text(whole + '{"step":5,"loss":1,"lr":1,"unix_s":1}\n{"step":6,"lo')  # killed while it wrote
    tool.must("run", *again, "--log", "x")
    check(pathlib.Path("x").read_text().startswith(whole) and [line["step"] for line in log_of("x")] == [1, 2, 3, 4, 5, 6], "goes on")
    tool.must("run", *again, "--log", "new")
    check([line["step"] for line in log_of("new")] == [5, 6], "a new file")
    done = tool("run", *again, "--eval-every", 2, "--eval-steps", 1)
    check(done.returncode == USAGE and re.search(r"without what --eval-every holds out for evaluation, is \d+, of", done.stderr),
          done.stderr)
    tool.must("run", *short, "--steps", 2, "--log", "x")
    check([line["step"] for line in log_of("x")] == [1, 2], "a run that begins")
    done = tool.must("run", *short, "--steps", 2, "--log", "/dev/stderr")
    check(len(done.stderr.splitlines()) == 2, done.stderr)
    done = tool("run", *short, "--log", "a.bin")
    check(done.returncode == USAGE and "--log 'a.bin' is the same file as --tokens 'a.bin'" in done.stderr, done.stderr)
    done = tool("run", *short, "--log", "nowhere/x")
    check(done.returncode == IO and "nowhere/x: No such file" in done.stderr, done.stderr)
    done = tool("run", *short, "--steps", 9, "--log", "/dev/full")
    check(done.returncode == IO and "/dev/full: cannot write: No space left" in done.stderr, done.stderr)


def longer_than_memory(before, command):
    """A line of 2^33 zeros, most of them a hole, where 2^32 bytes may be had."""
    pathlib.Path("notes").write_text(before)
    os.truncate("notes", len(before) + 2**33)
    done = tool("run", *command, "--log", "notes", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)))
    with open("notes") as file:
        kept = file.read(len(before)) == before
    check(done.returncode == USAGE and "is no step's: take another file" in done.stderr and kept and
          os.stat("notes").st_size == len(before) + 2**33, done.stderr)


def fifos():
    """Says for whom it waits, and the first SIGTERM ends that."""
    os.mkfifo("fifo")
    train = ["run", "one.plan", "--tokens", "a.bin", "--threads", "1", "--steps", "2"]
    for option, codes in (("--log", [INTERRUPTED]), ("--trace", [-signal.SIGTERM])):
        process = tool.start(*train, option, "fifo")
        said = process.stderr.readline()
        process.terminate()
        try:
            rest = process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            rest = "waits on"
        check("fifo: waiting for a process that reads from it" in said and process.returncode in codes, option, said, rest)
        process = tool.start(*train, option, "fifo")
        said = process.stderr.readline()
        got = json.loads("[" + pathlib.Path("fifo").read_text().rstrip().replace("}\n{", "},{") + "]")
        process.communicate()
        check(process.returncode == 0 and len(got) == (2 if option == "--log" else 1), option, said, got)
    os.rename("fifo", "fifo.csv")
    for options in (["-o", "fifo.csv"], ["--curve", "fifo.csv"]):
        process = tool.start("compile", "m.fbs", *options)
        said = process.stderr.readline()
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
        check("fifo.csv: waiting for a process that reads from it" in said and
              process.returncode in (INTERRUPTED, -signal.SIGTERM), options, said, process.returncode)


def locks():
    """Two processes do not write to one folder, or one log; a killed one leaves neither locked."""
    short = "one.plan", "--tokens", "a.bin", "--threads", "1", "--steps"
    first = tool.start("run", *short, 1000000, "--checkpoint", "held", "--every", 1, "--log", "held.log",
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while first.poll() is None and not list(pathlib.Path().glob("held/step-*.safetensors")):
            time.sleep(0.01)
        for options in ([], ["--resume", "held"]):
            done = tool("run", *short, 1000000, "--checkpoint", "held", *options)
            check(done.returncode == USAGE and "--checkpoint held: another process writes to this folder" in done.stderr, done.stderr)
        done = tool("run", *short, 2, "--log", "held.log")
        check(done.returncode == USAGE and "--log held.log: another process writes to this file" in done.stderr, done.stderr)
    finally:
        first.kill()
        first.wait()
    lines = log_of("held.log", killed=True)
    check([line["step"] for line in lines] == list(range(1, len(lines) + 1)), "the log")
    tool.must("run", *short, len(lines) + 2, "--checkpoint", "held", "--resume", "held", "--log", "held.log")


# --- last words ---

def last_words():
    """The last good checkpoint is named, also one of the run before, and only if there is a good one."""
    short = "one.plan", "--tokens", "a.bin", "--threads", 1, "--steps", 40
    done = tool("run", *short, "--lr", 1e30)
    check(done.returncode == NOT_FINITE and re.search(r"step \d+: .* is not finite\n", done.stderr), done.stderr)
    for end in (["--checkpoint", "e", "--every", 1], ["--resume", "e", "--checkpoint", "e"], ["--resume", "e"]):
        if "--resume" in end:
            tool.must("run", *short[:-1], 3, "--checkpoint", "e", "--every", 1)
        done = tool("run", *short, *end, "--lr", 1e30)
        names = sorted(os.listdir("e"))
        check(done.returncode == NOT_FINITE and names and done.stderr.endswith(
            f" is not finite; the last good checkpoint is e/{names[-1]}\n"), done.stderr, names)
        shutil.rmtree("e")
    tool.must("run", *short[:-1], 3, "--checkpoint", "e")
    with open("e/step-0000000003.safetensors", "r+b") as file:
        at = 8 + struct.unpack("<Q", file.read(8))[0]
        size = file.seek(0, os.SEEK_END) - at
        file.seek(at)
        file.write(b"\xff" * size)  # NaN
    done = tool("run", *short, "--resume", "e")
    check(done.returncode == NOT_FINITE and done.stderr.endswith("step 4: the loss is not finite\n"), done.stderr)
    shutil.rmtree("e")
    done = tool("run", *short, "--resume", "e")
    check(done.returncode == IO and "e: No such file" in done.stderr, done.stderr)


@scratch()
def main():
    prepare()
    for part in (kills, logs, fifos, locks, last_words):
        part()
    finish()


main()
