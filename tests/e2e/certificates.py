# SPDX-License-Identifier: Apache-2.0
"""Plans are certified to be near the optimum. With an axis tp, what ranks exchange within layers is in the bound at its
price. In BERT the kernel that makes the loss also adds the head's bias, and its operand is live in every plan. In the
graph EARLY the loss begins in the first layer, before later layers have made anything.

    certificates.py TOOLS"""
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, scratch

tool = Tools(sys.argv[1])
LLAMA = "llama3.2-1b --batch 4 --seq 2048"
EARLY = "gpt2 --layers 24 --width 256 --heads 4 --vocab 512 --context 256 --batch 8 --seq 256"
BERT = "bert-large --batch 8 --seq 512 --dropout 0.1"
CASES = [  # graph, options, largest gap, shares of the transient memory
    (LLAMA, "", 0.002, (1, 0.8, 0.6, 0.4)),
    (LLAMA, "--mesh tp=8", 0.002, (1, 0.8, 0.6, 0.4, 0.3, 0.2)),
    (LLAMA, "--mesh tp=8 --sequence-parallel", 0.002, (1, 0.8, 0.6, 0.4)),
    (BERT, "", 0.01, (1, 0.8, 0.6, 0.4, 0.3, 0.2)),
    (EARLY, "", 0.01, (0.8, 0.6, 0.3)),
]


def plan(options):
    return tool.json("compile", "m.fbs", "--target", "h100-sxm", "--arch", "none", "--format", "json", "-o", "m.plan",
                     *options)


def early_loss(text):
    lines = text.splitlines(keepends=True)
    return "".join(line.replace("phase forward", "phase loss") if line.startswith("%h.0.mlp.residual ") else line for line in lines)


def main():
    faults = []
    with scratch():
        for graph, options, most, shares in CASES:
            case = f"{graph} {options}".rstrip()
            tool.text("graph", *graph.split(), "--dtype", "bf16", "-o", "m.fbs")
            if graph == EARLY:
                text = tool.text("dump", "m.fbs", "--text")
                pathlib.Path("m.fbs").write_text(early_loss(text))
            saved = plan(options.split())
            for share in shares:
                transient = saved["arena_bytes"] - saved["static_bytes"]
                budget = saved["reserve_bytes"] + saved["static_bytes"] + int(transient * share)
                made = plan([*options.split(), "--budget", str(budget)])
                gap = made["step_ns"] / made["bound_step_ns"] - 1
                print(f"{case}, {share:.0%} of the transient memory: gap {gap:.3%}")
                if not 0 <= gap <= most:
                    faults.append(f"{case}, {share:.0%}: gap {gap:.3%}, at most {most:.1%}")
    print("\n".join(faults))
    return 1 if faults else 0


sys.exit(main())
