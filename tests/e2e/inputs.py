# SPDX-License-Identifier: Apache-2.0
"""remat-run --input: a graph with inputs of its own gets them, on every mesh, and is refused without them. Constants of a
graph: the bits of the same values as inputs.

    inputs.py TOOLS_DIRECTORY TEXT

%shift, of the whole batch, and the row of %bias that %places names are added to the embeddings. Another graph has their
sum as a frozen parameter: with values that a float holds exactly both have the same bits. Divided batches must have its
loss to rounding; values of other rows would change it by 1e-2. Uses no library that writes safetensors."""
import json
import os
import pathlib
import random
import re
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INVALID, IO, USAGE, Tools, check, finish, json_lines, must, refused, safetensors, scratch

tool, TEXT = Tools(sys.argv[1], timeout=120), pathlib.Path(sys.argv[2]).resolve()
BATCH, SEQ, WIDTH, PLACES = 4, 16, 8, 8
HEAD = """graph "shifted"
optimizer sgd { weight_decay = 0.0 }
symbol batch = 4
input %tokens : i32[batch,16]
input %targets : i32[batch,16]
parameter %table : f32[256,8] = normal(0.0, 0.02)
parameter %head : f32[8,256] = normal(0.0, 0.5)
%x : f32[batch,16,8] = embedding %table %tokens phase forward
"""
GIVEN = """input %shift : f32[batch,16,8]
input %places : i32[16]
input %half : f32[16,8] = constant(0.0)
input %near : f32[16,8] = constant(0.0)
input %unread : f32[3]
parameter %bias : f32[8,8] = constant(0.0) frozen
%places.1 : f32[16,8] = embedding %bias %places phase forward
%more : f32[16,8] = add %places.1 %half phase forward
%place : f32[16,8] = sub %more %near phase forward
%sum : f32[batch,16,8] = add %shift %place phase forward
"""
FROZEN = """parameter %sum : f32[batch,16,8] = constant(0.0) frozen
"""
TAIL = """%y : f32[batch,16,8] = add %x %sum phase forward
%logits : f32[batch,16,256] = linear %y %head phase forward
%loss : f32[] output, %loss.1 : f32[batch,16,1] = cross_entropy %logits %targets phase loss
output %loss
"""
NOISE = """input %noise : i32[4]
%sum : f32[batch,16,8] = dropout %x %noise { p = 0.5, site = 1 } phase forward
"""


def write(path, tensors):
    """name -> (dtype, shape, values, code of struct)"""
    packed = {name: (dtype, shape, struct.pack(f"<{len(values)}{code}", *values)) for name, (dtype, shape, values, code) in tensors.items()}
    pathlib.Path(path).write_bytes(safetensors(packed))


def compile_all():
    plans = {"plain": [], "parts": ["--microbatches", 2], "dp": ["--mesh", "dp=2"], "tp": ["--mesh", "tp=2"],
             "sp": ["--mesh", "dp=2,tp=2", "--sequence-parallel"]}
    for name, body in (("given", GIVEN), ("frozen", FROZEN), ("noise", NOISE)):
        pathlib.Path(f"{name}.graph").write_text(HEAD + body + TAIL)
    for name, options in plans.items():
        tool.must("compile", "given.graph", *options, "-o", f"{name}.plan")
    for name in "frozen", "noise":
        tool.must("compile", f"{name}.graph", "-o", f"{name}.plan")
    return plans


def draw(generator):
    """Multiples of 1/64: sums of two are exact."""
    shift = [generator.randrange(-64, 64) / 64 for _ in range(BATCH * SEQ * WIDTH)]
    bias = [generator.randrange(-64, 64) / 64 for _ in range(PLACES * WIDTH)]
    places = [generator.randrange(PLACES) for _ in range(SEQ)]
    total = [shift[(b * SEQ + t) * WIDTH + c] + bias[places[t] * WIDTH + c]
             for b in range(BATCH) for t in range(SEQ) for c in range(WIDTH)]
    weights = {"table": ("F32", [256, WIDTH], [generator.gauss(0, .02) for _ in range(256 * WIDTH)], "f"),
               "head": ("F32", [WIDTH, 256], [generator.gauss(0, .5) for _ in range(256 * WIDTH)], "f")}
    write("given.safetensors", {**weights, "bias": ("F32", [PLACES, WIDTH], bias, "f")})
    write("frozen.safetensors", {**weights, "sum": ("F32", [BATCH, SEQ, WIDTH], total, "f")})
    write("shift.safetensors", {"any": ("F32", [BATCH, SEQ, WIDTH], shift, "f")})
    write("several.safetensors", {"other": ("F32", [3], [1, 2, 3], "f"), "places": ("I32", [SEQ], places, "i")})
    return shift, places


INPUTS = ["--input", "places=several.safetensors", "--input=shift=shift.safetensors"]


def train(plan, *options):
    rate = [] if "--eval" in options else ["--lr", 0.5]
    return tool("run", plan, "--text", TEXT, "--threads", 1, *rate, *options)


def steps(plan, *options):
    """(step, loss, hashes) of each step."""
    lines = json_lines(train(plan, "--json", *options))
    return [(line["step"], line["loss"], line["loss_hash"], line["grad_hash"]) for line in lines]


def values(plans):
    frozen = steps("frozen.plan", "--init", "frozen.safetensors", "--steps", 3)
    evaluated = steps("frozen.plan", "--init", "frozen.safetensors", "--steps", 3, "--eval")
    given = ["--init", "given.safetensors", "--steps", 3, *INPUTS]
    check(steps("plain.plan", *given) == frozen, "other steps than with a parameter")
    check([step[:3] for step in steps("plain.plan", *given, "--eval")] == [step[:3] for step in evaluated], "another --eval")
    found = {name: steps(f"{name}.plan", *given) for name in plans}
    for name, lines in found.items():
        check(all(abs(a[1] - b[1]) < 1e-6 * a[1] for a, b in zip(frozen, lines)), name, frozen, lines)
        lines = steps(f"{name}.plan", *given, "--eval")
        check(all(abs(a[1] - b[1]) < 1e-6 * a[1] for a, b in zip(evaluated, lines)), name, "--eval", evaluated, lines)
    check(found["parts"] == found["dp"], "dp=2 is not two microbatches")
    done = must(train("dp.plan", *given, "--eval-every", 3, "--eval-steps", 3, "--json"))
    check("eval_loss" in done.stdout.splitlines()[-1], done.stdout)


def constants(plans, places):
    """On every mesh and with %sum recomputed the bits of the same plan with inputs. %half is %near but for its last element."""
    near = [index / 64 for index in range(SEQ * WIDTH)]
    numbers = {"places": ("I32", [SEQ], places, "i"), "half": ("F32", [SEQ, WIDTH], [*near[:-1], 7.5], "f"),
               "near": ("F32", [SEQ, WIDTH], near, "f")}
    write("constants.safetensors", numbers)
    given = [f"--input={name}=constants.safetensors" for name in numbers]
    text = HEAD + GIVEN + TAIL
    for name, (_, _, values, _) in numbers.items():
        text = re.sub(rf"input (%{name} : [^ \n]*)[^\n]*", lambda m: f"constant {m[1]} = {values}", text)
    again = re.sub("(constant %)places(.*\n)", r"\g<0>\1again\2", text).replace("%bias %places", "%bias %again")
    for name, body in (("constant", text), ("again", again)):
        pathlib.Path(f"{name}.graph").write_text(body)
    more = {"zero": ["--mesh", "dp=2", "--zero", 3], "recompute": ["--recompute", "sum", "--recompute", "y"]}
    shared = ["--init", "given.safetensors", "--steps", 2, INPUTS[2]]
    for name, options in {**plans, **more}.items():
        tool.must("compile", "again.graph", *options, "-o", "again.plan")
        tool.must("compile", "given.graph", *options, "-o", "inputs.plan")
        for mode in [], ["--eval"]:
            check(steps("again.plan", *shared, *mode) == steps("inputs.plan", *shared, *given, *mode), name, mode, "other bits")
    hashes = {name: compiled(f"{name}.graph") for name in ("constant", "again")}
    check(hashes["again"][1:] == hashes["constant"][1:], "equal constants are not one", hashes)
    refuse(USAGE, "--input 'places=x': the plan has no input \"places\"", "again.plan", "--input=places=x")
    pathlib.Path("other.graph").write_text(text.replace("7.5]", "7.25]"))
    other = compiled("other.graph")
    check(other[0] != hashes["constant"][0] and other[1] != hashes["constant"][1], "hashes do not see an element")
    pathlib.Path("renamed.graph").write_text(text.replace("%near", "%far"))
    check(compiled("renamed.graph") == hashes["constant"], "hashes see a name")
    pathlib.Path("beyond.graph").write_text(text.replace(f"= {places}", f"= {[*places[:-1], PLACES]}"))
    refused(tool("compile", "beyond.graph"), INVALID, 'beyond.graph: constant "places": element 15 is 8, but is used as an '
            'index; accepted: 0 to 7')


def compiled(graph):
    """graph_hash, numerics_hash, persistent bytes."""
    tool.must("compile", graph, "-o", "any.plan")
    summary = json.loads(tool.must("dump", "any.plan", "--format", "json").stdout)
    return summary["graph_hash"], summary["numerics_hash"], summary["static_bytes"]


def layers():
    """GPT-2 that looks its positions up by a constant has the bits of the one that takes the first rows, under every plan."""
    text = tool.must("graph", "gpt2-tiny", "--batch", BATCH, "--seq", SEQ, "--dropout", 0.1, "--text").stdout
    pathlib.Path("slice.graph").write_text(text)
    looked_up, count = re.subn(r"(%\S+ : f32\[)seq(,\d+\] = )slice (%\S*wpe\S*) [^}]*}", rf"\g<1>{SEQ}\2embedding \3 %positions", text)
    assert count == 1, text
    pathlib.Path("look.graph").write_text(looked_up.replace("input %tokens", f"constant %positions : i32[{SEQ}] = {list(range(SEQ))}\n"
                                                            "input %tokens", 1))
    for options in [], ["--ac-mode", "full"], ["--recompute-activations"], ["--mesh", "tp=2", "--sequence-parallel"]:
        for name in "slice", "look":
            tool.must("compile", f"{name}.graph", *options, "-o", f"{name}.plan")
        check(steps("look.plan", "--steps", 2) == steps("slice.plan", "--steps", 2), options, "other bits")


def without_ids():
    """Features, ids of a decoder and labels of names of their own: the bits of the graph whose names remat-run knows."""
    text = HEAD + "input %features : f32[batch,16,8]\n" + TAIL.replace("%sum", "%features")
    names = {"tokens": "decoder_ids", "targets": "labels"}
    pathlib.Path("named.graph").write_text(text)
    for name, own in names.items():
        text = text.replace(f"%{name}", f"%{own}")
    pathlib.Path("features.graph").write_text(text)
    data = TEXT.read_bytes()
    ids = {own: [data[b * SEQ + t + (name == "targets")] for b in range(BATCH) for t in range(SEQ)] for name, own in names.items()}
    tensors = {own: ("I32", [BATCH, SEQ], values, "i") for own, values in ids.items()}
    tensors["features"] = "F32", [BATCH, SEQ, WIDTH], [index / 512 for index in range(BATCH * SEQ * WIDTH)], "f"
    write("features.safetensors", tensors)
    given, run = [f"--input={name}=features.safetensors" for name in tensors], ["run", "features.plan", "--threads", 1]
    for options in [], ["--microbatches", 2], ["--mesh", "dp=2"]:
        for name in "named", "features":
            tool.must("compile", f"{name}.graph", *options, "-o", f"{name}.plan")
        expected = steps("named.plan", given[2], "--steps", 1)
        first = json_lines(tool(*run, "--lr", .5, *given, "--steps", 1, "--json"))
        check([(line["step"], line["loss"], line["loss_hash"], line["grad_hash"]) for line in first] == expected, options, "other bits")
    whole = json_lines(tool(*run, "--lr", .5, *given, "--steps", 4, "--json", "--eval-every", 4, "--eval-steps", 1))
    must(tool(*run, "--lr", .5, *given, "--steps", 2, "--checkpoint", "f"))
    rest = json_lines(tool(*run, *given, "--steps", 4, "--resume", "f", "--json"))
    check([line["loss_hash"] for line in rest] == [line["loss_hash"] for line in whole[2:]] and "eval_loss" in whole[-1], "resumed")
    must(tool(*run, *given, "--eval", "--steps", 1))
    refused(tool(*run, *given, "--text", TEXT), USAGE, "the plan has no ids: all its inputs are given with --input")
    refused(tool(*run, *given[:2]), USAGE, 'nothing writes the plan\'s input "features", F32 [4, 16, 8]')
    refused(tool("run", "named.plan", given[2]), USAGE, "--text is missing, or --tokens, or --ids")


def resumes():
    """Another input is another run; one that is given under another name of its file is not."""
    given = ["--init", "given.safetensors", *INPUTS]
    whole = steps("plain.plan", *given, "--steps", 4)
    first = steps("plain.plan", *given, "--steps", 2, "--checkpoint", "c")
    os.rename("shift.safetensors", "moved.safetensors")
    moved = ["--input", "shift=moved.safetensors", *INPUTS[:2]]
    check(first + steps("plain.plan", "--steps", 4, "--resume", "c", *moved) == whole, "a resumed run")
    must(train("dp.plan", "--steps", 4, "--resume", "c", *moved))
    os.rename("moved.safetensors", "shift.safetensors")
    data = bytearray(pathlib.Path("shift.safetensors").read_bytes())
    data[-1] ^= 1
    pathlib.Path("changed.safetensors").write_bytes(data)
    done = train("plain.plan", "--steps", 4, "--resume", "c", *INPUTS[:2], "--input", "shift=changed.safetensors")
    check(done.returncode == USAGE and re.search("step-0000000002.safetensors: the hash of what --input gives is [0-9]+, of the "
                                                 "checkpoint's run [0-9]+\n", done.stderr), done.stderr)


def entries():
    """What only training reads an evaluation does without; of inputs that init fills and that nobody reads none is missed."""
    write("noise.safetensors", {"noise": ("I32", [4], [1, 2, 3, 0], "i")})
    message = r'nothing writes the plan\'s input "noise", I32 \[4\]: give it with --input noise=FILE.safetensors'
    refuse(USAGE, message, "noise.plan")
    must(train("noise.plan", "--eval", "--steps", 1))
    check(steps("noise.plan", "--steps", 2, "--input", "noise=noise.safetensors"), "noise")
    must(train("noise.plan", "--eval", "--steps", 1, "--input", "noise=noise.safetensors"))


def refuse(code, message, plan, *options):
    before = sorted(pathlib.Path(".").iterdir())
    done = train(plan, "--steps", 1, *options)
    refused(done, code, re.compile(message), plan, options)
    check(not done.stdout and sorted(pathlib.Path(".").iterdir()) == before, plan, options)


def refusals(shift, places):
    missing = r'nothing writes the plan\'s input "{}", {}: give it with --input {}=FILE.safetensors'
    for mode in [], ["--eval"]:
        refuse(USAGE, missing.format("shift", r"F32 \[4, 16, 8\]", "shift"), "plain.plan", *mode)
        refuse(USAGE, missing.format("places", r"I32 \[16\]", "places"), "plain.plan", INPUTS[2], *mode)
    refuse(USAGE, missing.format("places", r"I32 \[16\]", "places"), "sp.plan", INPUTS[2])

    def bad(code, message, option):
        refuse(code, message, "plain.plan", *INPUTS[:2], f"--input={option}")

    bad(USAGE, "--input 'shift' is not NAME=FILE", "shift")
    bad(USAGE, "--input 'shift=' is not NAME=FILE", "shift=")
    bad(USAGE, "--input 'shifts=x': the plan has no input \"shifts\"", "shifts=x")
    bad(USAGE, "--input 'table=x': the plan has no input \"table\"", "table=x")
    bad(USAGE, "--input 'tokens=x': remat-run writes \"tokens\" itself", "tokens=x")
    bad(USAGE, "--input 'places=several.safetensors': \"places\" is given twice", "places=several.safetensors")
    bad(IO, "nowhere: No such file or directory", "shift=nowhere")
    bad(INVALID, f"{re.escape(str(TEXT))}: not a safetensors file: .*", f"shift={TEXT}")
    bad(INVALID, r'several.safetensors: tensor "shift", F32 \[4, 16, 8\] in the plan, is missing \(the file has 2\)',
        "shift=several.safetensors")
    for dtype, shape, count, code in (("I64", [4, 16, 8], 512, "q"), ("F32", [8, 16, 4], 512, "f"), ("F32", [512], 512, "f"),
                                      ("F32", [1, 16, 8], 128, "f"), ("F16", [4, 16, 8], 512, "e")):
        write("bad.safetensors", {"shift": (dtype, shape, [0] * count, code)})
        bad(INVALID, rf'bad.safetensors: tensor "shift" is {dtype} {re.escape(str(shape))}, the plan\'s input "shift" F32 \[4, 16, 8\]',
            "shift=bad.safetensors")
    for place in -1, PLACES:
        write("bad.safetensors", {"places": ("I32", [SEQ], places[:5] + [place] + places[6:], "i")})
        for plan in "plain.plan", "sp.plan":
            refuse(INVALID, f'bad.safetensors: tensor "places": element 5 is {place}, accepted: 0 to {PLACES - 1}', plan, INPUTS[2],
                   "--input", "places=bad.safetensors")
    refuse(USAGE, r"--report './shift.safetensors' is the same file as --input 'shift.safetensors'", "plain.plan", *INPUTS,
           "--report", "./shift.safetensors")


@scratch()
def main():
    plans = compile_all()
    shift, places = draw(random.Random(1))
    values(plans)
    constants(plans, places)
    layers()
    without_ids()
    resumes()
    entries()
    refusals(shift, places)
    finish()


main()
