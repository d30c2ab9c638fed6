# SPDX-License-Identifier: Apache-2.0
"""remat-compile --print-plan: what it shows of a search agrees with the report, the plan, the curve and
the refusal of the same options.

    print_plan.py BUILD_DIRECTORY"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, read_json, scratch

call = Tools(sys.argv[1]).must
MODELS = [  # preset, what remat-graph gets, what remat-compile gets
    ("gpt2-tiny", ["--layers", "10", "--batch", "2"], []),
    ("llama-tiny", ["--dtype", "bf16", "--batch", "8"], ["--target", "h200", "--arch", "none", "--microbatches", "4"]),
    ("encdec-tiny", ["--attention", "written-out", "--dropout", "0.1"], ["--target", "v100", "--arch", "none"]),
    ("bert-tiny", ["--batch", "4"], ["--solver", "manual"]),
    ("gpt2-tiny", [], ["--recompute", "h.1.*"]),
    ("mlp-tiny", [], []),
]
BOUND = re.compile(r'lower bound: (\d+) ns a step, found at "(.+)" \((\w+)\)')
HEADING = re.compile(r"(.+?)(?:: (\d+) of (\d+) scheduled, (\d+) never)?")
ROW = re.compile(r" *(\d+|-) +(\d+) +(\d+|-) +(\d+|-) +(\d+|-)  (fits|    )  (.+)")
CURVE, REFUSED = "the curve, fastest first", "nothing fits: all, smallest bound first"
SETTINGS = "settings of other systems"
KEPT = re.compile(r" *(\d+)  (?:layer \d+ *|no layer  )(.+)")


def read_bound(lines):
    """None where no bound is shown."""
    begin = next((i for i, line in enumerate(lines) if line.startswith("lower bound")), None)
    if begin is None:
        return None
    lines = lines[begin:]
    found = BOUND.fullmatch(lines[0])
    rows = [int(line.split()[0]) for line in lines[1:4]]
    price = re.fullmatch(r" *(\d+)  ns by the cut at (\S+) ps a byte", lines[4])
    cut = re.fullmatch(r" *(\d+)  bytes kept by it, (\d+) values:", lines[5])
    kept, rest = [], (0, 0)
    for line in lines[6:lines.index("")]:  # a list follows
        more = re.fullmatch(r" *(\d+)  \.\.\. and (\d+) more", line)
        if more:
            rest = int(more[1]), int(more[2])
        else:
            row = KEPT.fullmatch(line)
            kept.append((int(row[1]), row[2]))
    assert int(cut[1]) == sum(b for b, _ in kept) + rest[0] and int(cut[2]) == len(kept) + rest[1], lines[:16]
    assert len(kept) <= 10 and (not rest[1] or rest[0] <= rest[1] * kept[-1][0]), kept
    assert kept == sorted(kept, key=lambda k: -k[0]), kept
    return {"ns": int(found[1]), "at": found[2], "persistent": rows[0], "other": rows[1], "room": rows[2],
            "price": float(price[2]), "priced_ns": int(price[1]), "kept": kept}


def read_search(text):
    """The bound, and by name the lists: what is said of their counts, and rows of numbers."""
    bound, lists = read_bound(text.splitlines()), {}
    for block in text.split("\n\n"):
        if block.startswith("lower bound"):
            continue
        lines = block.strip("\n").splitlines()
        name, scheduled, count, never = HEADING.fullmatch(lines[0]).groups()
        number = lambda text: None if text == "-" else int(text)
        rows = []
        for line in lines[2:]:
            *numbers, fits, label = ROW.fullmatch(line).groups()
            estimate, *exact = map(number, numbers)
            assert estimate is None or estimate <= exact[0], line
            rows.append((*exact, fits == "fits", label))
        assert int(scheduled or 1) == len(rows), (lines[0], len(rows))
        assert int(scheduled or 1) + int(never or 0) == int(count or 1), lines[0]
        assert name not in lists, name
        lists[name] = int(count or 1), rows
    return bound, lists


def check_lists(lists, room):
    """Whatever the model: order, and what follows from the numbers of a line."""
    for name, (_, rows) in lists.items():
        for time, least, peak, arena, fits, label in rows:
            assert least is None or least <= peak, (name, label)
            assert arena is None or arena >= peak, (name, label)
            assert fits == (arena is not None and room is not None and arena <= room), (name, label, arena, room)
            if name not in (CURVE, REFUSED):  # where what has room is packed
                assert (arena is not None) == (peak <= room), (name, label)
        key = {"fastest": 0, "smallest": 1}
        for word, column in key.items():
            if f"{word} " in name:
                assert [r[column] for r in rows] == sorted(r[column] for r in rows), (name, word)


def print_plan(budget, path, options):
    return call("compile", "m.fbs", "--budget", str(budget), "--print-plan", "-o", path, *options).stdout


def check_bound(bound, report, room, budget, options):
    assert bound["ns"] == report["bound_step_ns"] and bound["persistent"] == report["static_bytes"]
    assert bound["persistent"] + bound["other"] + bound["room"] == room, bound
    shown = json.loads(call("dump", "a.plan", "--decisions", "--format", "json").stdout)
    values = {d["name"]: -(-d["bytes"] // 256) * 256 for d in shown["decisions"]}
    for kept, name in bound["kept"]:
        assert values[name] == kept, (name, kept, values[name])
    schedule = call("dump", "a.plan", "--schedule").stdout
    assert bound["at"] in schedule, bound["at"]
    assert bound["priced_ns"] <= bound["ns"], bound
    # The bound by the price is convex in the budget, and the price its slope: no other is below the line.
    microbatches, touching = report["microbatches"], 0
    for delta in (-4096, 4096):
        search = print_plan(budget + delta, "b.plan", options) if room + delta >= report["floor_bytes"] else ""
        there = read_bound(search.splitlines()) if search else None
        if there:
            slope = (there["priced_ns"] - bound["priced_ns"]) / microbatches / delta * -1000
            above = slope - bound["price"] if delta < 0 else bound["price"] - slope
            touching += abs(above) <= 0.01 * bound["price"] + 2
            assert above >= -0.01 * bound["price"] - 2, (bound["price"], slope, delta)
    return touching


def check_budget(budget, options):
    out = print_plan(budget, "a.plan", options)
    report = json.loads(call("compile", "m.fbs", "--budget", str(budget), "-o", "b.plan", "--format", "json",
                             *options).stdout)
    with open("a.plan", "rb") as printed, open("b.plan", "rb") as silent:
        assert printed.read() == silent.read(), "--print-plan changes the plan"
    room = budget - report["reserve_bytes"]
    bound, lists = read_search(out)
    check_lists(lists, room)
    touching = check_bound(bound, report, room, budget, options)
    (time, _, peak, arena, fits, label), = lists["the plan"][1]
    assert fits and time == report["step_ns"], (time, report["step_ns"])
    assert -(-arena // 256) * 256 == report["arena_bytes"], (arena, report["arena_bytes"])
    planned = re.fullmatch(r"path \d+ step \d+|neighbour \d+", label)
    assert (report["policy"] == "per-op") if planned else label == report["policy"], (label, report["policy"])
    tried = [row for name, (_, rows) in lists.items() if name != "the plan" for row in rows]
    assert lists["the plan"][1][0] in tried, label
    for row in tried:
        assert not row[4] or time <= row[0] and bound["ns"] <= row[0], (label, row)
    assert "manual policies, fastest first" in lists, lists.keys()
    assert ("manual" in options) == ("paths and neighbours, fastest first" not in lists), lists.keys()
    return touching, len(tried)


def check_curve(options):
    out = call("compile", "m.fbs", "--curve", "c.json", "--print-plan", *options).stdout
    curve = read_json("c.json")
    bound, lists = read_search(out)
    pins = "--recompute" in options
    assert bound is None and list(lists) == [CURVE] + [SETTINGS] * (not pins), lists.keys()
    settings, priced = lists.pop(SETTINGS) if not pins else (0, [])
    assert settings == len(priced) and (pins or priced), settings
    check_lists(lists, None)
    count, rows = lists[CURVE]
    assert count + settings <= curve["decisions"], (count, curve["decisions"])  # equal policies count once
    rows += priced
    assert len(rows) + 1 == curve["evaluated"], len(rows)  # everything saved is priced before
    other_peak = curve["points"][-1]["peak"] if "--microbatches" in options else 0  # of the update
    shown = {(row[0], max(row[2], other_peak)) for row in rows}
    assert shown >= {(p["time"], p["peak"]) for p in curve["points"]}, shown
    return curve


def check_refusal(options):
    result = call("compile", "m.fbs", "--budget", "1", "--print-plan", *options, code=3)
    bound, lists = read_search(result.stdout)
    assert bound is None and "the plan" not in lists
    check_lists(lists, 0)
    assert list(lists)[-1] == REFUSED, lists.keys()
    smallest = min(row[3] for row in lists[REFUSED][1] if row[3] is not None)
    needs = int(re.search(r" needs (\d+) B", result.stderr)[1])
    reserve = json.loads(call("compile", "m.fbs", "-o", "c.plan", "--format", "json", *options).stdout)["reserve_bytes"]
    assert needs == smallest + reserve, (smallest, reserve, result.stderr)


@scratch()
def main():
    touching = lines = 0
    for preset, model, options in MODELS:
        call("graph", preset, "-o", "m.fbs", *model)
        points = check_curve(options)["points"]
        for p in points[1::max(1, len(points) // 4)]:
            both = check_budget(p["budget"] + p["peak"] // 50, options)
            touching, lines = touching + both[0], lines + both[1]
        check_refusal(options)
    assert touching > 10, touching  # the price is the slope, not only above or below it
    print(f"{lines} proposals; the price is the bound's slope in {touching} cases")


main()
