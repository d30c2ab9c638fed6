# SPDX-License-Identifier: Apache-2.0
"""libremat-compiler through ctypes. Orders of random joint graphs of foreign nodes are replayed: each node reads what is
there, every output is made, the kernels' roofline, added up here, is the step's time (a first rerun is priced as a part
of the kernel that shares most of its loads), and what is live fits the arena.
Solutions of bare problems are those of remat-solve. Faults have a message that names the node and what is wrong. The
library exports what exports.map says, and nothing else.

    test_library.py BUILD EXPORTS_MAP"""
import json
import math
import pathlib
import random
import re
import subprocess
import sys

from library import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from harness import check

LAUNCH_NS, BYTES_PER_NS, FLOPS_PER_NS = 1000, 1000, 100000
DEVICE = {"name": "flat", "source": "made up: prices are easy to add up", "capacity_bytes": 1 << 40, "reserve_bytes": 0,
          "launch_ns": LAUNCH_NS, "memory": {"peak_bytes_per_s": BYTES_PER_NS * 1e9, "efficiency": 1.0},
          "pointwise": {"peak_flops_per_s": 1e18, "efficiency": 1.0},
          "matmul": {**{f"{kind}_flops_per_s": FLOPS_PER_NS * 1e9 for kind in ("fp32", "tf32", "bf16", "fp16")},
                     "efficiency": 1.0, "processors": 100, "tile_rows": 1, "tile_columns": 1},
          "attention": {"forward_efficiency": 1.0, "forward_half_keys": 0, "backward_efficiency": 1.0,
                        "backward_half_keys": 0, "half_width": 0}}
BYTES = {"f32": 4, "bf16": 2, "b8": 1, "b64": 8}


class Random:
    """A joint graph: a chain of random nodes, then a backward pass over it, in reverse."""

    def __init__(self, so, seed, pin=None):
        self.random, self.graph, self.pin = random.Random(seed), Graph(so), pin
        self.made, self.inputs_of, self.flops_of, self.bytes_of, self.backward_nodes = {}, {}, {}, {}, set()
        self.rows, self.columns = self.random.choice([(4096, 64), (512, 1024)])
        self.given("x", "f32", [self.rows, self.columns])
        forward, outputs = ["x"], []
        for k in range(self.random.randint(3, 8)):
            forward.append(self.forward(k, forward))
        self.node("foreign_once", [], "tangent", "f32", self.whole(), phase="backward", launches=0)
        gradient = "tangent"
        for k, name in reversed(list(enumerate(forward))):
            reads = [gradient] + self.random.sample(forward[:k + 1], self.random.randint(1, min(2, k + 1)))
            gradient = self.backward(k, reads)
            if self.random.random() < 0.4:
                self.node("foreign_reduce", [gradient], f"sum.{k}", "f32", [1, self.columns], phase="backward", axes=[0])
                outputs.append(f"sum.{k}")
        self.outputs = [forward[-1], *outputs, gradient]
        self.graph.finish(self.outputs)

    def whole(self):
        return [self.rows, self.columns]

    def given(self, name, dtype, shape):
        self.graph.input(name, dtype, shape)
        self.bytes_of[name] = BYTES[dtype] * math.prod(shape)

    def node(self, op, inputs, name, dtype, shape, **settings):
        pin = None if "phase" in settings else self.pin
        self.graph.node(op, inputs, [(name, dtype, shape, pin)], **settings)
        self.backward_nodes |= {name} if "phase" in settings else set()
        self.inputs_of[name], self.flops_of[name] = inputs, settings.get("flops", 0)
        self.bytes_of[name] = BYTES[dtype] * math.prod(shape)
        self.made[name] = (op, settings.get("launches", 1))

    def forward(self, k, before):
        kind, name = self.random.random(), f"v.{k}"
        reads = self.random.sample(before, min(len(before), self.random.choice([1, 1, 2, 3])))
        dtype = self.random.choice(["f32", "bf16", "b8", "b64"])
        if kind < 0.3:
            self.given(f"w.{k}", "bf16", [self.columns, self.columns])
            self.node("foreign_opaque", [before[-1], f"w.{k}"], name, dtype, self.whole(),
                      flops=2.0 * self.rows * self.columns**2)
        elif kind < 0.5:
            self.node("foreign_row_reduce", [before[-1]], f"row.{k}", "f32", [self.rows, 1])
            self.node("foreign_pointwise", [before[-1], f"row.{k}"], name, dtype, self.whole())
        else:
            self.node("foreign_pointwise", sorted(set(reads + [before[-1]])), name, dtype, self.whole())
        return name

    def backward(self, k, reads):
        name = f"d.{k}"
        if self.random.random() < 0.3:
            self.node("foreign_opaque", reads, name, "f32", self.whole(), phase="backward",
                      flops=2.0 * self.rows * self.columns**2)
        else:
            self.node("foreign_pointwise", reads, name, "f32", self.whole(), phase="backward")
        return name


def loads(graph, inside):
    return {read for name in inside for read in graph.inputs_of[name]} - set(inside)


def hosts(graph, runs):
    """By node of a fused forward kernel: what its rerun's host loads. From the order in which everything is saved."""
    kernels, out = [], {}
    for run in runs:
        kernels += [[]] * (run.kernel + 1 - len(kernels))
        kernels[run.kernel] = kernels[run.kernel] + [graph.graph.nodes[run.node]]
    fused = [not any(graph.made[name][0] in ("foreign_opaque", "foreign_once") for name in inside) for inside in kernels]
    late = [bool(graph.backward_nodes & set(inside)) for inside in kernels]
    for k, inside in enumerate(kernels):
        reads = [late[r] and bool(loads(graph, kernels[r]) & set(inside)) for r in range(len(kernels))]
        if late[k] or not fused[k] or True not in reads:
            continue
        needed, best = set(inside), 0  # what the rerun makes, and all that is made of it
        for h in range(reads.index(True), len(kernels)):
            shared = sum(graph.bytes_of[name] for name in loads(graph, kernels[h]) & loads(graph, inside))
            waits = bool(loads(graph, kernels[h]) & needed - set(inside))
            if late[h] and fused[h] and not waits and shared > best:
                best = shared
                out.update((name, loads(graph, kernels[h])) for name in inside)
            if waits or reads[h]:
                needed |= set(kernels[h])
    return out


def replay(graph, runs, hosted=None):
    """Time of the runs and the most bytes live, inputs apart; notes what is not as it should be."""
    names, here, kernels = graph.graph.nodes, {}, {}
    for at, run in enumerate(runs):
        kernels.setdefault(run.kernel, []).append((names[run.node], run, at))
    check(sorted(kernels) == list(range(len(kernels))), "kernels are not numbered in order")
    copies, made = [], {}  # of stored values: [name, first kernel, last kernel]
    time = 0
    for number in sorted(kernels):
        inside, reads, flops, launches = set(), {}, 0, 1
        for name, run, _ in kernels[number]:
            for read in graph.inputs_of[name]:
                if read in inside:
                    continue
                reads[read] = graph.bytes_of[read]
                if read in graph.inputs_of:
                    check(read in made, f"{name} reads {read}, which is not in memory")
                    if read in made:
                        made[read][2] = number
            inside.add(name)
            flops += graph.flops_of[name]
            launches = graph.made[name][1] if graph.made[name][0].endswith("once") else launches
        for name, run, _ in kernels[number]:
            if run.stored:
                made[name] = [name, number, number]
                copies.append(made[name])
        stored = [name for name, run, _ in kernels[number] if run.stored]
        first_again = {run.round for _, run, _ in kernels[number]} == {1}
        shared = set(reads) & (hosted or {}).get(stored[0], set()) if first_again and stored else set()
        moved = sum(graph.bytes_of[name] for name in [*(set(reads) - shared), *stored])
        if shared:
            replay.hosted += 1
            time += math.ceil(max(flops / FLOPS_PER_NS, moved / BYTES_PER_NS) - 1e-6)
        elif launches:
            time += math.ceil(LAUNCH_NS + max(flops / FLOPS_PER_NS, moved / BYTES_PER_NS) - 1e-6)
    for name in graph.outputs:
        check(name in made, f"output {name} is not made")
    live = [sum(-(-graph.bytes_of[name] // 256) * 256 for name, begin, end in copies
                if name not in graph.outputs and begin <= k <= end) for k in range(len(kernels))]
    return time, max(live)


replay.hosted = 0  # reruns so priced


def saved_order(so, seed, options):
    graph = Random(so, seed, "save")
    order = so.make("remat_order_create", so.context, graph.graph.handle, options)
    found = hosts(graph, so.list("remat_order_runs", order, Run))
    so.so.remat_order_destroy(c.byref(order))
    so.so.remat_graph_builder_destroy(c.byref(graph.graph.handle))
    return found


def test_orders(so, device):
    seen = again = 0
    for seed in range(75):
        graph = Random(so, seed)
        options = so.make("remat_compile_options_create", so.context)
        for name, value in (("target", device), ("reserve", "0")):
            so.call("remat_compile_options_set", options, name.encode(), str(value).encode())
        hosted = saved_order(so, seed, options)
        trade = so.make("remat_trade_create", so.context, graph.graph.handle, options)
        points = so.list("remat_trade_points", trade, Point)
        for point in {points[0].peak_bytes: points[0], points[-1].peak_bytes: points[-1],
                      points[len(points) // 2].peak_bytes: points[len(points) // 2]}.values():
            so.call("remat_compile_options_set", options, b"budget", str(point.peak_bytes + (1 << 12)).encode())
            order = so.make("remat_order_create", so.context, graph.graph.handle, options)
            info = sized(OrderInfo)
            so.so.remat_order_get_info(order, c.byref(info))
            runs = so.list("remat_order_runs", order, Run)
            time, live = replay(graph, runs, hosted)
            what = f"seed {seed}, budget {point.peak_bytes}"
            check(time == info.step_ns, f"{what}: {time} ns replayed, {info.step_ns} said")
            check(info.bound_step_ns <= info.step_ns, f"{what}: bound {info.bound_step_ns} above {info.step_ns}")
            check(info.arena_bytes <= point.peak_bytes + (1 << 12), f"{what}: above the budget")
            # A kernel may write over an operand that it reads last; here both count.
            check(info.peak_bytes - info.static_bytes <= live, f"{what}: {live} B replayed, {info.peak_bytes} said")
            seen += 1
            again += any(run.round for run in runs)
            so.so.remat_order_destroy(c.byref(order))
        so.so.remat_trade_destroy(c.byref(trade))
        so.so.remat_compile_options_destroy(c.byref(options))
        so.so.remat_graph_builder_destroy(c.byref(graph.graph.handle))
    check(seen >= 110 and again >= 70 and replay.hosted >= 10,
          f"{seen} orders, {again} of them run a node again, {replay.hosted} reruns with a host")


def test_problems(so, tools, folder):
    """A chain with a backward pass, at budgets from all to too few bytes."""
    count = 12
    nodes = [{"name": f"n{k}", "time": 1 + k % 3, "bytes": 8 + k, "inputs": [k - 1] if k else []} for k in range(count)]
    for k in range(count):
        nodes.append({"name": f"g{k}", "time": 2, "bytes": 9, "inputs": [count - 1 - k, count + k - 1]})
    harness.write_json(folder / "p.json", {"schema": "remat-problem/1", "nodes": nodes})
    begin, inputs = [0], []
    for node in nodes:
        inputs += sorted(set(node["inputs"]))
        begin.append(len(inputs))
    array = lambda kind, items: (kind * len(items))(*items)
    problem = sized(Problem, node_count=len(nodes), time=array(c.c_double, [n["time"] for n in nodes]),
                    bytes=array(c.c_uint64, [n["bytes"] for n in nodes]), input_begin=array(c.c_uint32, begin),
                    inputs=array(c.c_uint32, inputs))
    for budget in (400, 120, 80, 60, 10):
        said = harness.must(tools("solve", folder / "p.json", "--budget", f"{budget}B"), code=(0, 3))
        expected = json.loads(said.stdout)
        solved = so.make("remat_solved_create", so.context, c.byref(problem),
                         c.byref(sized(SolveSettings, budget_bytes=budget, effort=1.0)))
        info = sized(SolvedInfo)
        so.so.remat_solved_get_info(solved, c.byref(info))
        runs = [int(run) for run in so.list("remat_solved_runs", solved, c.c_uint32)]
        check(info.fits == expected["feasible"], f"budget {budget}: fits {info.fits}")
        if info.fits:
            check(runs == expected["sequence"] and info.peak_bytes == expected["peak"] and info.time == expected["time"],
                  f"budget {budget}: {runs} and not {expected['sequence']}")
        so.so.remat_solved_destroy(c.byref(solved))


def fails(what, status, message, *call):
    try:
        call[0](*call[1:])
        check(False, f"{what}: not refused")
    except Failure as failure:
        check(failure.status == status and re.search(message, failure.message), f"{what}: {failure}")


def test_faults(so):
    graph = Graph(so)
    graph.input("x", "f32", [4, 8])
    fails("an op", 4, 'node "y": unknown op "foreign_pointwse"', graph.node, "foreign_pointwse", ["x"], [("y", "f32", [4, 8])])
    fails("an input", 4, 'node "y": input 0 is no value so far', graph.node, "foreign_pointwise", ["z"], [("y", "f32", [4, 8])])
    fails("a phase", 4, 'node "y": unknown phase "later"',
          lambda: graph.node("foreign_pointwise", ["x"], [("y", "f32", [4, 8])], phase="later"))
    fails("a dtype", 4, 'value "y": its dtype is unknown', graph.node, "foreign_pointwise", ["x"], [("y", "f33", [4, 8])])
    fails("seven axes", 4, 'value "y": it has too many axes', graph.node, "foreign_opaque", ["x"],
          [("y", "f32", [1, 1, 1, 1, 1, 1, 1])])
    options = so.make("remat_compile_options_create", so.context)
    fails("an option", 2, "no option is named 'budgt'", so.call, "remat_compile_options_set", options, b"budgt", b"1")
    fails("a budget", 2, "budget '1GB' is no whole number", so.call, "remat_compile_options_set", options, b"budget", b"1GB")
    fails("an unfinished graph", 2, 'graph "step" is not finished', so.make, "remat_order_create", so.context, graph.handle, options)
    graph.node("foreign_pointwise", ["x"], [("y", "f32", [2, 8])])
    fails("a shape", 4, r'node "y" \(foreign_pointwise\): input 0 has shape \[4, 8\], which does not broadcast to \[2, 8\]',
          graph.finish, ["y"])
    for attributes, message in (({"flop": 1}, 'node "y" .foreign_opaque.: unknown attribute "flop"'),
                                ({"flops": math.nan}, 'attribute "flops" is not finite'),
                                ({"launches": -1}, 'attribute "launches" is -1, expected 0 to 1000000000'),
                                ({"flops": [1, 2]}, 'attribute "flops" must be a number')):
        graph = Graph(so)
        graph.input("x", "f32", [4, 8])
        graph.node("foreign_opaque", ["x"], [("y", "f32", [4, 8])], **attributes)
        fails("an attribute", 4, message, graph.finish, ["y"])
    for attributes, message in (({"strides": [8, 1], "offset": 1}, "beyond its storage of 32 elements"),
                                ({"strides": [8]}, "1 strides of shape"), ({"strides": [-8, 1]}, "beyond its storage")):
        graph = Graph(so)
        graph.input("x", "f32", [4, 8])
        graph.node("foreign_view", ["x"], [("y", "f32", [4, 8])], **attributes)
        fails("a view", 4, message, graph.finish, ["y"])
    graph = Graph(so)
    graph.input("x", "f32", [4, 8])
    graph.node("foreign_pointwise", ["x"], [("y", "f32", [4, 8])])
    graph.node("gelu", ["y"], [("z", "f32", [4, 8])])
    fails("a composite op", 4, r'node "z" .gelu.: a composite op, an update or a transfer in a graph with foreign nodes',
          graph.finish, ["z"])
    graph = Graph(so)
    graph.input("x", "f32", [4, 8])
    graph.node("foreign_pointwise", ["x"], [("y", "f32", [4, 8])])
    graph.finish(["y"])
    fails("a node too late", 2, "is finished and takes nothing more", graph.node, "foreign_pointwise", ["x"], [("z", "f32", [4, 8])])
    late = Graph(so)
    late.input("x", "f32", [4, 8])
    for name, phase in (("y", "forward"), ("z", "forward"), ("d", "backward")):
        late.node("foreign_pointwise", ["y" if name == "d" else "x"], [(name, "f32", [4, 8])], phase=phase)
    late.finish(["z", "d"])
    fails("a forward node that the backward pass alone reads", 4, 'node "y": it leads to no output of the forward pass', so.make,
          "remat_order_create", so.context, late.handle, options)
    so.call("remat_compile_options_set", options, b"target", b"h99")
    fails("a target", 2, "h99", so.make, "remat_order_create", so.context, graph.handle, options)
    so.call("remat_compile_options_set", options, b"target", b"cpu")
    so.call("remat_compile_options_set", options, b"budget", b"100")
    fails("a budget that is too small", 3, "budget 100 B is too small", so.make, "remat_order_create", so.context, graph.handle, options)


def test_exports(path, exports):
    listed = set(re.findall(r"^    (remat_\w+);", exports.read_text(), re.M))
    said = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    found = {line.split()[-1].split("@")[0] for line in said.splitlines()}
    check(found == listed, f"exported and not listed, or the reverse: {sorted(found ^ listed)}")


def main():
    build, exports = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    path = build / "compiler/library/libremat-compiler.so"
    so = Library(str(path))
    with harness.scratch() as folder:
        folder = pathlib.Path(folder)
        harness.write_json(folder / "flat.json", DEVICE)
        test_orders(so, folder / "flat.json")
        test_problems(so, harness.Tools(build), folder)
    test_faults(so)
    test_exports(path, exports)
    version = so.so.remat_compiler_version().decode()
    check(re.fullmatch(r"\d+\.\d+\.\d+-[0-9a-f]{16}", version), "version")
    check(f'"{version}"' in (harness.ROOT / "tools/python/remat/_library.py").read_text(), "tools/python is written for other headers")
    harness.finish()


main()
