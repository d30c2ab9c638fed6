# SPDX-License-Identifier: Apache-2.0
"""Plans are certified to be near the optimum. With an axis tp, what ranks exchange within layers is in the bound at its
price. In BERT the kernel that makes the loss also adds the head's bias, and its operand is live in every plan. In the
graph EARLY the loss begins in the first layer, before later layers have made anything.

    certificates.py TOOLS"""
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, check, figure, finish, scratch

tool = Tools(sys.argv[1])
LLAMA = "llama3.2-1b --batch 4 --seq 2048"
EARLY = "gpt2 --layers 24 --width 256 --heads 4 --vocab 512 --context 256 --batch 8 --seq 256"
BERT = "bert-large --batch 8 --seq 512 --dropout 0.1"
CASES = [  # what it is, graph, options, shares of the transient memory
    ("llama", LLAMA, "", (1, 0.8, 0.6, 0.4)),
    ("llama tp=8", LLAMA, "--mesh tp=8", (1, 0.8, 0.6, 0.4, 0.3, 0.2)),
    ("llama tp=8, sequence parallel", LLAMA, "--mesh tp=8 --sequence-parallel", (1, 0.8, 0.6, 0.4)),
    ("bert", BERT, "", (1, 0.8, 0.6, 0.4, 0.3, 0.2)),
    ("an early loss", EARLY, "", (0.8, 0.6, 0.3)),
]


def plan(options):
    return tool.json("compile", "m.fbs", "--target", "h100-sxm", "--arch", "none", "--format", "json", "-o", "m.plan",
                     *options)


def early_loss(text):
    lines = text.splitlines(keepends=True)
    return "".join(line.replace("phase forward", "phase loss") if line.startswith("%h.0.mlp.residual ") else line for line in lines)


@scratch()
def main():
    for what, graph, options, shares in CASES:
        tool.text("graph", *graph.split(), "--dtype", "bf16", "-o", "m.fbs")
        if graph == EARLY:
            text = tool.text("dump", "m.fbs", "--text")
            pathlib.Path("m.fbs").write_text(early_loss(text))
        saved = plan(options.split())
        transient = saved["arena_bytes"] - saved["static_bytes"]
        certified = []
        for share in shares:
            budget = saved["reserve_bytes"] + saved["static_bytes"] + int(transient * share)
            made = plan([*options.split(), "--budget", str(budget)])
            certified.append(made["bound_step_ns"] / made["step_ns"])
            print(f"{what}, {share:.0%} of the transient memory: gap {1 / certified[-1] - 1:.3%}")
        check(max(certified) <= 1, what, "is faster than its bound")
        figure(min(certified), f"certificates bound / plan, {what}")
    finish()


main()
