# SPDX-License-Identifier: Apache-2.0
"""The machine of a stage: its programs, NVIDIA's libraries, the GPU's description, the time left."""
import contextlib
import ctypes
import glob
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# name: arguments of remat-graph
VOCABULARY = ["--make-vocab-size-divisible-by", "64"]
MODELS = {"gpt2-124m": ["gpt2-124m", *VOCABULARY, "--dtype", "bf16", "--batch", "8", "--seq", "1024"],
          "llama-1b": ["llama3.2-1b", "--dtype", "bf16", "--batch", "2", "--seq", "2048"],
          "bert-large": ["bert-large", *VOCABULARY, "--dtype", "bf16", "--batch", "8", "--seq", "512"]}
SMALL_MODELS = {"gpt2-tiny": ["gpt2-tiny", "--layers", "2", "--batch", "2", "--seq", "16"]}
LIBRARIES = ["libcublasLt.so.1[23]", "libnvrtc.so.1[23]", "libnvrtc-builtins.so.1[23].*", "libnccl.so.2"]
# Where toolkits and wheels put them; the driver, where containers mount it.
LIBRARY_FOLDERS = ["usr/local/cuda*/lib64", "usr/local/cuda*/lib", "usr/local/cuda*/targets/*/lib", "opt/cuda*/lib64",
                   "usr/lib/x86_64-linux-gnu"]
PROGRAM_FOLDERS = ["/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*"]
OVERTIME = 60  # seconds that an item may take when time is over
WHEEL_FOLDERS = ["nvidia/cu1[23]/lib", "nvidia/cublas/lib", "nvidia/cuda_nvrtc/lib", "nvidia/nccl/lib"]
DRIVER_FOLDERS = ["usr/local/nvidia/lib64", "usr/local/nvidia/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64"]


class Skip(Exception):
    """The item cannot run here; why."""


class Later(Exception):
    """The item waits for another, which ran out of time."""


class Fault(Exception):
    """What is wrong; and what the item found nevertheless."""

    def __init__(self, why, found=None):
        super().__init__(why)
        self.found = found


def replace_file(path, text):
    """Atomically: whenever the process is killed, the old file or the new one is there."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def find_program(name):
    """Of NVIDIA's toolkit: its path, or None."""
    found = [path for folder in PROGRAM_FOLDERS for path in sorted(glob.glob(f"{folder}/{name}"))]
    return shutil.which(name) or next(iter(found), None)


def loader_finds_driver():
    try:
        return bool(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return False


def collect_libraries(folder, before=(), prefix="/", has_driver=loader_finds_driver):
    """Links NVIDIA's libraries into `folder`, each from the first place that has it: `before`, wheels of this Python,
    toolkits. Links the driver if the system's loader does not find it. None if there are no libraries."""
    wheels = [f"{path}/{pattern}" for path in sys.path if path for pattern in WHEEL_FOLDERS]
    places = [*before, *wheels, *(prefix + pattern for pattern in LIBRARY_FOLDERS)]
    wanted = [(place, name) for name in LIBRARIES for place in places]
    if not has_driver():
        wanted += [(prefix + place, "libcuda.so.1") for place in DRIVER_FOLDERS]
    shutil.rmtree(folder, ignore_errors=True)
    for place, name in wanted:
        for path in sorted(glob.glob(f"{place}/{name}")):
            link = folder / pathlib.Path(path).name
            folder.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(pathlib.Path(path).resolve())
    return folder if folder.is_dir() else None


class Server:
    """A process that runs programs for us, one after the other: gpu_worker serve, torch_items.py serve."""

    def __init__(self, command, environment):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(list(map(str, command)), env=environment, encoding="utf-8",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, arguments, given, timeout):
        base = pathlib.Path(self.folder.name) / "item"
        base.with_suffix(".args").write_text("\n".join(arguments))
        base.with_suffix(".in").write_text(given)
        for ending in [".out", ".err"]:
            base.with_suffix(ending).write_text("")
        try:
            self.process.stdin.write(f"{base}\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(arguments, timeout)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        code = int(line) if line else self.process.wait()  # the program ended it
        out, err = (base.with_suffix(ending).read_text(errors="replace") for ending in [".out", ".err"])
        return subprocess.CompletedProcess(arguments, code, out, err)

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:  # it hangs in an item
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()


class Machine:
    def __init__(self, options):
        self.options, self.end = options, time.monotonic() + options.seconds
        self.kept = {}  # what an item that runs out of time finds again when it is done again
        self.rows = {}  # of the stage: what its items found
        self.worker = self.torch = None
        self.environment = dict(os.environ)
        if options.doubles:
            self.environment |= {"REMAT_DOUBLE_COMPILER": options.doubles,
                                 "REMAT_DOUBLE_CACHE": str(options.libraries / "kernels")}
            (options.libraries / "kernels").mkdir(exist_ok=True)
        # For our tools only: PyTorch, ncu and compute-sanitizer need other versions of these libraries.
        self.for_tools = dict(self.environment)
        if (options.build / "libraries").is_dir():
            self.for_tools["LD_LIBRARY_PATH"] = f"{options.build / 'libraries'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        self.held = hold_gpu()

    def left(self):
        return self.end - time.monotonic()

    def limit(self):
        """Seconds that a program may take."""
        return max(1, self.left() + OVERTIME)

    def close(self):
        """Ends the servers and so frees their memory on the GPU."""
        servers, self.worker, self.torch = [self.worker, self.torch], None, None
        for server in filter(None, servers):
            server.end()

    def libraries(self):
        """As our programs take it."""
        return self.options.libraries or "-"

    # --- programs ---

    def run(self, *command, given="", accept=(0,), environment=None):
        """In a process of its own."""
        self.close()
        try:
            process = subprocess.Popen(list(map(str, command)), encoding="utf-8", env=environment or self.environment,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
        except FileNotFoundError as missing:
            raise absent(missing) from missing
        try:
            out, err = process.communicate(given, timeout=self.limit())
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what ncu and compute-sanitizer have started
            process.communicate()
            raise
        return accepted(subprocess.CompletedProcess(command, process.returncode, out, err), accept)

    def call(self, program, *arguments, given="", before=(), alone=False, accept=(0,)):
        """Runs a program of gpu_worker in the process that keeps the GPU's context; `alone`, or after the command
        `before`, in a process of its own."""
        worker = self.options.build / "tests/gpu/gpu_worker"
        if before or alone:
            return self.run(*before, worker, program, *arguments, given=given, accept=accept)
        if not self.worker:
            self.close()
            self.worker = self.serve([worker, "serve", self.libraries()])
        return accepted(self.asked("worker", [program, *arguments], given), accept)

    def serve(self, command):
        try:
            return Server(command, self.environment)
        except FileNotFoundError as missing:
            raise absent(missing) from missing

    def asked(self, name, arguments, given=""):
        """Ends the process after a failure, which may have left it unusable."""
        code = None
        try:
            done = getattr(self, name).run(list(map(str, arguments)), given, self.limit())
            code = done.returncode
            return done
        finally:
            if code != 0:
                self.close()

    def pytorch(self, *arguments):
        """An item of torch_items.py: its JSON."""
        if not self.torch:
            self.close()
            self.torch = self.serve([sys.executable, ROOT / "tests/gpu/torch_items.py", "serve"])
        done = accepted(self.asked("torch", arguments), (0, 77))
        if done.returncode == 77:
            raise Skip(done.stdout.strip())
        return json.loads(done.stdout.splitlines()[-1])

    def tool(self, name, *arguments, accept=(0,)):
        """On the CPU, beside the servers."""
        try:
            done = subprocess.run(list(map(str, [self.options.build / f"tools/remat-{name}", *arguments])), encoding="utf-8",
                                  capture_output=True, env=self.for_tools, timeout=self.limit())
        except FileNotFoundError as missing:
            raise absent(missing) from missing
        return accepted(done, accept)

    def train(self, plan, *arguments, device="cuda", **more):
        libraries = ["--cuda-libraries", self.options.libraries] if self.options.libraries else []
        return self.call("remat-run", plan, "--ids", "zipf", "--device", device, *libraries, *arguments, **more)

    def python(self, script, *arguments):
        """Of the tests in tests/cuda, which take TOOLS LIBRARIES COMPILER."""
        return self.run(sys.executable, ROOT / "tests/cuda" / script, self.options.build / "tools", self.libraries(),
                        self.options.doubles or "-", *arguments, environment=self.for_tools)

    # --- plans ---

    def graph(self, work, *arguments):
        self.tool("graph", *arguments, "-o", work / "model.fbs")

    def compile(self, work, name, *arguments, target=True):
        """The report, its "plan" being a path."""
        nvrtc = ["--nvrtc", self.options.libraries] if self.options.libraries else []
        cache = ["--cache", "none"] if self.options.doubles else []
        goal = [*(self.goal() if target else []), "--arch", self.options.arch]
        return json.loads(self.tool("compile", work / "model.fbs", "-o", work / name, "--format", "json", *goal,
                                    *nvrtc, *cache, *arguments).stdout)

    def goal(self):
        """Target, and the reserve once it is measured."""
        reserve = self.rows.get("reserve", {}).get("found", {}).get("reserve_bytes")
        return ["--target", self.options.target, *(["--reserve", str(reserve)] if reserve else [])]

    def models(self):
        return SMALL_MODELS if self.options.small else MODELS


def absent(missing):
    return Fault(f"{missing.filename} is not there: build it, or carry a whole build-carried")


def accepted(done, accept):
    if done.returncode not in accept:
        raise Fault(f"{pathlib.Path(str(done.args[0])).name}: exit code {done.returncode}: "
                    f"{(done.stdout[-300:] + done.stderr[-700:]).strip()}")
    return done


def hold_gpu():
    """An open file; while it is open the driver keeps the GPU initialized between processes."""
    try:
        return open("/dev/nvidia0", "rb")
    except OSError:
        return None


def describe(gpu, folder):
    """The name of the description of this GPU, or the path of one made after its nearest sibling's."""
    known = [json.loads(path.read_text()) for path in sorted((ROOT / "schemas/devices").glob("*.json"))
             if not path.name.endswith(".profile.json")]
    for description in known:
        if gpu["gpu"] in description.get("cuda", {}).get("gpus", []):
            return description["name"]
    alike = [row for row in known if row.get("cuda", {}).get("arch") == gpu["arch"]]
    if not alike:
        raise Fault(f"no description in schemas/devices is of {gpu['arch']}, as {gpu['gpu']} is: name one with --target")
    made = min(alike, key=lambda row: abs(row["capacity_bytes"] - gpu["total_bytes"]))
    source = f"rates of {made['name']}, which was the nearest known GPU; name and capacity as the driver has them"
    name = re.sub(r"[^a-z0-9]+", "-", gpu["gpu"].lower().removeprefix("nvidia ")).strip("-")
    made |= {"name": name, "source": source, "capacity_bytes": gpu["total_bytes"]}
    made["cuda"] |= {"gpus": [gpu["gpu"]]}
    path = folder / f"{name}.json"
    if not path.exists():
        replace_file(path, json.dumps(made, indent=4) + "\n")
    return str(path)
