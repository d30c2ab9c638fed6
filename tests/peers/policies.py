# SPDX-License-Identifier: Apache-2.0
"""What remat-dump --emit-policy writes. PyTorch runs the layers of a model under it: operators that run in
the backward pass are counted, and are those that the file says are recomputed; gradients are those without
checkpoints, bit for bit. The peak and time in the file are those of the plan whose values are pinned by the
table below. JAX is not run: its file is Python, and names values of the graph.

    policies.py BUILD_DIRECTORY"""
import ast
import os
import re
import sys
import tempfile
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness
from compare_gradients import torch, torch_families, torch_gpt2
from torch.utils._python_dispatch import TorchDispatchMode

BATCH, SEQ, HEADS = 2, 64, 4
# By family: the value of each place that PyTorch can be told of. A linear has none of its own where its
# kernel goes on; the product is then saved. Of attention that ranks divide, each sequence has its part of the sums.
VALUES = {
    "gpt2": {("linear", 0): ["attn.qkv"], ("linear", 1): ["attn.proj.matmul_1"], ("linear", 2): ["mlp.fc"],
             ("attention", 0): ["attn.core", "attn.core*.1"], ("gelu", 0): ["mlp.act"],
             ("layer_norm", 0): ["ln_1", "ln_1.1", "ln_1.2"], ("layer_norm", 1): ["ln_2", "ln_2.1", "ln_2.2"]},
    "llama": {("linear", 0): ["attn.q_proj.matmul_1"], ("linear", 1): ["attn.k_proj.matmul_1"],
              ("linear", 2): ["attn.v_proj.matmul_1"], ("linear", 3): ["attn.proj.matmul_1"],
              ("linear", 4): ["mlp.gate.matmul_1"], ("linear", 5): ["mlp.up.matmul_1"],
              ("attention", 0): ["attn.core", "attn.core*.1"],
              ("rms_norm", 0): ["norm_1", "norm_1.1"], ("rms_norm", 1): ["norm_2", "norm_2.1"]},
    "bert": {("linear", 0): ["attn.query"], ("linear", 1): ["attn.key"], ("linear", 2): ["attn.value"],
             ("linear", 3): ["attn.proj.matmul_1"], ("linear", 4): ["mlp.fc"], ("linear", 5): ["mlp.proj.matmul_1"],
             ("attention", 0): ["attn.core", "attn.core*.1"], ("gelu", 0): ["mlp.act"],
             ("layer_norm", 0): ["ln_1", "ln_1.1", "ln_1.2"], ("layer_norm", 1): ["ln_2.1", "ln_2.2"]},
}
PATHS = {"gpt2": "h.", "llama": "model.layers.", "bert": "bert.encoder.layer."}
OUTPUTS = {"gpt2": "mlp.residual", "llama": "mlp.residual", "bert": "ln_2"}


class Tools(harness.Tools):
    def __init__(self, build, work):
        super().__init__(build, cwd=work)
        self.work, self.mesh, self.views = work, [], {}

    def compile(self, *options):
        self.views = {}
        return self.json("compile", "model.fbs", "-o", "model.plan", "--format", "json", *self.mesh, *options)

    def view(self, name):
        """Of the last plan."""
        if name not in self.views:
            self.views[name] = self.json("dump", "model.plan", f"--{name}", "--format", "json")[name]
        return self.views[name]


class Layers:
    """A model, layer by layer; weights do not matter. Dropout is that of GPT-2's residual branches alone: with it
    attention would be other operators on the CPU."""

    def __init__(self, family, dropout=0.0):
        config = torch_gpt2.Config(1, 64, HEADS, 256, SEQ)
        gpt2 = torch_gpt2.Gpt2(config, torch_gpt2.random_weights(config))
        generator = torch.Generator().manual_seed(0)
        norms = {f"{part}.LayerNorm.{kind}": (64,) for part in ("output", "attention.output")
                 for kind in ("weight", "bias")}
        linears = {f"{part}.{kind}": (out, size) if kind == "weight" else (out,) for part, out, size in (
            ("attention.self.query", 64, 64), ("attention.self.key", 64, 64), ("attention.self.value", 64, 64),
            ("attention.output.dense", 64, 64), ("intermediate.dense", 256, 64), ("output.dense", 64, 256))
            for kind in ("weight", "bias")}
        bert = torch_families.Bert({f"l.{name}": torch.randn(size, generator=generator) / 8
                                    for name, size in {**norms, **linears}.items()}, HEADS)
        sizes = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64),
                 "self_attn.o_proj": (64, 64), "mlp.gate_proj": (176, 64), "mlp.up_proj": (176, 64),
                 "mlp.down_proj": (64, 176), "input_layernorm": (64,), "post_attention_layernorm": (64,)}
        llama = torch_families.Llama({f"l.{name}.weight": torch.randn(size, generator=generator) / 8
                                      for name, size in sizes.items()}, HEADS)

        def gpt2_layer(x):
            x = x + drop(gpt2.attention(gpt2.norm(x, "h.0.ln_1"), "h.0.attn"))
            return x + drop(gpt2.mlp(gpt2.norm(x, "h.0.ln_2"), "h.0.mlp"))

        def drop(x):
            return torch.nn.functional.dropout(x, dropout) if dropout else x

        model = {"gpt2": gpt2, "llama": llama, "bert": bert}[family]
        self.params = model.params
        self.call = gpt2_layer if family == "gpt2" else lambda x: model.layer(x, "l")


class Count(TorchDispatchMode):
    """Operators that run inside a layer, by op."""

    def __init__(self, op_of):
        super().__init__()
        self.op_of, self.inside, self.counts = op_of, False, Counter()

    def around(self, layer):
        def call(x):
            self.inside = True
            try:
                return layer(x)
            finally:  # a replay ends with an exception
                self.inside = False
        return call

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[self.op_of.get(func)] += self.inside
        return func(*args, **(kwargs or {}))


def load(source):
    module = {}
    exec(compile(source, "policy.py", "exec"), module)
    return module


def gradients(layers, run):
    x = torch.randn(BATCH, SEQ, 64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    for param in layers.params.values():
        param.grad = None
    torch.manual_seed(2)
    yield
    y = run(x)
    yield
    y.square().sum().backward()
    yield [x.grad] + [p.grad for p in layers.params.values() if p.grad is not None]


def check_layer(policy, layers, number):
    """What runs again; the plain gradients are the same."""
    count = Count(policy["OP_OF"])
    layer = count.around(layers.call)
    steps = gradients(layers, lambda x: policy["run"](layer, number, x))
    next(steps)
    with count:
        next(steps)
        forward, count.counts = count.counts, Counter()
        found = next(steps)
    *_, plain = gradients(layers, layers.call)
    assert len(plain) == len(found) > 5 and all(map(torch.equal, plain, found)), "other gradients"
    again = count.counts
    saved, recomputed = policy["LAYERS"][policy["STACK"], number]
    if saved is None:
        assert sum(again.values()) == 0, again
        return Counter()
    ops = (saved.keys() | recomputed.keys()) & forward.keys()  # an op written out in others is not said
    assert {op: again[op] for op in ops if again[op]} == {op: n for op, n in recomputed.items() if op in ops}, (
        number, again, recomputed)
    assert all(forward[op] >= len(saved.get(op, ())) + recomputed.get(op, 0) for op in ops), (forward, saved)
    assert {"linear", "attention"} <= ops, ops
    return Counter({op: again[op] for op in ops})


def planned_products(schedule, decisions, family, number):
    """By place, whether the file has to save it. Linears and matmuls are saved unless the plan runs them again,
    attention if all its values are. Only the layer's output may come from the last product: then it is not needed."""
    commands = [c for c in schedule if c["layer"] == number and c["segment"] == "step"]
    decisions = [d for d in decisions if d["layer"] == number]
    again = {c["name"] for c in commands if c["instance"] > 0}
    products = [c for c in commands if c["kind"] == "matmul" and c["phase"] == "forward" and c["instance"] == 0]
    output = f"{PATHS[family]}{number}.{OUTPUTS[family]}"
    needed = any(d["saved_commands"][0] >= products[-1]["index"] and d["name"] != output for d in decisions)
    places, counts = {}, Counter()
    for c in products:
        op = "matmul" if c["scope"].endswith("/attn/core") else "linear"
        places[op, counts[op]] = c["name"] not in again and (c is not products[-1] or needed)
        counts[op] += 1
    attention = [d["action"] == "save" for d in decisions if d["op"] == "attention"]
    if attention:
        places["attention", 0] = all(attention)
    return places, again & {c["name"] for c in products}


def check_products(tools, family, policy):
    """Against the commands and decisions of the plan; returns what was found: ops, and whether they are saved."""
    seen, schedule, decisions = set(), tools.view("schedule"), tools.view("decisions")
    for (_, number), (saved, _) in policy["LAYERS"].items():
        places, again = planned_products(schedule, decisions, family, number)
        if saved is None:
            assert not again and places.get(("attention", 0), True), (number, places, again)
            continue
        found = {place: place[1] in saved.get(place[0], ()) for place in places}
        assert found == places, (number, found, places)
        assert {(op, index) for op in ("linear", "matmul", "attention") for index in saved.get(op, ())} <= set(places)
        seen |= {(op, is_saved) for (op, _), is_saved in places.items()}
    return seen


def check_cost(tools, family, policy):
    """Against the plan of the same values, pinned by the table; a layer that is no checkpoint saves what it can."""
    pins = []
    decisions = tools.view("decisions")
    for (stack, number), (saved, _) in policy["LAYERS"].items():
        if saved is None:
            pins += [d["name"] for d in decisions if d["layer"] == number and d["action"] != "recompute"]
        else:
            pins += [f"{PATHS[family]}{number}.{value}" for op, places in saved.items() for place in places
                     for value in VALUES[family][op, place]]
    report = tools.compile("--ac-mode", "full", *(word for pin in pins for word in ("--save", pin)))
    assert (policy["PEAK_BYTES"], policy["STEP_NS"]) == (report["peak_bytes"], report["step_ns"]), (
        policy["PEAK_BYTES"], policy["STEP_NS"], report["peak_bytes"], report["step_ns"])


def check_jax(tools, family):
    tree = ast.parse(tools.text("dump", "model.plan", "--emit-policy", "jax"))
    layers = next(ast.literal_eval(node.value) for node in tree.body
                  if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS")
    names = {}
    for d in tools.view("decisions"):
        if d["layer"] >= 0 and d["op"] != "gather":  # those are gathered again
            name = re.sub(r"\.entry_\d+(?=\.1)", "", d["name"].split(f".{d['layer']}.", 1)[1])
            assert names.setdefault(d["layer"], {}).setdefault(name, d["action"]) == d["action"], d
    for (_, number), saved in layers.items():
        actions = names.pop(number)
        kept = {name for name, action in actions.items() if action == "save"}
        if saved is None:
            assert {"save", "recompute inline"} >= set(actions.values()), (number, actions)
        else:  # a layer's output is the input of the next checkpoint
            assert set(saved) == kept - {OUTPUTS[family]} and "recompute" in actions.values(), (number, saved, kept)
    assert not names, names


def check_inline(tools):
    """A plan that recomputes nothing but inside the kernels that read it needs no checkpoints."""
    tools.text("graph", "gpt2-tiny", "--batch", BATCH, "--seq", SEQ, "-o", "model.fbs")
    report = tools.compile("--recompute", "h.*.mlp.fc")
    assert report["recomputed_fused"] == report["recomputed"] == 6, report
    policy = load(tools.text("dump", "model.plan", "--emit-policy", "pytorch", "--model", "model.fbs"))
    assert set(policy["LAYERS"].values()) == {(None, None)}, policy["LAYERS"]


def check_unread(tools):
    """With written-out attention the scores are held where the softmax is saved. Another graph is refused."""
    tools.text("graph", "gpt2-tiny", "--batch", BATCH, "--seq", SEQ, "--attention", "written-out", "-o", "model.fbs")
    emit = ["dump", "model.plan", "--emit-policy", "pytorch", "--model", "model.fbs"]
    done = tools(*emit)  # the plan is of the family before
    assert done.returncode == 2 and "model.fbs: this is not the graph" in done.stderr, done
    tools.compile("--recompute", "*/mlp/act")
    policy = load(tools.text(*emit))
    assert all(saved["matmul"] == (0, 1) and saved["softmax"] == (0,) for saved, _ in policy["LAYERS"].values())
    unread = 6 * 4 * BATCH * HEADS * SEQ * SEQ
    assert policy["UNREAD_BYTES"] == unread, policy["UNREAD_BYTES"]
    seen = check_products(tools, "gpt2", policy)
    tools.compile("--recompute-activations")
    seen |= check_products(tools, "gpt2", load(tools.text(*emit)))
    assert seen >= {("matmul", True), ("matmul", False)}, seen
    for spare in (0, unread):
        tools.compile("--recompute", "*/mlp/act", "--reserve", 0, "--budget", policy["PEAK_BYTES"] + spare)
        source = tools.text(*emit)
        assert ("may not fit into" in source) == (spare < unread) and "does not fit" not in source, (spare, source)


def main():
    build = sys.argv[1]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        tools = Tools(build, work)
        tp, parallel = ["--mesh", "tp=2"], ["--mesh", "tp=2", "--sequence-parallel"]
        cases = [(family, 0, []) for family in VALUES] + [("gpt2", 0.1, mesh) for mesh in ([], tp, parallel)] + [
            ("bert", 0, parallel), ("gpt2", 0, ["--mesh", "dp=2", "--zero", "3"])]
        for family, dropout, tools.mesh in cases:
            tools.text("graph", f"{family}-tiny", "--batch", BATCH, "--seq", SEQ, "--dropout", dropout,
                       "-o", "model.fbs")
            most, full = tools.compile(), tools.compile("--ac-mode", "full")
            layers, different, seen = Layers(family, dropout), set(), set()
            groups = ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "2"]
            plans = [groups, ["--recompute-activations"], ["--ac-mode", "selective", "--ac-option", "op"], []] + [
                ["--budget", full["arena_bytes"] + full["reserve_bytes"] + int(
                    share * (most["arena_bytes"] - full["arena_bytes"]))] for share in (0.1, 0.45, 0.8)]
            for options in plans:
                report = tools.compile(*options)
                source = tools.text("dump", "model.plan", "--emit-policy", "pytorch", "--model", "model.fbs")
                policy = load(source)
                assert (policy["PLAN_PEAK_BYTES"], policy["PLAN_STEP_NS"]) == (
                    report["peak_bytes"], report["step_ns"])
                entries = {str(entry): number for (_, number), entry in policy["LAYERS"].items()}
                counts = {entry: check_layer(policy, layers, number) for entry, number in entries.items()}
                different.add(len(entries))
                seen |= check_products(tools, family, policy)
                check_jax(tools, family)
                check_cost(tools, family, policy)
                print(family, *tools.mesh, *options, *map(dict, counts.values()))
                assert policy["UNREAD_BYTES"] == 0, policy["UNREAD_BYTES"]
            assert max(different) > 1, "layers never differ"
            assert seen == {(op, saved) for op in ("linear", "attention") for saved in (True, False)}, seen
        tools.mesh = []
        check_inline(tools)
        check_unread(tools)


main()
