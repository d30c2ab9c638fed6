# SPDX-License-Identifier: Apache-2.0
"""How a plan says it stands: every plan under a budget has the same bound, which none is below, and the note
about manual policies is what one finds who compiles each manual policy, adds up its commands by kind and
scales them. The flags it gives are those of the fastest policy that each system has flags for; typed as they are
printed, they make the plan of that policy, byte for byte, and take its time.

    standing.py BUILD_DIRECTORY"""
import itertools
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, scratch

tool = Tools(sys.argv[1])
LAYERS = 6
OPS = ("add", "attention", "gelu", "layer_norm", "linear")
OFF = (0.8, 1, 1.2)
SAME = ("step_ns", "peak_bytes", "arena_bytes", "recomputed_layers", "partly_recomputed_layers", "recomputed")
SYSTEMS = ("megatron", "torchtune", "torchtitan", "transformers", "axolotl")


def manual_policies():
    """Options of each policy, as docs/policies.md lists them, and by system what is typed there for it."""
    full, selective = "--recompute-granularity full --recompute-method ", "--recompute-granularity selective"
    by_op, tune = "--ac-mode selective --ac-option ", "enable_activation_checkpointing=False ac_mode="
    checkpointing = {system: "gradient_checkpointing" + value for system, value in (("transformers", "="), ("axolotl", ": "))}

    def every_n(n):
        return {"transformers": f'{checkpointing["transformers"]}True, gradient_checkpointing_kwargs={{"every_n_layers": {n}}}',
                "axolotl": f'{checkpointing["axolotl"]}true, gradient_checkpointing_kwargs: {{every_n_layers: {n}}}'}

    yield "--recompute-granularity none", {
        "megatron": "", "torchtune": tune + "none", "torchtitan": "activation-checkpoint:none",
        "transformers": checkpointing["transformers"] + "False", "axolotl": checkpointing["axolotl"] + "false"}
    for count in (1, 2, 3):
        for modules in itertools.combinations(("core_attn", "mlp", "layernorm"), count):
            options = f"{selective} --recompute-modules {','.join(modules)}"
            yield options, {"megatron": options.replace(",", " ")}
    yield by_op + "op", {"torchtitan": "activation-checkpoint:selective"}
    for count in range(1, len(OPS)):
        for ops in itertools.combinations(OPS, count):
            attention = {"axolotl": checkpointing["axolotl"] + "true, selective_checkpointing: true"}
            yield f"{by_op}op --save-ops {','.join(ops)}", attention if ops == ("attention",) else {}
    for k in range(1, LAYERS):
        options = f"{full}block --recompute-num-layers {k}"
        yield options, {"megatron": options, **(every_n(LAYERS) if k == 1 else {})}
    for k in range(2, LAYERS + 1):
        options = f"{full}uniform --recompute-num-layers {k}"
        yield options, {"megatron": options}
        yield by_op + str(k), {"torchtune": f"{tune}selective ac_option={k}"}
    for n in range(2, LAYERS):
        yield f"--gradient-checkpointing-kwargs every_n_layers={n}", every_n(n)
    options = f"{full}uniform --recompute-num-layers 1"
    yield options, {"megatron": options, "torchtune": tune + "full", "torchtitan": "activation-checkpoint:full",
                    "transformers": checkpointing["transformers"] + "True", "axolotl": checkpointing["axolotl"] + "true"}


def typed(system, flags):
    """The options of remat-compile that a system's setting is, as it is printed: dashes for underscores."""
    if system == "megatron":
        return flags.split()
    if system == "torchtitan":
        mode = flags.removeprefix("activation-checkpoint:")
        return ["--ac-mode", mode] + (["--ac-option", "op"] if mode == "selective" else [])
    parts = flags.split(" " if system == "torchtune" else ", ")
    options = []
    for part in parts:
        key, value = part.split(": " if system == "axolotl" else "=", 1)
        if value in ("False", "false"):
            continue
        options += ["--" + key.replace("_", "-")]
        if value not in ("True", "true") or key == "selective_checkpointing":
            options += [value]
    return options


def compile_plan(options):
    """The report, and the time of a step for matmul, attention and the rest."""
    done = tool.must("compile", "m.fbs", "-o", "m.plan", "--format", "json", *options, code=(0, 3))
    if done.returncode:
        return None
    report = json.loads(done.stdout)
    times = [0, 0, 0]
    for command in tool.json("dump", "m.plan", "--schedule", "--format", "json")["schedule"]:
        row = {"matmul": 0, "attention": 1, "attention_backward": 1}.get(command["kind"], 2)
        repeats = {"step": 1, "microbatch": report["microbatches"], "update": 1}.get(command["segment"], 0)
        times[row] += repeats * command["estimated_ns"]
    assert sum(times) == report["step_ns"], (times, report["step_ns"])
    return report, times


def held(chosen, rivals):
    """Of the cases in which costs are off, those where no rival is faster."""
    count = 0
    for scale in itertools.product(OFF, repeat=3):
        cost = [sum(s * t for s, t in zip(scale, times)) for times in (chosen, *rivals)]
        count += scale != (1, 1, 1) and all(cost[0] <= c * (1 + 1e-12) for c in cost[1:])
    return count


def check(report, times, rivals, solver, given):
    fits = [(r["step_ns"], t) for r, t in rivals]
    named = {m["system"]: m for m in report["manuals"]}
    for system in SYSTEMS:
        by_flags = {r["flags"][system]: r["step_ns"] for r, _ in rivals if system in r["flags"]}
        found = named.pop(system, None)
        assert bool(by_flags) == bool(found), (solver, system, found, by_flags)
        assert not found or found["step_ns"] == by_flags[found["flags"]] == min(by_flags.values()), (
            solver, found, by_flags)
        if found:
            same = next(r for r, _ in rivals if r["flags"].get(system) == found["flags"])
            if system not in same.setdefault("typed", []):
                plan = tool.json("compile", "m.fbs", "-o", "t.plan", "--format", "json", *given, *typed(system, found["flags"]))
                assert [plan[key] for key in SAME] == [same[key] for key in SAME], (system, found, plan)
                same["typed"].append(system)
    assert not named, named
    notes = [n for n in report["notes"] if "20 % less or more" in n]
    if not fits:
        assert not notes, notes
        return
    found = re.search(r"policy in (\d+) of 26 cases", notes[0])
    assert len(notes) == 1 and int(found[1]) == held(times, [t for _, t in fits]), (solver, notes, times, fits)
    slower = re.search(r"([\d.]+) % slower", notes[0])
    if slower:
        expected = 100 * (min(ns for ns, _ in fits) / report["step_ns"] - 1)
        assert abs(float(slower[1]) - expected) <= 0.0051, (notes, expected)


def check_stacks():
    """With an encoder and a decoder, where the systems count layers in two ways, what is printed is the policy named."""
    tool.must("graph", "encdec-tiny", "--batch", "8", "-o", "m.fbs")
    most, seen = tool.json("compile", "m.fbs", "-o", "m.plan", "--format", "json"), set()
    for share in (0.5, 0.9):
        moves = (1 - share) * (most["peak_bytes"] - most["static_bytes"])
        given = ["--budget", str(int(most["peak_bytes"] + most["reserve_bytes"] - moves))]
        for m in tool.json("compile", "m.fbs", "-o", "m.plan", "--format", "json", *given)["manuals"]:
            plan = tool.json("compile", "m.fbs", "-o", "t.plan", "--format", "json", *given, *typed(m["system"], m["flags"]))
            assert (plan["policy"], plan["step_ns"]) == (m["policy"].replace("full", plan["policy"]), m["step_ns"]), (m, plan)
            seen.add(m["policy"].split()[0])
    assert {"every_n_layers", "every", "save"} <= seen, seen


@scratch()
def main():
    check_stacks()
    tool.must("graph", "gpt2-tiny", "-o", "m.fbs")
    loose, other = 0, set()
    for microbatches, shares in ((1, (0.2, 0.6, 1)), (4, (0.4, 0.6))):
        common = ["--bind", "batch=8", "--microbatches", str(microbatches)]
        most = compile_plan(common)[0]
        moves = most["peak_bytes"] - most["static_bytes"]
        for share in shares:
            given = common + ["--budget", str(int(most["peak_bytes"] + most["reserve_bytes"] - (1 - share) * moves))]
            policies = []
            for policy, flags in manual_policies():
                if plan := compile_plan(given + policy.split()):
                    plan[0]["flags"] = flags
                    policies.append(plan)
            fastest = min((r["step_ns"] for r, _ in policies), default=0)
            for system in SYSTEMS:
                least = min((r["step_ns"] for r, _ in policies if system in r["flags"]), default=0)
                other |= {system} if least > fastest else set()
            free = {solver: compile_plan(given + ["--solver", solver]) for solver in ("per-op", "manual")}
            bounds = {plan[0].get("bound_step_ns") for plan in (*policies, *free.values()) if plan}
            assert bounds == set() or (len(bounds) == 1 and bounds != {None}), (share, bounds)
            for solver, plan in free.items():
                if plan:
                    assert plan[0]["step_ns"] >= plan[0]["bound_step_ns"]
                    check(*plan, policies, solver, given)
                    loose += any("20 % less or more" in n and "in 26 of" not in n for n in plan[0]["notes"])
            print(f"{microbatches} microbatches, {100 * share:.0f} %: {len(policies)} policies fit, bound {bounds}")
    assert loose, "no plan's standing depends on the costs"
    assert other == set(SYSTEMS), f"only {other} are without flags for the fastest policy somewhere"


main()
