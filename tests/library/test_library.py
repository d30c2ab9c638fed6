# SPDX-License-Identifier: Apache-2.0
"""libremat-compiler through ctypes. Orders of random joint graphs of foreign nodes are replayed: each node reads what is
there, every output is made, the kernels' roofline, added up here, is the step's time (a first rerun is priced as a part
of the kernel that shares most of its loads), and what is live fits the arena.
Solutions of bare problems are replayed, too, and are those of remat-solve. Faults have a message that names the node and what is wrong. The
library exports what exports.map says, and nothing else.

    test_library.py BUILD EXPORTS_MAP"""
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import time as time_of_day
import types

from library import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from harness import check
from solve import planned

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

    def __init__(self, so, seed, pin=None, layers=False):
        self.random, self.graph, self.pin, self.layers = random.Random(seed), Graph(so), pin, layers
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
        scope = self.scope if "phase" not in settings else None
        self.graph.node(op, inputs, [(name, dtype, shape, pin)], scope=scope, **settings)
        self.backward_nodes |= {name} if "phase" in settings else set()
        self.inputs_of[name], self.flops_of[name] = inputs, settings.get("flops", 0)
        self.bytes_of[name] = BYTES[dtype] * math.prod(shape)
        self.made[name] = (op, settings.get("launches", 1))

    def forward(self, k, before):
        self.scope = f"layers.{k // 2}/block" if self.layers else None
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
        trade = so.make("remat_trade_create", so.context, graph.graph.handle, options, None)
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


class Made:
    """An order by these options, its figures, runs and values; destroyed."""

    def __init__(self, so, graph, device, *settings):
        options = so.make("remat_compile_options_create", so.context)
        try:
            for name, value in (("target", device), ("reserve", 0), ("explain", "true"), *settings):
                so.call("remat_compile_options_set", options, name.encode(), str(value).encode())
            order = so.make("remat_order_create", so.context, graph.graph.handle, options)
        finally:
            so.so.remat_compile_options_destroy(c.byref(options))
        self.info = sized(OrderInfo)
        so.so.remat_order_get_info(order, c.byref(self.info))
        self.policy = self.info.policy.decode()
        self.runs = [Run.from_buffer_copy(run) for run in so.list("remat_order_runs", order, Run)]
        self.again = {graph.graph.nodes[run.node] for run in self.runs if run.round}
        self.values = {one.name.decode(): (one.action.decode(), one.recomputable, one.recompute_extra_ns, one.bytes)
                       for one in so.list("remat_order_values", order, OrderValue)}
        so.so.remat_order_destroy(c.byref(order))


POLICIES = [("none", ()), ("uniform 1", (("recompute-granularity", "full"), ("recompute-method", "uniform"))),
            ("block 1", (("recompute-granularity", "full"), ("recompute-method", "block"), ("recompute-num-layers", 1))),
            ("full", (("ac-mode", "full"),)), ("full", (("gradient-checkpointing", "true"),)),
            ("every 2", (("ac-mode", "selective"), ("ac-option", 2)))]


def test_in_place(so, device):
    """A fused kernel writes over what it reads last, unless it reduces rows, which it may then read twice."""
    live = []
    for reduces in (False, True):
        graph = Graph(so)
        graph.input("x", "f32", [128, 128])
        graph.node("foreign_once", ["x"], [("y", "b32", [128, 128])])
        if reduces:
            graph.node("foreign_row_reduce", ["y"], [("r", "b32", [128, 1])])
        graph.node("foreign_pointwise", ["y", "r"] if reduces else ["y"], [("z", "b32", [128, 128])])
        graph.node("foreign_once", ["z"], [("loss", "f32", [1, 1])])
        graph.finish(["loss"])
        info = Made(so, types.SimpleNamespace(graph=graph), device).info
        live.append((info.peak_bytes - info.static_bytes) // (4 * 128 * 128))
        so.so.remat_graph_builder_destroy(c.byref(graph.handle))
    check(live == [1, 2], f"{live} values live at the peak")


def test_policies(so, device):
    """Each is the one of its name and takes what the kernels take; at its bytes the search is not slower, the fastest
    policy between both."""
    for seed in range(12):
        graph = Random(so, seed, layers=True)
        for name, settings in POLICIES:
            made = Made(so, graph, device, *settings)
            check(made.policy == name, f"seed {seed}, {settings}: {made.policy}")
            time, _ = replay(graph, made.runs)
            check(time >= made.info.step_ns and (time == made.info.step_ns or made.again), f"seed {seed}, {name}: {time} ns replayed, {made.info.step_ns} said")
            budget = ("budget", made.info.arena_bytes)
            manual, found = (Made(so, graph, device, budget, ("solver", solver)) for solver in ("manual", "per-op"))
            check(found.info.step_ns <= manual.info.step_ns <= made.info.step_ns, f"seed {seed}, {name}: the search is slower")
        so.so.remat_graph_builder_destroy(c.byref(graph.graph.handle))


def test_ends(so, device):
    """A watch that ends the search once something is found, and a time limit: a valid order, which says that it was cut
    short; before that, and of curves, an error. The watch is told times above the bound."""
    graph, told = Random(so, 3, layers=True), []
    watches = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.POINTER(Progress))
    budget = Made(so, graph, device, ("ac-mode", "full")).info.arena_bytes
    options = so.make("remat_compile_options_create", so.context)
    for name, value in (("target", device), ("reserve", 0), ("budget", budget)):
        so.call("remat_compile_options_set", options, name.encode(), str(value).encode())
    watch = watches(lambda user, now: told.append((now[0].best_ns, now[0].bound_ns)) or now[0].best_ns > 0)
    so.so.remat_compile_options_watch(options, watch, None)
    order = so.make("remat_order_create", so.context, graph.graph.handle, options)
    info = sized(OrderInfo)
    so.so.remat_order_get_info(order, c.byref(info))
    time, _ = replay(graph, so.list("remat_order_runs", order, Run))
    check(info.cut_short and info.arena_bytes <= budget and time >= info.step_ns, f"cut short: {info.cut_short}, {time} ns")
    check(any(best for best, _ in told) and all(best >= bound for best, bound in told if best), f"told {told[-3:]}")
    so.so.remat_order_destroy(c.byref(order))
    watch = watches(lambda user, now: True)
    so.so.remat_compile_options_watch(options, watch, None)
    for make, more in (("remat_order_create", ()), ("remat_trade_create", (None,))):
        fails(f"{make} that is cancelled at once", 7, "", so.make, make, so.context, graph.graph.handle, options, *more)
    so.so.remat_compile_options_watch(options, watches(), None)
    so.call("remat_compile_options_set", options, b"time-limit", b"1ms")  # from then on
    time_of_day.sleep(0.6)
    fails("no time", 7, "", so.make, "remat_order_create", so.context, graph.graph.handle, options)
    so.call("remat_compile_options_set", options, b"time-limit", b"1000s")
    so.so.remat_order_destroy(c.byref(so.make("remat_order_create", so.context, graph.graph.handle, options)))


def test_option_faults(so):
    options = so.make("remat_compile_options_create", so.context)
    graph = Random(so, 1, layers=True).graph.handle
    tool = re.findall(r'^OPTION\(\w+, "([\w-]+)"', (harness.ROOT / "tools/cli/compile.def").read_text(), re.M)
    try:
        so.call("remat_compile_options_set", options, b"budgt", b"1")
    except Failure as failure:
        names = failure.message.partition("accepted: ")[2].strip(")").split(", ")
    own = {"advise", "marks", "cuda"}
    check(set(names) - own == set(tool) - {"output", "curve", "format", "emit-cuda"} and own < set(names),
          f"options of one of both: {sorted(set(names) ^ set(tool))}")
    for name, value, message in (("ac-mode", "ful", ""), ("recompute-granularity", "full", "needs --recompute-method"),
                                 ("recompute-num-layers", "x", "is not"), ("solver", "fast", "accepted: per-op|manual"),
                                 ("gradient-checkpointing", "yes", "accepted: true, false"), ("time-limit", "2 min", "not a time"), ("print-after", "nothing", "accepted: losses, indices"),
                                 ("time-limit", "nan", "not a time"), ("budget", "80G", "ambiguous"), ("ranks", "0", "1 to 65536"), ("microbatches", "many", "or auto"), ("save", "nothing", "matches no scope"),
                                 ("reserve", "-5", "negative"), ("threads", "4096", "1 to 1024"), ("mesh", "", "not empty"), ("ranks", "2", "one division")):
        own = so.make("remat_compile_options_create", so.context)

        def use():
            so.call("remat_compile_options_set", own, name.encode(), value.encode())
            so.make("remat_order_create", so.context, graph, own)
        fails(f"{name} {value}", 2, message, use)
        so.so.remat_compile_options_destroy(c.byref(own))


def test_values(so, device):
    """The values of an order are those that run again, and what is saved; what is neither would run again if needed.
    Pinned so, the order is the same; with one pin the other way it takes longer by what was said."""
    flipped = 0
    for seed in range(8):
        graph = Random(so, seed, layers=True)
        made = Made(so, graph, device, ("budget", Made(so, graph, device, ("ac-mode", "full")).info.arena_bytes))
        again = {name for name, value in made.values.items() if value[0] != "save"}
        check(made.again - set(graph.graph.nodes[-1:]) >= again and all(graph.bytes_of[name] == value[3] for name, value in made.values.items()),
              f"seed {seed}: {made.values}, and {made.again} run again")
        pins = {name: "save" if value[0] == "save" else "recompute" for name, value in made.values.items() if value[1]}
        unneeded = set(graph.graph.nodes) - graph.backward_nodes - set(graph.outputs) - set(made.values)
        pins |= {name: "recompute" for name in unneeded}
        pinned = Made(so, graph, device, *((action, name) for name, action in pins.items()))
        check(pinned.info.step_ns == made.info.step_ns, f"seed {seed}: pinned {pinned.info.step_ns}, {made.info.step_ns}")
        for name, action in pins.items():
            if name in unneeded:
                continue
            other = {**pins, name: "recompute" if action == "save" else "save"}
            changed = Made(so, graph, device, *((action, one) for one, action in other.items())).info.step_ns - made.info.step_ns
            extra = made.values[name][2]
            check(changed == (extra if action == "save" else -extra), f"seed {seed}: {name} {action}: {changed} ns, {extra} said")
            flipped += 1
        so.so.remat_graph_builder_destroy(c.byref(graph.graph.handle))
    check(flipped >= 20, f"only {flipped} values")


def bare_problem(nodes, static_bytes=0):
    array = lambda kind, items: (kind * len(items))(*items)
    each = lambda kind, key, default=0: array(kind, [node.get(key, default) for node in nodes])
    begin, inputs, modes, fused = [0], [], [], []
    for number, node in enumerate(nodes):
        inputs += node["inputs"]
        begin.append(len(inputs))
        for mode in node.get("modes", []):
            end = len(fused) + len(mode.get("fused", []))
            modes.append(Mode(number, len(fused), end, mode.get("workspace", 0), mode["time"]))
            fused += mode.get("fused", [])
    return sized(Problem, node_count=len(nodes), mode_count=len(modes), static_bytes=static_bytes,
                 names=array(c.c_char_p, [node["name"].encode() for node in nodes]), time=each(c.c_double, "time"),
                 bytes=each(c.c_uint64, "bytes"), input_begin=array(c.c_uint32, begin), inputs=array(c.c_uint32, inputs),
                 workspace_bytes=each(c.c_uint64, "workspace"), lasting_bytes=each(c.c_uint64, "lasting"),
                 once=each(c.c_bool, "once", False), alias=each(c.c_uint32, "alias", (1 << 32) - 1),
                 modes=array(Mode, modes), fused=array(c.c_uint32, fused))


def random_problem(seed):
    """A chain with a backward pass; some nodes have a second mode, a view, a workspace, or may not run again."""
    rng, count = random.Random(seed), 12
    nodes = []
    for k in range(2 * count):
        inputs = [2 * count - 1 - k, k - 1] if k >= count else [k - 1] if k else []
        node = {"name": f"n{k}", "time": rng.randint(1, 9), "bytes": rng.randint(1, 40), "inputs": sorted(set(inputs))}
        kind = rng.random()
        if kind < 0.1 and inputs:
            node |= {"bytes": 0, "time": 0, "alias": k - 1}
        elif kind < 0.3:
            node |= {"workspace": rng.randint(1, 9), "lasting": rng.randint(0, 3)}
        elif kind < 0.4:
            node["once"] = True
        nodes.append(node)
    storages = {node.get("alias") for node in nodes}
    for k in range(count, 2 * count):
        inner = 2 * count - 1 - k
        if inner not in storages and not nodes[inner].get("once") and "alias" not in nodes[inner]:
            nodes[k]["modes"] = [{"time": nodes[k]["time"] + nodes[inner]["time"] // 2, "workspace": 2, "fused": [inner]}]
    return nodes


def solution(so, solved, nodes):
    info = sized(SolvedInfo)
    so.so.remat_solved_get_info(solved, c.byref(info))
    runs = [int(run) for run in so.list("remat_solved_runs", solved, c.c_uint32)]
    of_mode = [(k, m + 1) for k, node in enumerate(nodes) for m in range(len(node.get("modes", [])))]
    pairs = [(run, 0) if run < len(nodes) else of_mode[run - len(nodes)] for run in runs]
    so.so.remat_solved_destroy(c.byref(solved))
    return info, [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def check_solution(what, found, nodes, budget, static_bytes):
    info, sequence, modes = found
    time, peak = planned.simulate(nodes, sequence, modes, static_bytes)
    check(peak == info.peak_bytes and time == info.time, f"{what}: replayed {time} in {peak} B, not {info.time} in {info.peak_bytes}")
    check(info.fits == (peak <= budget), f"{what}: fits {info.fits}")
    check(not info.fits or info.lower_bound <= time, f"{what}: the bound {info.lower_bound} is above {time}")
    check(info.floor_bytes <= peak, f"{what}: the floor {info.floor_bytes} is above the peak {peak}")


def test_problems(so, tools, folder):
    modes_used = 0
    for seed in range(12):
        nodes, static_bytes = random_problem(seed), seed % 3
        problem = bare_problem(nodes, static_bytes)
        told = []
        progress = PROGRESS(lambda user, budget, best: told.append((budget, best.contents.lower_bound)))
        settings = sized(SolveSettings, effort=0.05, progress=progress)
        solver = so.make("remat_problem_solver_create", so.context, c.byref(problem), c.byref(settings))
        info = sized(SolverInfo)
        so.so.remat_problem_solver_get_info(solver, c.byref(info))
        time, peak = planned.simulate(nodes, range(len(nodes)), None, static_bytes)
        check((info.given_time, info.given_peak_bytes) == (time, peak), f"seed {seed}: the given order")
        budgets = [peak - (peak - info.floor_bytes) * k // 4 for k in range(5)] + [info.floor_bytes - 1]
        out = (c.c_void_p * len(budgets))()
        so.call("remat_problem_solver_solve", solver, so.context, c.byref(settings), (c.c_uint64 * len(budgets))(*budgets), len(budgets), out)
        found = [solution(so, c.c_void_p(solved), nodes) for solved in out]
        for budget, one in zip(budgets, found):
            check_solution(f"seed {seed}, budget {budget}", one, nodes, budget, static_bytes)
            modes_used += any(one[2])
        fast = [one[0].time for one in found if one[0].fits]
        check(fast == sorted(fast) and fast[0] == time and not found[-1][0].fits, f"seed {seed}: {fast}")
        check({budget for budget, _ in told} == set(range(len(budgets))), f"seed {seed}: told of {told}")
        fails("budgets that ascend", 4, "budget 1 is larger than the one before", so.call, "remat_problem_solver_solve", solver,
              so.context, c.byref(settings), (c.c_uint64 * 2)(1, 2), 2, out)
        so.so.remat_problem_solver_destroy(c.byref(solver))
        if seed < 3:
            test_tool(so, tools, folder, nodes, static_bytes, budgets[2])
    check(modes_used >= 10, f"only {modes_used} solutions use a mode")


def test_tool(so, tools, folder, nodes, static_bytes, budget):
    """The tool prints what the library finds; a caller built before `seconds` was there gets the same."""
    harness.write_json(folder / "p.json", {"schema": "remat-problem/1", "nodes": nodes, "static_bytes": static_bytes})
    expected = json.loads(harness.must(tools("solve", folder / "p.json", "--budget", f"{budget}B"), code=(0, 3)).stdout)
    old = SolveSettings(struct_size=SolveSettings.seconds.offset, budget_bytes=budget, effort=1.0, seconds=1e-9)
    solved = so.make("remat_solved_create", so.context, c.byref(bare_problem(nodes, static_bytes)), c.byref(old))
    info, sequence, modes = solution(so, solved, nodes)
    check(info.fits == expected["feasible"], f"budget {budget}: fits {info.fits}")
    check(not info.fits or sequence == expected["sequence"] and modes == expected.get("modes", modes),
          f"budget {budget}: {sequence} and not {expected}")


def test_cancelled(so):
    """Half way through its questions a search is ended: the best so far is valid, and it says so."""
    nodes = random_problem(1) + [{"name": f"x{k}", "time": 1, "bytes": 5, "inputs": [k % 24, 23]} for k in range(200)]
    peak = planned.simulate(nodes, range(len(nodes)))[1]
    asked = []
    for limit in (0, 20):
        settings = sized(SolveSettings, budget_bytes=peak * 9 // 10, effort=1e3,
                         is_cancelled=IS_CANCELLED(lambda user: asked.append(0) or len(asked) > limit))
        solved = so.make("remat_solved_create", so.context, c.byref(bare_problem(nodes)), c.byref(settings))
        found = solution(so, solved, nodes)
        check(found[0].cancelled, f"cancelled at question {limit}, and it does not say so")
        check_solution(f"cancelled at question {limit}", found, nodes, peak * 9 // 10, 0)
        asked.clear()


def test_hostile_problems(so):
    nodes = random_problem(2)
    settings = c.byref(sized(SolveSettings, budget_bytes=100, effort=0.01))
    array = lambda *items: (c.c_uint32 * len(items))(*items)
    for what, message, change in (
            ("no times", 'no array "time"', {"time": None}), ("no bytes", 'no array "bytes"', {"bytes": None}),
            ("no inputs", 'no array "inputs"', {"inputs": None}), ("no begin", 'no array "input_begin"', {"input_begin": None}),
            ("no nodes", "no nodes", {"node_count": 0, "mode_count": 0}),
            ("a begin that falls", "node 1: input_begin does not ascend", {"input_begin": array(0, 4000000000, 3, *[3] * 22)}),
            ("a begin that is not 0", "node 0: input_begin does not ascend", {"input_begin": array(*[1] * 25)}),
            ("too many inputs", "are more than", {"input_begin": array(*[0] * 24, 1 << 31)}),
            ("an input that comes later", r'node 1 \("n1"\): input 7 is not an earlier node', {"inputs": array(*[7] * 60)}),
            ("a mode of no node", "mode 0 is of no node or list",
             {"modes": (Mode * 1)(Mode(99, 0, 0, 0, 1.0)), "mode_count": 1}),
            ("a mode of no list", "mode 0 is of no node or list",
             {"modes": (Mode * 1)(Mode(1, 5, 2, 0, 1.0)), "mode_count": 1}),
            ("an alias that comes later", "alias 9 is not an earlier node", {"alias": array(*[9] * 24)}),
            ("too many bytes", r"bytes add up to more than 2\^60", {"static_bytes": (1 << 64) - 1})):
        problem = bare_problem(nodes)
        for name, value in change.items():
            setattr(problem, name, value)
        fails(what, 4, message, so.make, "remat_solved_create", so.context, c.byref(problem), settings)


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
    fails("an input", 4, 'node "y": input 0 is a value of another graph', graph.node, "foreign_pointwise", ["z"], [("y", "f32", [4, 8])])
    fails("a phase", 4, 'node "y": unknown phase "later"',
          lambda: graph.node("foreign_pointwise", ["x"], [("y", "f32", [4, 8])], phase="later"))
    fails("a dtype", 4, 'value "y": its dtype is unknown', graph.node, "foreign_pointwise", ["x"], [("y", "f33", [4, 8])])
    fails("seven axes", 4, 'value "y": it has too many axes', graph.node, "foreign_opaque", ["x"],
          [("y", "f32", [1, 1, 1, 1, 1, 1, 1])])
    options = so.make("remat_compile_options_create", so.context)
    fails("an option", 2, "no option is named 'budgt'", so.call, "remat_compile_options_set", options, b"budgt", b"1")
    fails("a budget", 2, "budget '1G' is ambiguous", so.call, "remat_compile_options_set", options, b"budget", b"1G")
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
    unneeded = Graph(so)
    unneeded.input("x", "f32", [4, 8])
    for name, phase in (("y", "forward"), ("d", "backward"), ("e", "backward")):
        unneeded.node("foreign_pointwise", ["x"], [(name, "f32", [4, 8])], phase=phase)
    unneeded.finish(["y", "d"])
    fails("a node that nothing needs", 4, 'node "e": it leads to no output, so nothing needs it', so.make,
          "remat_order_create", so.context, unneeded.handle, options)
    early = Graph(so)
    early.input("x", "f32", [4, 8])
    for name, read, phase in (("y", "x", "forward"), ("d", "y", "backward"), ("e", "d", "forward")):
        early.node("foreign_pointwise", [read], [(name, "f32", [4, 8])], phase=phase)
    fails("a forward node after the backward pass", 4, r'node "e" .foreign_pointwise.: it is of the forward pass, and input 0 .*"d". is not',
          early.finish, ["y", "d", "e"])
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
        test_in_place(so, folder / "flat.json")
        test_policies(so, folder / "flat.json")
        test_values(so, folder / "flat.json")
        test_ends(so, folder / "flat.json")
        test_problems(so, harness.Tools(build), folder)
    test_cancelled(so)
    test_hostile_problems(so)
    test_faults(so)
    test_option_faults(so)
    test_exports(path, exports)
    version = so.so.remat_compiler_version().decode()
    check(re.fullmatch(r"\d+\.\d+\.\d+-[0-9a-f]{16}", version), "version")
    check(f'"{version}"' in (harness.ROOT / "tools/python/remat/_library.py").read_text(), "tools/python is written for other headers")
    harness.finish()


main()
