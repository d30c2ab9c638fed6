#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of one layer in a preset's training step with everything saved, for golden.py: phase,
kernel key and what it computes, in the order of the schedule; what the optimizer does is left out.
Fails when the layer has more than 10 forward or 22 backward commands.

    layer.py REMAT_GRAPH REMAT_COMPILE REMAT_DUMP PRESET LAYER"""
import json
import os
import subprocess
import sys
import tempfile

LIMITS = {"forward": 10, "backward": 22}


def schedule(graph, compiler, dump, preset):
    with tempfile.TemporaryDirectory() as work:
        model, plan = os.path.join(work, "model.fbs"), os.path.join(work, "model.plan")
        subprocess.run([graph, preset, "--batch", "1", "--seq", "128", "-o", model], check=True)
        subprocess.run([compiler, model, "-o", plan], check=True, stdout=subprocess.DEVNULL)
        shown = subprocess.run([dump, plan, "--schedule", "--format", "json"], check=True,
                               stdout=subprocess.PIPE)
    return json.loads(shown.stdout)["schedule"]


def main():
    graph, compiler, dump, preset, layer = sys.argv[1:]
    counts = dict.fromkeys(LIMITS, 0)
    for command in schedule(graph, compiler, dump, preset):
        if (command["segment"] != "step" or command["layer"] != int(layer) or
                command["phase"] not in LIMITS):
            continue
        counts[command["phase"]] += 1
        print(f"{command['phase']:9} {command['key']:36} {command['name']}")
    for phase, limit in LIMITS.items():
        print(f"{phase}: {counts[phase]} commands")
        if not 0 < counts[phase] <= limit:
            sys.exit(f"FAILED: {preset}, layer {layer}: {counts[phase]} {phase} commands "
                     f"(accepted: 1..{limit})")


main()
