# SPDX-License-Identifier: Apache-2.0
"""The report, without a browser: its data are those of --format json, view by view, those of another plan laid over it too;
it names no other place, whatever the names in a graph, and a plan of 96 layers, or two, stays small. Curves and traces beside a plan are shown as they are, or
refused by place. In a browser: report_browser.py.

    report.py TOOLS [part]: without the large plan"""
import json
import os
import random
import re
import sys
import tempfile

from report_page import BESIDE, HOSTILE, PLANS, UNSEEN, VIEWS, check_text, data_of, make_plans, unpacked, without_nulls
from harness import INVALID, IO, Tools


def check_view(call, name, tables, view):
    """As the view says it, but for what the page does not show."""
    said = json.loads(call("dump", f"{name}.plan", *VIEWS[view], "--format", "json"))
    del said["schema"]
    for command in said.get("schedule", []):
        for key in UNSEEN:
            del command[key]
    assert without_nulls(unpacked(tables[view], tables["texts"])) == without_nulls(said), (name, view)


def check_data(call, name, page):
    data = data_of(page)
    said_by = lambda *options: json.loads(call("dump", f"{name}.plan", *options, "--format", "json"))
    assert {"schema": "remat-plan/1", **data["summary"]} == said_by()
    tables = data["tables"]
    for view in VIEWS:
        check_view(call, name, tables, view)
    assert tables.keys() == {*VIEWS, "step", "curve", "measured", "texts"}, tables.keys()
    line = next(iter(re.findall(r"^certificate (.*)", call("dump", f"{name}.plan"), re.M)), "")
    assert data["certificate"] == line, (data["certificate"], line)


def check_other(call, name, other, page):
    """Of a plan that another one is laid over: what differs, and the other's summary, commands and step."""
    data = data_of(page)
    tables = data["tables"]
    view = lambda of, *options: json.loads(call("dump", f"{of}.plan", *options, "--format", "json"))
    assert {"schema": "remat-plan/1", **data["summary"]} == view(name) and {"schema": "remat-plan/1", **data["other"]} == view(other)
    difference = unpacked(tables["diff"], tables["texts"])
    assert {"schema": "remat-plan/1", **difference} == view(name, "--diff", f"{other}.plan"), name
    check_view(call, other, {**tables["other"], "texts": tables["texts"]}, "schedule")
    alone = data_of(call("dump", f"{other}.plan", "--format", "html"))["tables"]
    assert unpacked(tables["other"]["step"], tables["texts"]) == unpacked(alone["step"], alone["texts"]), name


def check_curve(names):
    """The same of both forms."""
    with open("curve.json", encoding="utf-8") as file:
        given = json.load(file)["points"]
    for name in {"tiny", "large"} & {*names}:
        tables = data_of(open(f"{name}.html", encoding="ascii").read())["tables"]
        points = unpacked(tables["curve"], tables["texts"])["points"]
        keys = ("budget", "feasible", "time", "lower_bound")
        assert [[p[key] for key in keys] for p in points] == [[g[key] for key in keys] for g in given], name


def check_measured(call):
    """Of each command in the trace its mean, and its place in the last run of the segment."""
    tables = data_of(open("tiny.html", encoding="ascii").read())["tables"]
    found = {e["command"]: e for e in unpacked(tables["measured"], tables["texts"])["events"]}
    with open("trace.json", encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    segment = {c["index"]: c["segment"] for c in json.loads(call("dump", "tiny.plan", "--schedule", "--format", "json"))["schedule"]}
    runs = {}
    for e in events:
        runs.setdefault(e["args"]["command"], []).append(e)
    assert found.keys() == runs.keys() and len(found) > 100
    for command, of in runs.items():
        begin = min(r[-1]["ts"] for c, r in runs.items() if segment[c] == segment[command])
        e = found[command]
        assert e["runs"] == len(of) and abs(e["ns"] - 1000 * sum(r["dur"] for r in of) / len(of)) <= 0.51, (command, e, of)
        assert abs(e["start_ns"] - 1000 * (of[-1]["ts"] - begin)) <= 0.51 and abs(e["last_ns"] - 1000 * of[-1]["dur"]) <= 0.51, (command, e)


FILES = [  # option, text, what is said of it after the file's name
    ("curve", "", ":1: not a curve: neither a JSON object nor a line that begins with \"budget,feasible,peak,time,overhead,lower_bound,gap\""),
    ("curve", "budget,feasible,peak,time,overhead,lower_bound,gap\n1,1,1,x,0,1,0\n", ":2: time is \"x\", expected a number"),
    ("curve", "budget,feasible,peak,time,overhead,lower_bound,gap\n1,1\n", ":2: peak is \"\", expected a number"),
    ("curve", "budget,feasible,peak,time,overhead,lower_bound,gap\n1,1,1,,0,1,0\n", ":2: a point without budget or time"),
    ("curve", "{\"points\": 3}", ": not a curve: points is no array"),
    ("curve", "{\"points\": [{\"budget\": 1, \"feasible\": true, \"time\": -1}]}", ": points[0].time is no number from 0 to 2^53"),
    ("curve", "{\"points\": [{\"budget\": 1, \"feasible\": true, \"time\": 1, \"lower_bound\": \"\"}]}",
     ": points[0].lower_bound is no number from 0 to 2^53"),
    ("curve", "{\"points\": [{\"budget\": null}]}", ": points[0].budget is no number from 0 to 2^53"),
    ("curve", "{\"points\": [7]}", ": points[0].budget is no number from 0 to 2^53"),
    ("curve", "{\"points\": [", ":1:12: "),
    ("with", "", ":1:0: "),
    ("with", "{\"traceEvents\": 1}", ": not a trace: traceEvents is no array"),
    ("with", "[]", ": not a trace of remat-run: it has no command of rank 0"),
    ("with", "[1, {\"ph\": \"X\", \"pid\": 1, \"args\": {\"command\": -1}}]", ": traceEvents[1]: args.command is no command of the plan, which has COUNT"),
    ("with", "[{\"ph\": \"X\", \"pid\": 1, \"name\": \"\\u001b[1m\", \"args\": {\"command\": 0}}]",
     ": traceEvents[0] is of another plan: command 0 is \"\\u001b[1m\" here, and \"NAME\" in the plan"),
    ("with", "[{\"ph\": \"X\", \"pid\": 1, \"name\": \"NAME\", \"ts\": 0, \"dur\": 1e300, \"args\": {\"command\": 0}}]",
     ": traceEvents[0]: ts and dur are no numbers from 0 to 1e15"),
]


def check_refusals(tool, commands):
    for option, text, said in FILES:
        named = lambda words: words.replace("NAME", commands[0]["name"]).replace("COUNT", str(len(commands)))
        with open("given", "w", encoding="utf-8") as file:
            file.write(named(text))
        done = tool("dump", "tiny.plan", "--format", "html", f"--{option}", "given", "-o", "none.html")
        assert done.returncode == INVALID and done.stderr.startswith(f"remat-dump: error: given{named(said)}"), (option, text, done.stderr)
        assert not os.path.exists("none.html"), text
    assert tool("dump", "tiny.plan", "--format", "html", "--with", "nowhere").returncode == IO
    assert not tool("dump", "tiny.plan", "--format", "trace", "-o", "given").returncode
    assert "traceEvents[0]: predicted times" in tool("dump", "tiny.plan", "--format", "html", "--with", "given").stderr


def check_mutants(tool):
    """Curves and traces with bytes changed, cut off and repeated: shown or refused."""
    chance, codes = random.Random(41), set()
    for option, name in [("curve", "curve.csv"), ("curve", "curve.json"), ("with", "trace.json")]:
        with open(name, "rb") as file:
            whole = file.read()[:40000]
        if name == "trace.json":
            whole = whole[: whole.rindex(b",\n")] + b"]}"
        for _ in range(25):
            data, at = bytearray(whole), chance.randrange(len(whole))
            size = chance.choice([1, 1, 2, 8, 100])
            data[at:at + size] = chance.choice([b"", bytes(data[:size]), bytes([chance.randrange(256)]), b"-", b"1e999", b"null", b"[", b"\xff\0"])
            with open("mutant", "wb") as file:
                file.write(data)
            done = tool("dump", "tiny.plan", "--format", "html", f"--{option}", "mutant", "-o", "mutant.html")
            assert done.returncode in (0, INVALID), (name, done.returncode, done.stderr)
            assert done.returncode == 0 or "mutant:" in done.stderr, done.stderr
            codes.add((name, done.returncode))
    assert {(n, INVALID) for n in ("curve.csv", "curve.json", "trace.json")} <= codes, codes


def main():
    tools = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp())
    names = [name for name in [*PLANS, "hostile"] if name != "large" or "part" not in sys.argv]
    call = make_plans(tools, names)
    templates = set()
    for name in names:
        with open(f"{name}.html", encoding="ascii") as file:
            page = file.read()
        templates.add(check_text(name, page))
        check_data(call, name, page)
    for name, other, path in [*((n, f"{n}-other", f"{n}-diff.html") for n in names if n in PLANS), ("tiny", "tiny", "itself.html")]:
        with open(path, encoding="ascii") as file:
            overlay = file.read()
        templates.add(check_text(path, overlay))
        check_other(call, name, other, overlay)
    assert len(templates) == 1
    assert HOSTILE in data_of(page)["tables"]["texts"]
    assert data_of(page)["summary"]["graph"] == HOSTILE
    assert call("dump", "tiny.plan", "--format", "html", *BESIDE["tiny"]) == open("tiny.html", encoding="ascii").read()
    check_curve(names)
    check_measured(call)
    tool = Tools(tools)
    check_refusals(tool, json.loads(call("dump", "tiny.plan", "--schedule", "--format", "json"))["schedule"])
    check_mutants(tool)


main()
