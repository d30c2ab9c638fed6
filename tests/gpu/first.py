# SPDX-License-Identifier: Apache-2.0
"""The stage first: half an hour with a GPU, the most valuable items first; and its results as tables.

`keep` puts them into the tree: NAME.json, the GPU's description with the measured reserve; NAME.profile.json; tables."""
import csv
import json
import math
import re
import shutil

from items import (FAMILIES, SANITIZED, attention, budgets_of, conformance, copy, family, kendall_tau, kernels, profile,
                   profile_path, sanitizer, step_of)
from machine import ROOT, Fault, Later, Skip, find_program, replace_file

STEP_SHAPE = ["--batch", "3", "--seq", "17"]
MIB = 1 << 20
MARGIN_BYTES = 16 * MIB  # of the reserve, for what a driver takes in one run and not in another
# Of cuBLASLt, column-major: transposes, m, n, k, leading dimensions of a, b and d. Of 8192 tokens of GPT-2 124M.
CEILING = ["NN", 8192, 8192, 8192, 8192, 8192, 8192]
PRODUCTS = {f"{name} ld {pitch}": shape for pitch in [50257, 50304] for name, shape in {
    "logits": ["TN", 50257, 8192, 768, 768, 768, pitch], "logits' input gradient": ["NN", 768, 8192, 50257, 768, pitch, 768],
    "logits' weight gradient": ["NT", 768, 50257, 8192, 768, pitch, 768]}.items()} | {
    "qkv": ["NN", 2304, 8192, 768, 2304, 768, 2304], "mlp": ["NN", 3072, 8192, 768, 3072, 768, 3072],
    "mlp's weight gradient": ["NT", 3072, 768, 8192, 3072, 768, 3072]}
PRODUCT_TURNS = 10
ATTENTION = [(head_size, seq) for head_size in [64, 128] for seq in [1024, 4096, 8192]]
ATTENTION_TOKENS, ATTENTION_WIDTH = 16384, 2048
PROFILED = ["gpt2-124m", "llama-1b"]
PLANS, SLOWEST, HASHED_STEPS = 5, 6, 2
BUDGETED, BUDGETS = ["gpt2-124m", "llama-4-layers"], 5  # of torch_budgets.py
COUNTED = 6  # launches of a kind
BEGINS, ENDS = "<!-- first begins -->", "<!-- first ends -->"


# --- items ---

def reserve(machine, work):
    """Bytes in use beside the arena, as the driver reports them, of the models to be profiled; written to NAME.json."""
    beside = {}
    for model in models_of(machine):
        machine.graph(work, *machine.models()[model])
        machine.compile(work, "model.plan")
        machine.train(work / "model.plan", "--steps", 3, "--report", work / "report.json", alone=True)
        report = json.loads((work / "report.json").read_text())
        beside[model] = report["device_bytes"] - report["arena_bytes"]
    found = MIB * math.ceil((max(beside.values()) + MARGIN_BYTES) / MIB)
    text = machine.options.description.read_text()
    replace_file(machine.options.state / f"{machine.options.name}.json",
                 re.sub(r'("reserve_bytes": )\d+', rf"\g<1>{found}", text))
    return {"beside_bytes": beside, "reserve_bytes": found}


def models_of(machine):
    return list(machine.models()) if machine.options.small else PROFILED


def product(machine, _, shape):
    return json.loads(machine.call("gpu_products", machine.libraries(), PRODUCT_TURNS, *shape).stdout)


def attention_time(machine, work, head_size, seq):
    """Of our kernels, from the profile of one layer."""
    tokens, width = (64, head_size) if machine.options.small else (ATTENTION_TOKENS, ATTENTION_WIDTH)
    seq = min(seq, tokens)
    heads = str(width // head_size)
    machine.graph(work, "llama-tiny", "--layers", "1", "--dtype", "bf16", "--vocab", "256", "--width", str(width), "--heads", heads,
                  "--kv-heads", heads, "--batch", str(tokens // seq), "--seq", str(seq), "--context", str(seq))
    machine.compile(work, "model.plan")
    machine.train(work / "model.plan", "--steps", 5, "--profile", work / "profile.json", accept=(0, 8))
    rows = {row["kernel"]: row["median_ns"] for row in json.loads((work / "profile.json").read_text())["kernels"]}
    return {"forward_ns": rows["attention"], "backward_ns": rows["attention_backward"],
            "forward_flops": 2 * tokens * seq * width}


def torch_attention(machine, _, head_size, seq):
    return machine.pytorch("attention", head_size, ATTENTION_TOKENS, seq)


def our_step(machine, work, model):
    """Everything saved; predicted without a profile."""
    machine.graph(work, *machine.models()[model])
    report = machine.compile(work, "model.plan")
    return {"predicted_ns": report["step_ns"], **step_of(machine, report["plan"])}


def torch_step(machine, _, how, states):
    return machine.pytorch("step", how, "none", states, 8, 1024)


def torch_budget(machine, _, model, number):
    """Under remat.backend: what PyTorch's allocator has seen beside the plan."""
    return machine.pytorch("budget", model, number)


def profile_of(machine):
    """The row of the first model's profile."""
    name = f"profile {models_of(machine)[0]}"
    row = machine.rows.get(name, {})
    if "found" not in row:
        raise (Skip if row.get("status") in ("failed", "skipped") else Later)(f"the item {name} has no times")
    return row


def slowest(machine):
    """Kinds of kernels of the first model, without products, by the time they lose in a step, most first."""
    lost = {}
    for row in time_lost(profile_of(machine)["found"]["kernels"], machine.rows):
        kind = row["kernel"].split("#")[0]
        lost[kind] = lost.get(kind, 0) + row["lost_ns"]
    lost.pop("matmul", None)
    return sorted(lost, key=lost.get, reverse=True)


def counters_command(program, kind):
    """Of the first launches of functions of that kind."""
    name = re.escape(kind.replace(".", "_"))
    return [program, "--clock-control", "none", "--csv", "--page", "details", "--section", "SpeedOfLight", "--section",
            "Occupancy", "--section", "WarpStateStats", "--kernel-name", f"regex:^{name}_[a-z]+_v[0-9]+_",
            "--launch-count", str(COUNTED)]


def counters(machine, work, k):
    """Nsight Compute's, of number `k` of the slowest kinds of kernels."""
    program = find_program("ncu")
    if not program:
        raise Skip("ncu is not installed")
    chosen = slowest(machine)
    if k >= len(chosen):
        raise Skip(f"the profile has {len(chosen)} kinds of kernels")
    machine.graph(work, *machine.models()[models_of(machine)[0]])
    machine.compile(work, "model.plan")
    done = machine.train(work / "model.plan", "--steps", 1, before=counters_command(program, chosen[k]),
                         accept=(0, 1, 8))
    rows = read_counters(done.stdout)
    if not rows:
        raise Fault(f"ncu: {(done.stdout[-300:] + done.stderr[-300:]).strip()}")
    return {"kind": chosen[k], "launches": rows}


COUNTERS = ["Duration", "Memory Throughput", "DRAM Throughput", "Compute (SM) Throughput", "Achieved Occupancy",
            "Warp Cycles Per Issued Instruction"]


def read_counters(text):
    """Of ncu --csv --page details: for each launch its function and COUNTERS, with units."""
    lines = text.splitlines()
    header = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    launches = {}
    for row in csv.DictReader(lines[header:]):
        if row.get("Metric Name") in COUNTERS:
            launch = launches.setdefault(row["ID"], {"function": row["Kernel Name"]})
            launch.setdefault(row["Metric Name"], f"{row['Metric Value']} {row['Metric Unit']}".strip())
    return list(launches.values())


def plan(machine, work, k):
    """Number `k` of five plans from everything saved to the smallest budget, predicted from the profile and measured."""
    path = profile_path(machine)
    profile_of(machine)
    machine.graph(work, *machine.models()[models_of(machine)[0]])
    report, least, most = budgets_of(machine, work, "--profile", path)
    if k:
        report = machine.compile(work, "model.plan", "--profile", path, "--budget", most - (most - least) * k // (PLANS - 1))
    found = {"policy": report["policy"], "arena_bytes": report["arena_bytes"], "predicted_ns": report["step_ns"],
             **step_of(machine, report["plan"]), "hashes": hashes_of(machine, report["plan"])}
    for name, row in machine.rows.items():
        if name.startswith("plan ") and row.get("found", found)["hashes"] != found["hashes"]:
            raise Fault(f"other bits than {name}", found)
    return found


def hashes_of(machine, plan):
    """Of loss and gradients of each step."""
    done = machine.train(plan, "--steps", HASHED_STEPS, "--hash", "--json", alone=True)
    return [[line["loss_hash"], line["grad_hash"]] for line in map(json.loads, done.stdout.splitlines())]


def bits(machine, work, model):
    """With dropout: under plans that recompute nothing, something and all, loss and gradients are the same."""
    machine.graph(work, model, "--dtype", "bf16", "--dropout", "0.1", *STEP_SHAPE)
    none, least, most = budgets_of(machine, work)
    some = machine.compile(work, "some.plan", "--budget", least + (most - least) // 4)
    full = machine.compile(work, "full.plan", "--ac-mode", "full")
    found = {f"{report['recomputed']} recomputed": hashes_of(machine, report["plan"]) for report in [none, some, full]}
    if len(found) < 3 or len({json.dumps(hashes) for hashes in found.values()}) > 1:
        raise Fault(f"the bits of plans: {found}", found)
    return found


def items(machine):
    """In the order of their value."""
    return {
        "reserve": (reserve,), "copy": (copy,), "ceiling": (product, small_shape(machine, CEILING)), "primitives": (conformance,),
        "attention": (attention,), "samples": (family, "samples", 100, 0),
        **{f"step {model} {dtype}": (kernels, model, ["--dtype", dtype], STEP_SHAPE)
           for model in FAMILIES for dtype in ["fp32", "bf16"]},
        **{f"profile {model}": (profile, model) for model in models_of(machine)},
        **{f"our step {model}": (our_step, model) for model in models_of(machine)},
        **{f"plan {k}": (plan, k) for k in range(PLANS)},
        **{f"bits {model}": (bits, model) for model in FAMILIES},
        **{f"{whose} attention d={head_size} T={seq}": (function, head_size, seq)
           for whose, function in [("our", attention_time), ("torch", torch_attention)] for head_size, seq in ATTENTION},
        **{f"product {name}": (product, small_shape(machine, shape)) for name, shape in PRODUCTS.items()},
        **{f"torch step {how} {states}": (torch_step, how, states)
           for how in ["eager", "compile"] for states in ["fp32", "bf16"]},
        **{f"torch budget {model} {k}": (torch_budget, model, k) for model in BUDGETED for k in range(BUDGETS)},
        **{f"counters {k}": (counters, k) for k in range(SLOWEST)},
        **{f"{check} attention {number}": (sanitizer, check, "attention", number)
           for check in ["memcheck", "racecheck"] for number in SANITIZED},
    }


def small_shape(machine, shape):
    return shape[:1] + [min(64, value) for value in shape[1:]] if machine.options.small else shape


# --- tables ---

def found_of(rows, name):
    return rows.get(name, {}).get("found")


def time_lost(kernels_found, rows):
    """Rows with roof_ns, the time of their bytes and products at the measured rates, and lost_ns, the time of a step beyond
    that, most first."""
    copied, ceiling = found_of(rows, "copy"), found_of(rows, "ceiling")
    rate = copied["copy_bytes_per_s"] if copied else math.inf
    flops_rate = ceiling["flops"] / ceiling["best_ns"] * 1e9 if ceiling else math.inf
    result = []
    for row in kernels_found:
        products = row["flops"] if row["kernel"] in ("matmul", "attention", "attention_backward") else 0
        roof_ns = 1e9 * max(row["moved_bytes"] / rate, products / flops_rate)
        result.append(row | {"roof_ns": roof_ns, "lost_ns": row["count"] * (row["median_ns"] - roof_ns)})
    return sorted(result, key=lambda row: -row["lost_ns"])


def table(head, lines):
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}",
                      *(f"| {' | '.join(map(str, line))} |" for line in lines)]) + "\n" if lines else ""


def rate(flops, ns):
    return f"{flops / ns / 1e3:.0f}" if ns else "–"


def kernel_table(rows, model):
    found = found_of(rows, f"profile {model}")
    lines = [[f"`{row['kernel']}`", f"`{row['operands'][:90]}`", row["count"], f"{row['median_ns'] / 1e3:.1f}",
              f"{100 * row['roof_ns'] / max(1, row['median_ns']):.0f} %", f"{row['lost_ns'] / 1e6:.2f}"]
             for row in (time_lost(found["kernels"], rows)[:20] if found else [])]
    return table(["kernel", "operands", "in a step", "us each", "of its roof", "ms lost in a step"], lines)


def attention_table(rows):
    lines = []
    for head_size, seq in ATTENTION:
        ours, theirs = (found_of(rows, f"{whose} attention d={head_size} T={seq}") for whose in ["our", "torch"])
        if ours:
            flops = ours["forward_flops"]
            lines.append([head_size, seq] + [cell for share, name in [(1, "forward_ns"), (2.5, "backward_ns")] for cell in
                         [rate(share * flops, ours[name]), rate(share * flops, theirs[name]) if theirs else "–"]])
    return table(["head", "sequence", "forward, TFLOP/s", "PyTorch", "backward, TFLOP/s", "PyTorch"], lines)


def product_table(rows):
    lines = [[name, f"{found['first_ns'] / 1e3:.1f}", f"{found['best_ns'] / 1e3:.1f}", f"{found['best']} of {found['choices']}",
              rate(found["flops"], found["first_ns"])]
             for name in ["ceiling", *(f"product {name}" for name in PRODUCTS)] if (found := found_of(rows, name))]
    return table(["product", "first choice, us", "best, us", "which", "first, TFLOP/s"], lines)


def step_table(rows):
    lines = []
    for name in rows:
        if name.startswith("our step ") and (found := found_of(rows, name)):
            lines.append([f"{name.removeprefix('our step ')}, remat, fp32 masters and moments", f"{found['predicted_ns'] / 1e6:.2f}",
                          f"{found['measured_ns'] / 1e6:.2f}", f"{found['median_ns'] / 1e6:.2f}",
                          f"{found['device_bytes'] / 1e9:.2f}"])
    for how in ["eager", "compile"]:
        for states, what in [("fp32", "fp32 masters and moments"), ("bf16", "bf16 moments, no masters")]:
            if found := found_of(rows, f"torch step {how} {states}"):
                lines.append([f"gpt2-124m, PyTorch {found['torch']} {how}, {what}", "–", f"{found['step_ns'] / 1e6:.2f}",
                              f"{found['median_ns'] / 1e6:.2f}", f"{(found['peak_bytes'] or 0) / 1e9:.2f}"])
    return table(["bf16; 8 x 1024 tokens of gpt2-124m, 2 x 2048 of llama-1b", "predicted, ms", "fastest, ms", "median, ms",
                  "memory, GB"], lines)


def plan_table(rows):
    plans = [found for k in range(PLANS) if (found := found_of(rows, f"plan {k}"))]
    tau = kendall_tau([(row["predicted_ns"], row["measured_ns"]) for row in plans]) if len(plans) > 1 else None
    lines = [[row["policy"], f"{row['arena_bytes'] / 1e9:.2f}", f"{row['predicted_ns'] / 1e6:.2f}",
              f"{row['measured_ns'] / 1e6:.2f}"] for row in plans]
    said = f"\nKendall's tau: {'–' if tau is None else f'{tau:.2f}'}.\n"  # – where all predictions or times are equal
    return table(["plan", "arena, GB", "predicted, ms", "measured, ms"], lines) + (said if lines else "")


def budget_table(rows):
    """Of remat.backend: bytes by PyTorch's allocator; whether steps have the order of their predicted times."""
    lines, said = [], ""
    for model in BUDGETED:
        found = [row for k in range(BUDGETS) if (row := found_of(rows, f"torch budget {model} {k}"))]
        lines += [[model, f"{row['budget_bytes'] / 1e9:.2f}", f"{row['planned_bytes'] / 1e9:.2f}",
                   f"{row['allocated_bytes'] / row['planned_bytes']:.3f}", f"{row['reserved_bytes'] / 1e9:.2f}",
                   f"{row['predicted_ns'] / 1e6:.2f}", f"{row['step_ns'] / 1e6:.2f}"] for row in found]
        if len(found) > 1:
            tau = kendall_tau([(row["predicted_ns"], row["step_ns"]) for row in found])
            said += f"\nKendall's tau, {model}: {'–' if tau is None else f'{tau:.2f}'}.\n"
    return table(["model", "budget, GB", "planned, GB", "allocated / planned", "reserved, GB", "predicted, ms", "fastest, ms"],
                 lines) + (said if lines else "")


def counter_table(rows):
    lines = [[f"`{launch['function']}`", *(launch.get(name, "–") for name in COUNTERS)]
             for k in range(SLOWEST) if (found := found_of(rows, f"counters {k}")) for launch in found["launches"]]
    return table(["function", *COUNTERS], lines)


def state_table(rows):
    """Why items are not ok."""
    lines = [[name, row["status"], why_of(row)] for name, row in rows.items() if row["status"] != "ok"]
    return table(["not ok", "", "why"], lines)


def why_of(row):
    return " ".join(row.get("why", "").replace("|", "/").split())[:160]


def head(rows):
    """Where and how the items were run, and how many are ok."""
    about = next(row for row in rows.values() if "gpu" in row)
    copied, measured_reserve = found_of(rows, "copy"), found_of(rows, "reserve")
    done = sum(row["status"] == "ok" for row in rows.values())
    text = (f"Measured on {about['when'][:10]} by `tools/gpu.sh first` on {about['gpu']}, driver {about['driver']}, NVRTC {about['nvrtc']}, cuBLASLt "
            f"{about['cublaslt']}, commit {about['commit']}: {done} of {len(rows)} items are ok.")
    if "--small" in about["command"]:
        text += " Tiny models, to try the stage: nothing here is a measurement."
    if copied:
        text += f" The driver copies {copied['copy_bytes_per_s'] / 1e12:.2f} TB/s, reads and writes counted."
    if measured_reserve:
        text += f" Beside the arena {measured_reserve['reserve_bytes']} bytes are reserved."
    return text


def tables(rows):
    models = [name.removeprefix("profile ") for name in rows if name.startswith("profile ")]
    parts = [("Kernels of " + model, kernel_table(rows, model)) for model in models]
    parts += [("Attention", attention_table(rows)), ("Products", product_table(rows)), ("Steps", step_table(rows)),
              ("Plans", plan_table(rows)), ("Budgets for torch.compile", budget_table(rows)),
              ("Counters", counter_table(rows)), ("Not ok", state_table(rows))]
    return "\n".join(["# Half an hour with a GPU", "", head(rows), "",
                      *(f"## {title}\n\n{text}" for title, text in parts if text)])


def summary(rows):
    """For docs/benchmarks.md: the steps and plans, with marks."""
    found = [text for text in (step_table(rows), plan_table(rows)) if text]
    return "\n".join([BEGINS, "", f"{head(rows)} All tables: [gpu.md](tables/gpu.md).", "", *found, ENDS])


# --- keeping ---

def keep(folder, root=ROOT):
    """Copies description and profile from `folder` into the tree, and writes the tables and their summary; their paths."""
    kept = []
    for path in sorted(folder.glob("*.json")):
        text = json.loads(path.read_text())
        if text.get("schema") == "remat-profile/1" or "reserve_bytes" in text:
            shutil.copy(path, root / "schemas/devices" / path.name)
            kept.append(f"schemas/devices/{path.name}")
    rows = json.loads((folder / "first.json").read_text())["items"]
    document = root / "docs/benchmarks.md"
    text = document.read_text()
    begin, end = text.index(BEGINS), text.index(ENDS) + len(ENDS)
    (root / "docs/tables").mkdir(exist_ok=True)
    replace_file(root / "docs/tables/gpu.md", tables(rows))
    replace_file(document, text[:begin] + summary(rows) + text[end:])
    return [*kept, "docs/tables/gpu.md", "docs/benchmarks.md"]
