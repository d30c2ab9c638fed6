# SPDX-License-Identifier: Apache-2.0
"""Command lines of every tool that are run with the n-th call of a family failing (shim.c): what they
read, what they write, and what is checked after each run.

    with faults.Workplace(BUILD_DIRECTORY) as place:
        for command in faults.COMMANDS:
            counts = place.run(command).counts                 # {"memory": 812, "write": 4, ...}
            for n in faults.points(counts["write"], 10):
                result = place.run(command, "write", n, error="ENOSPC")
                faults.check(command, result)                  # raises AssertionError

A run begins in a folder that holds the inputs, and old files in the places of the outputs. `check` asks of
a command that failed: a documented exit code, a message, every old file whole, no new ones; of one that
succeeded: every output new and whole, nothing else."""
import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAMILIES = ("memory", "write", "name", "remove", "sync")
CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8)
OLD = b"old\n"
OLD_MODE = 0o640  # of no new file


class Command:
    """`arguments`: after the tool's name. `outputs`: files that it writes, with how the new ones are known to
    be whole: "same", as the run without a fault writes them; "json" or "safetensors", what varies from run to
    run; "folder", a folder of files that are the same. `environment`: more of it."""

    def __init__(self, name, tool, arguments, outputs=(), environment=()):
        self.name, self.tool, self.arguments = name, tool, arguments
        self.outputs, self.environment = dict(outputs), dict(environment)

    def __repr__(self):
        return self.name


def compile_(name, *arguments, **outputs):
    return Command(f"compile {name}", "compile", ["m.fbs", *arguments], outputs.get("outputs", {}))


def run(name, *arguments, **outputs):
    return Command(f"run {name}", "run", ["in.plan", "--text", "text.txt", "-j", "1", "--device", "cpu", *arguments],
                   outputs.get("outputs", {}))


CUBINS = ["--arch", "sm_80", "--nvrtc", "@nvrtc@"]
COMMANDS = [
    Command("graph", "graph", ["mlp-tiny", "-o", "g.fbs"], {"g.fbs": "same"}),
    Command("graph text", "graph", ["mlp-tiny", "--text"]),
    Command("graph list", "graph", ["--list"]),
    Command("graph config", "graph", ["config.json", "--text", "-o", "g.graph"], {"g.graph": "same"}),
    compile_("plan", "-o", "m.plan", outputs={"m.plan": "same"}),
    compile_("default plan", outputs={"m.plan": "same"}),
    compile_("json", "-o", "m.plan", "--format", "json", "--budget", "140MB", outputs={"m.plan": "same"}),
    compile_("curve csv", "--curve", "c.csv", outputs={"c.csv": "same"}),
    compile_("curve", "--curve", "c.json", "--budget", "140MB", "-o", "m.plan",
             outputs={"c.json": "same", "m.plan": "same"}),
    compile_("all", "--emit-cuda", "cuda", "--curve", "c.svg", "--budget", "140MB", "-o", "m.plan",
             outputs={"c.svg": "same", "m.plan": "same", "cuda": "folder"}),
    compile_("cubins", "-o", "m.plan", "--emit-cuda", "cuda", *CUBINS, "--cache", "none",
             outputs={"m.plan": "same", "cuda": "folder"}),
    compile_("profile", "--profile", "profile.json", "--bind", "batch=auto:1..2", "--budget", "140MB", "-o", "m.plan",
             outputs={"m.plan": "same"}),
    compile_("ranks", "--ranks", "2", "--mesh", "dp=2", "--zero", "1", "--global-batch", "4", "--budget", "140MB",
             "-o", "m.plan", outputs={"m.plan": "same"}),
    compile_("parts", "--mesh", "dp=2", "--zero", "3", "--bind", "batch=2", "--budget", "140MB", "-o", "m.plan",
             outputs={"m.plan": "same"}),
    compile_("passes", "--print-after", "autodiff", "-o", "m.plan", outputs={"m.plan": "same"}),
    Command("dump", "dump", ["in.plan"]),
    Command("dump json", "dump", ["in.plan", "--format", "json", "-o", "d.json"], {"d.json": "same"}),
    Command("dump decisions", "dump", ["in.plan", "--decisions", "--format", "json"]),
    Command("dump memory", "dump", ["in.plan", "--memory", "--format", "csv", "-o", "d.csv"], {"d.csv": "same"}),
    Command("dump kernels", "dump", ["in.plan", "--kernels", "-o", "d.txt"], {"d.txt": "same"}),
    Command("dump schedule", "dump", ["in.plan", "--schedule"]),
    Command("dump check", "dump", ["in.plan", "--check"]),
    Command("dump why", "dump", ["in.plan", "--why", "*"]),
    Command("dump graph", "dump", ["m.fbs", "--text", "-o", "d.txt"], {"d.txt": "same"}),
    Command("solve", "solve", ["problem.json", "--budget", "60%", "-o", "s.json"], {"s.json": "same"}),
    Command("solve curve", "solve", ["problem.json", "--curve", "-o", "s.svg"], {"s.svg": "same"}),
    Command("solve to standard output", "solve", ["problem.json", "--budget", "60%"]),
    run("train", "--steps", "2"),
    run("json", "--steps", "2", "--json", "--hash", "--init", "in.safetensors"),
    run("report", "--steps", "1", "--report", "r.json", outputs={"r.json": "json"}),
    run("profile", "--steps", "3", "--profile", "p.json", outputs={"p.json": "json"}),
    run("trace", "--steps", "1", "--trace", "t.json", outputs={"t.json": "json"}),
    run("weights", "--steps", "1", "--save-initial-weights", "w0.safetensors", "--save-weights", "w1.safetensors",
        "--save-gradients", "g.safetensors",
        outputs={"w0.safetensors": "same", "w1.safetensors": "same", "g.safetensors": "same"}),
    run("all", "--steps", "3", "--report", "r.json", "--profile", "p.json", "--trace", "t.json",
        "--save-weights", "w1.safetensors", "--save-gradients", "g.safetensors",
        outputs={"r.json": "json", "p.json": "json", "t.json": "json", "w1.safetensors": "same",
                 "g.safetensors": "same"}),
    Command("run threads", "run", ["in.plan", "--text", "text.txt", "-j", "3", "--device", "cpu", "--steps", "2"]),
    run("eval", "--steps", "2", "--eval", "--trace", "t.json", outputs={"t.json": "json"}),
    Command("run input", "run", ["given.plan", "--tokens", "ids.bin", "-j", "1", "--device", "cpu", "--steps", "1", "--hash",
                                 "--input", "extra=extra.safetensors"]),
    Command("run ranks", "run", ["ranks.plan", "--text", "text.txt", "-j", "1", "--steps", "2", "--hash", "--init",
                                 "index.json", "--report", "r.json", "--save-weights", "w.safetensors"],
            {"r.json": "json", "w.safetensors": "same"}),
]


class Result:
    """What a run left: code (negative: the signal that ended it), stdout, stderr, counts ({} if it was killed),
    files and before: {name: (mode, bytes)} of the folder, whole is what the run without a fault left."""

    def __init__(self, code, stdout, stderr, counts, before, files, whole):
        self.code, self.stdout, self.stderr, self.counts = code, stdout, stderr, counts
        self.before, self.files, self.whole = before, files, whole


def snapshot(folder):
    """{name below folder: (mode, bytes)}; of folders and links the bytes are None and the target."""
    found = {}
    for where, folders, names in os.walk(folder):
        for name in folders + names:
            path = os.path.join(where, name)
            state = os.lstat(path)
            data = None
            if stat.S_ISLNK(state.st_mode):
                data = os.readlink(path)
            elif stat.S_ISREG(state.st_mode):
                with open(path, "rb") as file:
                    data = file.read()
            found[os.path.relpath(path, folder)] = (state.st_mode, data)
    return found


def points(count, most):
    """1 ... count, or `most` of them, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + i * (count - 1) // (most - 1) for i in range(most)})


class Workplace:
    """A scratch folder with inputs for all commands. Not for several threads."""

    def __init__(self, build, in_memory=True):
        self.build = os.path.abspath(build)
        self.shim = os.path.join(self.build, "tests/faults/fault_shim.so")
        self.nvrtc = os.path.join(self.build, "tests/nvrtc")
        memory = "/dev/shm" if in_memory and os.access("/dev/shm", os.W_OK) else None  # fsync costs nothing
        self.scratch = tempfile.TemporaryDirectory(dir=memory)
        self.inputs, self.folder = (os.path.join(self.scratch.name, name) for name in ("inputs", "run"))
        self.tool = harness.Tools(build, cwd=self.inputs)
        self.whole = {}
        self.prepare()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.scratch.cleanup()

    def prepare(self):
        os.mkdir(self.inputs)
        shutil.copy(harness.TEXT, os.path.join(self.inputs, "text.txt"))
        shutil.copy(os.path.join(ROOT, "tests/golden/ir/config-llama.json"), os.path.join(self.inputs, "config.json"))
        with open(os.path.join(self.inputs, "problem.json"), "w", encoding="utf-8") as file:
            nodes = [{"name": f"n{i}", "time": 1, "bytes": 8, "inputs": [] if i == 0 else [i - 1] if i < 6
                      else [i - 1, 11 - i]} for i in range(12)]
            json.dump({"schema": "remat-problem/1", "nodes": nodes}, file)
        self.tool.must("graph", "mlp-tiny", "-o", "m.fbs")
        self.tool.must("compile", "m.fbs", "-o", "in.plan")
        self.tool.must("compile", "m.fbs", "--mesh", "dp=3", "--zero", "3", "--bind", "batch=3", "-o", "ranks.plan")
        self.tool.must("run", "in.plan", "--text", "text.txt", "-j", "1", "--steps", "3", "--profile", "profile.json",
                       "--save-weights", "in.safetensors")
        for name, data in (("given.graph", harness.graph_of_input(1).encode()), ("ids.bin", bytes([7, 0] * 200)),
                           ("index.json", b'{"weight_map":{"any":"in.safetensors"}}'),
                           ("extra.safetensors", harness.safetensors({"extra": ("F32", [16, 8], bytes(512))}))):
            with open(os.path.join(self.inputs, name), "wb") as file:
                file.write(data)
        self.tool.must("compile", "given.graph", "-o", "given.plan")

    def lay_out(self, command, old=True):
        """The folder before a run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.inputs, self.folder)
        for name, kind in command.outputs.items() if old else ():
            path = os.path.join(self.folder, name)
            if kind == "folder":
                os.mkdir(path)
                os.chmod(path, 0o775)  # more than mkdir gives under the usual umask
                continue
            with open(path, "wb") as file:
                file.write(OLD)
            os.chmod(path, OLD_MODE)

    def start(self, command, **streams):
        """The process, in the folder as it is."""
        words = [word.replace("@nvrtc@", self.nvrtc) for word in command.arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": self.scratch.name, "LC_ALL": "C.UTF-8",
                       **command.environment, **streams.pop("environment", {})}
        return subprocess.Popen([self.tool.path(command.tool), *words], cwd=self.folder, env=environment, **streams)

    def run(self, command, family=None, at=0, mode="once", error="ENOSPC", fat=False, old=True):
        """`mode`: "once", "on" (from the n-th on) or "kill". `fat`: as on a file system without hard links and files
        that have no name. `old`: there are old files in the places of the outputs."""
        if command.name not in self.whole and at:
            self.run(command)
        self.lay_out(command, old)
        before = snapshot(self.folder)
        count_path = os.path.join(self.scratch.name, "counts")
        if os.path.exists(count_path):
            os.remove(count_path)
        faults = {"LD_PRELOAD": self.shim, "REMAT_FAULT_FAMILY": family or "", "REMAT_FAULT_AT": str(at),
                  "REMAT_FAULT_MODE": mode, "REMAT_FAULT_ERROR": str(getattr(errno, error)),
                  "REMAT_FAULT_COUNT": count_path}
        if fat:
            faults["REMAT_FAULT_FAT"] = "1"
        process = self.start(command, environment=faults, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        stdout, stderr = process.communicate(timeout=100)
        counts = {}
        if os.path.exists(count_path):
            with open(count_path, encoding="utf-8") as file:
                counts = {key: int(value) for key, value in map(str.split, file)}
        files = snapshot(self.folder)
        if at == 0:
            self.whole[command.name] = files
        return Result(process.returncode, stdout, stderr.decode("utf-8", "replace"), counts, before, files,
                      self.whole[command.name])


def is_whole(kind, data, expected, early=False):
    """Whether a file's bytes are those of a run that nothing happened to; one that ended early has other weights."""
    if kind == "json":
        try:
            json.loads(data)
        except ValueError:
            return False
        return True
    if early:
        header = 8 + int.from_bytes(expected[:8], "little")
        return len(data) == len(expected) and data[:header] == expected[:header]
    return data == expected


def expected_names(command, whole):
    return {name for name in whole if name in command.outputs or os.path.dirname(name) in command.outputs}


def check_new(command, result, early=False):
    """All outputs are new and whole, an old file's mode is kept, nothing else has changed."""
    assert set(result.files) == set(result.whole), (command, set(result.files) ^ set(result.whole))
    for name, (mode, data) in result.files.items():
        if name not in expected_names(command, result.whole):
            assert (mode, data) == result.before[name], (command, name, "is changed")
            continue
        kind = command.outputs.get(name, "same")
        assert is_whole(kind, data, result.whole[name][1], early), (command, name, "is not whole")
        if kind != "folder" and name in result.before:
            assert mode == result.before[name][0], (command, name, oct(mode))


def check_old(command, result):
    """Nothing has changed, no temporary file is left."""
    for name in sorted(set(result.before) | set(result.files)):
        assert name in result.files, (command, name, "is gone")
        assert name in result.before, (command, name, "is new")
        assert result.files[name] == result.before[name], (command, name, "is changed")


def check(command, result, codes=CODES):
    """After a failed call."""
    context = (command, result.code, result.stderr)
    assert result.code in codes, context
    if result.code == 0:
        check_new(command, result)
        return
    message = [line for line in result.stderr.splitlines() if line.startswith(f"remat-{command.tool}: error: ")]
    assert len(message) == 1 and len(message[0]) > len(f"remat-{command.tool}: error: "), context
    trained = command.tool == "run" and result.code == 5 and "error: standard output: " in message[0]
    if trained and result.files != result.before:  # what was trained before standard output failed is kept
        check_new(command, result, early=True)
    else:
        check_old(command, result)


def check_killed(command, result):
    """After SIGKILL: each output by itself is the old file or the new one; temporary files may be left, under
    names that say whose they are."""
    assert result.code == -signal.SIGKILL, (command, result.code, result.stderr)
    for name, (mode, data) in result.before.items():
        assert name in result.files, (command, name, "is gone")
        if result.files[name] == (mode, data):
            continue
        kind = command.outputs.get(name)
        assert kind, (command, name, "is changed")
        assert result.files[name][0] == mode, (command, name, oct(result.files[name][0]))
        assert is_whole(kind, result.files[name][1], result.whole[name][1]), (command, name, "is torn")
    for name in set(result.files) - set(result.before):
        if name in expected_names(command, result.whole):
            kind = command.outputs.get(name, "same")
            assert is_whole(kind, result.files[name][1], result.whole[name][1]), (command, name, "is torn")
        else:
            assert re.search(r"\.remat-tmp($|/)", name), (command, name, "is left")
    for folder in (name for name, kind in command.outputs.items() if kind == "folder"):
        inside = {name for name in result.files if os.path.dirname(name) == folder}
        assert not inside or inside == {name for name in result.whole if os.path.dirname(name) == folder}, command


