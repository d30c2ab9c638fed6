# SPDX-License-Identifier: Apache-2.0
"""Rotary positions of each row, i32 [batch, seq], in a Llama with grouped heads.

    positions.py TOOLS_DIRECTORY

Positions 0, 1, .. in every row give the hashes of the model without them. Others, as of packed rows, give another loss, the
same under every policy, on two microbatches that of dp=2, and to rounding the whole batch's there, along tp and with the
sequence divided. Rows of the table that all tokens share turn nothing: queries and keys turn alike. A position that the
table lacks is refused."""
import array
import pathlib
import random
import re
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from divided import POLICIES, hashes, near
from harness import INVALID, TEXT, Tools, check, finish, floats, json_lines, must, read_safetensors, refused, safetensors, scratch

tool = Tools(sys.argv[1], timeout=120)
BATCH, SEQ, TABLE = 4, 24, 40
DIVIDED = {"tp": ["--mesh", "tp=2"], "sp": ["--mesh", "dp=2,tp=2", "--sequence-parallel"], "zero": ["--mesh", "dp=2", "--zero", 1]}


def model(with_positions):
    text = tool.text("graph", "llama-tiny", "--batch", BATCH, "--seq", SEQ, "--kv-heads", 2, "--text")
    if with_positions:
        text, count = re.subn(r"(= rope %\S+ %rope)\b", r"\1 %positions", text)
        assert count > 1, text
        text, count = re.subn(r"%rope : f32\[seq,2,2,(\d+)\] = rope_table \{ length = seq", rf"%rope : f32[{TABLE},2,2,\1] = rope_table {{ length = {TABLE}", text)
        assert count == 1, text
        text = text.replace("input %tokens", "input %positions : i32[batch,seq]\ninput %tokens", 1)
    return text


def train(text, rows, *options):
    """(losses and hashes, gradients of the first step)"""
    pathlib.Path("model.txt").write_text(text)
    tool.must("compile", "model.txt", *options, "-o", "m.plan")
    done = must(run(rows, "--save-gradients", "m.g", "--gradients-step", 1))
    return json_lines(done), {key: list(floats(tensor)) for key, tensor in read_safetensors("m.g").items()}


def run(rows, *options):
    given = []
    if rows:
        packed = array.array("i", [position for row in rows for position in row]).tobytes()
        pathlib.Path("p.safetensors").write_bytes(safetensors({"any": ("I32", [BATCH, SEQ], packed)}))
        given = ["--input=positions=p.safetensors"]
    return tool("run", "m.plan", "--text", TEXT, "--seed", 3, "--threads", 1, "--steps", 2, "--lr", 0.01, "--json", *given, *options)


def main():
    generator = random.Random(5)
    with scratch():
        text, plain = model(True), train(model(False), None)
        check(hashes(train(text, [list(range(SEQ))] * BATCH)) == hashes(plain), "positions 0, 1, .. have other hashes than none")
        near("later positions", train(text, [list(range(9, 9 + SEQ))] * BATCH), plain)
        rows = [[at - cut if at >= cut else at for at in range(SEQ)] for cut in generator.sample(range(2, SEQ - 1), BATCH)]
        whole = train(text, rows)
        check(abs(whole[0][0]["loss"] - plain[0][0]["loss"]) > 1e-6, "packed rows change nothing")
        for policy in POLICIES:
            check(hashes(train(text, rows, *policy)) == hashes(whole), policy)
        parts = train(text, rows, "--microbatches", 2)
        near("microbatches", parts, whole)
        check(hashes(train(text, rows, "--mesh", "dp=2")) == hashes(parts), "dp=2 is not two microbatches")
        for name, options in DIVIDED.items():
            near(name, train(text, rows, *options), whole)
        refused(run([[TABLE] * SEQ] * BATCH), INVALID, f"accepted: 0 to {TABLE - 1}", "a position above the table")
    finish()


main()
