# SPDX-License-Identifier: Apache-2.0
"""Runs end well: texts of any size within the budget, losses that are not finite, ids and targets outside
the vocabulary, signals, closed standard streams, inputs that are pipes.

    runs.py TOOLS_DIRECTORY LIMIT

LIMIT: of the address space of a run, bytes; 0: none, for sanitizers, whose shadow is larger."""
import gzip
import json
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import (INTERRUPTED, INVALID, IO, NOT_FINITE, OUT_OF_MEMORY, TEXT, Tools, check, finish, must, read_json, refused,
                     run, scratch)

LIMIT_S = 120  # of a process; a loaded machine takes its time: nothing may wait for ever
tool = Tools(sys.argv[1], timeout=LIMIT_S, errors="replace")
LIMIT = int(sys.argv[2])
HUGE = 10 << 30  # bytes of a text


def train(*arguments, text=TEXT, **settings):
    return tool("run", "model.plan", "--text", text, "--threads", 1, *arguments, **settings)


# --- texts ---

def texts():
    """A sparse one of 10 GB, in an address space of the budget; cut off meanwhile; no files at all."""
    limit = {"preexec_fn": lambda: LIMIT and resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))}
    with open("huge.txt", "wb") as file:
        file.truncate(HUGE)
    small, huge = pathlib.Path("small.txt"), pathlib.Path("huge.txt")
    small.write_bytes(bytes(3))  # wraps within a row
    lines = [train("--steps", 3, "--hash", text=text, **limit) for text in (huge, small)]
    check(all(done.returncode == 0 for done in lines), "a text of 10 GB", lines[0].stderr)
    hashes = [re.findall("step .*", done.stdout)[:3] for done in lines]
    check(hashes[0] == hashes[1] and len(hashes[0]) == 3, "zeros", hashes)
    packed = pathlib.Path("text.gz")
    packed.write_bytes(gzip.compress(small.read_bytes()) * 40)
    done = must(train("--steps", 1, text=packed))
    check("warning: text.gz: no text: gzip; the run is on its bytes\n" in done.stderr, done.stderr)
    check("warning" not in must(train("--steps", 1)).stderr, "a text")
    refused(train(text="/dev/zero", **limit), IO, re.compile("/dev/zero: not a regular file"), "an endless text")
    refused(train(text="/dev/null"), IO, re.compile("/dev/null: not a regular file"), "an empty text")
    with tool.start("run", "model.plan", "--text", huge, "--steps", 1000000) as process:
        process.stdout.readline()
        os.truncate(huge, 100)
        _, message = process.communicate(timeout=LIMIT_S)
    check(process.returncode == IO and re.search(rf"huge.txt: it ends before byte \d+, and had {HUGE}\n", message), "truncated",
          process.returncode, message)
    huge.unlink()


def vocabularies():
    """A byte that the model does not have is refused before the first step if a step will read it."""
    tool.must("graph", "gpt2-tiny", "--batch", 1, "--seq", 16, "--vocab", 128, "-o", "ascii.fbs")
    tool.must("compile", "ascii.fbs", "-o", "ascii.plan")
    for place, steps in ((40, 3), (48, 3)):
        pathlib.Path("latin.txt").write_bytes(b"a" * place + b"\xe9" + b"a" * 100)
        done = tool("run", "ascii.plan", "--text", "latin.txt", "--steps", steps)
        refused(done, INVALID, re.compile(f"latin.txt: byte {place} is 233, beyond the model's vocabulary of 128"))
        check(not done.stdout, "refused after a step", done.stdout)
    tool.must("run", "ascii.plan", "--text", "latin.txt", "--steps", 1)


# --- results that are not finite ---

def losses():
    weights = pathlib.Path("weights.safetensors")
    weights.write_text("old")
    outputs = {"--report": "report.json", "--trace": "trace.json", "--profile": "profile.json",
               "--save-gradients": "gradients.safetensors"}
    options = ["--lr", 1e30, "--save-weights", weights] + [word for pair in outputs.items() for word in pair]
    done = train("--steps", 9, *options)
    refused(done, NOT_FINITE, re.compile("step 2: the loss is not finite"), "infinite learning rate")
    check("step 2 loss" in done.stdout and "step 3" not in done.stdout, "steps", done.stdout)
    check(weights.read_text() == "old", "the old weights are gone")
    for path in outputs.values():
        check(os.path.exists(path) and os.path.getsize(path), path, "is missing")
    check(read_json("report.json")["steps"] == 2, "the report's steps")
    done = train("--steps", 9, "--lr", 1e30, "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    check(done.returncode == NOT_FINITE and (last["step"], last["loss"]) == (2, None), "--json", done.stdout)


def last_update():
    """Loss and gradients of the only step are finite, the weights that it leaves are not."""
    weights = pathlib.Path("weights.safetensors")
    weights.write_text("old")
    for plan in ("model.plan", "bf16.plan"):
        done = tool("run", plan, "--text", TEXT, "--steps", 1, "--lr", 3e38, "--save-weights", weights)
        refused(done, NOT_FINITE, re.compile("step 1: a parameter is not finite"), "an update to infinity")
        check(weights.read_bytes() == b"old", "the old weights are gone")


def initial_weights():
    """NaN in a table: --eval ends after its first window, --json too; --lr of nothing comes into it."""
    path = pathlib.Path("nan.safetensors")
    must(train("--steps", 1, "--save-initial-weights", path))
    data = bytearray(path.read_bytes())
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    data[begin:] = struct.pack("<f", float("nan")) * ((len(data) - begin) // 4)
    path.write_bytes(data)
    for options in (["--eval"], ["--eval", "--json"], []):
        done = train("--steps", 3, "--init", path, *options)
        check(done.returncode == NOT_FINITE and "step 1: the loss is not finite" in done.stderr and
              "mean loss" not in done.stdout + done.stderr, "NaN", options, done.returncode, done.stderr)


NARROW = """graph "narrow"
optimizer sgd {{ weight_decay = 0.0 }}
symbol batch = 2
input %tokens : i32[batch,16]
input %targets : i32[batch,16]
parameter %table : f32[{rows},8] = normal(0.0, 0.02)
parameter %head : f32[8,{classes}] = normal(0.0, 0.02)
%x : f32[batch,16,8] = embedding %table %tokens phase forward
%logits : f32[batch,16,{classes}] = linear %x %head phase forward
%loss : f32[] output, %loss.1 : f32[batch,16,1] = cross_entropy %logits %targets {attributes} phase loss
output %loss
"""


def indices():
    """One id and one target of a step are 120; the model has as many rows and classes or one less."""
    pathlib.Path("letters.txt").write_bytes((b"a" * 31 + b"x") * 3)
    text = "letters.txt: byte 31 is 120, beyond the model's vocabulary of 120"
    for rows, classes, attributes, message in (
            (121, 121, "", None), (121, 120, "", text), (120, 121, "", text),
            (121, 120, "{ ignore_index = -100 }", text), (121, 120, "{ ignore_index = 120 }", None),
            (121, 120, "{ ignore_index = 130 }", 'tensor "targets": element 30 is 120, accepted: 0 to 119 and 130')):
        pathlib.Path("narrow.graph").write_text(NARROW.format(rows=rows, classes=classes, attributes=attributes))
        for options in [], ["--microbatches", 2], ["--loss-chunk", 8]:
            tool.must("compile", "narrow.graph", "-o", "narrow.plan", *options)
            done = tool("run", "narrow.plan", "--text", "letters.txt", "--steps", 2)
            if message:
                refused(done, INVALID, re.compile(message), (rows, classes, attributes, options))
                check(not done.stdout, "refused after a step", done.stdout)
            else:
                check(done.returncode == 0 and done.stderr == "", rows, classes, attributes, options, done.stderr)


# --- devices ---

def devices():
    """A plan for a GPU runs on the CPU when it is told to, not by itself; one for a CPU needs no word."""
    tool.must("compile", "model.fbs", "--target", "h100-sxm", "--arch", "none", "-o", "gpu.plan")
    arguments = ["gpu.plan", "--text", TEXT, "--steps", 1, "--threads", 1]
    blind = {"env": dict(os.environ, CUDA_VISIBLE_DEVICES="")}
    refused(tool("run", *arguments, **blind), IO, re.compile("the plan is for h100-sxm: .*--device cpu.*"), "a plan for a GPU")
    tool.must("run", *arguments, "--device", "cpu", **blind)
    tool.must("compile", "model.fbs", "--mesh", "dp=2", "--bind", "batch=2", "--target", "h100-sxm", "--arch", "none", "-o", "gpu.plan")
    refused(tool("run", *arguments, **blind), IO, re.compile(
        "the plan is for h100-sxm, and there is no GPU for each of its ranks: run it with --device cpu"), "ranks of a plan for GPUs")
    tool.must("run", *arguments, "--device", "cpu", **blind)


# --- memory ---

def memory():
    """An arena that the machine or the process's limit has no room for is refused before it is touched."""
    tool.must("graph", "mlp", "--layers", 1, "--width", 131072, "--vocab", 1 << 24, "-o", "vast.fbs")
    tool.must("compile", "vast.fbs", "--arch", "none", "-o", "vast.plan")
    done = tool("run", "vast.plan", "--text", TEXT)
    exact = r"[\d,]+ B \([\d.]+ [GTP]iB\)"
    refused(done, OUT_OF_MEMORY, re.compile(
        f"the (machine|control group) has {exact} of memory free, the plan needs {exact}: "
        "compile with a smaller --budget, or end what else runs there"), "a vast plan")
    numbers = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) B", done.stderr)]
    available = int(re.search(r"MemAvailable: *(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
    check(numbers[0] < available + (1 << 30) and numbers[1] > 1 << 45, "free and needed:", numbers, available)
    if LIMIT:
        done = tool("run", "vast.plan", "--text", TEXT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)))
        refused(done, OUT_OF_MEMORY, re.compile(
            r"the limit of this process's address space \(ulimit -v\) leaves "
            f"{exact}, the plan needs {exact}: raise it, or compile with a smaller --budget"), "a limited address space")


# --- signals ---

def begin_training(*options, **settings):
    process = tool.start("run", "model.plan", "--text", TEXT, "--save-weights", "w", *options, **settings)
    process.stdout.readline()
    return process


def signals():
    """The first ends the training, the second the process; one that is ignored stays ignored."""
    by_default = {"preexec_fn": lambda: [signal.signal(number, signal.SIG_DFL) for number in
                                         (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        pathlib.Path("w").unlink(missing_ok=True)
        with begin_training("--steps", "1000000", **by_default) as process:
            process.send_signal(number)
            _, message = process.communicate(timeout=LIMIT_S)
        check(process.returncode == INTERRUPTED and re.search(r"interrupted after step \d+ of 1000000\n", message) and
              os.path.exists("w"), number, process.returncode, message)
    pathlib.Path("w").unlink()
    with begin_training("--steps", "1000000", **by_default) as process:
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=LIMIT_S)
    check(process.returncode == -signal.SIGTERM and not os.path.exists("w"), "two signals", process.returncode)
    master, slave = os.openpty()
    with tool.start("run", "model.plan", "--text", TEXT, "--save-weights", "w", "--steps", 1000000, stdout=slave, stderr=slave,
                    **by_default) as process:
        os.read(master, 1)
        os.close(slave)
        os.close(master)
        process.send_signal(signal.SIGHUP)
    check(process.returncode == INTERRUPTED and os.path.exists("w"), "a terminal that is gone", process.returncode)
    with begin_training("--steps", "50", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        process.send_signal(signal.SIGHUP)
        _, message = process.communicate(timeout=LIMIT_S)
    check(process.returncode == 0 and "interrupted" not in message, "nohup", process.returncode, message)


# --- standard streams ---

def closed(descriptors, name, *arguments):
    """With standard streams that are closed from the start."""
    ends = " ".join(f"{d}{'<' if d == 0 else '>'}&-" for d in descriptors)
    words = " ".join(f"'{word}'" for word in (tool.path(name), *arguments))
    return run(["bash", "-c", f"{words} {ends}"], errors="replace", timeout=LIMIT_S)


def streams():
    """The files have what they have otherwise, and a closed standard output is an error."""
    weights, trace = pathlib.Path("w.safetensors"), pathlib.Path("t.json")
    command = ["run", "model.plan", "--text", TEXT, "--steps", 2, "--trace", trace, "--save-weights", weights, "--json"]
    tool.must(*command)
    expected, commands = weights.read_bytes(), len(json.loads(trace.read_text())["traceEvents"])
    for descriptors in (0,), (1,), (2,), (0, 1, 2):
        weights.write_bytes(b"")
        trace.write_text("")
        done = closed(descriptors, *command)
        lost = 1 in descriptors
        check(done.returncode == (IO if lost else 0), "closed", descriptors, done.returncode, done.stderr)
        if 1 in descriptors and 2 not in descriptors:
            check(done.stderr == "remat-run: error: standard output: nothing can be written to it\n", done.stderr)
        if weights.read_bytes() or not lost:
            check(weights.read_bytes() == expected, "closed", descriptors, "weights")
        if trace.read_text() or not lost:
            try:
                check(len(json.loads(trace.read_text())["traceEvents"]) == commands, "closed", descriptors, "trace")
            except ValueError as error:
                check(False, "closed", descriptors, error)
    with tool.start("run", "model.plan", "--text", TEXT, "--steps", 1000000, stderr=None, preexec_fn=lambda: os.close(0)) as process:
        process.stdout.readline()
        check(os.readlink(f"/proc/{process.pid}/fd/0") == "/dev/null", "another file has the number of standard input")
        process.kill()
    check(closed((0,), "solve", "-", "--budget", 10).returncode == IO, "a closed standard input")
    check(closed((1,), "dump", "model.plan").returncode == IO, "nothing to print on")


# --- pipes ---

def pipes():
    """A pipe that nobody writes into is refused at once wherever a file is read; remat-solve tells and waits."""
    os.mkfifo("pipe.json")
    fifo = "pipe.json"
    for command in (["run", fifo, "--text", TEXT], ["run", "model.plan", "--text", fifo],
                    ["run", "model.plan", "--text", TEXT, "--init", fifo], ["dump", fifo], ["compile", fifo],
                    ["compile", "model.fbs", "--target", fifo, "-o", "x.plan"],
                    ["compile", "model.fbs", "--profile", fifo, "-o", "x.plan"], ["graph", fifo]):
        try:
            refused(tool(*command), IO, re.compile(f"{fifo}: not a regular file"), command)
        except subprocess.TimeoutExpired:
            check(False, command, "waits")
    for command in (["run", "model.plan", "--text", "/dev/stdin"], ["dump", "/dev/stdin"]):
        refused(tool(*command, input="x" * 1000), IO, re.compile("/dev/stdin: not a regular file"), command)
    problem = json.dumps({"schema": "remat-problem/1", "nodes": [{"name": "x", "time": 1, "bytes": 1, "inputs": []}]})
    for name in fifo, "-":
        with tool.start("solve", name, "--budget", 10, stdin=subprocess.PIPE) as process:
            line = process.stderr.readline()
            shown = "standard input" if name == "-" else name
            check(line == f"remat-solve: {shown}: waiting for data\n", "waiting for", name, line)
            if name == "-":
                process.stdin.write(problem)
                process.stdin.close()
            else:
                time.sleep(.1)
                pathlib.Path(name).write_text(problem)
            process.wait(timeout=LIMIT_S)
            check(process.returncode == 0 and json.load(process.stdout)["feasible"], name, process.stderr.read())


@scratch()
def main():
    tool.must("graph", "gpt2-tiny", "-o", "model.fbs")
    tool.must("compile", "model.fbs", "--budget", LIMIT or "140MB", "-o", "model.plan")
    tool.must("graph", "gpt2-tiny", "--dtype", "bf16", "-o", "bf16.fbs")
    tool.must("compile", "bf16.fbs", "-o", "bf16.plan")
    for part in (texts, vocabularies, losses, last_update, initial_weights, indices, devices, memory, signals, streams, pipes):
        part()
    finish()


main()
