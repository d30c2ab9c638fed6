"""One stage of the tests and measurements on a GPU: what of it is not done yet, in less than eight minutes.

    stages.py STAGE [--build FOLDER] [--out FOLDER] [--libraries FOLDER] [--doubles COMPILER] [--target NAME]
                    [--seconds N] [--small]

A stage is a list of items. FOLDER/STAGE.json (--out: $OUT, else BUILD/gpu) has what each found, is written
after each, and is read first: what is "ok" there, of the same commit, is not done again. --build: build-carried where there is one, else
build. --libraries: of NVIDIA, where the system's loader does not find them; --doubles: they are those of
tests/cuda, whose kernels COMPILER compiles. --target: the description of the GPU.

Exit code: 0 all is ok, 1 something failed, 75 time ran out (again will go on), 77 all that is left cannot run here."""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TEXT = ROOT / "tests/data/genesis_exodus.txt"
# name: arguments of remat-graph
MODELS = {"gpt2-124m": ["gpt2-124m", "--dtype", "bf16", "--batch", "8", "--seq", "1024"],
          "llama-1b": ["llama3.2-1b", "--dtype", "bf16", "--batch", "2", "--seq", "2048"],
          "bert-large": ["bert-large", "--dtype", "bf16", "--batch", "8", "--seq", "512"]}
SMALL_MODELS = {"gpt2-tiny": ["gpt2-tiny", "--layers", "2", "--batch", "2", "--seq", "16"]}
# Ragged and whole rows, one and many vectors, heads in groups: what kernels may get wrong.
SHAPES = [["--batch", "1", "--seq", "2"], ["--batch", "3", "--seq", "17"], ["--batch", "2", "--seq", "64"],
          ["--batch", "1", "--seq", "131", "--context", "131"]]
# Heads of 64 and 128, rows of more than 1024.
WIDE = [["--batch", "1", "--seq", "131", "--context", "131", "--width", "256", "--heads", heads, "--vocab", "4099"]
        for heads in ["4", "2"]]
FAMILIES = ["gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"]
FORMS = [["--dtype", "fp32"], ["--dtype", "bf16"], ["--dtype", "bf16", "--attention", "written-out", "--dropout", "0.1"]]
KERNELS = [*itertools.product(FAMILIES, FORMS, SHAPES),
           *itertools.product(["gpt2-tiny", "llama-tiny"], FORMS[:2], WIDE)]
BUDGETS = 24  # some of them give the same plan; 20 shall differ
TURNS, WARM_TURNS = 10, 4


class Skip(Exception):
    """The item cannot run here; why."""


class Fault(Exception):
    """What is wrong."""


class Machine:
    """Runs the tools with the libraries and the time that are left."""

    def __init__(self, options):
        self.options, self.end = options, time.monotonic() + options.seconds
        self.environment = dict(os.environ)
        if options.doubles:
            self.environment |= {"REMAT_DOUBLE_COMPILER": options.doubles,
                                 "REMAT_DOUBLE_CACHE": str(options.libraries / "kernels")}
            (options.libraries / "kernels").mkdir(exist_ok=True)

    def left(self):
        return self.end - time.monotonic()

    def run(self, *command, accept=(0,), loader=False, **arguments):
        """loader: the program takes no --cuda-libraries."""
        environment = dict(self.environment)
        if loader and self.options.libraries:
            environment["LD_LIBRARY_PATH"] = f"{self.options.libraries}:{environment.get('LD_LIBRARY_PATH', '')}"
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
        nvrtc = ["--nvrtc", self.options.libraries, "--cache", "none"] if self.options.libraries else []
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


# --- conformance, kernels, steps ---

def conformance(machine, work):
    path, libraries = work / "found.json", machine.options.libraries
    done = machine.run(machine.options.build / "tests/cuda/cuda_conformance", "--json", path,
                       *(["--libraries", libraries] if libraries else []), accept=(0, 1, 77))
    if done.returncode == 77:
        raise Skip(done.stdout.strip().removeprefix("SKIP: "))
    if done.returncode:
        raise Fault(done.stdout)
    return json.loads(path.read_text())


def graph_of(family, form, shape):
    """Arguments of remat-graph."""
    return [family, "--layers", "1", *form, *shape]


def kernels(machine, work, family, form, shape):
    """A step on the GPU against the same on the CPU: loss and gradients."""
    from gradients import difference, loss_difference, read_tensors
    machine.tool("graph", *graph_of(family, form, shape), "-o", work / "model.fbs")
    machine.compile(work, "model.plan", target=False)
    losses = {}
    for device in ["cpu", "cuda"]:
        done = machine.train(work / "model.plan", "--steps", 1, "--json", "--save-gradients", work / device, device=device)
        losses[device] = json.loads(done.stdout.splitlines()[0])["loss"]
    apart, tensor = difference(read_tensors(work / "cpu"), read_tensors(work / "cuda"), form[1])
    if not (apart < 1 and loss_difference(losses["cpu"], losses["cuda"], form[1]) < 1):
        raise Fault(f"gradient of {tensor} {apart:.2f} of what it may be from the CPU's; losses {losses}")
    return {"gradients_of_limit": apart, "losses": losses}


def steps(machine, _, model):
    return {"said": machine.python("steps.py", model).stdout.strip()}


def host(machine, _):
    """The host's stream and memory."""
    return {"said": machine.python("host.py", machine.options.build / "tests/cuda/cuda_host").stdout.strip()}


def memory(machine, work):
    """What the driver reports is within the budget and the same after 2 and 6 steps."""
    machine.tool("graph", *SMALL_MODELS["gpt2-tiny"], "-o", work / "model.fbs")
    machine.compile(work, "model.plan", "--budget", "2GB")
    found = []
    for count in [2, 6]:
        machine.train(work / "model.plan", "--steps", count, "--report", work / "report.json")
        found.append(json.loads((work / "report.json").read_text()))
    few, many = found
    if few["device_bytes"] != many["device_bytes"]:
        raise Fault(f"{few['device_bytes']} bytes after 2 steps, {many['device_bytes']} after 6")
    if not few["arena_bytes"] <= few["device_bytes"] <= few["budget_bytes"]:
        raise Fault(f"not within the budget: {few}")
    return {key: few[key] for key in ["arena_bytes", "device_bytes", "budget_bytes"]}


# --- sanitizer ---

def sanitizer(machine, work, check):
    program = shutil.which("compute-sanitizer")
    if not program:
        raise Skip("compute-sanitizer is not installed")
    machine.tool("graph", *SMALL_MODELS["gpt2-tiny"], "-o", work / "model.fbs")
    machine.compile(work, "model.plan", target=False)
    done = machine.train(work / "model.plan", "--steps", 1, "--hash",
                         before=[program, "--tool", check, "--error-exitcode", "99"])
    if "Device not supported" in done.stdout:
        raise Skip(f"compute-sanitizer: {done.stdout.strip().splitlines()[-1]}")
    return {"said": done.stdout.strip().splitlines()[-1]}


# --- profile, bench ---

def profile_path(options):
    return options.out / f"{options.target}.profile.json"


def profile(machine, work, model):
    """Adds the times of this model's kernels to TARGET.profile.json."""
    machine.tool("graph", *machine.models()[model], "-o", work / "model.fbs")
    machine.compile(work, "model.plan")
    machine.train(work / "model.plan", "--steps", 5, "--profile", work / "new.json")
    merged, path = json.loads((work / "new.json").read_text()), profile_path(machine.options)
    rows = json.loads(path.read_text())["kernels"] if path.exists() else []
    rows = {(row["kernel"], row["operands"]): row for row in [*rows, *merged["kernels"]]}
    (work / "merged.json").write_text(json.dumps(merged | {"kernels": list(rows.values())}, indent=1) + "\n")
    machine.compile(work, "profiled.plan", "--profile", work / "merged.json")
    shutil.copy(work / "merged.json", path)
    return {"kernels": len(rows)}


def kendall_tau(pairs):
    """Tau-b of (x, y)."""
    agree = disagree = x_ties = y_ties = 0
    for (x, y), (u, v) in itertools.combinations(pairs, 2):
        sign = (x - u) * (y - v)
        agree, disagree = agree + (sign > 0), disagree + (sign < 0)
        x_ties, y_ties = x_ties + (x == u), y_ties + (y == v)
    count = len(pairs) * (len(pairs) - 1) / 2
    scale = ((count - x_ties) * (count - y_ties)) ** 0.5
    return (agree - disagree) / scale if scale else None


def step_ns(machine, plan):
    turns = TURNS + WARM_TURNS
    done = machine.run(machine.options.build / "tests/bench/bench_session", plan, 1, input="\n" * turns, loader=True)
    return min(json.loads(line)["step_ns"] for line in done.stdout.splitlines()[WARM_TURNS:])


def plans_of(machine, work, *options):
    """Distinct plans from everything saved to the smallest budget: reports."""
    none = machine.compile(work, "0.plan", "--ac-mode", "none", *options)
    found = {(none["step_ns"], none["arena_bytes"]): none}
    refused = machine.tool("compile", work / "model.fbs", "--target", machine.options.target, "--arch", "none",
                           "--budget", "1", "-o", work / "no.plan", *options, accept=(3,)).stderr
    least = int(refused.split(" needs ")[1].split()[0])
    most = none["arena_bytes"] + none["reserve_bytes"]
    for k in range(1 if machine.options.small else BUDGETS):
        budget = least + (most - least) * k // BUDGETS
        report = machine.compile(work, f"{k + 1}.plan", "--budget", budget, *options)
        found.setdefault((report["step_ns"], report["arena_bytes"]), report)
    return list(found.values())


def ranking(machine, work, model, profiled):
    """Predicted beside measured step times of plans of one model."""
    path = profile_path(machine.options)
    if profiled and not path.exists():
        raise Skip(f"no {path.name} beside the results: run the stage profile first")
    machine.tool("graph", *machine.models()[model], "-o", work / "model.fbs")
    rows = [{"policy": report["policy"], "arena_bytes": report["arena_bytes"], "predicted_ns": report["step_ns"],
             "measured_ns": step_ns(machine, report["plan"])}
            for report in plans_of(machine, work, *(["--profile", path] if profiled else []))]
    return {"kendall_tau": kendall_tau([(row["predicted_ns"], row["measured_ns"]) for row in rows]), "plans": rows}


def torch_on_gpu():
    try:
        import torch
    except ImportError:
        raise Skip("PyTorch is not installed") from None
    if not torch.cuda.is_available():
        raise Skip("PyTorch sees no GPU")
    return torch


def bandwidth(machine, _):
    """Of each profiled kernel of at least 8 MB, beside what a copy by PyTorch reaches."""
    path, torch = profile_path(machine.options), torch_on_gpu()
    if not path.exists():
        raise Skip(f"no {path.name} beside the results: run the stage profile first")
    data, ms = torch.empty(1 << 30, dtype=torch.uint8, device="cuda"), []
    other = torch.empty_like(data)
    for _ in range(10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(), other.copy_(data), end.record()
        torch.cuda.synchronize()
        ms.append(begin.elapsed_time(end))
    copy = 2 * data.nbytes / (min(ms) * 1e-3)
    rows = [row for row in json.loads(path.read_text())["kernels"]
            if row["moved_bytes"] >= 8e6 and row["kernel"] not in ("matmul", "attention", "attention_backward")]
    return {"copy_bytes_per_s": copy, "of_copy": {f"{row['kernel']} {row['operands']}":
            round(row["moved_bytes"] / row["median_ns"] * 1e9 / copy, 3) for row in rows}}


def pytorch(machine, _, how, recompute):
    """The step of gpt2-124m, for its rankings."""
    torch_on_gpu()
    return json.loads(machine.run(sys.executable, HERE / "torch_step.py", how, recompute, 8, 1024).stdout)


# stage: {item: function, arguments}
def items_of(machine, stage):
    models = machine.models()
    return {
        "conformance": {"primitives": (conformance,)},
        "kernels": {" ".join([family, *form[1:], *shape]): (kernels, family, form, shape)
                    for family, form, shape in KERNELS},
        "steps": {"memory": (memory,), "host": (host,), **{f"model {k}": (steps, k) for k in range(5)}},
        "sanitizer": {check: (sanitizer, check) for check in ["memcheck", "racecheck", "initcheck", "synccheck"]},
        "profile": {model: (profile, model) for model in models},
        "bench": {**{f"{model} ranking{how}": (ranking, model, how != "") for how in ["", " profiled"]
                     for model in models}, "bandwidth": (bandwidth,),
                  **{f"pytorch gpt2-124m {how} {recompute}": (pytorch, how, recompute)
                     for how in ["eager", "compile"] for recompute in ["none", "full"]}},
    }[stage]


def do(machine, function, *arguments):
    """What goes into the results."""
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as work:
            row = {"status": "ok", "found": function(machine, pathlib.Path(work), *arguments)}
    except Skip as skip:
        row = {"status": "skipped", "why": str(skip)}
    except subprocess.TimeoutExpired:
        row = {"status": "unfinished", "why": "time ran out"}
    except Fault as fault:
        row = {"status": "failed", "why": str(fault)}
    except Exception as unforeseen:  # as of PyTorch
        row = {"status": "failed", "why": repr(unforeseen)[-700:]}
    return row | {"seconds": round(time.monotonic() - begin, 1)}


ABOUT = ["when", "commit", "command", "gpu", "driver", "nvrtc", "cublaslt"]  # every row that was begun says


def commit_of(build):
    """What is built: as tools/gpu.sh pack wrote it, or this tree's."""
    carried = build / "commit"
    if carried.exists():
        return carried.read_text().strip()
    try:
        said = subprocess.run([ROOT / "tools/gpu.sh", "commit"], encoding="utf-8", capture_output=True)
    except OSError:
        return None
    return said.stdout.strip() or None


def run_stage(machine, stage, about):
    """about: of every row: commit, versions, command."""
    path = machine.options.out / f"{stage}.json"
    results = json.loads(path.read_text()) if path.exists() else {"stage": stage, "items": {}}
    wanted, rows = items_of(machine, stage), results["items"]
    if machine.options.small and stage in ("kernels", "steps"):
        wanted = dict(list(wanted.items())[::max(1, len(wanted) // 2)])
    left = [name for name in wanted
            if (rows.get(name, {}).get("status"), rows.get(name, {}).get("commit")) != ("ok", about["commit"])]
    for name in left:
        if machine.left() <= 0:
            rows[name] = {"status": "unfinished", "why": "time ran out"}
        else:
            when = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M}"
            rows[name] = do(machine, *wanted[name]) | {"when": when} | about
        print(f"{stage}: {name}: {rows[name]['status']} {rows[name].get('why', '')}".rstrip(), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{stage}: {len(wanted) - len(left)} of {len(wanted)} items were done before; {path}")
    states = {rows[name]["status"] for name in wanted}
    return 1 if "failed" in states else 75 if "unfinished" in states else 77 if "skipped" in states else 0


def arguments():
    carried = ROOT / "build-carried"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["conformance", "kernels", "steps", "sanitizer", "profile", "bench"])
    parser.add_argument("--build", type=pathlib.Path, default=carried if carried.exists() else ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--libraries", type=pathlib.Path)
    parser.add_argument("--doubles", metavar="COMPILER")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--seconds", type=float, default=440)
    parser.add_argument("--small", action="store_true", help="tiny models and every few items, to try the stages")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not (options.build / "tools/remat-run").exists():
        sys.exit(f"gpu.sh: nothing is built in {options.build}: run tools/build.sh build, or carry a build-carried")
    options.out = (options.out or pathlib.Path(os.environ.get("OUT") or options.build / "gpu")).resolve()
    options.libraries = options.libraries.resolve() if options.libraries else None
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def main():
    options, command = arguments(), shlex.join(["tools/gpu.sh", *sys.argv[1:]])
    if options.doubles:  # Meson's; the tools shall find the doubles where they are told to
        os.environ.pop("LD_LIBRARY_PATH", None)
    # doubles.py reads its arguments when it is imported
    sys.argv = [sys.argv[0], str(options.build / "tools"), str(options.libraries or "-"), options.doubles or "-"]
    sys.path.append(str(ROOT / "tests/cuda"))
    machine = Machine(options)
    probe = do(machine, conformance)
    if probe["status"] == "skipped":
        (options.out / f"{options.stage}.json").write_text(json.dumps({"stage": options.stage, "items": {}, **probe}) + "\n")
        print(f"SKIP: {options.stage}: {probe['why']}")
        return 77
    versions = {key: probe.get("found", {}).get(key) for key in ["gpu", "driver", "nvrtc", "cublaslt"]}
    return run_stage(machine, options.stage, {"commit": commit_of(options.build), "command": command} | versions)


if __name__ == "__main__":
    sys.exit(main())
