# SPDX-License-Identifier: Apache-2.0
"""remat-compile --curve: a staircase that holds every plan that a budget gives, in three forms, and
nothing on it is better than the bound. In the picture points lie where the axes say, and manual
settings where plans under them say.

    curve.py BUILD_DIRECTORY"""
import csv
import json
import os
import re
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, figure, finish, read_json, scratch, write_json

tool = Tools(sys.argv[1])
MODELS = [  # preset, what remat-graph gets, what remat-compile gets
    ("gpt2-tiny", [], []),
    ("gpt2-tiny", ["--layers", "10", "--batch", "2"], ["--microbatches", "2"]),
    ("llama-tiny", ["--dtype", "bf16", "--batch", "8"], ["--target", "h200", "--arch", "none", "--microbatches", "4"]),
    ("encdec-tiny", ["--attention", "written-out", "--dropout", "0.1"], ["--target", "v100", "--arch", "none"]),
    ("bert-tiny", ["--batch", "4"], ["--solver", "manual"]),
    ("mlp-tiny", [], []),
]


TRIED = 4 if len(sys.argv) < 3 else int(sys.argv[2])


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
    check_picture("c.svg", curve, options)


UNITS = {unit: 1000**k for k, unit in enumerate(("B", "kB", "MB", "GB", "TB"))}


def scale_of(ticks):
    """From a coordinate to the value there, by the first and the last tick; they are round, and evenly apart."""
    (first, low), *_, (last, high) = sorted(ticks)
    step = abs(high - low) / (len(ticks) - 1)
    mantissa = float(f"{step:e}".split("e")[0])
    assert min(abs(mantissa - round_) for round_ in (1, 2, 5, 10)) < 1e-4, step
    scale = (high - low) / (last - first)
    return lambda at: low + (at - first) * scale, abs(scale)


def read_picture(path):
    """Title, [(budget, overhead)] of the points, {name: (kind, budget, overhead)} of the marks with a label,
    and how far off a tenth of a unit is, for budgets and overheads."""
    shapes = list(xml.etree.ElementTree.parse(path).getroot())
    of = lambda name: [e for e in shapes if name in e.get("class", "").split()]
    ticks = {"x": [], "y": []}
    for e in of("x"):
        number, unit = e.text.split()
        ticks["x"].append((float(e.get("x")), float(number) * UNITS[unit]))
    for e in of("y"):
        ticks["y"].append((float(e.get("y")) - 4, float(e.text.split()[0]) / 100))
    (budget, budget_off), (overhead, overhead_off) = scale_of(ticks["x"]), scale_of(ticks["y"])
    points = [(budget(float(e.get("cx"))), overhead(float(e.get("cy")))) for e in of("point")]
    marks = []
    for e in of("mark"):
        x, y = re.match(r"M([\d.]+) ([\d.]+)", e.get("d")).groups()
        marks.append((budget(float(x)), overhead(float(y))))
    for a in of("label"):
        for b in of("label"):
            assert a is b or not overlap(a, b), (path, a.text, b.text)
    labels = [e.text for e in of("label") if "full" not in e.get("class").split()]
    return of("title")[0].text, points, marks, labels, 0.3 * budget_off, 0.3 * overhead_off


def overlap(a, b):
    """Of two labels, with letters of 5 by 8."""
    (ax, ay), (bx, by) = ((float(e.get("x")), float(e.get("y"))) for e in (a, b))
    return ax < bx + 5 * len(b.text) and bx < ax + 5 * len(a.text) and abs(ay - by) < 8


MANUAL = {  # what a label's setting is to remat-compile
    "none": ["--ac-mode", "none"], "full": ["--ac-mode", "full"],
    "save attention": ["--selective-checkpointing", "true"],
    "save ops by default": ["--ac-mode", "selective", "--ac-option", "op"],
    "selective": ["--recompute-granularity", "selective", "--recompute-modules"],
    "every": ["--ac-mode", "selective", "--ac-option"], "every_n_layers": ["--gradient-checkpointing-kwargs"],
    "block": ["--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers"],
}


def check_picture(path, curve, options):
    """The points of the curve are there, and every second labelled mark lies where a plan under its
    setting says. No mark is below the curve."""
    title, points, marks, labels, budget_off, overhead_off = read_picture(path)
    near = lambda a, b: abs(a[0] - b[0]) <= budget_off and abs(a[1] - b[1]) <= overhead_off
    expected = [(p["budget"], p["overhead"]) for p in curve["points"]]
    assert len(points) == len(expected) and all(map(near, points, expected)), (options, points, expected)
    for m in marks:
        assert any(p[0] <= m[0] + budget_off and p[1] <= m[1] + overhead_off for p in expected), (options, m)
    target = options[options.index("--target") + 1] if "--target" in options else "cpu"
    assert title.endswith(f" on {target}"), title
    policies = [o for o in options if o not in ("--solver", "manual")]
    assert len(labels) >= 2 and {"none", "full"} & set(labels), labels
    for label in labels[::2]:
        kind, _, value = label.partition(" ")
        value = f"{kind}={value}" if kind == "every_n_layers" else value
        flags = MANUAL[label] if label in MANUAL else [*MANUAL[kind], value]
        report = tool.json("compile", "m.fbs", "-o", "x.plan", "--format", "json", *policies, *flags)
        at = (report["peak_bytes"] + report["reserve_bytes"], report["step_ns"] / report["base_step_ns"] - 1)
        assert any(near(at, m) for m in marks), (options, label, at, marks)


def check_plan(curve, budget, options):
    """The plan of a budget is a point of the curve, or a point is as small and faster; where
    all decisions have been seen, without the plan as one, too."""
    out = tool.must("compile", "m.fbs", "--budget", str(budget), "--curve", "b.json", "-o", "b.plan", "--format", "json", *options,
                    code=(0, 3)).stdout
    if not out:  # nothing fits packed
        assert not os.path.exists("b.json") and not os.path.exists("b.plan")
        return False
    report = json.loads(out)
    points = read_json("b.json")["points"]
    at_most = [p for p in points if p["peak"] <= report["peak_bytes"]]
    assert at_most[0]["time"] <= report["step_ns"], (report["step_ns"], at_most[0])
    alone = [p for p in curve["points"] if p["peak"] <= report["peak_bytes"]]
    assert curve["seen"] < curve["decisions"] or alone and alone[0]["time"] <= report["step_ns"], (options, report["peak_bytes"], report["step_ns"], alone[:1])
    same = [p for p in points if p["peak"] == report["peak_bytes"] and p["time"] == report["step_ns"]]
    assert same or at_most[0] in curve["points"], (report["peak_bytes"], at_most[0])
    shown = tool.json("dump", "b.plan", "--format", "json")
    assert shown["peak_bytes"] == report["peak_bytes"]
    with open("b.plan", "rb") as with_curve:
        tool.text("compile", "m.fbs", "--budget", str(budget), "-o", "c.plan", *options)
        with open("c.plan", "rb") as without:
            assert with_curve.read() == without.read(), "--curve changes the plan"
    for path in ("b.json", "b.plan"):
        os.remove(path)
    return bool(same)


def check_smallest(curve, options):
    """The smallest row is nearly as small as the smallest plan, which a refusal names."""
    result = tool.must("compile", "m.fbs", "--budget", "1", *options, code=3)
    needs = int(re.search(r" needs (\d+) B", result.stderr).group(1))
    smallest = curve["points"][-1]
    near = smallest["peak"] // 200
    least = smallest["budget"] - (near if curve["seen"] < curve["decisions"] else 0)  # some were passed by
    assert least <= needs <= smallest["budget"] + near, (options, needs, smallest)


def check_samples():
    """Of a large model some decisions are priced: budgets between rows give a plan that is little
    faster, at tenths of what everything saved takes beside persistent hardly."""
    options = ["--microbatches", "8", "--target", "h100-sxm", "--arch", "none"]
    tool.text("graph", "gpt3-175b", "-o", "m.fbs", "--layers", "48", "--batch", "8", "--dtype", "bf16", "--attention", "written-out")
    tool.text("compile", "m.fbs", "--curve", "c.json", *options)
    curve = read_json("c.json")
    check_staircase(curve, True)
    assert 0 < 5 * curve["evaluated"] < curve["decisions"], (curve["evaluated"], curve["decisions"])
    points = curve["points"]

    def loss(budget):
        report = tool.json("compile", "m.fbs", "--budget", str(budget), "-o", "c.plan", "--format", "json", *options)
        return next(p for p in points if p["budget"] <= budget)["time"] / report["step_ns"] - 1

    saved = tool.json("compile", "m.fbs", "-o", "c.plan", "--format", "json", *options)
    fixed, moving = saved["reserve_bytes"] + saved["static_bytes"], saved["peak_bytes"] - saved["static_bytes"]
    between = [loss(fixed + moving * share // 20) for share in (5, 9, 15)]
    tenths = [loss(fixed + moving * share // 10) for share in (2, 4, 7, 9)]
    print(f"gpt3-175b, 48 layers: {len(points)} points of {curve['evaluated']} decisions priced of {curve['decisions']}; "
          f"slower than a plan by at most {100 * max(between):.2f} %, at tenths {100 * max(tenths):.3f} %")
    figure(1 - max(between), "curve plan / point, between tenths")
    figure(1 - max(tenths), "curve plan / point, at tenths")


def check_slow():
    """A device on which everything saved takes little less than the longest time that is counted:
    what takes longer is no point."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../schemas/devices/cpu.json"), encoding="utf-8") as file:
        device = json.load(file)
    device["matmul"].update(fp32_flops_per_s=9e6, bf16_flops_per_s=9e6, efficiency=1e-3)
    device["name"] = '<slow> & "slower"'
    device["attention"].update(forward_efficiency=1e-3, backward_efficiency=1e-3)
    write_json("slow.json", device)
    tool.text("graph", "gpt2-tiny", "-o", "m.fbs")
    tool.text("compile", "m.fbs", "--curve", "c.json", "--target", "slow.json")
    curve = read_json("c.json")
    check_staircase(curve, True)
    tool.text("compile", "m.fbs", "--curve", "c.svg", "--target", "slow.json")
    assert read_picture("c.svg")[0] == 'gpt2-tiny on <slow> & "slower"', read_picture("c.svg")[0]
    assert 2**44 < curve["points"][-1]["time"] < 2**45, curve["points"][-1]


@scratch()
def main():
    check_slow()
    check_samples()
    for preset, model, options in MODELS:
        tool.text("graph", preset, "-o", "m.fbs", *model)
        bounded = "manual" not in options
        for ending in ("json", "csv", "svg"):
            out = tool.text("compile", "m.fbs", "--curve", f"c.{ending}", *options)
        assert not os.path.exists("m.plan"), "a plan without a budget"
        curve = read_json("c.json")
        assert f"{len(curve['points'])} points" in out, out
        check_staircase(curve, bounded)
        check_forms(curve, options)
        check_smallest(curve, options)
        points = curve["points"]
        # Where a packed arena needs more than the live peak, a budget gives a plan further down.
        tried = points[:: max(1, len(points) // TRIED)]
        on_curve = sum(check_plan(curve, p["budget"] + p["peak"] // 50, options) for p in tried)
        assert preset == "encdec-tiny" or curve["seen"] == curve["decisions"], curve["seen"]
        print(f"{preset}: {len(points)} points of {curve['evaluated']} decisions; of {len(tried)} budgets "
              f"{on_curve} give a plan on it")
        assert on_curve > len(tried) // 2
    finish()


main()
