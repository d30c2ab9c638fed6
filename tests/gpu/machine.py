"""What the items of a stage have of their machine: the tools, with the libraries and the time that are left."""
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXT = ROOT / "tests/data/genesis_exodus.txt"
# name: arguments of remat-graph
MODELS = {"gpt2-124m": ["gpt2-124m", "--dtype", "bf16", "--batch", "8", "--seq", "1024"],
          "llama-1b": ["llama3.2-1b", "--dtype", "bf16", "--batch", "2", "--seq", "2048"],
          "bert-large": ["bert-large", "--dtype", "bf16", "--batch", "8", "--seq", "512"]}
SMALL_MODELS = {"gpt2-tiny": ["gpt2-tiny", "--layers", "2", "--batch", "2", "--seq", "16"]}


class Skip(Exception):
    """The item cannot run here; why."""


class Fault(Exception):
    """What is wrong; and what the item found nevertheless."""

    def __init__(self, why, found=None):
        super().__init__(why)
        self.found = found


class Machine:
    """Runs the tools with the libraries and the time that are left."""

    def __init__(self, options):
        self.options, self.end = options, time.monotonic() + options.seconds
        self.kept = {}  # what an item that runs out of time finds again when it is done again
        self.environment = dict(os.environ)
        if (options.build / "libraries").is_dir():
            self.add_libraries(self.environment, options.build / "libraries")
        if options.doubles:
            self.environment |= {"REMAT_DOUBLE_COMPILER": options.doubles,
                                 "REMAT_DOUBLE_CACHE": str(options.libraries / "kernels")}
            (options.libraries / "kernels").mkdir(exist_ok=True)

    def left(self):
        return self.end - time.monotonic()

    @staticmethod
    def add_libraries(environment, folder):
        environment["LD_LIBRARY_PATH"] = f"{folder}:{environment.get('LD_LIBRARY_PATH', '')}"

    def run(self, *command, accept=(0,), loader=False, **arguments):
        """loader: the program takes no --cuda-libraries."""
        environment = dict(self.environment)
        if loader and self.options.libraries:
            self.add_libraries(environment, self.options.libraries)
        try:
            done = subprocess.run(list(map(str, command)), encoding="utf-8", capture_output=True, env=environment,
                                  timeout=max(1, self.left() + 20), **arguments)
        except FileNotFoundError as missing:
            raise Fault(f"{missing.filename} is not there: build it, or carry a whole build-carried") from missing
        if done.returncode not in accept:
            raise Fault(f"{pathlib.Path(command[0]).name}: exit code {done.returncode}: "
                        f"{(done.stdout[-300:] + done.stderr[-700:]).strip()}")
        return done

    def tool(self, name, *arguments, **more):
        return self.run(self.options.build / "tools" / f"remat-{name}", *arguments, **more)

    def train(self, plan, *arguments, device="cuda", before=()):
        libraries = ["--cuda-libraries", self.options.libraries] if self.options.libraries else []
        return self.run(*before, self.options.build / "tools/remat-run", plan, "--text", TEXT, "--device", device,
                        *libraries, *arguments)

    def compile(self, work, name, *arguments, target=True):
        """The report, its "plan" being a path."""
        nvrtc = [*(["--nvrtc", self.options.libraries] if self.options.libraries else []),
                 *(["--cache", "none"] if self.options.doubles else [])]
        goal = ["--target", self.options.target] if target else ["--arch", self.architecture()]
        return json.loads(self.tool("compile", work / "model.fbs", "-o", work / name, "--format", "json", *goal,
                                    *nvrtc, *arguments).stdout)

    def architecture(self):
        description = ROOT / f"schemas/devices/{self.options.target}.json"
        return json.loads(description.read_text())["cuda"]["arch"]

    def python(self, script, *arguments):
        """Of the tests in tests/cuda, which take TOOLS LIBRARIES COMPILER."""
        return self.run(sys.executable, ROOT / "tests/cuda" / script, self.options.build / "tools",
                        self.options.libraries or "-", self.options.doubles or "-", *arguments)

    def models(self):
        return SMALL_MODELS if self.options.small else MODELS
