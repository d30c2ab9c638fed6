# SPDX-License-Identifier: Apache-2.0
"""Files of remat-dump for viewers that others wrote, read here by what their formats say. Of several plans:

- trace: the slices of a thread come one after the other or nest, the last one ends with the step, live bytes reach the
  plan's peak, every recomputed command has an arrow from its original, and the commands are those that a run records;
  of a transfer it says with which one it starts, what it waits for, when it has to be complete and what is exposed.
- snapshot: Python unpickles it; at every command what is allocated are the buffers that live then, by place, size, name
  and class, and their sum is its live bytes; frees are of what is allocated, and what is left is the segment's blocks.
- dot, of a plan and a layer of it: commands and all values that are decided about, with shape, line and word of their
  action, and each command's edges; Graphviz reads it where it is installed. Of a graph: its nodes.

    viewers.py TOOLS"""
import bisect
import collections
import json
import os
import pathlib
import pickle
import pickletools
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, USAGE, Tools, check, finish, must, run

tool = Tools(sys.argv[1])
STRETCH = tool.folder.parent / "tests/e2e/stretch"
os.chdir(tempfile.mkdtemp())
PLANS = [  # preset and options, options of remat-compile
    (["gpt2-tiny", "--layers", 3, "--seq", 64, "--batch", 2], ["--budget", "137.4MB"]),
    (["gpt2-tiny", "--layers", 10, "--seq", 64, "--batch", 2], ["--microbatches", 2, "--budget", "143.08MB"]),
    (["encdec-tiny", "--batch", 6], ["--microbatches", 3, "--ac-mode", "full"]),
    (["gpt2-tiny", "--layers", 4, "--batch", 4], ["--mesh", "dp=2,tp=2", "--zero", 3, "--ac-mode", "full"]),
    (["mlp-tiny"], []),
]


class Plan:
    def __init__(self, path):
        self.path = path
        self.of = self.view("--summary")
        self.schedule = self.view("--schedule")["schedule"]
        self.decisions = self.view("--decisions")["decisions"]
        self.memory = self.view("--memory")
        entry = self.of["entries"]["train"]
        self.runs = [call["segment"] for call in entry for _ in range(call["times"])]
        self.step = [command for segment in self.runs for command in self.schedule if command["segment"] == segment]

        self.lines = {int(line.split()[0]): line for line in tool.text("dump", self.path, "--schedule").splitlines() if re.match(r" *\d+ ", line)}

    def view(self, *options):
        return tool.json("dump", self.path, *options, "--format", "json")

    def group_end(self, group):
        return 1 + max(c["index"] for c in self.schedule if c.get("transfer", {}).get("group") == group)


# --- trace events ---

def ns(us):
    return round(us * 1000)


def nests(slices):
    """Each slice of a thread lies in one that is open, or begins when all have ended."""
    stack = []
    for begin, end in sorted(slices, key=lambda span: (span[0], -span[1])):
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and end > stack[-1]:
            return False
        stack.append(end)
    return True


def check_order(plan, event, command):
    """In words of --schedule, too."""
    moved, args = command["transfer"], event["args"]
    check((args["group"], args.get("waits_for"), args["exposed_ns"]) == (moved["group"], moved.get("waits_for"), moved["exposed_ns"]), event)
    check(args["complete_before"] == moved.get("complete_before", plan.group_end(moved["group"])), event)
    line = plan.lines[command["index"]]
    for key, words in ("waits_for", "waits for"), ("complete_before", "complete before"):
        named = moved.get(key, len(plan.schedule)) < len(plan.schedule) and plan.schedule[moved[key]]
        if named and named["segment"] == command["segment"]:
            check(f", {words} command {moved[key]} {named['name']}" in line, line)
        else:
            check(words not in line, line)


def check_trace(plan):
    tool.must("dump", plan.path, "--format", "trace", "-o", "t.json")
    events = json.loads(pathlib.Path("t.json").read_text())["traceEvents"]
    by_kind = collections.defaultdict(list)
    for event in events:
        by_kind[event["ph"]].append(event)
    threads = {e["tid"]: e["args"]["name"] for e in by_kind["M"] if e["name"] == "thread_name"}
    links = [axis["axis"] for axis in plan.of.get("mesh", [])]
    stream = lambda c: "computation" if "transfer" not in c else "transfers 2" if links.index(c["transfer"]["axis"]) else "transfers"
    check(threads == {1: "computation", 2: "transfers", **({3: "transfers 2"} if len(links) > 1 else {})}, threads)
    lanes = collections.defaultdict(list)
    for e in by_kind["X"]:
        lanes[threads[e["tid"]]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])))
    for name, spans in lanes.items():
        check(nests(spans) and spans == sorted(spans), f"{name}: slices overlap")
    last = max(end for spans in lanes.values() for _, end in spans)
    exposed = sum(e["args"].get("exposed_ns", 0) for e in by_kind["X"])
    check(last == plan.of["step_ns"], f"the trace ends at {last}, the step takes {plan.of['step_ns']}")
    check(sum(end - begin for begin, end in lanes["computation"]) + exposed == last, "computation and waiting")
    check([e["args"]["command"] for e in by_kind["X"]] == [c["index"] for c in plan.step], "the commands of the script")
    for event, command in zip(by_kind["X"], plan.step):
        check((event["name"], event["args"]["scope"], event["args"]["layer"], event["args"]["phase"],
               event["args"]["segment"], ns(event["dur"]), threads[event["tid"]]) ==
              (command["name"], command["scope"], command["layer"], command["phase"], command["segment"],
               command["estimated_ns"], stream(command)), event)
        check((event["cat"] == "recompute") == (command["instance"] > 0), event)
        if "transfer" in command:
            check_order(plan, event, command)
    labels = [e["args"]["labels"] for e in by_kind["M"] if e["name"] == "process_labels"]
    check(labels == ([f"depth {plan.of['depth']}"] if "depth" in plan.of else []), labels)
    check(max(e["args"]["live"] for e in by_kind["C"]) == plan.of["peak_bytes"], "the counter reaches the peak")
    check([e["args"]["live"] for e in by_kind["C"]] == [c["live_bytes"] for c in plan.step], "live bytes")
    check([e["ts"] for e in by_kind["C"]] == sorted(e["ts"] for e in by_kind["C"]), "the counter goes back in time")
    check_arrows(plan, by_kind)
    return by_kind


def computed(plan, command, again):
    """Names of values that it computes, or recomputes: those that it writes, and the first one."""
    command = plan.schedule[command]
    return {command["name"]} | {o["value"] for o in command["operands"] if o["access"] != "read" and (o["instance"] > 0) == again}


def check_arrows(plan, by_kind):
    """By the format's rule: an end is in the slice of its thread that is open at its time, the innermost one."""
    lanes = collections.defaultdict(list)
    for e in by_kind["X"]:
        lanes[e["tid"]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e["args"]))

    def slice_of(event):
        lane, at = lanes[event["tid"]], ns(event["ts"])
        _, end, args = lane[bisect.bisect_right(lane, at, key=lambda span: span[0]) - 1]
        return args if at < end else None
    starts = {e["id"]: slice_of(e) for e in by_kind["s"]}
    ends = {e["id"]: slice_of(e) for e in by_kind["f"]}
    check(len(starts) == len(by_kind["s"]) == len(by_kind["f"]) and starts.keys() == ends.keys(), "pairs of ends")
    check(all(starts.values()) and all(ends.values()), "each end is in a slice")
    again = [(e["args"]["segment"], e["args"]["run"], e["args"]["command"]) for e in by_kind["X"] if e["cat"] == "recompute"]
    place = lambda a: (a["segment"], a["run"], a["command"])
    check([place(a) for a in ends.values()] == again, f"{len(ends)} arrows for {len(again)} recomputed commands")
    for i, end in ends.items():
        check(starts[i]["recomputation"] == 0 and place(starts[i])[:2] == place(end)[:2] and
              computed(plan, starts[i]["command"], False) & computed(plan, end["command"], True), (starts[i], end))


def check_as_run(plan, predicted):
    """A run records the same commands under the same names in the same threads."""
    tool.must("run", plan.path, "--text", TEXT, "--steps", 1, "--trace", "m.json")
    events = json.loads(pathlib.Path("m.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["args"]["command"] in {c["index"] for c in plan.step}]
    same = lambda e: (e["name"], e["cat"], e["pid"], e["tid"],
                      [e["args"][k] for k in ("command", "scope", "kernel", "recomputation", "predicted_ns", "flops", "moved_bytes")])
    check(list(map(same, slices)) == list(map(same, predicted["X"])), "slices differ from those of a run")
    check({e["name"] for e in events if e["ph"] == "C"} == {e["name"] for e in predicted["C"]}, "names of counters")


# --- snapshots ---

def living(plan):
    """By command of the step: class and name of each buffer that lives then, by offset."""
    by_command = {command["index"]: {} for command in plan.step}
    for b in plan.memory["buffers"]:
        for command in by_command if b["persistent"] else range(b["born"], b["dies"]):
            if b["bytes"] and command in by_command:
                by_command[command][b["offset"]] = (b["class"], b["name"])
    return [by_command[command["index"]] for command in plan.step]


def check_events(plan, trace):
    """Between the frees and allocations of two commands live those that --memory says."""
    live, shown, at, now, peak, base, expected = {}, {}, 0, 0, 0, trace[0]["addr"], living(plan)
    for event in trace[1:]:
        address = event["addr"]
        if event["action"] == "alloc":
            check(address not in live, event)
            live[address] = event
            now += event["size"]
            if event["frames"]:
                shown[address - base] = (event["category"], event["frames"][0]["name"].split(" #")[0])
        elif event["action"] == "free_completed":
            check(live.pop(address, {"size": None})["size"] == event["size"], event)
            now -= event["size"]
            shown.pop(address - base)
        peak = max(peak, now)
        while at < len(plan.step) and now == plan.step[at]["live_bytes"] and shown == expected[at]:
            at += 1
    check(at == len(plan.step), f"the memory of command {at} of {len(plan.step)} does not come")
    check(peak == plan.of["peak_bytes"], f"the peak is {peak}, not {plan.of['peak_bytes']}")
    return live


def check_snapshot(plan):
    tool.must("dump", plan.path, "--format", "snapshot", "-o", "s.pickle")
    data = pathlib.Path("s.pickle").read_bytes()
    if len(data) < 1 << 18:
        check(max(opcode.proto for opcode, _, _ in pickletools.genops(data)) == 2, "protocol 2")
    snapshot = pickle.loads(data)
    (segment,), (trace,) = snapshot["segments"], snapshot["device_traces"]
    check(trace[0]["action"] == "segment_alloc" and trace[0]["size"] == segment["total_size"] == plan.of["arena_bytes"] and
          trace[0]["addr"] == segment["address"], segment["total_size"])
    live = check_events(plan, trace)
    address, left = segment["address"], {}
    for block in segment["blocks"]:
        if block["state"] == "active_allocated":
            left[address] = (block["size"], block["frames"])
        address += block["size"]
    check(address == segment["address"] + segment["total_size"], "blocks fill the segment")
    check(left == {a: (e["size"], e["frames"]) for a, e in live.items()}, "blocks are what is left")
    times = [e["time_us"] for e in trace]
    check(times == sorted(times) and times[-1] <= plan.of["step_ns"] // 1000, "times")


# --- dot ---

STYLES = {"save": ("box", "solid"), "recompute": ("ellipse", "dashed"), "recompute inline": ("hexagon", "dotted"),
          "twice": ("doublecircle", "dashed"), "twice inline": ("doubleoctagon", "dotted"),
          "shard": ("box3d", "solid")}
NODE = re.compile(r'  ([cdnv]\d+) \[label="((?:[^"\\]|\\.)*)", shape=(\w+)(?:, style="filled,(\w+)", fillcolor="(#\w{6})")?\];')
EDGE = re.compile(r"  ([cnv]\d+) -> ([cnv]\d+);")


def read_dot(*options):
    first, second, *lines, last = tool.text("dump", *options, "--format", "dot").splitlines()
    check(first.startswith('digraph "') and first.endswith('" {') and last == "}", (first, last))
    nodes, edges = {}, set()
    for line in lines:
        if node := NODE.fullmatch(line):
            check(node[1] not in nodes, f"{node[1]} is there twice")
            nodes[node[1]] = node.groups()[1:]
        else:
            edges.add(EDGE.fullmatch(line).groups())
    check(all(end in nodes for edge in edges for end in edge), "edges are between nodes")
    if shutil.which("dot"):
        must(run(["dot", "-Tplain"], input=tool.text("dump", *options, "--format", "dot")))
    return nodes, edges


def check_dot(plan):
    """Commands of the step, and the values that they use about which something is decided."""
    actions = {d["name"]: d["action"] for d in plan.decisions}
    for layer in (None, 1):
        nodes, edges = read_dot(plan.path, *([] if layer is None else ["--layer", layer]))
        commands = {c["index"]: c for c in plan.step if layer is None or c["layer"] == layer}
        check({int(n[1:]) for n in nodes if n[0] == "c"} == set(commands), "commands")
        labels = collections.Counter(node[0].split("\\n")[0] for name, node in nodes.items() if name[0] != "c")
        used = {(o["value"], o["instance"]) for c in commands.values() for o in c["operands"] if o["value"] in actions}
        for value, instance in used:
            check(labels[value + (f" #{instance}" if instance else "")] == 1, f"{value}, {instance} is not there once")
        decided = {d["name"] for d in plan.decisions if layer is None or d["layer"] == layer}
        shown = {label.split(" #")[0] for label in labels}
        check(decided <= {name.removesuffix(".part") for name in shown} | shown, decided - shown)
        for name, (label, shape, line, _) in nodes.items():
            value, words = label.split("\\n")
            action = words.split(",")[0]
            if name[0] != "c":
                value = value.split(" #")[0]
                check(actions.get(value, actions.get(value.removesuffix(".part"))) == action, label)
                check(STYLES[action] == (shape, line), (label, shape, line))
        by_label = {node[0].split("\\n")[0]: name for name, node in nodes.items() if name[0] == "v"}
        for c in commands.values():
            for o in c["operands"]:
                node = by_label.get(o["value"] + (f" #{o['instance']}" if o["instance"] else ""))
                if node and o["access"] in ("read", "write"):
                    edge = (node, f"c{c['index']}") if o["access"] == "read" else (f"c{c['index']}", node)
                    check(edge in edges, f"{edge} is not there: {c['name']}, {o}")


def check_graph_dot():
    text = tool.text("dump", "m.fbs", "--text")
    of = tool.json("dump", "m.fbs", "--format", "json")
    nodes, _ = read_dot("m.fbs")
    check(sum(name[0] == "n" for name in nodes) == of["nodes"], "nodes of the graph")
    check(all(f'%{label.split(chr(92) + "n")[1]}' in text for label, *_ in nodes.values() if label.count("\\n") == 2), "names")
    layer, _ = read_dot("m.fbs", "--layer", 1)
    check({n for n in nodes if n[0] == "n"} > {n for n in layer if n[0] == "n"} > set(), "a layer is a part")


def check_plan(number, graph, options):
    tool.must("graph", *graph, "-o", "m.fbs")
    tool.must("compile", "m.fbs", *options, "-o", "m.plan")
    if "tp=2" in " ".join(map(str, options)):
        must(run([STRETCH, "m.plan"]))
    plan = Plan("m.plan")
    check(any("waits_for" in c.get("transfer", {}) for c in plan.step) == ("depth" in plan.of), "transfers that wait for another link")
    trace = check_trace(plan)
    check_snapshot(plan)
    if plan.of["layers"] > 1:
        check_dot(plan)
        check_graph_dot()
    if number in (0, 1):
        check_as_run(plan, trace)


def check_too_long():
    """More commands than viewers can take are refused before there is a file."""
    tool.must("graph", "gpt2-tiny", "--layers", 8, "--seq", 2, "--batch", 2048, "-o", "m.fbs")
    tool.must("compile", "m.fbs", "--microbatches", 2048, "-o", "m.plan")
    for form in "trace", "snapshot":
        done = tool("dump", "m.plan", "--format", form, "-o", "long")
        check(done.returncode == USAGE and re.search(r"a step runs \d{6,} commands; viewers get at most 262144", done.stderr) and
              not pathlib.Path("long").exists(), f"{done.returncode}, {done.stderr}")


for number, (graph, options) in enumerate(PLANS):
    check_plan(number, graph, options)
check_too_long()
finish()
