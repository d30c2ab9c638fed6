"""What the tests of the CUDA device share: tools, the doubles' folder and environment, tensors. With "-" as
compiler there are no doubles but a GPU, and with "-" as folder the libraries are where the system's loader
looks."""
import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(sys.argv[1]).resolve()
LIBRARIES = None if sys.argv[2] == "-" else pathlib.Path(sys.argv[2]).resolve()
COMPILER = sys.argv[3]
DOUBLES = COMPILER != "-"
TEXT = pathlib.Path(__file__).resolve().parent.parent / "data/genesis_exodus.txt"
CACHE = LIBRARIES / "kernels" if DOUBLES else None
faults = []

# Meson lists the doubles' folder there, and then no driver would ever be missing.
if DOUBLES and os.environ.pop("LD_LIBRARY_PATH", None):
    os.execv(sys.executable, [sys.executable, *sys.argv])


def tool(name, *arguments, cwd, **environment):
    variables = {**os.environ, **{key: str(value) for key, value in environment.items()}}
    if DOUBLES:
        CACHE.mkdir(exist_ok=True)
        variables |= {"REMAT_DOUBLE_COMPILER": COMPILER, "REMAT_DOUBLE_CACHE": str(CACHE)}
    return subprocess.run([TOOLS / name, *map(str, arguments)], cwd=cwd, encoding="utf-8",
                          capture_output=True, env=variables)


def must(done):
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, done.args))}\nexit code {done.returncode}: {done.stderr}")
    return done


def graph(work, *arguments):
    must(tool("remat-graph", *arguments, "-o", "model.fbs", cwd=work))


def plan(work, name, *arguments, cubins="none"):
    """Cubins are the double's."""
    double = ["--nvrtc", LIBRARIES, "--cache", "none"] if cubins != "none" and LIBRARIES else []
    return must(tool("remat-compile", "model.fbs", "-o", name, *arguments, "--arch", cubins, *double, cwd=work))


def train(work, name, device, *arguments, libraries=LIBRARIES, **environment):
    """device None: without --device."""
    return tool("remat-run", name, "--text", TEXT, *(["--device", device] if device else []),
                *(["--cuda-libraries", libraries] if libraries else []), *arguments, cwd=work, **environment)


def lines(done):
    """What --json printed."""
    return [json.loads(line) for line in must(done).stdout.splitlines()]


def hashes(done):
    return [(line["loss_hash"], line["grad_hash"]) for line in lines(done)]


def read_floats(dtype, data):
    if dtype == "F32":
        return array.array("f", data)
    words = array.array("H", data)
    return array.array("f", struct.pack(f"<{len(words)}I", *(word << 16 for word in words)))


def read_tensors(path):
    """Name -> floats of a safetensors file."""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    header.pop("__metadata__", None)
    return {name: read_floats(entry["dtype"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def difference(a, b):
    """The largest over all tensors, relative to a tensor's largest element; gradients that are zero but
    for rounding, as a key bias has them, count relative to a tenth of the largest of all."""
    if a.keys() != b.keys() or not a:
        sys.exit(f"tensors {sorted(a)} and {sorted(b)}")
    largest = {name: max(map(abs, values)) for name, values in a.items()}
    least = max(largest.values()) / 10
    return max(max(abs(x - y) for x, y in zip(a[name], b[name])) / max(largest[name], least) for name in a)


def check(condition, message):
    if not condition:
        faults.append(message)


def finish():
    print("\n".join(faults) or "ok")
    sys.exit(1 if faults else 0)


def folder():
    return tempfile.TemporaryDirectory()
