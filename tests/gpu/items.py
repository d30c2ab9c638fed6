# SPDX-License-Identifier: Apache-2.0
"""What the stages of tools/gpu.sh do, item by item: a function takes the machine and a folder to work in, and returns
what it found; Skip and Fault say why not."""
import concurrent.futures
import itertools
import json
import os

import ranks_items
from machine import ROOT, SMALL_MODELS, Fault, Skip, accepted, find_program, replace_file

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
PROFILE_STEPS = 5
KERNEL_KEYS = ["kernel", "operands", "flops", "moved_bytes"]
GRAPH_STEPS = 3  # launch by launch, captured, launched as a graph
# Of these stages, what --small does.
SMALL = {"sanitizer": ["memcheck", "racecheck attention 1"],
         "kernels": ["samples 0", "attention", "items", "gpt2-tiny fp32 --batch 1 --seq 2", "encdec-tiny bf16 --dropout 0.1 "
                     "--batch 2 --seq 19 --source-seq 70"],
         "steps": ["memory", "host", "process memory gpt2-tiny", "model 2"],
         "ranks": ["gpt2 fp32 local", "gpt2 fp32 nccl", "llama bf16 nccl, processes", "killed"]}


# --- conformance, kernels, steps ---

def conformance(machine, work):
    path, libraries = work / "found.json", machine.options.libraries
    done = machine.call("cuda_conformance", "--json", path, *(["--libraries", libraries] if libraries else []),
                        accept=(0, 1, 77))
    if done.returncode == 77:
        raise Skip(done.stdout.strip().removeprefix("SKIP: "))
    if done.returncode:
        raise Fault(done.stdout)
    return json.loads(path.read_text())


def graph_of(family, form, shape):
    """Arguments of remat-graph."""
    return [family, "--layers", "1", *form, *shape]


def kernels(machine, work, family, form, shape):
    """A step on the GPU against the same on the CPU, loss and gradients; and as a graph against launch by launch, the
    bits of all weights."""
    from gradients import difference, loss_difference, read_tensors
    machine.graph(work, *graph_of(family, form, shape))
    machine.compile(work, "model.plan", target=False)
    losses = {}
    for device, steps in [("cpu", 1), ("cuda", GRAPH_STEPS)]:
        done = machine.train(work / "model.plan", "--steps", steps, "--json", "--save-gradients", work / device,
                             "--save-weights", work / f"{device}.weights", device=device)
        losses[device] = json.loads(done.stdout.splitlines()[0])["loss"]
    machine.train(work / "model.plan", "--steps", GRAPH_STEPS, "--save-weights", work / "graph.weights")
    if (work / "cuda.weights").read_bytes() != (work / "graph.weights").read_bytes():
        raise Fault(f"after {GRAPH_STEPS} steps as a graph the weights are others than launch by launch")
    apart, tensor = difference(read_tensors(work / "cpu"), read_tensors(work / "cuda"), form[1])
    if not (apart < 1 and loss_difference(losses["cpu"], losses["cuda"], form[1]) < 1):
        raise Fault(f"gradient of {tensor} {apart:.2f} of what it may be from the CPU's; losses {losses}")
    return {"gradients_of_limit": apart, "losses": losses}


def family(machine, _, name, *arguments, before=()):
    """A test of tests/emulator with the kernels on the GPU."""
    done = machine.call(f"gpu_{name}", machine.libraries(), *arguments, before=before, accept=(0, 1, 77))
    refuse_device(done)
    if done.returncode:
        raise (Skip if done.returncode == 77 else Fault)((done.stdout[:700] + done.stderr[-300:]).strip())
    return {"said": done.stdout.strip().rpartition("\n")[2]}


def attention(machine, work):
    """All sizes, each in a process of its own: nearly all of their time is NVRTC's, on one core."""
    machine.close()
    sizes = SANITIZED[:1] if machine.options.small else range(ATTENTION_SIZES)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = list(filter(None, pool.map(lambda number: fault_of_size(machine, number), sizes)))
    if faults:
        raise Fault(f"{len(faults)} of {len(sizes)} sizes: {faults[0]}", {"faults": faults})
    return {"sizes": len(sizes)}


def fault_of_size(machine, number):
    try:
        family(machine, None, "attention", number, before=["env"])
    except (Fault, Skip) as fault:
        return str(fault)


def steps(machine, _, model):
    return {"said": machine.python("steps.py", model).stdout.strip()}


def host(machine, _):
    """The host's stream and memory."""
    return {"said": machine.python("host.py", machine.options.build / "tests/cuda/cuda_host").stdout.strip()}


def memory(machine, work):
    """What the driver reports is within the budget and the same after 2 and 6 steps."""
    machine.graph(work, *SMALL_MODELS["gpt2-tiny"])
    machine.compile(work, "model.plan", "--budget", "2GB")
    found = []
    for count in [2, 6]:
        machine.train(work / "model.plan", "--steps", count, "--report", work / "report.json", alone=True)
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
    machine.graph(work, *machine.models()[model])
    planned = machine.compile(work, "model.plan")
    machine.train(work / "model.plan", "--steps", 3, "--report", work / "report.json", alone=True)
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
    program = find_program("compute-sanitizer")
    if not program:
        raise Skip("compute-sanitizer is not installed")
    before = [program, "--tool", check, "--error-exitcode", "99"]
    if of:
        return family(machine, work, *of, before=before)
    machine.graph(work, *SMALL_MODELS["gpt2-tiny"])
    machine.compile(work, "model.plan", target=False)
    done = machine.train(work / "model.plan", "--steps", 1, "--hash", before=before)
    refuse_device(done)
    return {"said": done.stdout.strip().splitlines()[-1]}


# --- profile, bench ---

def profile_path(machine):
    return machine.options.state / f"{machine.options.name}.profile.json"


def profile(machine, work, model):
    """Adds the times of this model's kernels to NAME.profile.json, which is kept before anything is compiled from it."""
    machine.graph(work, *machine.models()[model])
    machine.compile(work, "model.plan")
    done = machine.train(work / "model.plan", "--steps", PROFILE_STEPS, "--profile", work / "new.json", accept=(0, 8))
    new, path = json.loads((work / "new.json").read_text()), profile_path(machine)
    rows = json.loads(path.read_text())["kernels"] if path.exists() else []
    rows = {tuple(row[key] for key in KERNEL_KEYS): row for row in [*rows, *new["kernels"]]}
    replace_file(path, json.dumps(new | {"kernels": list(rows.values())}, indent=1) + "\n")
    found = {"kernels": [row | {"count": row["count"] // PROFILE_STEPS} for row in new["kernels"]]}
    try:
        accepted(done, (0,))
        machine.compile(work, "profiled.plan", "--profile", path)
    except Fault as fault:
        raise Fault(str(fault), found) from fault
    return found


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
    """Its fastest step and their median, and the most memory that was in use on the GPU."""
    libraries = [machine.options.libraries] if machine.options.libraries else []
    done = machine.call("bench_session", plan, 1, "cuda", *libraries, given="\n" * (TURNS + WARM_TURNS), alone=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if {row["device"] for row in rows} != {"cuda"}:
        raise Fault(f"steps were not timed on cuda: {rows[0]}")
    times = sorted(row["step_ns"] for row in rows[WARM_TURNS:])
    return {"measured_ns": times[0], "median_ns": times[TURNS // 2],
            "device_bytes": max(row["device_bytes"] for row in rows)}


def budgets_of(machine, work, *options):
    """The report of the plan that saves everything, and what it and the smallest take."""
    none = machine.compile(work, "0.plan", "--ac-mode", "none", *options)
    refused = machine.tool("compile", work / "model.fbs", *machine.goal(), "--arch", "none", "--budget", "1", "-o",
                           work / "no.plan", *options, accept=(3,)).stderr
    return none, int(refused.split(" needs ")[1].split()[0]), none["arena_bytes"] + none["reserve_bytes"]


def plans_of(machine, work, *options):
    """Distinct plans from everything saved to the smallest budget: reports."""
    none, least, most = budgets_of(machine, work, *options)
    found = {plan_key(none): none}
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
    path = profile_path(machine)
    if profiled and not path.exists():
        raise Skip(f"no {path.name} beside the results: run the stage profile first")
    machine.graph(work, *machine.models()[model])
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


def copy(machine, _):
    return json.loads(machine.call("gpu_copy", machine.libraries()).stdout)


def bandwidth(machine, _):
    """Of each profiled kernel of at least 8 MB, beside what the driver's copy reaches."""
    path = profile_path(machine)
    copied = copy(machine, None)
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


def pytorch(machine, _, how, recompute, states):
    """The step of gpt2-124m, for its rankings."""
    return machine.pytorch("step", how, recompute, states, 8, 1024)


# stage: {item: function, arguments}
def items_of(machine, stage):
    models = machine.models()
    return {
        "conformance": {"primitives": (conformance,)},
        "kernels": {**{f"samples {first}": (family, "samples", SAMPLES_EACH, first)
                       for first in range(0, SAMPLES, SAMPLES_EACH)},
                    "attention": (attention,),
                    **{name: (family, "named", name) for name in ["moves", "vocabulary", "items"]},
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
        "ranks": ranks_items.items(),
        "profile": {model: (profile, model) for model in models},
        "bench": {**{f"{model} ranking{how}": (ranking, model, how != "") for how in ["", " profiled"]
                     for model in models}, "bandwidth": (bandwidth,),
                  **{f"pytorch gpt2-124m {how} {recompute} {states}": (pytorch, how, recompute, states)
                     for how in ["eager", "compile"] for recompute in ["none", "full"] for states in ["fp32", "bf16"]}},
    }[stage]
