# SPDX-License-Identifier: Apache-2.0
"""What a refusal says of each resident it names is what remat-dump says of it in the plan that was refused.

    refusal.py TOOLS"""
import json
import os
import re
import subprocess
import sys
import tempfile

tools = os.path.abspath(sys.argv[1])
MODELS = [["gpt2-tiny"], ["llama-tiny", "--batch", "4"], ["gpt2-tiny", "--batch", "8", "--microbatches", "2"],
          ["encdec-tiny", "--dtype", "bf16"]]
POLICIES = [[], ["--recompute-granularity", "selective", "--recompute-modules", "mlp"],
            ["--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", "2"],
            ["--save", "*.mlp.*"]]
RESIDENT = re.compile(r'"([^"]*)" \((\d+) B\): (persistent|in use|pinned|needed|([+-]\d+) ns a step if recomputed)')


def call(tool, *arguments):
    return subprocess.run([f"{tools}/remat-{tool}", *arguments], capture_output=True, text=True)


def check(model, policy):
    graph = [word for word in model if word not in ("--microbatches", "2")] if "--microbatches" in model else model
    options = policy + (["--microbatches", "2"] if "--microbatches" in model else [])
    options += [] if "--recompute-granularity" in options else ["--recompute-granularity", "none"]
    assert call("graph", *graph, "-o", "m.fbs").returncode == 0, graph
    compiled = call("compile", "m.fbs", *options, "-o", "m.plan")
    assert compiled.returncode == 0, compiled.stderr
    dumped = json.loads(call("dump", "m.plan", "--memory", "--format", "json").stdout)
    residents = {(r["name"], r["bytes"]): r for r in dumped["residents_at_peak"]}
    refused = call("compile", "m.fbs", *options, "--budget", "1MB", "-o", "n.plan")
    assert refused.returncode == 3, refused
    named = RESIDENT.findall(refused.stderr)
    assert len(named) == 5, refused.stderr
    largest = sorted((bytes for _, bytes in residents), reverse=True)
    assert [int(bytes) for _, bytes, _, _ in named] == largest[:5], refused.stderr
    for name, bytes, removal, extra_ns in named:
        resident = residents[name, int(bytes)]
        if extra_ns:
            assert resident["removal"] == "recompute", (model, policy, name, resident, refused.stderr)
            assert resident["recompute_extra_ns"] == int(extra_ns), (model, policy, name, resident, removal)
        else:
            assert resident["removal"] == removal, (model, policy, name, resident, refused.stderr)
    return [removal for _, _, removal, _ in named]


def main():
    os.chdir(tempfile.mkdtemp())
    said = [removal for model in MODELS for policy in POLICIES for removal in check(model, policy)]
    kinds = {"recompute" if removal.endswith("recomputed") else removal for removal in said}
    assert kinds >= {"recompute", "in use", "needed", "pinned"}, kinds
    print(f"{len(said)} residents: {', '.join(sorted(kinds))}")


main()
