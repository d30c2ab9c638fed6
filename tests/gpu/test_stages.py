# SPDX-License-Identifier: Apache-2.0
"""Every stage of tools/gpu.sh on small models and doubles of NVIDIA's libraries: it runs or says what it skips,
what is done is not done again, and what is timed is launched on the GPU; what rankings and memory have to be.

    test_stages.py BUILD LIBRARIES COMPILER"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import items
import machine
import stages
from harness import check, finish

BUILD, LIBRARIES, COMPILER = sys.argv[1:]
SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/gpu.sh"
# stage: exit codes that it may have here; 77 where PyTorch with a GPU is missing
STAGES = {"conformance": {0}, "kernels": {0}, "steps": {0}, "ranks": {0}, "sanitizer": {0}, "profile": {0}, "bench": {0, 77}}
SANITIZER = """#!/bin/sh
shift 4
"$@"
code=$?
echo "========= ERROR SUMMARY: 0 errors"
exit $code
"""


def run(stage, out, *options, **environment):
    """What it makes lies in `out`/build/gpu, too."""
    view = pathlib.Path(out) / "build"
    if not view.exists():
        view.mkdir()
        for name in ["tools", "tests", "runtime"]:
            (view / name).symlink_to(pathlib.Path(BUILD) / name)
    done = subprocess.run([SCRIPT, stage, "--build", view, "--out", out, "--small", *options], encoding="utf-8",
                          capture_output=True, env=os.environ | {"PATH": f"{out}:{os.environ['PATH']}"} | environment)
    return done.returncode, done.stdout + done.stderr


def log_of(stage, out):
    """A line for each graph that the stage launched."""
    return f"{out}/{stage}.log"


def check_stage(stage, out, doubles):
    path = pathlib.Path(out) / f"{stage}.json"
    gpus = {"REMAT_DOUBLE_GPUS": "2"} if stage == "ranks" else {}
    code, said = run(stage, out, *doubles, REMAT_DOUBLE_LOG=log_of(stage, out), **gpus)
    rows = json.loads(path.read_text())["items"]
    check(code in STAGES[stage] and rows, f"{stage}: exit code {code}: {said}")
    check(all(row.keys() >= set(stages.ABOUT) for row in rows.values()), f"{stage}: of what is not said: {rows}")
    check(all(row["status"] == "ok" or row["why"] for row in rows.values()), f"{stage}: {rows}")
    done = [name for name, row in rows.items() if row["status"] == "ok"]
    again, said = run(stage, out, *doubles)
    check(again == code and f"{len(done)} of {len(rows)} items were done before" in said, f"{stage} again: {said}")
    check(not any(f"{stage}: {name}: " in said for name in done), f"{stage} again: {said}")


def check_graphs(out):
    """All of the stage kernels, of which a small run has two."""
    for family, form, shape in items.KERNELS:
        command = items.graph_of(family, form, shape)
        done = subprocess.run([f"{BUILD}/tools/remat-graph", *command, "-o", f"{out}/model.fbs"], capture_output=True,
                              encoding="utf-8")
        check(done.returncode == 0, f"kernels: {' '.join(command)}: {done.stderr}")


def check_unforeseen():
    """An exception of an item is its result."""
    def item(machine, work):
        raise RuntimeError("planted")
    row = stages.do(None, item)
    check(row["status"] == "failed" and "planted" in row["why"], f"an unforeseen exception: {row}")


def options_of(out, **more):
    return argparse.Namespace(**{"build": pathlib.Path(BUILD), "out": pathlib.Path(out), "libraries": None,
                                 "doubles": None, "seconds": 60, "small": True, "target": "h200", "name": "h200",
                                 "state": pathlib.Path(out)} | more)


def fault_of(function, *arguments):
    try:
        function(*arguments)
    except machine.Fault as fault:
        return str(fault)
    return ""


def check_rankings():
    """20 plans, and with a profile a tau of 0.9."""
    rows = [{"predicted_ns": k, "measured_ns": 100 + k} for k in range(20)]
    turned = [*reversed(rows[:9]), *rows[9:]]
    weak = [row | {"predicted_ns": k} for k, row in enumerate(turned)]
    flat = [row | {"measured_ns": 1} for row in rows]
    check(not fault_of(items.check_ranking, rows, True, False), "a right ranking is a fault")
    check("19 plans" in fault_of(items.check_ranking, rows[1:], False, False), "19 plans are enough")
    check("tau is 0.6" in fault_of(items.check_ranking, weak, True, False), "a weak ranking is no fault")
    check(not fault_of(items.check_ranking, weak, False, False), "a ranking without a profile has a limit")
    check("tau is None" in fault_of(items.check_ranking, flat, False, False), "no ranking is no fault")
    found = items.check_ranking(rows[:2], True, True)
    check(found["trial"], f"a trial does not say that it is one: {found}")


def check_process_memory():
    """A driver may take 64 MiB more than was planned, or than was in use, and that is reported."""
    for more, expected in [(63, False), (65, True), (-65, False)]:
        found = {"arena_bytes": 9 << 30, "reserve_bytes": 1 << 30, "device_bytes": (10 << 30) + (more << 20)}
        check(bool(fault_of(items.check_process_memory, found, False)) == expected, f"{more} MiB more than planned")
        check(found["more_bytes"] == more << 20, f"{more} MiB more than planned: {found}")
        few = {"arena_bytes": 1, "device_bytes": 1 << 30, "budget_bytes": 2 << 30}
        many = few | {"device_bytes": few["device_bytes"] + (more << 20)}
        check(bool(fault_of(items.check_memory, few, many)) == expected, f"{more} MiB more after 6 steps")
        few["budget_bytes"] = 1
        check("budget" in fault_of(items.check_memory, few, few), "more than the budget is no fault")


def check_shares_of_copy():
    """85 % is the aim; below it is said."""
    rows = [{"kernel": "k", "operands": str(moved), "moved_bytes": moved, "median_ns": 100}
            for moved in [849, 850, 1001]]
    found = items.shares_of_copy(rows, 10e9)
    check(found == {"of_copy": {"k 849": 0.849, "k 850": 0.85, "k 1001": 1.001}, "below_the_aim": ["k 849"]},
          f"shares of a copy of 1000 bytes in 100 ns: {found}")


def check_memory_of_rankings(rows):
    """What the driver says that the steps of each plan take, arena and all."""
    for name, row in rows.items():
        for plan in row["found"]["plans"] if "ranking" in name else []:
            check(plan["device_bytes"] >= plan["arena_bytes"] > 0, f"{name}: memory of a plan: {plan}")


def check_order():
    """What ran out of time is done last, and again what it had not measured."""
    about = {"commit": 1, "gpu": "one"}
    ok = {"status": "ok"} | about
    rows = {"a": {"status": "unfinished", "times": 1}, "b": ok, "d": ok | {"status": "failed"}, "e": ok | {"gpu": "another"}}
    for once, expected in [(False, ["c", "d", "e", "a"]), (True, ["c", "e", "a"])]:
        left = stages.items_left(["a", "b", "c", "d", "e"], rows, about, once)
        check(left == expected, f"done in this order: {left}")
    with tempfile.TemporaryDirectory() as out:
        called = []

        def slow(of, work):
            called.append(dict(of.kept))
            of.kept[f"plan {len(called)}"] = len(called)
            if len(called) < 3:
                raise subprocess.TimeoutExpired("slow", 1)

        known, stages.items_of = stages.items_of, lambda of, stage: {"slow": (slow,)}
        codes = [stages.run_stage(machine.Machine(options_of(out)), "bench", about) for _ in range(3)]
        stages.items_of = known
        check(codes == [75, 75, 0] and called == [{}, {"plan 1": 1}, {"plan 1": 1, "plan 2": 2}],
              f"codes {codes}, kept {called}")


def check_products():
    """cuBLASLt's double finds what is read or written outside of the operands."""
    for shape in ["TN 33 17 40 40 41 35", "NN 33 17 40 33 40 33", "NT 33 17 40 35 17 33"]:
        done = subprocess.run([f"{BUILD}/tests/gpu/gpu_worker", "gpu_products", LIBRARIES, "2", *shape.split()],
                              capture_output=True, encoding="utf-8")
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        check(found.get("best") == 0 and found["flops"] == 2 * 33 * 17 * 40, f"product {shape}: {done}")


def check_graphs_launched(out, rows):
    """Steps are timed on the GPU: each but the first, of each plan of each ranking, is a graph."""
    plans = sum(len(row["found"]["plans"]) for name, row in rows.items() if "ranking" in name)
    log = pathlib.Path(log_of("bench", out))
    launched = len(log.read_text().splitlines()) if log.exists() else 0
    expected = plans * (items.TURNS + items.WARM_TURNS - 1)
    check(plans and launched == expected, f"bench: {launched} graphs were launched, not {expected}")


check_unforeseen()
check_rankings()
check_process_memory()
check_shares_of_copy()
check_order()
check_products()
with tempfile.TemporaryDirectory() as out:
    check_graphs(out)
    sanitizer = pathlib.Path(out) / "compute-sanitizer"  # a double
    sanitizer.write_text(SANITIZER)
    sanitizer.chmod(0o755)
    doubles = ["--libraries", LIBRARIES, "--doubles", COMPILER]
    for stage in STAGES:
        check_stage(stage, out, doubles)
    ranked = json.loads((pathlib.Path(out) / "bench.json").read_text())["items"]
    check(all(row["status"] == "ok" and row["found"]["plans"] for name, row in ranked.items() if "ranking" in name),
          f"bench: {ranked}")
    check_graphs_launched(out, ranked)
    check_memory_of_rankings(ranked)
    check(ranked["bandwidth"]["status"] == "ok" and ranked["bandwidth"]["found"]["of_copy"]
          and "below_the_aim" in ranked["bandwidth"]["found"], f"bandwidth: {ranked}")
    # what failed or ran out of time is done again
    path = pathlib.Path(out) / "build/gpu/conformance.json"
    for state in ["failed", "unfinished"]:
        path.write_text(path.read_text().replace('"status": "ok"', f'"status": "{state}"'))
        code, said = run("conformance", out, *doubles)
        check(code == 0 and "conformance: primitives: ok" in said, f"after {state}: {said}")
    path.write_text(path.read_text().replace('"commit": ', '"commit": 1, "was": '))
    code, said = run("conformance", out, *doubles)
    check(code == 0 and "conformance: primitives: ok" in said, f"of another commit: {said}")
    path.unlink()
    code, said = run("conformance", out, *doubles, "--seconds", "0")
    check(code == 75 and "time ran out" in said, f"without time: exit code {code}: {said}")
finish()
