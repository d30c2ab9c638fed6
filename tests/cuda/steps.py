# SPDX-License-Identifier: Apache-2.0
"""Whole training steps by remat-run --device cuda on doubles of NVIDIA's libraries: loss and gradients are
the CPU device's to rounding, and bit-identical under every plan of one numerics_hash, launch by launch and
as a graph.

    steps.py TOOLS LIBRARIES COMPILER [MODEL]    the model of that number; with "-" as compiler on a GPU"""
import json
import re
import sys

from doubles import DOUBLES, check, finish, folder, graph, hashes, json_lines, must, pathlib, plan, tool, train
from gradients import difference, loss_difference, read_tensors

SIZES = ["--layers", "2", "--batch", "2", "--seq", "19", "--dropout", "0.1"]
# preset, dtype, options of remat-graph, options of remat-compile
MODELS = [("gpt2-tiny", "fp32", [], []), ("gpt2-tiny", "bf16", ["--attention", "written-out"], []),
          ("llama-tiny", "bf16", [], ["--loss-chunk", "10"]), ("bert-tiny", "fp32", [], []),
          ("encdec-tiny", "fp32", ["--attention", "written-out"], [])]
POLICIES = {"none": [], "full": ["--ac-mode", "full"], "selective": ["--recompute-activations"],
            "microbatches": ["--microbatches", "2"]}
GPU_POLICIES = {"gpu none": [], "gpu full": ["--ac-mode", "full"], "gpu": ["--budget", "a quarter"]}
STEPS = 2
SEED = 5 + (3 << 32)  # not remat-run's default


def check_model(preset, dtype, extra, settings):
    name = ' '.join([preset, dtype, *extra, *settings])
    with folder() as work:
        path = pathlib.Path(work)
        graph(work, preset, "--dtype", dtype, *SIZES, *extra)
        for policy, arguments in POLICIES.items():
            plan(work, f"{policy}.plan", *arguments, *settings)
        make_gpu_plans(work, name, settings)
        options = ["--steps", STEPS, "--seed", SEED, "--json", "--save-gradients"]
        cpu = json_lines(train(work, "none.plan", "cpu", *options, "cpu.safetensors"))
        cuda = json_lines(train(work, "none.plan", "cuda", *options, "cuda.safetensors"))
        for mine, other in zip(cuda, cpu):
            check(loss_difference(other["loss"], mine["loss"], dtype) < 1,
                  f"{name}: loss {mine['loss']} on cuda, {other['loss']} on cpu")
        apart, tensor = difference(read_tensors(path / "cpu.safetensors"), read_tensors(path / "cuda.safetensors"), dtype)
        check(apart < 1, f"{name}: gradient of {tensor} {apart:.2f} of what it may be from the CPU's")
        expected = [(line["loss_hash"], line["grad_hash"]) for line in cuda]
        for policy in ["full", "selective"]:
            check(hashes_of(work, policy) == expected, f"{name}: other bits under {policy}")
        check(len({tuple(hashes_of(work, policy)) for policy in GPU_POLICIES}) == 1,
              f"{name}: plans for a GPU have other bits than one another")
        check_graphs(work, name, cuda[-1]["loss"])
        print(f"{name}: gradients {apart:.2f} of what they may be from the CPU's")


def make_gpu_plans(work, name, settings):
    """Of one numerics_hash, each with another choice of what is recomputed; the budget is a quarter of the way
    from full recomputation to none. It has cubins."""
    made = {}
    for policy, arguments in GPU_POLICIES.items():
        if "--budget" in arguments:
            most, least = (made[each]["arena_bytes"] for each in ("gpu none", "gpu full"))
            arguments = ["--budget", made["gpu none"]["reserve_bytes"] + least + (most - least) // 4]
        plan(work, f"{policy}.plan", "--target", "h200", *arguments, *settings,
             cubins="sm_80,sm_90" if policy == "gpu" else "none")
        made[policy] = json.loads(must(tool("dump", f"{policy}.plan", "--format", "json", cwd=work)).stdout)
    check(len({summary["numerics_hash"] for summary in made.values()}) == 1, f"{name}: several numerics_hash")
    check(0 == made["gpu none"]["recomputed"] < made["gpu"]["recomputed"] < made["gpu full"]["recomputed"],
          f"{name}: plans for a GPU do not differ")


def hashes_of(work, policy):
    return hashes(train(work, f"{policy}.plan", "cuda", "--steps", STEPS, "--seed", SEED, "--json"))


def check_graphs(work, name, loss):
    """Launch by launch with --json, as a graph without."""
    path = pathlib.Path(work)
    for policy in ["microbatches", "gpu"]:
        hashed = train(work, f"{policy}.plan", "cuda", "--steps", STEPS, "--json", "--save-weights",
                       "launches.safetensors")
        must(hashed)
        must(train(work, f"{policy}.plan", "cuda", "--steps", STEPS, "--save-weights", "graph.safetensors",
                   REMAT_DOUBLE_LOG=path / f"{policy}.log"))
        check((path / "launches.safetensors").read_bytes() == (path / "graph.safetensors").read_bytes(),
              f"{name}, {policy}: other weights where steps are a graph")
        check(not DOUBLES or len((path / f"{policy}.log").read_text().splitlines()) == STEPS - 1,
              f"{name}, {policy}: steps were not launched as a graph")


def check_constants():
    """GPT-2 that looks its positions up by a constant has the bits of the one that takes the table's first rows."""
    with folder() as work:
        path = pathlib.Path(work) / "model.fbs"
        text = must(tool("graph", "gpt2-tiny", *SIZES, "--text", cwd=work)).stdout
        looked_up, count = re.subn(r"(: f32\[)seq(,\d+\] = )slice (%\S*wpe\S*) [^}]*}", r"\g<1>19\2embedding \3 %positions", text)
        assert count == 1, text
        for name, graph_text in (("slice", text), ("look", looked_up.replace(
                "input %tokens", f"constant %positions : i32[19] = {list(range(19))}\ninput %tokens", 1))):
            path.write_text(graph_text)
            plan(work, f"{name}.plan")
        check(hashes_of(work, "look") == hashes_of(work, "slice"), "constants: other bits")


for model in [MODELS[int(sys.argv[4])]] if len(sys.argv) > 4 else MODELS:
    check_model(*model)
if len(sys.argv) == 4:
    check_constants()
finish()
