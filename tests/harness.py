# SPDX-License-Identifier: Apache-2.0
"""What the tests in Python share: running the tools, counting what is not as it should be, tensors in files.

    tool = harness.Tools(sys.argv[1])   the tools of a build directory; further arguments are settings of each run
    tool("run", "m.plan", "--steps", 3) runs remat-run; any exit code is fine
    tool.must("run", ..., code=(0, 3))  ends the test unless the exit code is (one of) these, by default 0
    tool.text("dump", "m.plan")         standard output; with another code than 0, standard error
    tool.json("compile", ...)           standard output, parsed
    tool.start("run", ...)              a process with pipes, while it runs

Arguments become strings, but for bytes. Settings are those of subprocess.run(), but `env` is added to the test's own
environment. run() does the same for any command, must() looks at what has run. check() and refused() note a failure and
go on: what it is, and the command that this thread ran last, its exit code and standard error. finish() prints all that
failed and ends the test. A tensor is (dtype, shape, bytes), as in safetensors files."""
import array
import contextlib
import errno
import json
import math
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import threading
import tty

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = ROOT / "tests/data/genesis_exodus.txt"
USAGE, INFEASIBLE, INVALID, IO, OUT_OF_MEMORY, NOT_FINITE, INTERRUPTED = 2, 3, 4, 5, 6, 8, 75  # exit codes
faults = []
last = threading.local()


def describe(done):
    said = "" if done.stderr is None else done.stderr if isinstance(done.stderr, str) else repr(done.stderr)
    return f"{' '.join(map(str, done.args))}\nexit code {done.returncode}: {said}"


def begin(starter, command, env=None, **settings):
    pipes = {"encoding": "utf-8", "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return starter([word if isinstance(word, bytes) else str(word) for word in command],
                   env={**os.environ, **(env or {})}, **{**pipes, **settings})


def run(command, **settings):
    last.run = begin(subprocess.run, command, **settings)
    return last.run


def must(done, code=0):
    if done.returncode not in (code if isinstance(code, tuple) else (code,)):
        sys.exit("\n".join([*faults, f"FAILED: {describe(done)}"]))
    return done


def json_lines(done):
    """What remat-run --json has printed."""
    return [json.loads(line) for line in must(done).stdout.splitlines()]


class Tools:
    def __init__(self, folder, **settings):
        folder = pathlib.Path(folder).resolve()
        self.folder = folder / "tools" if (folder / "tools").is_dir() else folder
        self.settings = settings

    def path(self, name):
        return self.folder / f"remat-{name}"

    def __call__(self, name, *arguments, **settings):
        return run([self.path(name), *arguments], **{**self.settings, **settings})

    def must(self, name, *arguments, code=0, **settings):
        return must(self(name, *arguments, **settings), code)

    def text(self, name, *arguments, code=0, **settings):
        done = self.must(name, *arguments, code=code, **settings)
        return done.stdout if done.returncode == 0 else done.stderr

    def json(self, name, *arguments, code=0, **settings):
        return json.loads(self.must(name, *arguments, code=code, **settings).stdout)

    def start(self, name, *arguments, **settings):
        own = {key: value for key, value in self.settings.items() if key != "timeout"}
        return begin(subprocess.Popen, [self.path(name), *arguments], **{**own, **settings})


@contextlib.contextmanager
def on_terminal(command, **settings):
    """A process whose standard error is a terminal, and the lines that it writes there until it ends."""
    terminal, end = pty.openpty()
    tty.setraw(end)
    with open(terminal, encoding="utf-8") as screen, begin(subprocess.Popen, command, stderr=end, **settings) as process:
        os.close(end)
        yield process, lines_of(screen)


def lines_of(screen):
    """Linux answers EIO once the process has ended."""
    try:
        yield from iter(screen.readline, "")
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def check(good, *what):
    if not good:
        ran = f"\nthe last run: {describe(last.run)}" if hasattr(last, "run") else ""
        faults.append(f"FAILED: {' '.join(map(str, what))}{ran}")


def figure(number, name):
    """A measured figure that may only rise, as check_figure() of check.h."""
    least = [float(row[0]) for row in map(str.split, (ROOT / "tests/thresholds.txt").read_text().splitlines()) if row[1:] == name.split()]
    cut = math.floor(number * 1e5 + 1e-3) / 1e5
    print(f"figure {cut:.10g} {name}")
    if least and cut > least[0]:
        print(f"  has risen from {least[0]:.10g}: tests/renew.sh writes it into tests/thresholds.txt")
    check(least and cut >= least[0], f"{cut:.10g} {name}: {least} in tests/thresholds.txt")


def refused(done, code, message, *what):
    """A tool's end with this exit code. `message`: a part of standard error, or a compiled pattern of the one error there, of
    all that follows the tool's name."""
    if isinstance(message, re.Pattern):
        hint = "(Try .*\n)?" if code == USAGE else ""
        said = re.fullmatch(f"{pathlib.Path(done.args[0]).name}: error: (?:{message.pattern})\n{hint}", done.stderr)
    else:
        said = message in done.stderr
    check(done.returncode == code and said, *what, f"expected code {code}, {getattr(message, 'pattern', message)}")


def finish(said="as it should be"):
    print("\n".join(faults) or said)
    sys.exit(len(faults) > 0)


@contextlib.contextmanager
def scratch():
    """A folder, which is the working directory until it is removed."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield pathlib.Path(folder)
        finally:
            os.chdir(before)


def read_json(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def write_json(path, value):
    pathlib.Path(path).write_text(json.dumps(value), encoding="utf-8")


def graph_of_input(batch):
    """The text of a small graph with an input that `remat-run` knows nothing of, %extra, f32 [16, 8]."""
    return f"""graph "extra"
optimizer sgd {{ weight_decay = 0.0 }}
symbol batch = {batch}
input %tokens : i32[batch,16]
input %targets : i32[batch,16]
input %extra : f32[16,8]
parameter %table : f32[256,8] = normal(0.0, 0.02)
%x : f32[batch,16,8] = embedding %table %tokens phase forward
%y : f32[batch,16,8] = add %x %extra phase forward
%logits : f32[batch,16,256] = linear %y %table {{ transpose_weight = 1 }} phase forward
%loss : f32[] output, %loss.1 : f32[batch,16,1] = cross_entropy %logits %targets phase loss
output %loss
"""


def split_safetensors(path):
    """The header and the bytes of all tensors."""
    raw = pathlib.Path(path).read_bytes()
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:end]), raw[end:]


def read_safetensors(path):
    """Name -> tensor, in the order of the header."""
    header, data = split_safetensors(path)
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def header_of(tensors, **metadata):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    return header


def join_safetensors(header, data):
    """The bytes of a file; the header may be bytes, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors(tensors, **metadata):
    """The bytes of a file."""
    return join_safetensors(header_of(tensors, **metadata), b"".join(data for _, _, data in tensors.values()))


def floats(tensor):
    """The elements of an F32 or BF16 tensor."""
    dtype, _, data = tensor
    if dtype == "F32":
        return array.array("f", data)
    assert dtype == "BF16", dtype
    return array.array("f", struct.pack(f"<{len(data) // 2}I", *(word << 16 for word in array.array("H", data))))
