# SPDX-License-Identifier: Apache-2.0
"""Each pass that remat-compile names is one that it prints, in that order, and it prints no others. What it says of a
plan with pins claims no more than the pins leave open. A graph that arrives joint has a plan where its backward pass
alone reads what a forward kernel makes, fused or built-in.

    passes.py TOOLS"""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools

call = Tools(sys.argv[1]).must
os.chdir(tempfile.mkdtemp())
FORWARD = """graph "forward"
input %x : f32[4,4]
%y : f32[4,4] output = gelu %x { approximate = 1 } phase forward
output %y
"""
JOINT = """graph "joint"
input %x : f32[4,64]
parameter %w : f32[4,64] = normal(0.0, 0.02)
LATE
%y : f32[4,64] = mul %x %w phase forward
%row : f32[4,1] = row_sum %y phase forward
%flat : f32[1,4] = reshape %row { shape = [1, 4] } phase loss
%loss : f32[1,1] output = row_sum %flat phase loss
%w.grad : f32[4,64] gradient = OP %x %late phase backward
output %loss
"""
FUSED = "%late : f32[4,64] = exp %x phase forward"
BUILTIN = """%t : f32[64,4] = transpose %x { permutation = [1, 0] } phase forward
%late : f32[64,64] pin recompute = matmul %t %x phase forward"""


def named():
    said = call("compile", "m.fbs", "--print-after", "?", code=2).stderr
    return re.search(r"\(accepted: ([^)]*)\)", said)[1].split(", ")


def printed(names, *compile_):
    options = [word for name in names for word in ("--print-after", name)]
    return re.findall(r"^# after (\w+)$", call("compile", *compile_, *options, "-o", "m.plan").stdout, re.M)


def certificate(*options):
    said = call("compile", "m.fbs", "--budget", "140MB", "-o", "m.plan", *options).stdout
    return re.search(r"^certificate .*under these costs: (.*) takes less than", said, re.M)[1]


call("graph", "gpt2-tiny", "--batch", "2", "-o", "m.fbs")
with open("forward.txt", "w", encoding="utf-8") as file:
    file.write(FORWARD)
names = named()
training, forward = printed(names, "m.fbs", "--microbatches", "2"), printed(names, "forward.txt")
assert len(set(names)) == len(names) and {*training, *forward} == {*names}, (names, training, forward)
for some in (training, forward):
    assert some == [name for name in names if name in some], (names, some)
for name in names:
    graph = ["m.fbs", "--microbatches", "2"] if name in training else ["forward.txt"]
    assert printed([name], *graph) == [name], name

claim = "no choice of what to recompute that fits"
assert certificate() == claim, certificate()
assert certificate("--save", "h.0.mlp.act") == "with these pins " + claim, certificate("--save", "h.0.mlp.act")
for pins in ([], ["--save", "h.0.mlp.act"]):
    refused = call("compile", "m.fbs", "--budget", "1MB", "-o", "m.plan", *pins, code=3).stderr
    assert ("Proven: with these pins no choice" in refused) == bool(pins), refused

for op, late in (("mul", FUSED), ("matmul", BUILTIN)):
    with open("joint.txt", "w", encoding="utf-8") as file:
        file.write(JOINT.replace("LATE", late).replace("OP", op))
    assert "certificate  optimal" in call("compile", "joint.txt", "--budget", "1GB", "-o", "m.plan").stdout, op
    said = call("compile", "joint.txt", "--print-after", "defer", "-o", "m.plan").stdout
    assert re.search("^%late .* phase backward$", said, re.M), said
