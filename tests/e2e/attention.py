# SPDX-License-Identifier: Apache-2.0
"""Attention written out gives the loss and the gradients of the fused kernel, up to rounding: every family
in fp32 from the same initial weights, with dropout (its sites and so its masks are the same) and without,
and for a single token, of which every axis has one element.

    attention.py TOOLS_DIRECTORY"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools, floats, read_safetensors, scratch

tool = Tools(sys.argv[1])
LOSS_LIMIT = 1e-6  # relative
GRADIENT_LIMIT = 1e-5  # of the tensor's largest
GRADIENT_FLOOR = 1e-6  # of the model's largest


def train(family, form, dropout, batch, seq):
    """The loss and gradients of the first step."""
    tool.text("graph", f"{family}-tiny", "--batch", batch, "--seq", seq, "--attention", form, "--dropout", dropout,
              "-o", "model.fbs")
    tool.text("compile", "model.fbs", "-o", "model.plan")
    out = tool.text("run", "model.plan", "--text", TEXT, "--steps", 1, "--json", "--save-gradients",
                    "gradients.safetensors")
    gradients = read_safetensors("gradients.safetensors")
    return json.loads(out.splitlines()[0])["loss"], {name: floats(tensor) for name, tensor in gradients.items()}


def difference(x, y):
    return max(abs(a - b) for a, b in zip(x, y, strict=True))


def largest(x):
    return max(map(abs, x))


def main():
    faults = 0
    for family in ("gpt2", "llama", "bert", "encdec"):
        for dropout, batch, seq in ((0, 2, 48), (0.2, 2, 48), (0, 1, 1)):
            with scratch():
                (loss, fused), (other, written) = (train(family, form, dropout, batch, seq)
                                                   for form in ("fused", "written-out"))
            floor = GRADIENT_FLOOR * max(map(largest, fused.values()))
            worst = max((difference(fused[name], written[name]) / max(GRADIENT_LIMIT * largest(fused[name]), floor),
                         name) for name in fused.keys() | written.keys())
            off = abs(loss - other) / loss
            good = off <= LOSS_LIMIT and worst[0] <= 1
            faults += not good
            print(f"{'' if good else 'FAILED: '}{family}, dropout {dropout}, {batch} x {seq}: loss {loss:.8f}, "
                  f"relative {off:.1e}; {len(fused)} gradients, at worst {worst[0]:.3f} of the limit ({worst[1]})")
    return faults > 0


sys.exit(main())
