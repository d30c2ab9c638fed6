# SPDX-License-Identifier: Apache-2.0
"""What people are shown of a plan: rows of --memory and --decisions of remat-dump say what the objects of --format json
say one by one, --memory in at most 100 columns; layers are counted where all of them is recomputed. --placement has
Megatron-LM's placement, known here by the names of Hugging Face's parameters, and all transfers of the report.

    views.py TOOLS"""
import collections
import json
import math
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools

call = Tools(sys.argv[1]).text
os.chdir(tempfile.mkdtemp())
MODELS = [  # preset and options, options of remat-compile
    (["gpt2-tiny", "--layers", "12", "--batch", "4"], []),
    (["gpt2-tiny", "--layers", "12"], ["--ac-mode", "selective", "--ac-option", "2"]),
    (["encdec-tiny"], ["--ac-mode", "full"]),
    (["llama-tiny", "--dtype", "bf16"], ["--save", "*.mlp.*"]),
    (["mlp-tiny"], []),
]
LETTERS = {"P": "parameters", "O": "optimizer state", "G": "gradients", "K": "activations kept", "R": "recomputed",
           "t": "transients", "i": "inputs and outputs"}
WIDTH = 100
BYTES = {"f32": 4, "bf16": 2, "i32": 4, "u8": 1}


def view(name):
    return call("dump", "m.plan", name), json.loads(call("dump", "m.plan", name, "--format", "json"))


def digits(value, units):
    """Three of them, of whole base units all: 154 MB, 1.50 us, 10 ns."""
    step = 0
    while value >= 1000 and step + 1 < len(units):
        value, step = value / 1000, step + 1
    decimals = 0 if step == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} {units[step]}"


def size(value):
    return digits(value, ["B", "kB", "MB", "GB"])


def time(value):
    return digits(value, ["ns", "us", "ms", "s"])


def ranges(numbers):
    """0-3,5"""
    parts = []
    for n in sorted(numbers):
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)


def same_name(shown, name):
    head, cut, tail = shown.partition("...")
    return name.startswith(head) and name.endswith(tail) if cut else shown == name


def pattern(record):
    return re.sub(rf"\.{record['layer']}(?!\d)", ".*", record["name"], count=1) if record["layer"] >= 0 else record["name"]


RESIDENT = re.compile(r" *(\S+ \S+) +(\d+) +(persistent|in use|needed|pinned|\S+ \S+) +(\S+)  (.)  (\d+ layers|\S+) +(\S.*)")


def row_of(group):
    """What a row says, but for the name."""
    first = group[0]
    removal = first["removal"] if first["removal"] != "recompute" else (
        ("-" if first["recompute_extra_ns"] < 0 else "+") + time(abs(first["recompute_extra_ns"])))
    layers = [r["layer"] for r in group if r["layer"] >= 0 and not r["persistent"]]
    among = ranges(layers) or "-"
    commands = f"{min(r['born'] for r in group)}-{max(r['dies'] for r in group) - 1}"
    return (size(sum(padded(r) for r in group)), str(len(group)), removal, "-" if first["persistent"] else commands,
            first["class"], among if len(among) <= 9 else f"{len(layers)} layers")


def name_of(group):
    first = max(group, key=padded)
    if first["persistent"] and len(group) > 1:
        return None
    return (first["name"] if len(group) == 1 else pattern(first)) + (f" #{first['instance']}" if first["instance"] else "")


def padded(resident):
    return -(-resident["bytes"] // 256) * 256


def group_residents(residents):
    """All persistent ones of a class; of the others those that differ in nothing that a row says but the layer."""
    groups = collections.defaultdict(list)
    for r in residents:
        removal = r["removal"], r["recompute_extra_ns"] and time(abs(r["recompute_extra_ns"]))
        key = () if r["persistent"] else (pattern(r), r["instance"], r["bytes"], *removal)
        groups[(r["class"], r["persistent"], *key)].append(r)
    return list(groups.values())


def check_memory():
    """Returns how many rows are about several layers."""
    text, shown = view("--memory")
    wide = [line for line in text.splitlines() if len(line) > WIDTH]
    assert not wide, (len(wide[0]), wide[0])
    groups = group_residents(shown["residents_at_peak"])
    table = text.split("\n\n")[2].splitlines()[1:]
    rows = [row.groups() for row in map(RESIDENT.fullmatch, table[:16]) if row]
    assert len(rows) == min(16, len(groups)), (len(rows), len(groups))
    for *numbers, letter, layers, name in rows:
        said = (*numbers, LETTERS[letter], layers)
        found = [g for g in groups if row_of(g) == said
                 and (name.startswith("largest ") if name_of(g) is None else same_name(name, name_of(g)))]
        assert found, (said, name)
        groups.remove(found[0])
        assert all(sum(map(padded, g)) <= sum(map(padded, found[0])) for g in groups), (said, name)
    rest = f"{size(sum(padded(r) for g in groups for r in g)):>10}  {sum(map(len, groups)):5}  in smaller groups"
    assert not groups or rest in table, rest
    return sum(int(row[1]) > 1 and row[2] != "persistent" for row in rows)


DECISION = re.compile(r"(\S+(?: inline)?) +(\S+) +(-|[\d,-]+) +(\S+) +(\S+\[[\d,]*\]) +(\S+ k?[A-Z]*B) +(-|\S+ \S?s) (\S.*)")


def check_decisions():
    """Elements fill the bytes but for padding of rows; ops are those of the graph."""
    text, shown = view("--decisions")
    ops = set(re.findall(r"= (\w+)", call("dump", "m.fbs", "--text")))
    groups = collections.defaultdict(list)
    for d in shown["decisions"]:
        type_ = f"{d['dtype']}[{','.join(map(str, d['shape']))}]"
        elements = math.prod(d["shape"])
        width = d["shape"][-1] if d["shape"] else 1
        assert 0 <= d["bytes"] - elements * BYTES[d["dtype"]] < elements // width * 256, d
        assert d["op"] in ops, (d, ops)
        recompute = time(d["recompute_ns"]) if d["recompute_ns"] else "-"
        groups[d["action"], pattern(d), d["op"], type_, size(d["bytes"]), recompute, d["reason"]].append(d["layer"])
    rows = [DECISION.fullmatch(line).groups() for line in text.splitlines()[3:]]
    said = {(action, value, *rest): layers for action, value, layers, *rest in rows}
    assert len(said) == len(rows), rows
    assert said.keys() == groups.keys(), said.keys() ^ groups.keys()
    for key, layers in groups.items():
        assert said[key] == ("-" if layers == [-1] else ranges(layers)), (key, layers)
    return len(said)


LAYERS = [  # options; of six layers those recomputed whole, and in part: as the systems define their settings
    ("--ac-mode none", [], []),
    ("--ac-mode full", [0, 1, 2, 3, 4, 5], []),
    ("--ac-mode selective --ac-option 2", [1, 3, 5], []),
    ("--ac-mode selective --ac-option op", [], [0, 1, 2, 3, 4, 5]),
    ("--selective-checkpointing true", [], [0, 1, 2, 3, 4, 5]),
    ("--recompute-granularity full --recompute-method block --recompute-num-layers 2", [0, 1], []),
    ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 3", [0, 1, 2, 3, 4, 5], []),
    ("--recompute-granularity selective --recompute-modules mlp", [], [0, 1, 2, 3, 4, 5]),
    ("--recompute-modules mlp layernorm --recompute-granularity selective", [], [0, 1, 2, 3, 4, 5]),
    ("--ac-mode full --save *.1.mlp.*", [0, 2, 3, 4, 5], [1]),
]


def every_n_layers(n, stacks):
    """A row of LAYERS for transformers' setting, which counts through all stacks in one go."""
    of = [{layer for layer in range(6) if (6 * stack + layer) % n == 0} for stack in range(stacks)]
    whole = set.intersection(*of)
    return f"--gradient-checkpointing-kwargs every_n_layers={n}", sorted(whole), sorted(set.union(*of) - whole)


def check_layers(model):
    call("graph", *model, "-o", "m.fbs")
    for options, whole, part in LAYERS + [every_n_layers(4, 2 if model == ["encdec-tiny"] else 1)]:
        report = json.loads(call("compile", "m.fbs", *options.split(), "-o", "m.plan", "--format", "json"))
        dumped = json.loads(call("dump", "m.plan", "--format", "json"))
        for said in (report, dumped):
            assert said["recomputed_layers"] == whole, (model, options, said["recomputed_layers"])
            assert said["partly_recomputed_layers"] == part, (model, options, said["partly_recomputed_layers"])
        text = call("compile", "m.fbs", *options.split(), "-o", "m.plan")
        line = next(line for line in text.splitlines() if line.startswith("layers "))
        listed = lambda layers: ": " + ranges(layers).replace(",", ", ") if layers else ""
        assert line == (f"layers       {len(whole)} of 6 recomputed" + listed(whole)
                        + (f"; {len(part)} in part" + listed(part) if part else "")), line


PLACED = [  # with one axis tp: pattern of names, Megatron-LM's name, torchtitan's, dimension of the weight
    (r".*(wte|embed_tokens|word_embeddings|shared)\.weight", "vocab-parallel", "RowwiseParallel", 0),
    (r".*(c_attn|c_fc)\.(weight|bias)", "column-parallel", "ColwiseParallel", 1),  # GPT-2 has [in, out]
    (r".*(c_proj)\.weight", "row-parallel", "RowwiseParallel", 0),
    (r".*(output\.dense|out_proj|o_proj|down_proj|fc2)\.weight", "row-parallel", "RowwiseParallel", 1),
    (r".*([qkv]_proj|query|key|value|intermediate\.dense|fc1|gate_proj|up_proj|lm_head|predictions)\.(weight|bias)",
     "column-parallel", "ColwiseParallel", 0),
]


def check_placement(model, options):
    call("graph", *model, "-o", "m.fbs")
    report = json.loads(call("compile", "m.fbs", *options.split(), "-o", "m.plan", "--format", "json"))
    text, shown = view("--placement")
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH, max(lines, key=len)
    said = {v["name"]: v for v in shown["placement"] if v["role"] == "parameter" and v["axis"] == "tp"}
    names = re.findall(r"^parameter %(\S+) : \w+\[(.*)\]", call("dump", "m.fbs", "--text"), re.M)
    expected = {name: row[1:] for name, _ in names for row in PLACED if re.fullmatch(row[0], name)}
    assert said.keys() == expected.keys(), said.keys() ^ expected.keys()
    for name, shape in names:
        if name in expected:
            v, (megatron, torchtitan, dimension) = said[name], expected[name]
            assert v["whole"] == [int(d) for d in shape.split(",")], v
            assert (v["megatron"], v["torchtitan"]) == (megatron, torchtitan), v
            assert v["dimensions"] == [min(dimension, len(v["whole"]) - 1)], v
            assert v["blocks"] == (3 if "c_attn" in name else 1), v
            assert v["layer"] == int((re.findall(r"\.(\d+)\.", name) or [-1])[0]), v
    split = [v for v in shown["placement"] if v["role"] != "parameter"]
    assert split and all((v["megatron"] == "sequence-parallel") == v["tokens"] for v in split)
    assert any(v["tokens"] for v in split) == ("--sequence-parallel" in options), options
    call("compile", "m.fbs", "-o", "one.plan")  # on one rank all is whole
    one = {d["name"]: d["shape"] for d in json.loads(call("dump", "one.plan", "--decisions", "--format", "json"))["decisions"]}
    same = [v for v in split if v["name"] in one]
    assert "dp" in options or same and all(v["whole"] == one[v["name"]] for v in same), same
    transfers = shown["transfers"]
    for key, total in ("sent_bytes", "sent_bytes"), ("estimated_ns", "communication_ns"):
        assert "dp" in options or sum(t["times"] * t[key] for t in transfers) == report[total], (model, options, key)
    decisions = {d["name"]: d for d in json.loads(call("dump", "m.plan", "--decisions", "--format", "json"))["decisions"]}
    for v in split:  # the part's shape, where one dimension is divided
        if v["name"] in decisions and len(v["dimensions"]) == 1:
            part = [d // 2 if i in v["dimensions"] else d for i, d in enumerate(v["whole"])]
            assert decisions[v["name"]]["shape"] == part, (v, decisions[v["name"]])
    again = {(t["of"], t["layer"], t["asked_by"]) for t in transfers if t["instance"]}
    for t in transfers:
        if t["result"] and not t["instance"]:
            assert t["result"] == {key: decisions[t["result"]["name"]][key] for key in t["result"]}, t
            assert ((t["of"], t["layer"], t["asked_by"]) in again) == (t["result"]["action"] != "save"), t
    groups = collections.Counter()
    for line in lines:
        row = re.fullmatch(r"\S+ +(-|[\d,-]+) +(exchange|gather)( #\d)? +(\S+ \S?s) +(\S+ k?M?B)  .*", line)
        if row:
            layers = sum(int(r[-1]) - int(r[0]) + 1 for r in (p.split("-") for p in row[1].split(","))) if row[1] != "-" else 1
            groups[row[2], row[4], row[5]] += layers
    assert groups == collections.Counter((t["kind"], time(t["estimated_ns"]), size(t["sent_bytes"])) for t in transfers), groups
    return transfers


def check_freed(transfers):
    """A step takes as much less as is said if the result of a gather is saved, but for rounding in each kernel."""
    gather = next(t for t in transfers if t["kind"] == "gather" and t["result"] and t["result"]["action"] == "recompute")
    options = ["--mesh", "tp=2", "--sequence-parallel", "--ac-mode", "full", "--format", "json"]
    steps = [json.loads(call("compile", "m.fbs", *options, *pin, "-o", "p.plan"))["step_ns"]
             for pin in ([], ["--save", gather["result"]["name"]])]
    assert abs(steps[0] - steps[1] - gather["result"]["recompute_extra_ns"]) <= 0.01 * gather["estimated_ns"], (steps, gather)
    why = call("dump", "m.plan", "--why", gather["result"]["name"])
    line = f"  transfer    gather of {gather['of']} along tp: {time(gather['estimated_ns'])}, rank 0 sends "
    assert line + f"{size(gather['sent_bytes'])}; asked for by {gather['asked_by']}\n" in why, why


def check_shards():
    """What is saved as a shard costs what its commands take; by the name of its part there is the same answer."""
    options = ["--mesh", "tp=2", "--recompute-granularity", "full", "--recompute-method", "uniform"]
    call("compile", "m.fbs", *options, "--distribute-saved-activations", "-o", "s.plan")
    call("compile", "m.fbs", *options, "-o", "w.plan")
    values = [json.loads(call("dump", plan, "--why", "*", "--format", "json"))["why"] for plan in ("s.plan", "w.plan")]
    shards = [v for v in values[0] if v["action"] == "shard"]
    whole = {v["name"]: v for v in values[1]}
    assert sum(v["peak_bytes_shard"] > 0 for v in shards) > 2, values
    for v in shards:
        other = whole[v["name"]]
        assert v["recompute_ns"] == v["shard_ns"] == other["shard_ns"] > 0 and other["action"] == "save", (v, other)
        half = -(-v["bytes"] // 2 // 256) * 256
        assert v["peak_bytes_shard"] in (0, half) and other["peak_bytes_shard"] == half, (v, other)  # 0: gathered by then
        assert "\n  shard  " in call("dump", "w.plan", "--why", v["name"]), v
        assert call("dump", "s.plan", "--why", v["name"]) == call("dump", "s.plan", "--why", v["name"] + ".part"), v


def main():
    grouped = rows = 0
    for model, options in MODELS:
        call("graph", *model, "-o", "m.fbs")
        call("compile", "m.fbs", *options, "-o", "m.plan")
        grouped += check_memory()
        rows += check_decisions()
    assert grouped >= 10, grouped
    for model in (["gpt2-tiny", "--dropout", "0.1", "--dtype", "bf16"], ["llama-tiny"], ["encdec-tiny"]):
        check_layers(model)
    for model in (["gpt2-tiny"], ["llama-tiny", "--dtype", "bf16"], ["bert-tiny"], ["encdec-tiny"]):
        check_placement(model, "--mesh tp=2")
    check_placement(["bert-tiny", "--batch", "4"], "--mesh dp=2,tp=2 --microbatches 2 --zero 3 --sequence-parallel")
    check_freed(check_placement(["llama-tiny"], "--mesh tp=2 --sequence-parallel --ac-mode full"))
    check_shards()
    print(f"{grouped} rows for several layers, {rows} decisions")


main()
