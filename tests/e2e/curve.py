# SPDX-License-Identifier: Apache-2.0
"""remat-compile --curve: a staircase that holds every plan that a budget gives, in three forms, and
nothing on it is better than the bound.

    curve.py BUILD_DIRECTORY"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

build = os.path.abspath(sys.argv[1])
MODELS = [  # preset, what remat-graph gets, what remat-compile gets
    ("gpt2-tiny", [], []),
    ("gpt2-tiny", ["--layers", "10", "--batch", "2"], ["--microbatches", "2"]),
    ("llama-tiny", ["--dtype", "bf16", "--batch", "8"], ["--target", "h200", "--arch", "none", "--microbatches", "4"]),
    ("encdec-tiny", ["--attention", "written-out", "--dropout", "0.1"], ["--target", "v100", "--arch", "none"]),
    ("bert-tiny", ["--batch", "4"], ["--solver", "manual"]),
    ("mlp-tiny", [], []),
]


TRIED = 4 if len(sys.argv) < 3 else int(sys.argv[2])


def call(tool, *arguments, code=(0,)):
    result = subprocess.run([f"{build}/tools/remat-{tool}", *arguments], capture_output=True, text=True)
    assert result.returncode in code, (tool, arguments, result.returncode, result.stderr)
    return result.stdout


def check_staircase(curve, bounded):
    points = curve["points"]
    assert points and curve["evaluated"] <= curve["seen"] <= curve["decisions"], curve
    for p in points:
        assert p["budget"] == p["peak"] + curve["reserve"] and p["feasible"], p
        assert abs(p["overhead"] - (p["time"] / curve["total_time"] - 1)) < 1e-12, p
        assert p["peak"] >= curve["floor"], (p, curve["floor"])
        if bounded:
            assert 0 < p["lower_bound"] <= p["time"], p
            assert abs(p["gap"] - (p["time"] / p["lower_bound"] - 1)) < 1e-12, p
        else:
            assert p["lower_bound"] is None and p["gap"] is None, p
    for larger, smaller in zip(points, points[1:]):
        assert smaller["peak"] < larger["peak"] and smaller["time"] > larger["time"], (larger, smaller)
        assert not bounded or smaller["lower_bound"] >= larger["lower_bound"], (larger, smaller)


def check_forms(curve, options):
    with open("c.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(curve["points"])
    for row, point in zip(rows, curve["points"]):
        assert row["plan"] == point["plan"]
        for key in ("budget", "peak", "time", "overhead", "lower_bound", "gap"):
            value = None if row[key] == "" else float(row[key])
            assert value == point[key], (key, row, point)
    picture = xml.etree.ElementTree.parse("c.svg").getroot()
    assert sum(e.tag.endswith("circle") for e in picture) == len(rows), options


def check_plan(curve, budget, options):
    """The plan of a budget is a point of the curve, or a point is as small and faster; where
    all decisions have been seen, without the plan as one, too."""
    out = call("compile", "m.fbs", "--budget", str(budget), "--curve", "b.json", "-o", "b.plan", "--format",
               "json", *options, code=(0, 3))
    if not out:  # nothing fits packed
        assert not os.path.exists("b.json") and not os.path.exists("b.plan")
        return False
    report = json.loads(out)
    with open("b.json", encoding="utf-8") as file:
        points = json.load(file)["points"]
    at_most = [p for p in points if p["peak"] <= report["peak_bytes"]]
    assert at_most[0]["time"] <= report["step_ns"], (report["step_ns"], at_most[0])
    alone = [p for p in curve["points"] if p["peak"] <= report["peak_bytes"]]
    assert curve["seen"] < curve["decisions"] or alone and alone[0]["time"] <= report["step_ns"], (options, report["peak_bytes"], report["step_ns"], alone[:1])
    same = [p for p in points if p["peak"] == report["peak_bytes"] and p["time"] == report["step_ns"]]
    assert same or at_most[0] in curve["points"], (report["peak_bytes"], at_most[0])
    shown = json.loads(call("dump", "b.plan", "--format", "json"))
    assert shown["peak_bytes"] == report["peak_bytes"]
    with open("b.plan", "rb") as with_curve:
        call("compile", "m.fbs", "--budget", str(budget), "-o", "c.plan", *options)
        with open("c.plan", "rb") as without:
            assert with_curve.read() == without.read(), "--curve changes the plan"
    for path in ("b.json", "b.plan"):
        os.remove(path)
    return bool(same)


def check_smallest(curve, options):
    """The smallest row is nearly as small as the smallest plan, which a refusal names."""
    result = subprocess.run([f"{build}/tools/remat-compile", "m.fbs", "--budget", "1", *options], capture_output=True, text=True)
    assert result.returncode == 3, result.stderr
    needs = int(re.search(r" needs (\d+) B", result.stderr).group(1))
    smallest = curve["points"][-1]
    near = smallest["peak"] // 200
    least = smallest["budget"] - (near if curve["seen"] < curve["decisions"] else 0)  # some were passed by
    assert least <= needs <= smallest["budget"] + near, (options, needs, smallest)


def check_samples():
    """Of a large model some decisions are priced: budgets between rows give a plan that is little
    faster, at tenths of what everything saved takes beside persistent hardly."""
    options = ["--microbatches", "8", "--target", "h100-sxm", "--arch", "none"]
    call("graph", "gpt3-175b", "-o", "m.fbs", "--layers", "48", "--batch", "8", "--dtype", "bf16", "--attention", "written-out")
    call("compile", "m.fbs", "--curve", "c.json", *options)
    with open("c.json", encoding="utf-8") as file:
        curve = json.load(file)
    check_staircase(curve, True)
    assert 0 < 5 * curve["evaluated"] < curve["decisions"], (curve["evaluated"], curve["decisions"])
    points = curve["points"]

    def loss(budget):
        report = json.loads(call("compile", "m.fbs", "--budget", str(budget), "-o", "c.plan", "--format", "json", *options))
        return next(p for p in points if p["budget"] <= budget)["time"] / report["step_ns"] - 1

    saved = json.loads(call("compile", "m.fbs", "-o", "c.plan", "--format", "json", *options))
    fixed, moving = saved["reserve_bytes"] + saved["static_bytes"], saved["peak_bytes"] - saved["static_bytes"]
    between = [loss(fixed + moving * share // 20) for share in (5, 9, 15)]
    tenths = [loss(fixed + moving * share // 10) for share in (2, 4, 7, 9)]
    print(f"gpt3-175b, 48 layers: {len(points)} points of {curve['evaluated']} decisions priced of {curve['decisions']}; "
          f"slower than a plan by at most {100 * max(between):.2f} %, at tenths {100 * max(tenths):.3f} %")
    assert max(between) < 0.01 and max(tenths) < 0.0005, (between, tenths)


def check_slow():
    """A device on which everything saved takes little less than the longest time that is counted:
    what takes longer is no point."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../schemas/devices/cpu.json"), encoding="utf-8") as file:
        device = json.load(file)
    device["matmul"].update(fp32_flops_per_s=9e6, bf16_flops_per_s=9e6, efficiency=1e-3)
    device["attention"].update(forward_efficiency=1e-3, backward_efficiency=1e-3)
    with open("slow.json", "w", encoding="utf-8") as file:
        json.dump(device, file)
    call("graph", "gpt2-tiny", "-o", "m.fbs")
    call("compile", "m.fbs", "--curve", "c.json", "--target", "slow.json")
    with open("c.json", encoding="utf-8") as file:
        curve = json.load(file)
    check_staircase(curve, True)
    assert 2**44 < curve["points"][-1]["time"] < 2**45, curve["points"][-1]


def main():
    os.chdir(tempfile.mkdtemp())
    check_slow()
    check_samples()
    for preset, model, options in MODELS:
        call("graph", preset, "-o", "m.fbs", *model)
        bounded = "manual" not in options
        for ending in ("json", "csv", "svg"):
            out = call("compile", "m.fbs", "--curve", f"c.{ending}", *options)
        assert not os.path.exists("m.plan"), "a plan without a budget"
        with open("c.json", encoding="utf-8") as file:
            curve = json.load(file)
        assert f"{len(curve['points'])} points" in out, out
        check_staircase(curve, bounded)
        check_forms(curve, preset)
        check_smallest(curve, options)
        points = curve["points"]
        # Where a packed arena needs more than the live peak, a budget gives a plan further down.
        tried = points[:: max(1, len(points) // TRIED)]
        on_curve = sum(check_plan(curve, p["budget"] + p["peak"] // 50, options) for p in tried)
        assert preset == "encdec-tiny" or curve["seen"] == curve["decisions"], curve["seen"]
        print(f"{preset}: {len(points)} points of {curve['evaluated']} decisions; of {len(tried)} budgets "
              f"{on_curve} give a plan on it")
        assert on_curve > len(tried) // 2


main()
