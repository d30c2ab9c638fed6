# SPDX-License-Identifier: Apache-2.0
"""Each pass that remat-compile names is one that it prints, in that order, and it prints no others. What it says of a
plan with pins claims no more than the pins leave open.

    passes.py TOOLS"""
import os
import re
import subprocess
import sys
import tempfile

tools = os.path.abspath(sys.argv[1])
os.chdir(tempfile.mkdtemp())
FORWARD = """graph "forward"
input %x : f32[4,4]
%y : f32[4,4] output = gelu %x { approximate = 1 } phase forward
output %y
"""


def call(tool, *arguments, code=0):
    done = subprocess.run([f"{tools}/remat-{tool}", *arguments], capture_output=True, text=True)
    assert done.returncode == code, (tool, arguments, done.returncode, done.stderr)
    return done


def named():
    said = call("compile", "m.fbs", "--print-after", "?", code=2).stderr
    return re.search(r"\(accepted: ([^)]*)\)", said)[1].split(", ")


def printed(names, *compile_):
    options = [word for name in names for word in ("--print-after", name)]
    return re.findall(r"^# after (\w+)$", call("compile", *compile_, *options, "-o", "m.plan").stdout, re.M)


def certificate(*options):
    said = call("compile", "m.fbs", "--budget", "140MB", "-o", "m.plan", *options).stdout
    return re.search(r"^certificate .*measured\): (.*) takes less than", said, re.M)[1]


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
