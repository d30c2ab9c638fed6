# SPDX-License-Identifier: Apache-2.0
"""Where outputs lead: links, modes, devices, pipes, folders, file systems that lack something, outputs that are
inputs or one another, standard output that cannot be written to, and names that no reader would accept.

    places.py BUILD_DIRECTORY"""
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time

import faults
from faults import OLD, Command

NOBODY = 65534
TRAIN = ["in.plan", "--text", "text.txt", "-j", "1", "--device", "cpu", "--steps", "1"]


class Place:
    """One run in a fresh folder; paths are relative to it."""

    def __init__(self, place, outputs=()):
        self.place = place
        place.lay_out(Command("", "", [], {name: "same" for name in outputs}))
        self.before = None

    def path(self, name):
        return os.path.join(self.place.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write(self, name, data=OLD, mode=None):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(self.path(name), mode)

    def link(self, target, name):
        os.symlink(target, self.path(name))

    def mode(self, name):
        return stat.S_IMODE(os.stat(self.path(name)).st_mode)

    def run(self, tool, *arguments, code=0, says="", **streams):
        """Standard output, or the message where `code` is not 0; then nothing has changed either."""
        before = faults.snapshot(self.place.folder)
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        process = self.place.start(Command("", tool, arguments), **streams)
        stdout, stderr = process.communicate(timeout=60)
        stderr = stderr.decode()
        assert process.returncode == code, (tool, arguments, process.returncode, stderr)
        left = [name for name in faults.snapshot(self.place.folder) if "remat-tmp" in name]
        assert not left, (tool, arguments, left)
        if code == 0:
            return stdout
        assert re.search(says, stderr), (tool, arguments, stderr)
        assert faults.snapshot(self.place.folder) == before, (tool, arguments, "changed something")
        return stderr


def check_links(place):
    for tool, arguments in (("compile", ["m.fbs", "-o", "out"]), ("run", [*TRAIN, "--save-weights", "out"]),
                            ("dump", ["in.plan", "-o", "out"]), ("graph", ["mlp-tiny", "-o", "out"]),
                            ("solve", ["problem.json", "--budget", "60%", "-o", "out"]),
                            ("run", [*TRAIN, "--report", "out"])):
        p = Place(place)
        p.write("deep/real", mode=0o604)
        p.link("deep/second", "out")
        p.link("real", "deep/second")
        p.run(tool, *arguments)
        assert os.readlink(p.path("out")) == "deep/second" and os.path.islink(p.path("deep/second")), tool
        assert p.read("deep/real") != OLD and p.mode("deep/real") == 0o604, tool
    p = Place(place)  # a link to nothing yet
    os.mkdir(p.path("deep"))
    p.link("deep/new", "out")
    p.run("graph", "mlp-tiny", "-o", "out")
    assert os.path.islink(p.path("out")) and p.read("deep/new") == p.read("m.fbs")
    p = Place(place)
    p.link("out", "out")
    p.run("graph", "mlp-tiny", "-o", "out", code=5, says="out: Too many levels")


def check_modes(place):
    p = Place(place)
    p.write("old", mode=0o600)
    p.write("all", mode=0o666)
    os.link(p.path("old"), p.path("other"))
    for name in ("old", "all"):
        p.run("graph", "mlp-tiny", "-o", name)
    assert p.mode("old") == 0o600 and p.mode("all") == 0o666
    p.write("setuid", mode=0o6755)
    p.run("graph", "mlp-tiny", "-o", "setuid")
    assert p.mode("setuid") == 0o755
    assert p.read("other") == OLD and p.read("old") == p.read("m.fbs")
    before = os.umask(0o027)
    p.run("graph", "mlp-tiny", "-o", "new")
    p.run("compile", "m.fbs", "-o", "new.plan", "--emit-cuda", "cuda")
    os.umask(before)
    assert p.mode("new") == 0o640 and p.mode("new.plan") == 0o640 and p.mode("cuda") == 0o750
    if os.geteuid() != 0:
        p.write("mine", mode=0o400)
        p.run("graph", "mlp-tiny", "-o", "mine", code=5, says="mine: Permission denied")


def check_distinct(place):
    """Outputs that are one another, or inputs."""
    p = Place(place)
    os.mkdir(p.path("folder"))
    p.link(".", "here")
    p.write("a.json")
    p.link("a.json", "b.json")
    os.link(p.path("a.json"), p.path("c.json"))
    p.write("d.json", open(os.path.join(faults.ROOT, "schemas/devices/cpu.json"), "rb").read())
    p.link("new.json", "to_new")
    for one, other in (("a.json", "a.json"), ("a.json", "./a.json"), ("a.json", "b.json"), ("a.json", "c.json"),
                       ("new.json", "here/new.json"), ("new.json", "folder/../new.json"), ("to_new", "new.json")):
        says = f"--trace '{other}' is the same file as --report '{one}'"
        p.run("run", *TRAIN, "--report", one, "--trace", other, code=2, says=re.escape(says))
        p.run("compile", "m.fbs", "--budget", "140MB", "-o", one, "--curve", other, code=2, says="is the same file as")
    inputs = {"m.fbs": ("compile", ["m.fbs", "-o"], "MODEL"), "in.plan": ("run", [*TRAIN, "--save-weights"], "PLAN"),
              "text.txt": ("run", [*TRAIN, "--report"], "--text"), "problem.json": ("solve", ["problem.json", "--curve", "-o"], "PROBLEM"),
              "in.safetensors": ("run", [*TRAIN, "--init", "in.safetensors", "--save-weights"], "--init"),
              "profile.json": ("compile", ["m.fbs", "--profile", "profile.json", "--curve"], "--profile"),
              "d.json": ("compile", ["m.fbs", "--target", "d.json", "--curve"], "--target"),
              "config.json": ("graph", ["config.json", "-o"], "MODEL")}
    for name, (tool, arguments, label) in inputs.items():
        p.link(name, "link.json")
        os.link(p.path(name), p.path("hard.json"))
        for spelling in ("./" + name, "here/" + name, "link.json", "hard.json"):
            p.run(tool, *arguments, spelling, code=2, says=f"--[a-z-]+ '{re.escape(spelling)}' is the same file as {label} ")
        os.remove(p.path("link.json"))
        os.remove(p.path("hard.json"))
    p.run("dump", "in.plan", "-o", "./in.plan", code=2, says="'./in.plan' is the same file as PLAN 'in.plan'|FILE")
    with open(p.path("problem.json"), "rb") as problem:
        p.run("solve", "-", "--budget", "60%", "-o", "problem.json", stdin=problem, code=2, says="is the same file as PROBLEM '/dev/stdin'")
    p.write("x.plan", p.read("m.fbs"))  # the plan's own name would be the model's
    p.run("compile", "x.plan", code=2, says="--output 'x.plan' is the same file as MODEL 'x.plan'")
    p.run("run", *TRAIN, "--report", "/dev/null", "--trace", "/dev/null")


def check_devices(place):
    p = Place(place)
    shown = p.run("dump", "in.plan")
    assert p.run("dump", "in.plan", "-o", "/dev/stdout") == shown
    printed = p.run("run", *TRAIN, "--report", "/dev/stdout")  # in the order of writing
    assert printed.index(b"step 1 loss") < printed.index(b"predicted") < printed.index(b'"schema": "remat-run/1"')
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        p.write("log")
        with open(p.path("log"), "ab") as log:  # >>
            p.run("dump", "in.plan", "-o", name, stdout=log)
        assert p.read("log") == OLD + shown, name
    read, write = os.pipe()
    p.run("dump", "in.plan", "-o", f"/dev/fd/{write}", pass_fds=[write])
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == shown
    p.run("dump", "in.plan", "-o", "/dev/full", code=5, says="/dev/full: cannot write: No space left")
    p.run("dump", "in.plan", "-o", "/dev/fd/77", code=5, says="/dev/fd/77: Bad file descriptor")
    p.run("dump", "in.plan", "-o", ".", code=5, says="Is a directory")
    for name in ("in.plan", "log"):  # the plan itself, and a file that is an output besides
        with open(p.path(name), "ab") as file:
            arguments = ["--report", f"/dev/fd/{file.fileno()}", "--trace", "./log"]
            p.run("run", *TRAIN, *arguments, code=2, says="is the same file as", pass_fds=[file.fileno()])
    p.run("run", *TRAIN, "--report", "/dev/null", "--trace", "/dev/null")


def check_pipes(place):
    """Opened when there is something to write, not before."""
    p = Place(place)
    os.mkfifo(p.path("pipe"))
    os.mkfifo(p.path("other"))
    p.run("run", *TRAIN, "--report", "pipe", "--trace", "./pipe", code=2, says="is the same file as")
    for option in ("--save-weights", "--save-initial-weights", "--save-gradients"):
        p.run("run", *TRAIN, option, "pipe", code=5, says=f"{option} pipe: a safetensors file cannot be written to a pipe")
    p.run("run", "in.plan", "--text", "nowhere", "--report", "pipe", "--trace", "other", code=5, says="nowhere: No such")
    got = []
    reader = threading.Thread(target=lambda: got.append(p.read("pipe")))
    reader.start()
    p.run("dump", "in.plan", "-o", "pipe")
    reader.join()
    assert got[0] == p.run("dump", "in.plan")


def check_standard_output(place):
    """Full or closed: the good plan that stood there stays, and none comes to be."""
    outputs = ["m.plan", "c.csv"]
    lines = [["m.fbs"], ["m.fbs", "-o", "m.plan", "--format", "json"],
             ["m.fbs", "--budget", "140MB", "-o", "m.plan", "--curve", "c.csv", "--emit-cuda", "cuda"]]
    for arguments in lines:
        for old in (outputs, []):
            p = Place(place, old)
            with open("/dev/full", "wb") as full:
                p.run("compile", *arguments, code=5, says="standard output: No space left", stdout=full)
            process = place.start(Command("", "compile", arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  preexec_fn=lambda: os.close(1))
            before = faults.snapshot(place.folder)
            stderr = process.communicate(timeout=60)[1]
            assert process.returncode == 5 and b"standard output: Bad file descriptor" in stderr, stderr
            assert faults.snapshot(place.folder) == before, arguments
    p = Place(place, ["m.plan"])
    p.run("compile", "m.fbs", "--budget", "140MB", "-o", "m.plan", "--curve", "none/c.csv", code=5, says="none/c.csv: No such")
    p.run("compile", "m.fbs", "--budget", "140MB", "-o", "m.plan", "--curve", "c.csv", "--emit-cuda", "none/cuda", code=5,
          says="none/cuda: No such")


def check_limits(place):
    """Files that may not grow (ulimit -f): a failed write, not a death."""
    p = Place(place, ["m.plan", "w.safetensors"])
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))}
    for tool, arguments in (("compile", ["m.fbs", "-o", "m.plan"]), ("compile", ["m.fbs", "-o", "m.plan", "--emit-cuda", "cuda"]),
                            ("run", [*TRAIN, "--save-weights", "w.safetensors"])):
        p.run(tool, *arguments, code=5, says="File too large", **limit)


def check_folders(place):
    p = Place(place)
    emit = ["m.fbs", "-o", "m.plan", "--emit-cuda"]
    p.run("compile", *emit, "plain")
    names = sorted(os.listdir(p.path("plain")))
    assert names and all(name.endswith(".cu") for name in names)
    os.mkdir(p.path("empty"), 0o700)
    os.mkdir(p.path("real"))
    p.link("real", "link")
    for name in ("new/", "empty", "link", "./more/"):
        p.run("compile", *emit, name)
        assert sorted(os.listdir(p.path(name))) == names, name
    assert p.mode("empty") == 0o700 and os.path.islink(p.path("link"))
    p.run("compile", *emit, "plain", code=2, says="the folder is not empty")
    p.run("compile", *emit, "problem.json", code=5, says="problem.json: Not a directory")
    os.mkdir(p.path("around"))
    for options in (["-o", "around/m.plan", "--emit-cuda", "./around"], ["--emit-cuda", "around", "-o", "link/../around/m.plan"]):
        p.run("compile", "m.fbs", *options, code=2, says="around/m.plan' is inside the folder --emit-cuda '.*', which is replaced")
    assert os.listdir(p.path("around")) == []
    p.run("compile", "m.fbs", "-o", "plain/m.plan", "--emit-cuda", ".", code=5, says="the working folder cannot be replaced")
    command = next(c for c in faults.COMMANDS if c.name == "compile all")
    writes = place.run(command).counts["write"]
    result = place.run(command, "write", writes // 2, "on")
    faults.check(command, result, (5,))
    Place(place).run("compile", *command.arguments)  # what a full disk left does not refuse the next try


def check_file_systems(place):
    """Without files that have no name, and without hard links."""
    for command in faults.COMMANDS:
        if command.name not in ("graph", "compile curve", "compile all", "run weights"):
            continue
        result = place.run(command, fat=True)
        faults.check_new(command, result)
        for family in ("write", "name"):
            for n in faults.points(result.counts[family], 12):
                faults.check(command, place.run(command, family, n, fat=True), (5,))
    p = Place(place, ["g.fbs"])  # the name of the temporary file is taken, by a link to somebody's file
    whole = p.read("in.plan")
    fat = {"LD_PRELOAD": place.shim, "REMAT_FAULT_FAT": "1", "REMAT_FAULT_AT": "0"}
    process = place.start(Command("", "graph", ["mlp-tiny", "-o", "g.fbs"]), environment=fat,
                          preexec_fn=lambda: p.link("in.plan", f"g.fbs.{os.getpid()}-0.remat-tmp"))
    assert process.wait(timeout=60) == 0
    assert p.read("g.fbs") == p.read("m.fbs") and p.read("in.plan") == whole


def check_signals(place):
    """Before the commit a new file has no name: nothing is left, whatever ends the process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        p = Place(place, ["w.safetensors"])
        before = faults.snapshot(place.folder)
        process = place.start(Command("", "run", [*TRAIN[:-1], "100000000", "--save-weights", "w.safetensors", "--report", "r.json",
                                                  "--trace", "t.json"]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.readline()
        assert faults.snapshot(place.folder) == before
        process.send_signal(number)
        process.communicate(timeout=60)
        code = process.returncode
        if code < 0:
            assert faults.snapshot(place.folder) == before, number
        else:
            assert code == 75
            assert p.read("w.safetensors") != OLD, number


def check_replaceable(place):
    """What the commit could not replace is refused before the work begins."""
    endless = [*TRAIN[:-1], "100000000", "--save-weights", "w"]
    p = Place(place)
    p.write("read-only", mode=0o444)
    os.chmod(place.folder, 0o777)
    p.run("graph", "mlp-tiny", "-o", "read-only", code=5, says="read-only: Permission denied", preexec_fn=become_nobody)
    if os.geteuid() != 0:
        return
    os.chmod(place.folder, 0o1777)
    p.write("w", mode=0o666)
    p.run("run", *endless, code=5, says="w: another user's file in a sticky folder", preexec_fn=become_nobody)
    p.write("from")
    os.mkdir(p.path("cuda"))
    for source, target in (("from", "w"), ("cuda", "cuda")):
        if subprocess.run(["mount", "--bind", p.path(source), p.path(target)], stderr=subprocess.DEVNULL).returncode != 0:
            return  # no right to mount
        try:
            arguments = ["run", *endless] if target == "w" else ["compile", "m.fbs", "-o", "m.plan", "--emit-cuda", target]
            p.run(*arguments, code=5, says=f"{target}: a mount point cannot be replaced")
        finally:
            subprocess.run(["umount", p.path(target)], check=True)


def become_nobody():
    if os.geteuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)


def check_lost_output(place):
    """Standard output that fails after the first step ends training, and what was trained is kept."""
    p = Place(place, ["w.safetensors"])
    process = place.start(Command("", "run", [*TRAIN[:-1], "100000000", "--save-weights", "w.safetensors", "--report", "r.json"]),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait(timeout=60) == 5 and "standard output: Broken pipe" in said, said
    assert re.search("interrupted after step [0-9]+ of 100000000", said), said
    assert p.read("w.safetensors") != OLD and p.read("r.json")


def check_interrupts(place):
    """A compilation that a signal ends leaves all of a folder or nothing."""
    command = Command("", "compile", ["m.fbs", "--ac-mode", "full", "-o", "m.plan", "--emit-cuda", "cuda"])
    begin = time.monotonic()
    Place(place).run("compile", *command.arguments)
    longest = time.monotonic() - begin
    for i in range(40):
        p = Place(place)
        process = place.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(longest * (0.5 + i / 40))
        process.send_signal(signal.SIGTERM if i % 2 else signal.SIGINT)
        code = process.wait(timeout=60)
        left = faults.snapshot(place.folder)
        assert not any("remat-tmp" in name for name in left), left
        assert os.path.exists(p.path("cuda")) == os.path.exists(p.path("m.plan")) == (code == 0), (code, left)


def check_unwritable_parameters(place):
    """What no safetensors file can hold is refused before the first step."""
    p = Place(place)
    text = p.run("graph", "mlp-tiny", "--text").decode()
    p.write("m.graph", text.replace("%h.0.fc.weight", "%__metadata__").encode())
    p.run("compile", "m.graph", "-o", "m.plan")
    for option in ("--save-weights", "--save-gradients", "--save-initial-weights"):
        p.run("run", "m.plan", *TRAIN[1:-1], "100000000", option, "w", code=4, says="have no tensor \"__metadata__\"")
    p.run("run", "m.plan", *TRAIN[1:])


def check_names(place):
    p = Place(place, ["m.plan", "g.fbs"])
    for name, says in (("a\x01b", "control character"), ("x" * 100000, "text of 100000 bytes"), ("\x9b", "control|UTF-8")):
        p.run("graph", "mlp-tiny", "--name", name, "-o", "g.fbs", code=4, says=says)
    text = p.run("graph", "mlp-tiny", "--text").decode()

    def rename(name):
        p.write("long.graph", text.replace("%h.0.fc.weight", f'%"{name}"').encode())

    for name, says in (("a\\x01b", "control character"), ("x" * 70000, "text of 70000 bytes")):
        rename(name)
        p.run("compile", "long.graph", "-o", "m.plan", code=4, says=says)
    for length in (250, 300, 2000, 60000):  # what is accepted is read again, by every reader
        rename("x" * length)
        p.run("compile", "long.graph", "-o", "m.plan", "--microbatches", "1")
        assert b"x" * length in p.run("dump", "m.plan", "--format", "json", "--decisions") + p.run("dump", "m.plan", "--schedule")
        train = ["m.plan", *TRAIN[1:]]
        p.run("run", *train, "--save-weights", "w1", "--save-gradients", "g1", "--trace", "t1", "--profile", "p1")
        assert p.read("g1").count(b'"' + b"x" * length + b'"') == 1, length
        p.run("run", *train, "--init", "w1", "--save-initial-weights", "w2")
        assert p.read("w1") == p.read("w2"), length
        p.run("compile", "long.graph", "-o", "m.plan", "--profile", "p1")


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell's "&" and nohup have some ignored
        signal.signal(number, signal.SIG_DFL)
    checks = [check_links, check_modes, check_distinct, check_devices, check_pipes, check_standard_output, check_limits, check_folders,
              check_file_systems, check_signals, check_replaceable, check_lost_output,
              check_interrupts, check_unwritable_parameters, check_names]
    with faults.Workplace(sys.argv[1]) as place:
        for check in checks:
            begin = time.monotonic()
            check(place)
            print(f"{check.__name__}: {time.monotonic() - begin:.1f} s")


main()
