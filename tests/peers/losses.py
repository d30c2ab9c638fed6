# SPDX-License-Identifier: Apache-2.0
"""Losses in microbatches and on ranks against PyTorch's cross_entropy over the whole batch: targets that do not count,
unequally many in each part or all of them; a sum over a count that is an input; means.

    losses.py BUILD_DIRECTORY

PyTorch computes in float64 from the same values. Exit codes as compare_gradients.py's."""
import os
import pathlib
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools, json_lines, safetensors
from compare_gradients import load_file, torch
from feed import read_text, rows

BATCH, SEQ, SPACE, COUNT = 8, 12, 32, 37
LIMIT = 1e-6  # of the loss, and of a gradient's largest element
PARTS = [[], *(["--microbatches", m] for m in (2, 4, 8)), ["--mesh", "dp=2"], ["--mesh", "dp=4"],
         ["--mesh", "dp=2", "--microbatches", 2], ["--mesh", "dp=2,tp=2"], ["--microbatches", 2, "--loss-chunk", 20]]
GRAPH = """graph "losses"
optimizer sgd { weight_decay = 0.0 }
symbol batch = 8
input %tokens : i32[batch,12]
input %targets : i32[batch,12]
input %count : f32[1]
parameter %table : f32[256,16] = normal(0.0, 0.3)
parameter %head : f32[16,256] = normal(0.0, 0.3)
%x : f32[batch,12,16] = embedding %table %tokens phase forward
%h : f32[batch,12,16] = tanh %x phase forward
%logits : f32[batch,12,256] = linear %h %head phase forward
"""
LOSS = "%loss : f32[] output, %lse : f32[batch,12,1] = cross_entropy %logits %targets{} phase loss\noutput %loss\n"
CASES = {"counted": " { ignore_index = 32 }", "given": " %count { ignore_index = 32 }", "mean": ""}


def expected(values, tokens, targets, case):
    """PyTorch's loss and gradients."""
    table, head = (values[name].double().requires_grad_() for name in ("table", "head"))
    logits = torch.tanh(table[tokens]) @ head
    ignored = -100 if case == "mean" else SPACE
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=ignored,
                                             reduction="mean" if case == "mean" else "sum")
    counts = {"given": COUNT, "mean": 1, "counted": max(int((targets != SPACE).sum()), 1)}
    (loss / counts[case]).backward()
    return loss.item() / counts[case], {"table": table.grad, "head": head.grad}


def ours(tool, text, case, options):
    """Initial values, loss and gradients."""
    pathlib.Path("l.txt").write_text(GRAPH + LOSS.format(CASES[case]))
    tool.must("compile", "l.txt", *options, "-o", "l.plan")
    given = ["--input=count=count.safetensors"] if case == "given" else []
    done = tool.must("run", "l.plan", "--text", text, "--steps", 1, "--lr", 0, "--seed", 2, "--threads", 1, "--json", "--save-gradients", "g",
                     "--save-initial-weights", "w", *given)
    return load_file("w"), json_lines(done)[0]["loss"], load_file("g")


def compare(what, found, wanted):
    _, loss, gradients = found
    want_loss, want = wanted
    worst = max((float((gradients[name].double() - want[name]).abs().max() / (want[name].abs().max() or 1)), name) for name in want)
    good = worst[0] <= LIMIT and abs(loss - want_loss) <= LIMIT * want_loss
    print(f"{'' if good else 'FAILED: '}{what}: loss {loss:.7f}, PyTorch's {want_loss:.7f}; at worst {worst[0]:.1e} of the largest of {worst[1]}")
    return not good


def main():
    tool, faults = Tools(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as work:
        before = pathlib.Path.cwd()
        os.chdir(work)
        pathlib.Path("spaces").write_bytes(bytes([SPACE]) * 1000)
        pathlib.Path("count.safetensors").write_bytes(safetensors({"count": ("F32", [1], struct.pack("<f", COUNT))}))
        for text in TEXT, "spaces":
            data = read_text(text)
            tokens, targets = (rows(data, 0, BATCH, SEQ, shift, SEQ) for shift in (0, 1))
            for case in CASES if text == TEXT else ["counted", "given"]:
                for options in PARTS:
                    found = ours(tool, text, case, options)
                    wanted = expected(found[0], tokens, targets, case)
                    faults += compare(f"{case}, {pathlib.Path(text).name}, {' '.join(map(str, options)) or 'at once'}", found, wanted)
        os.chdir(before)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
