"""One stage of the tests and measurements on a GPU: what of it is not done yet, in less than eight minutes.

    stages.py STAGE [--build FOLDER] [--out FOLDER] [--libraries FOLDER] [--doubles COMPILER] [--target NAME]
                    [--seconds N] [--small]

A stage is a list of items. FOLDER/STAGE.json (--out: $OUT, else BUILD/gpu) has what each found, is written
after each, and is read first: what is "ok" there, of the same commit, is not done again, and what ran out of time
is done after what did not, with the plans that it had not measured. --build: build-carried where there is one, else
build; its programs are run with the libraries of its folder "libraries". --libraries: of NVIDIA, where the system's
loader does not find them; --doubles: they are those of tests/cuda, whose kernels COMPILER compiles. --target: the
description of the GPU.

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

from machine import ROOT, SMALL_MODELS, Fault, Machine, Skip

# Ragged and whole rows, one and many vectors, heads in groups: what kernels may get wrong.
SHAPES = [["--batch", "1", "--seq", "2"], ["--batch", "3", "--seq", "17"], ["--batch", "2", "--seq", "64"],
          ["--batch", "1", "--seq", "131", "--context", "131"]]
# Heads of 64 and 128, rows of more than 1024.
WIDE = [["--batch", "1", "--seq", "131", "--context", "131", "--width", "256", "--heads", heads, "--vocab", "4099"]
        for heads in ["4", "2"]]
FAMILIES = ["gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"]
FORMS = [["--dtype", "fp32"], ["--dtype", "bf16"],
         ["--dtype", "bf16", "--attention", "written-out", "--dropout", "0.1"]]
DROPPED = [["--dtype", "bf16", "--dropout", "0.1"], ["--dtype", "fp32", "--dropout", "0.1"]]
UPDATES = [["--dtype", "bf16", "--clip-norm", "0.1"], ["--dtype", "fp32", "--optimizer", "sgd"]]
UNEQUAL = [["--batch", "2", "--seq", "19", "--source-seq", "70"], ["--batch", "1", "--seq", "131", "--source-seq", "37",
                                                                   "--context", "131"]]
KERNELS = [*itertools.product(FAMILIES, FORMS, SHAPES),
           *itertools.product(["gpt2-tiny", "llama-tiny"], FORMS[:2], WIDE),
           # Dropout inside of attention, a group of query heads for each of keys, and lengths that differ.
           *itertools.product(["gpt2-tiny", "bert-tiny"], DROPPED, WIDE),
           *itertools.product(["llama-tiny"], FORMS[:2], [[*shape, "--kv-heads", "1"] for shape in WIDE]),
           *itertools.product(["encdec-tiny"], [*FORMS, *DROPPED], UNEQUAL),
           *itertools.product(["gpt2-tiny"], UPDATES, SHAPES[:2])]
SAMPLES, SAMPLES_EACH = 300, 50  # as tests/emulator does by itself
ATTENTION_SIZES = sum(line.startswith("SIZES(") for line in
                      (ROOT / "tests/emulator/attention_sizes.def").read_text().splitlines())
SANITIZED = [1, 15, 29, 38]  # of these sizes: bf16 of 64 and 128, fp32, fp16, with dropout
BUDGETS, PLANS, PLANS_LEAST = 48, 24, 20  # some budgets give the same plan
TAU_LEAST = 0.9  # with a profile
MORE_BYTES = 64 << 20  # that a driver may take, beside what was planned or in use before
COPY_SHARE = 0.85  # of the bandwidth of the driver's copy: what kernels that move much aim at
TURNS, WARM_TURNS = 10, 4
# Of these stages, what --small does.
SMALL = {"sanitizer": ["memcheck", "racecheck attention 1"],
         "kernels": ["samples 0", "attention 1", "gpt2-tiny fp32 --batch 1 --seq 2", "encdec-tiny bf16 --dropout 0.1 "
                     "--batch 2 --seq 19 --source-seq 70"],
         "steps": ["memory", "host", "process memory gpt2-tiny", "model 2"]}


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
        done = machine.train(work / "model.plan", "--steps", 1, "--json", "--save-gradients", work / device,
                             device=device)
        losses[device] = json.loads(done.stdout.splitlines()[0])["loss"]
    apart, tensor = difference(read_tensors(work / "cpu"), read_tensors(work / "cuda"), form[1])
    if not (apart < 1 and loss_difference(losses["cpu"], losses["cuda"], form[1]) < 1):
        raise Fault(f"gradient of {tensor} {apart:.2f} of what it may be from the CPU's; losses {losses}")
    return {"gradients_of_limit": apart, "losses": losses}


def family(machine, _, name, *arguments, before=()):
    """A test of tests/emulator with the kernels on the GPU."""
    done = machine.run(*before, machine.options.build / f"tests/gpu/gpu_{name}", machine.options.libraries or "-",
                       *arguments, accept=(0, 1, 77))
    refuse_device(done)
    if done.returncode:
        raise (Skip if done.returncode == 77 else Fault)((done.stdout[:700] + done.stderr[-300:]).strip())
    return {"said": done.stdout.strip().splitlines()[-1]}


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
    return check_memory(few, many)


def check_memory(few, many):
    found = {key: few[key] for key in ["arena_bytes", "device_bytes", "budget_bytes"]}
    found["more_bytes"] = many["device_bytes"] - few["device_bytes"]
    if found["more_bytes"] > MORE_BYTES:
        raise Fault(f"{few['device_bytes']} bytes after 2 steps, {many['device_bytes']} after 6", found)
    if not few["arena_bytes"] <= few["device_bytes"] <= few["budget_bytes"]:
        raise Fault(f"not within the budget: {few}", found)
    return found


def process_memory(machine, work, model):
    """What the plan sets aside, arena and reserve, beside what the driver reports."""
    machine.tool("graph", *machine.models()[model], "-o", work / "model.fbs")
    planned = machine.compile(work, "model.plan")
    machine.train(work / "model.plan", "--steps", 3, "--report", work / "report.json")
    found = {key: planned[key] for key in ["arena_bytes", "reserve_bytes"]}
    found["device_bytes"] = json.loads((work / "report.json").read_text())["device_bytes"]
    return check_process_memory(found, machine.options.small)


def check_process_memory(found, trial):
    planned = found["arena_bytes"] + found["reserve_bytes"]
    found |= {"more_bytes": found["device_bytes"] - planned, "trial": trial}
    if not trial and found["more_bytes"] > MORE_BYTES:
        raise Fault(f"the process takes {found['device_bytes']} bytes, {planned} were planned", found)
    return found


# --- sanitizer ---

def refuse_device(done):
    if "Device not supported" in done.stdout:
        raise Skip(f"compute-sanitizer: {done.stdout.strip().splitlines()[-1]}")


def sanitizer(machine, work, check, *of):
    """Of a step, or of a family."""
    program = shutil.which("compute-sanitizer")
    if not program:
        raise Skip("compute-sanitizer is not installed")
    before = [program, "--tool", check, "--error-exitcode", "99"]
    if of:
        return family(machine, work, *of, before=before)
    machine.tool("graph", *SMALL_MODELS["gpt2-tiny"], "-o", work / "model.fbs")
    machine.compile(work, "model.plan", target=False)
    done = machine.train(work / "model.plan", "--steps", 1, "--hash", before=before)
    refuse_device(done)
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


def step_of(machine, plan):
    """Its fastest step, and the most memory that was in use on the GPU."""
    turns = TURNS + WARM_TURNS
    done = machine.run(machine.options.build / "tests/bench/bench_session", plan, 1, "cuda", input="\n" * turns,
                       loader=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if {row["device"] for row in rows} != {"cuda"}:
        raise Fault(f"steps were not timed on cuda: {rows[0]}")
    return {"measured_ns": min(row["step_ns"] for row in rows[WARM_TURNS:]),
            "device_bytes": max(row["device_bytes"] for row in rows)}


def plans_of(machine, work, *options):
    """Distinct plans from everything saved to the smallest budget: reports."""
    none = machine.compile(work, "0.plan", "--ac-mode", "none", *options)
    found = {plan_key(none): none}
    refused = machine.tool("compile", work / "model.fbs", "--target", machine.options.target, "--arch", "none",
                           "--budget", "1", "-o", work / "no.plan", *options, accept=(3,)).stderr
    least = int(refused.split(" needs ")[1].split()[0])
    most = none["arena_bytes"] + none["reserve_bytes"]
    for k in range(1 if machine.options.small else BUDGETS):
        share = k * 29 % BUDGETS  # each once, far from the one before
        report = machine.compile(work, f"{k + 1}.plan", "--budget", least + (most - least) * share // BUDGETS, *options)
        if found.setdefault(plan_key(report), report) is not report:
            (work / f"{k + 1}.plan").unlink()
        if len(found) > PLANS:
            break
    return list(found.values())


def plan_key(report):
    return f"{report['step_ns']} ns, {report['arena_bytes']} B"


def measured(machine, report):
    """Kept for the next time."""
    key = plan_key(report)
    if key not in machine.kept:
        machine.kept[key] = step_of(machine, report["plan"])
    return machine.kept[key]


def ranking(machine, work, model, profiled):
    """Predicted beside measured step times of plans of one model, and the memory that they take."""
    path = profile_path(machine.options)
    if profiled and not path.exists():
        raise Skip(f"no {path.name} beside the results: run the stage profile first")
    machine.tool("graph", *machine.models()[model], "-o", work / "model.fbs")
    rows = [{"policy": report["policy"], "arena_bytes": report["arena_bytes"], "predicted_ns": report["step_ns"],
             **measured(machine, report)}
            for report in plans_of(machine, work, *(["--profile", path] if profiled else []))]
    return check_ranking(rows, profiled, machine.options.small)


def check_ranking(rows, profiled, trial):
    found = {"kendall_tau": kendall_tau([(row["predicted_ns"], row["measured_ns"]) for row in rows]), "plans": rows}
    tau = found["kendall_tau"]
    if not trial and len(rows) < PLANS_LEAST:
        raise Fault(f"only {len(rows)} plans differ, {PLANS_LEAST} should", found)
    if not trial and (tau is None or (profiled and tau < TAU_LEAST)):
        raise Fault(f"Kendall's tau is {tau}, with a profile it should be at least {TAU_LEAST}", found)
    return found | {"trial": trial}


def torch_on_gpu():
    try:
        import torch
    except ImportError:
        raise Skip("PyTorch is not installed") from None
    if not torch.cuda.is_available():
        raise Skip("PyTorch sees no GPU")


def bandwidth(machine, _):
    """Of each profiled kernel of at least 8 MB, beside what the driver's copy reaches."""
    path = profile_path(machine.options)
    done = machine.run(machine.options.build / "tests/cuda/cuda_copy", machine.options.libraries or "-")
    copied = json.loads(done.stdout)
    if not path.exists():
        raise Skip(f"{copied}; no {path.name} beside the results: run the stage profile first")
    rows = [row for row in json.loads(path.read_text())["kernels"]
            if row["moved_bytes"] >= (0 if machine.options.small else 8e6)
            and row["kernel"] not in ("matmul", "attention", "attention_backward")]
    return copied | shares_of_copy(rows, copied["copy_bytes_per_s"])


def shares_of_copy(rows, copy_bytes_per_s):
    """And those below the aim, which is no fault."""
    shares = {f"{row['kernel']} {row['operands']}": row["moved_bytes"] / row["median_ns"] * 1e9 / copy_bytes_per_s
              for row in rows}
    return {"of_copy": {name: round(share, 3) for name, share in shares.items()},
            "below_the_aim": [name for name, share in shares.items() if share < COPY_SHARE]}


def pytorch(machine, _, how, recompute):
    """The step of gpt2-124m, for its rankings."""
    torch_on_gpu()
    return json.loads(machine.run(sys.executable, ROOT / "tests/gpu/torch_step.py", how, recompute, 8, 1024).stdout)


# stage: {item: function, arguments}
def items_of(machine, stage):
    models = machine.models()
    return {
        "conformance": {"primitives": (conformance,)},
        "kernels": {**{f"samples {first}": (family, "samples", SAMPLES_EACH, first)
                       for first in range(0, SAMPLES, SAMPLES_EACH)},
                    **{f"attention {number}": (family, "attention", number) for number in range(ATTENTION_SIZES)},
                    **{name: (family, "named", name) for name in ["moves", "items"]},
                    **{" ".join([model, *form[1:], *shape]): (kernels, model, form, shape)
                       for model, form, shape in KERNELS}},
        "steps": {"memory": (memory,), "host": (host,),
                  **{f"process memory {model}": (process_memory, model) for model in models},
                  **{f"model {k}": (steps, k) for k in range(5)}},
        "sanitizer": {**{check: (sanitizer, check) for check in ["memcheck", "racecheck", "initcheck", "synccheck"]},
                      **{" ".join(map(str, [check, *of])): (sanitizer, check, *of)
                         for check in ["memcheck", "racecheck", "synccheck"]
                         for of in [("samples", SAMPLES_EACH, 0), ("named", "moves"), ("named", "items"),
                                    *(("attention", number) for number in SANITIZED)]}},
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
        row = {"status": "failed", "why": str(fault)} | ({"found": fault.found} if fault.found else {})
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


def items_left(wanted, rows, commit):
    """Those that ran out of time least often first."""
    left = [name for name in wanted
            if (rows.get(name, {}).get("status"), rows.get(name, {}).get("commit")) != ("ok", commit)]
    return sorted(left, key=lambda name: rows.get(name, {}).get("times", 0))


def run_stage(machine, stage, about):
    """about: of every row: commit, versions, command."""
    path = machine.options.out / f"{stage}.json"
    results = json.loads(path.read_text()) if path.exists() else {"stage": stage, "items": {}}
    wanted, rows = items_of(machine, stage), results["items"]
    if machine.options.small:
        wanted = {name: wanted[name] for name in SMALL.get(stage, wanted)}
    left = items_left(wanted, rows, about["commit"])
    for name in left:
        before = rows.get(name, {})
        if machine.left() <= 0:
            rows[name] = before | {"status": "unfinished", "why": "time ran out"}
        else:
            when = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M}"
            machine.kept = before.get("kept", {}) if before.get("commit") == about["commit"] else {}
            rows[name] = do(machine, *wanted[name]) | {"when": when} | about
            if rows[name]["status"] == "unfinished":
                rows[name] |= {"times": before.get("times", 0) + 1, "kept": machine.kept}
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
    parser.add_argument("--small", action="store_true", help="tiny models and few items, to try the stages")
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
        found = {"stage": options.stage, "items": {}, **probe}
        (options.out / f"{options.stage}.json").write_text(json.dumps(found) + "\n")
        print(f"SKIP: {options.stage}: {probe['why']}")
        return 77
    versions = {key: probe.get("found", {}).get(key) for key in ["gpu", "driver", "nvrtc", "cublaslt"]}
    return run_stage(machine, options.stage, {"commit": commit_of(options.build), "command": command} | versions)


if __name__ == "__main__":
    sys.exit(main())
