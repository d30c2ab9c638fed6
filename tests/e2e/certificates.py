# SPDX-License-Identifier: Apache-2.0
"""Plans are certified to be near the optimum. With an axis tp, what ranks exchange within layers is in the bound at its
price. In BERT the kernel that makes the loss also adds the head's bias, and its operand is live in every plan. In the
graph EARLY the loss begins in the first layer, before later layers have made anything. Of plans for ranks with a link
that is a thousand times slower or faster, the link or computation limits the step.

    certificates.py TOOLS"""
import json
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


def plan(options, target="h100-sxm"):
    return tool.json("compile", "m.fbs", "--target", target, "--arch", "none", "--format", "json", "-o", "m.plan",
                     *options)


def early_loss(text):
    lines = text.splitlines(keepends=True)
    return "".join(line.replace("phase forward", "phase loss") if line.startswith("%h.0.mlp.residual ") else line for line in lines)


def check_limits():
    with open(os.path.join(os.path.dirname(__file__), "../../schemas/devices/h100-sxm.json"), encoding="utf-8") as file:
        device = json.load(file)
    tool.text("graph", "gpt2-tiny", "--batch", "8", "--seq", "64", "-o", "m.fbs")
    for mesh, axis in (("dp=4", "dp"), ("dp=2,tp=2", "tp")):
        for factor, stream in ((0.001, axis), (1000, "computation")):
            links = {**device["links"], "within_latency_ns": 0}
            links["within_bytes_per_s"] *= factor
            pathlib.Path("device.json").write_text(json.dumps({**device, "links": links}))
            made = plan(["--mesh", mesh, "--zero", "3", "--budget", "80GB"], "device.json")
            check(made["limited_by"] == stream, f"{mesh}, a link {factor} times as fast: {made['limited_by']} limits")
            said = tool.text("dump", "m.plan")
            end = "; limited by " + ("" if stream == "computation" else "the link along ") + stream
            check(any(line.startswith("certificate") and line.endswith(end) for line in said.splitlines()), mesh, said)


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
    check_limits()
    finish()


main()
