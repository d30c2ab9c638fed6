# SPDX-License-Identifier: Apache-2.0
"""Manual policies of a large graph whose layers are unlike, where a policy that saves more may take longer:
`--solver manual` is as fast as each policy that fits, more memory makes no plan slower, and the fastest policy that a
plan names is no slower than any that fits.

    unlike_layers.py BUILD_DIRECTORY"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, scratch

tool = Tools(sys.argv[1])
LAYERS, ROWS, WIDTHS = 300, 64, (32, 1024)
EVERY = (4, 5, 6, 7, 10, 18, 19, 20)


def chain():
    lines = ['graph "chain"', f"input %x0 : f32[{ROWS},32]", f"input %targets : i32[{ROWS}]"]
    for layer in range(LAYERS):
        width, scope = WIDTHS[layer % 2], f'phase forward scope "h.{layer}"'
        lines += [f"parameter %a{layer} : f32[32,{width}] = normal(0.0, 0.02)",
                  f"%l{layer} : f32[{ROWS},{width}] = linear %x{layer} %a{layer} {scope}",
                  f"%g{layer} : f32[{ROWS},{width}] = gelu %l{layer} {{ approximate = 1 }} {scope}",
                  f"parameter %b{layer} : f32[{width},32] = normal(0.0, 0.02)",
                  f"%x{layer + 1} : f32[{ROWS},32] = linear %g{layer} %b{layer} {scope}"]
    return "\n".join(lines + [f"%loss : f32[] output, %lse : f32[{ROWS},1] = cross_entropy %x{LAYERS} %targets phase loss",
                              "output %loss", ""])


def compiled(*options):
    return tool.json("compile", "chain.txt", "--reserve", "0", "--target", "h100-sxm", "--arch", "none", "--format", "json",
                     "-o", "chain.plan", *options)


with scratch():
    with open("chain.txt", "w") as file:
        file.write(chain())
    policies = [compiled("--ac-mode", "selective", "--ac-option", str(every)) for every in EVERY]
    policies += [compiled("--gradient-checkpointing-kwargs", f"every_n_layers={n}") for n in EVERY[1::2]]
    turns = sum(a["step_ns"] < b["step_ns"] and a["arena_bytes"] < b["arena_bytes"] for a in policies for b in policies)
    assert turns > 0, "layers that are unlike"
    last_ns = None
    for limit in sorted(policy["arena_bytes"] for policy in policies):
        best_ns = min(policy["step_ns"] for policy in policies if policy["arena_bytes"] <= limit)
        plan = compiled("--budget", str(limit), "--solver", "manual")
        assert plan["step_ns"] <= best_ns, (limit, plan["policy"], plan["step_ns"], best_ns)
        assert last_ns is None or plan["step_ns"] <= last_ns, (limit, plan["step_ns"], last_ns)
        last_ns = plan["step_ns"]
    limit = sorted(policy["arena_bytes"] for policy in policies)[len(policies) // 2]
    best_ns = min(policy["step_ns"] for policy in policies if policy["arena_bytes"] <= limit)
    plan = compiled("--budget", str(limit))
    slower = re.search(r"the fastest manual policy that fits is .*?, ([\d.]+) % slower", " ".join(plan["notes"]))
    assert float(slower[1]) <= 100 * (best_ns / plan["step_ns"] - 1) + 0.005, (plan["notes"], best_ns, plan["step_ns"])
