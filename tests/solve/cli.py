# SPDX-License-Identifier: Apache-2.0
"""remat-solve on the command line: what it prints, refuses and returns.

    cli.py REMAT_SOLVE SLOWER

SLOWER: limits on processor time are multiplied by it.
"""
import functools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import on_terminal
from planned import Problem, check_decision, node, problem, solve, solve_timed

SMALL = problem(node(5, 10), node(1, 10, 0), node(1, 10, 1), node(1, 10, 1, 2), node(1, 10, 0, 3))
HUGE = 2**62

# problem (or text), arguments, exit code, part of the message
REFUSED = [
    ("", [], 4, "file"),
    ("{", [], 4, ":1:1: "),
    ("[]", [], 4, "an array, expected an object"),
    ("[" * 5000, [], 4, "depth"),
    ({"nodes": []}, [], 4, "schema: missing, expected \"remat-problem/1\""),
    ({"schema": "remat-problem/2", "nodes": []}, [], 4, "schema: \"remat-problem/2\""),
    ({"schema": "remat-problem/1"}, [], 4, "nodes: missing"),
    (problem(), [], 4, "no nodes"),
    (problem(3), [], 4, "nodes[0]: 3, expected an object"),
    (problem(node(1, 1), {"name": "x"}), [], 4, "nodes[1].time: missing, expected a number"),
    (problem({"time": 1, "bytes": 1, "inputs": []}), [], 4, "nodes[0].name: missing"),
    (problem(node(-1, 1)), [], 4, "nodes[0].time: -1, expected a number from 0 on"),
    (problem(node("1", 1)), [], 4, "nodes[0].time: \"1\""),
    (problem(node(1, -1)), [], 4, "nodes[0].bytes: -1, expected an integer from 0 on"),
    (problem(node(1, 1.5)), [], 4, "nodes[0].bytes: 1.5, expected an integer"),
    (problem(node(1, True)), [], 4, "nodes[0].bytes: true"),
    (problem({"name": "a", "time": 1, "bytes": 1, "inputs": 3}), [], 4, "nodes[0].inputs: 3"),
    (problem({"name": "a", "time": 1, "bytes": 1, "inputs": [], "size": 1}), [], 4,
     "nodes[0]: unknown key \"size\""),
    (dict(SMALL, static_bytes=-1), [], 4, "static_bytes: -1, expected an integer from 0 on"),
    (problem(node(1, 1, workspace="x")), [], 4, "nodes[0].workspace: \"x\", expected an integer"),
    (problem(node(1, 1, lasting=-1)), [], 4, "nodes[0].lasting: -1, expected an integer"),
    (problem(node(1, 1, once=1)), [], 4, "nodes[0].once: 1, expected true or false"),
    (problem(node(1, 1), node(1, 0, alias=1)), [], 4, "nodes[1].alias: 1 is not the number of an"),
    (problem(node(1, 1), node(1, 5, alias=0)), [], 4,
     "node 1 (\"n1\"): an alias has no bytes of its own, but these are 5"),
    (problem(node(1, 1, modes={})), [], 4, "nodes[0].modes: an object, expected an array of objects"),
    (problem(node(1, 1, modes=[3])), [], 4, "nodes[0].modes[0]: 3, expected an object"),
    (problem(node(1, 1, modes=[{}])), [], 4, "nodes[0].modes.time: missing, expected a number"),
    (problem(node(1, 1, modes=[{"time": 1, "bytes": 1}])), [], 4,
     "nodes[0].modes[0]: unknown key \"bytes\" (accepted: time, workspace, fused)"),
    (problem(node(1, 1), node(1, 1, 0, modes=[{"time": 1, "fused": [1]}])), [], 4,
     "nodes[1].modes.fused[0]: 1 is not the number of an earlier node"),
    (problem(node(1, 1), node(1, 1, 0), node(1, 1, 1, modes=[{"time": 1, "fused": [0]}])), [], 4,
     "node 2 (\"n1\"): fused 0 is read by nothing in the mode"),
    (problem(node(1, 1, once=True), node(1, 1, 0, modes=[{"time": 1, "fused": [0]}])), [], 4,
     "node 1 (\"n1\"): fused 0 may not be recomputed"),
    (problem(node(1, 1), node(1, 0, 0, alias=0, modes=[{"time": 1, "fused": [0]}])), [], 4,
     "node 1 (\"n1\"): fused 0 has aliases"),
    (problem(node(1, 1), node(1, 1, 1)), [], 4,
     "nodes[1].inputs[0]: 1 is not the number of an earlier node (below 1)"),
    (problem(node(1, 1, 0)), [], 4,
     "nodes[0].inputs[0]: 0 is not the number of an earlier node (below 0: there is none)"),
    (problem(node(1, 1), node(1, 1, -1)), [], 4, "nodes[1].inputs[0]: -1 is not the number"),
    (problem(node(1, 1), node(1, 1, 0.5)), [], 4, "nodes[1].inputs[0]: 0.5 is not the number"),
    (problem(node(1, 1), node(1, 1, 1.0)), [], 4, "nodes[1].inputs[0]: 1 is not the number"),
    (problem(node(1, 2.0**53 + 2)), [], 4, "nodes[0].bytes: 9007199254740994, expected an integer"),
    (problem(node(1, 1), node(1, 1, 2**40)), [], 4, "1099511627776 is not the number"),
    (problem(node(1, 1), node(1, 1, 0, modes=[{"time": 1, "fused": [0, 0]}])), [], 4,
     "node 1 (\"n1\"): fused 0 is listed twice"),
    (problem(node(1, HUGE)), [], 4, "node 0 (\"n1\"): bytes add up to more than 2^60"),
    (problem(*[node(1, 2**59)] * 2, node(1, 1)), [], 4, "node 2 (\"n1\"): bytes add up"),
    (problem(node(1, 2**64)), [], 4, "too big integer"),
    ('{"schema":"remat-problem/1","nodes":[{"name":"a","time":1e999,"bytes":1,"inputs":[]}]}', [],
     4, "real number overflow"),
    ('{"schema":"remat-problem/1","nodes":[{"name":"a","time":NaN,"bytes":1,"inputs":[]}]}', [], 4,
     "invalid token"),
    ('{"schema":"remat-problem/1","schema":"remat-problem/1","nodes":[]}', [], 4, "duplicate"),
    (problem(*[node(1e300, 1)] * 3), [], 4, "times add up"),
    (SMALL, ["--budget", "0"], 3, "no schedule fits in 0 B"),
    (problem(node(1, 3)), ["--budget", "1%"], 3, "no schedule fits in 0 B"),
    (SMALL, ["--budget", "110%"], 2, "out of range"),
    (SMALL, ["--budget", "5x"], 2, "unknown unit 'x'"),
    (SMALL, [None], 2, "--budget is missing"),
    (SMALL, ["--budget", "9", "--curve"], 2, "exclude each other"),
    (SMALL, ["--budget", "9", "--format", "csv"], 2, "--format needs --curve"),
    (SMALL, ["--budget", "50%", "--time-limit", "fast"], 2, "--time-limit 'fast' is not a time"),
    (SMALL, ["--budget", "50%", "--time-limit", "-1s"], 2, "--time-limit '-1s' is not a time"),
    (SMALL, ["--budget", "29"], 3, "no schedule fits in 29 B: node 3 alone takes 30 B"),
]


def check_refusals(tool):
    faults = []
    for value, arguments, code, message in REFUSED:
        arguments = [a for a in arguments if a] if arguments else ["--budget", "100%"]
        with Problem(value) as path:
            got, out, err = solve(tool, path, *arguments)
        lines = err.splitlines()
        if got != code or message not in err or not lines[0].startswith("remat-solve: error: "):
            faults.append(f"{str(value)[:80]} {arguments}: code {got}, {err.strip()}")
        if len(lines) != (2 if code == 2 else 1):
            faults.append(f"{str(value)[:80]}: {len(lines)} lines on stderr")
        if (code == 3) != bool(out):
            faults.append(f"{str(value)[:80]}: stdout {out[:60]!r}")
    code, _, err = solve(tool, "/nonexistent/problem.json", "--budget", "1")
    if code != 5 or "/nonexistent/problem.json" not in err:
        faults.append(f"missing file: code {code}, {err}")
    code, _, err = solve(tool, "/", "--budget", "1")
    if code != 5 or err != "remat-solve: error: /: Is a directory\n":
        faults.append(f"folder: code {code}, {err}")
    return faults


def check_streams(tool):
    """A pipe and standard input are read as a file is; what has no end is refused."""
    faults = []
    with Problem(SMALL) as path:
        expected = solve(tool, path, "--budget", "30")
    for operand in "-", "/dev/stdin":
        done = subprocess.run([tool, operand, "--budget", "30"], input=json.dumps(SMALL), encoding="utf-8",
                              capture_output=True, check=False)
        if (done.returncode, done.stdout, done.stderr) != expected or expected[0]:
            faults.append(f"{operand}: code {done.returncode}, {done.stderr}")
    for given, message in (["echo", "["], ":2:0: "), (["yes", ""], ": more than 268435456 bytes, "):
        with subprocess.Popen(given, stdout=subprocess.PIPE) as source:
            done = subprocess.run([tool, "-", "--budget", "30"], stdin=source.stdout, capture_output=True,
                                  encoding="utf-8", check=False)
            source.stdout.close()
        if done.returncode != 4 or "error: standard input" + message not in done.stderr:
            faults.append(f"{given} on standard input: code {done.returncode}, {done.stderr}")
    return faults


def check_whole_numbers(tool):
    """1e3 and 3.0 are integers."""
    texts = [json.dumps(dict(SMALL, static_bytes=1000))]
    texts.append(texts[0].replace('"bytes": 10,', '"bytes": 1e1,').replace('[0, 3]', '[0, 3.0]')
                 .replace("1000", "1.0e3"))
    decisions = []
    for text in texts:
        with Problem(text) as path:
            decisions.append(solve(tool, path, "--budget", "1030"))
    return [] if decisions[0] == decisions[1] and not decisions[0][0] and texts[0] != texts[1] else \
        [f"whole numbers: {decisions}"]


def check_extended(tool):
    """By hand: 22 bytes are live during the last run as given. Making its input 1 inside takes 21,
    since node 0 has to stay for that; with less than 21 node 0 runs again. Node 2 may not."""
    value = dict(problem(node(5, 4), node(2, 6, 0), node(1, 8, 1, once=True, lasting=1),
                         node(1, 2, 1, 2, workspace=3, modes=[{"time": 2, "fused": [1]}])),
                 static_bytes=2)
    faults = []
    with Problem(value) as path:
        for budget, time, modes in (("22", 9, [0, 0, 0, 0]), ("100%", 9, None), ("21", 10, [0, 0, 0, 1]),
                                   ("20", 15, [0, 0, 0, 0, 1])):
            code, out, err = solve(tool, path, "--budget", budget)
            decision = json.loads(out) if out else {}
            if code or decision["time"] != time or (modes and decision["modes"] != modes):
                faults.append(f"extended, --budget {budget}: code {code} {err}{out}")
            else:
                faults += check_decision(value["nodes"], decision, value["static_bytes"])
        code, out, err = solve(tool, path, "--budget", "16")
        if code != 3:
            faults.append(f"extended, infeasible: code {code} {err}{out}")
    return faults


def check_most_bytes(tool):
    with Problem(problem(*[node(1, 2**59)] * 2)) as path:
        code, out, err = solve(tool, path, "--budget", "100%")
    return [] if code == 0 and json.loads(out)["peak"] == 2**59 else [f"2^60 bytes: code {code} {err}"]


def check_small(tool):
    """By hand: at 30 bytes node 0 must go while 3 runs, so it runs twice."""
    faults = []
    with Problem(SMALL) as path:
        for budget, time in (("40", 9), ("100%", 9), ("30", 14)):
            code, out, err = solve(tool, path, "--budget", budget)
            decision = json.loads(out) if code == 0 else {}
            if code or decision["time"] != time or decision["schema"] != "remat-decision/1":
                faults.append(f"--budget {budget}: code {code} {err}{out}")
            else:
                faults += check_decision(SMALL["nodes"], decision)
        code, out, _ = solve(tool, path, "--budget", "29")
        decision = json.loads(out)
        if code != 3 or decision["floor"] != 30 or decision["feasible"]:
            faults.append(f"infeasible: code {code}, {out}")
        code, out, _ = solve(tool, path, "--curve", "--format", "csv")
        lines = out.splitlines()
        if code or lines[0] != "budget,feasible,peak,time,overhead,lower_bound,gap":
            faults.append(f"csv: code {code}, {lines[:1]}")
    return faults


def random_problem(rng, count):
    nodes = []
    for v in range(count):
        inputs = {v - 1, count - 1 - v} if v >= count // 2 else {v - 1, rng.randrange(v + 1) - 1}
        nodes.append(node(rng.randint(1, 9) * rng.choice((1, 0.25)), rng.randint(0, 50),
                          *sorted(u for u in inputs if 0 <= u < v)))
    return problem(*nodes)


def check_random(tool):
    """Decisions are valid and repeatable, the curve is monotone, and bounds agree with each other."""
    faults, rng = [], random.Random(7)
    for index in range(8):
        value = random_problem(rng, rng.randint(1, 60))
        with Problem(value) as path:
            curve = json.loads(solve(tool, path, "--curve", "--time-limit", "2s")[1])
            times = [p["time"] for p in curve["points"] if p["feasible"]]
            if times != sorted(times):
                faults.append(f"problem {index}: the curve is not monotone: {times}")
            for percentage in (100, 80, 60):
                arguments = ["--budget", f"{percentage}%"]
                code, out, err = solve(tool, path, *arguments)
                if code not in (0, 3):
                    faults.append(f"problem {index} at {percentage} %: code {code} {err}")
                    continue
                decision = json.loads(out)
                if decision["feasible"]:
                    faults += check_decision(value["nodes"], decision)
                if solve(tool, path, *arguments)[1] != out:
                    faults.append(f"problem {index} at {percentage} %: another plan the second time")
    return faults


def check_curve_files(tool):
    """The ending chooses the form; --format overrules it."""
    faults = []
    with Problem(SMALL) as path, tempfile.TemporaryDirectory() as folder:
        texts = {}
        for ending in ("csv", "json", "svg", "txt"):
            file = os.path.join(folder, "curve." + ending)
            code, out, err = solve(tool, path, "--curve", "-o", file)
            if code or out:
                faults.append(f"--curve -o curve.{ending}: code {code} {out}{err}")
            with open(file, encoding="utf-8") as opened:
                texts[ending] = opened.read()
        points = json.loads(texts["json"])["points"]
        rows = texts["csv"].splitlines()
        picture = xml.etree.ElementTree.fromstring(texts["svg"])
        circles = [e for e in picture if e.tag.endswith("circle")]
        if texts["txt"] != texts["json"] or len(rows) != len(points) + 1:
            faults.append("curve: forms differ")
        if len(circles) != sum(p["feasible"] for p in points):
            faults.append(f"svg: {len(circles)} circles")
        for row, point in zip(rows[1:], points):
            if row.split(",")[0] != str(point["budget"]):
                faults.append(f"csv: {row}, {point}")
        code, out, _ = solve(tool, path, "--curve", "--format", "svg")
        if code or out != texts["svg"]:
            faults.append("--format svg differs from -o curve.svg")
    with Problem(problem(node(1, 0), node(1, 0, 0))) as path:
        points = json.loads(solve(tool, path, "--curve")[1])["points"]
        if len(points) != 1 or not points[0]["feasible"]:
            faults.append(f"the curve of what takes no bytes: {points}")
    return faults


def check_repeated_inputs(tool):
    """An input that is listed twice is one input."""
    decisions = []
    for again in (1, 3):
        nodes = [node(n["time"], n["bytes"], *n["inputs"] * again) for n in SMALL["nodes"]]
        with Problem(problem(*nodes)) as path:
            code, out, err = solve(tool, path, "--budget", "30")
        decisions.append((code, out, err))
    return [] if decisions[0] == decisions[1] and decisions[0][0] == 0 else \
        [f"inputs listed twice: {decisions}"]


def dense_chain(rng, length):
    """Forward nodes, then backward ones that read theirs and the gradient before; the sizes have
    nothing in common, so that the lists of the chain's dynamic program are long."""
    nodes = []
    for v in range(2 * length):
        inputs = {v - 1, 2 * length - 1 - v} if v >= length else {v - 1}
        nodes.append(node(rng.randint(1, 1000), rng.randint(1, 10**9),
                          *sorted(u for u in inputs if u >= 0)))
    return problem(*nodes)


def unit_chain(length):
    """The same with times and bytes of 1."""
    return problem(*[node(1, 1, *sorted({v - 1, min(v - 1, 2 * length - 1 - v)} - {-1}))
                     for v in range(2 * length)])


def check_interrupt(tool, slower):
    """After the first line of progress, a signal: the best plan so far, valid, and it says so. The line
    has a bound, also where there is no plan: few bytes for many nodes."""
    faults, rng = [], random.Random(3)
    for name, number, value, budget, told in (
            ("random", signal.SIGINT, random_problem(rng, 300), "90%", r"overhead \S+ %, at least \S+ %, gap \S+ %"),
            ("chain", signal.SIGTERM, dense_chain(rng, 200), "20%", r"overhead \S+ %, at least \S+ %, gap \S+ %"),
            ("no plan", signal.SIGHUP, unit_chain(20000), "20", r"no plan yet, at least \S+ %")):
        with Problem(value) as path:
            with on_terminal([tool, path, "--budget", budget, "--time-limit", "100s"], stdout=subprocess.PIPE,
                             preexec_fn=functools.partial(signal.signal, number, signal.SIG_DFL)) as (process, terminal):
                line = next(terminal)
                process.send_signal(number)
                out, _ = process.communicate(timeout=10 * slower)
        if process.returncode != (7 if name == "no plan" else 0) or \
                not re.fullmatch("remat-solve: 1 s: " + told, line.rstrip("\n")):
            faults.append(f"interrupt, {name}: code {process.returncode}, {line!r}")
            continue
        decision = json.loads(out)
        if decision["feasible"]:
            faults += check_decision(value["nodes"], decision)
        if not decision["interrupted"] or decision["time_limit_hit"]:
            faults.append(f"interrupt, {name}: the decision does not say so")
    return faults


def check_time_limit(tool, slower):
    """Long chains with long lists: the limit is of processor time; without one the work is limited."""
    faults, rng = [], random.Random(5)
    for length in (60, 100, 200, 319):
        value = dense_chain(rng, length)
        with Problem(value) as path:
            whole = [([], math.inf)] if length in (100, 319) else []
            for arguments, seconds in [(["--time-limit", "100ms"], .5), *whole]:
                code, out, err, took = solve_timed(tool, path, "--budget", "50%", *arguments)
                print(f"chain of {length} {' '.join(arguments)}: {took:.2f} s")
                if took > seconds * slower or code not in (0, 3, 7):
                    faults.append(f"chain of {length} {arguments}: {took} s, code {code} {err}")
                elif code == 0:
                    faults += check_decision(value["nodes"], json.loads(out))
    return faults


def check_many_nodes(tool, slower):
    """However little time there is, the greedy plans of a long chain are made first."""
    value = unit_chain(20000)
    with Problem(value) as path:
        code, out, err, took = solve_timed(tool, path, "--budget", "30%", "--time-limit", "1ms")
    print(f"chain of 20000, 1ms: {took:.2f} s")
    if code or took > 4 * slower:
        return [f"chain of 20000: code {code}, {took:.2f} s, {err}"]
    return check_decision(value["nodes"], json.loads(out))


def check_early_end(tool):
    """A limit that ends before the search begins: a plan where room is ample; never said to be none where
    there may be one, and said where none can be."""
    faults, codes = [], set()
    for seed in range(5):
        value = random_problem(random.Random(seed), 600)
        with Problem(value) as path:
            for budget in ("80%", "30%", "10%", "1%"):
                code, out, err = solve(tool, path, "--budget", budget, "--time-limit", "1ms")
                decision = json.loads(out)
                codes.add(code)
                proven = decision["budget"] < decision["floor"]
                if code == 0:
                    faults += check_decision(value["nodes"], decision)
                elif code != (3 if proven else 7) or decision["feasible"] or not decision["time_limit_hit"]:
                    faults.append(f"ended early, seed {seed}, {budget}: code {code}, {err}")
                if ("the search was ended before" in err) != (code == 7) or (budget == "80%" and code):
                    faults.append(f"ended early, seed {seed}, {budget}: code {code}, {err}")
    return faults + ([] if codes == {0, 3, 7} else [f"ended early: only codes {codes}"])


def main():
    tool, slower = sys.argv[1], float(sys.argv[2])
    faults = check_refusals(tool) + check_small(tool) + check_extended(tool) + check_random(tool)
    faults += check_curve_files(tool) + check_interrupt(tool, slower)
    faults += check_streams(tool) + check_whole_numbers(tool) + check_most_bytes(tool) + check_many_nodes(tool, slower)
    faults += check_repeated_inputs(tool) + check_time_limit(tool, slower) + check_early_end(tool)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
