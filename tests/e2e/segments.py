# SPDX-License-Identifier: Apache-2.0
"""Attention with segments in whole models: gpt2 and llama with grouped heads, whose graphs get the inputs
%query_segments and %key_segments.

    segments.py TOOLS_DIRECTORY

Where all are equal the hashes are those of the model without them. Padding on either side, packed rows and both have one
loss and one gradient under every policy, on two microbatches those of dp=2, and those to rounding along tp, with the
sequence divided, and where ranks have parts of the states; with dropout too. A token of one row of a pack changes no
loss of another."""
import array
import pathlib
import random
import re
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from divided import POLICIES, hashes, near
from harness import TEXT, Tools, check, finish, floats, json_lines, must, read_safetensors, safetensors, scratch

tool = Tools(sys.argv[1], timeout=120)
BATCH, SEQ = 4, 24
INPUTS = "input %query_segments : i32[batch,seq]\ninput %key_segments : i32[batch,seq]\n"
ATTENTION = re.compile(r"(= attention %\S+ %\S+ %\S+)( %\S+)?( \{)")


def model(family, dropout, *sides):
    """The graph with segments of these sides."""
    heads = ["--kv-heads", 1] if family == "llama" else []
    text = tool.text("graph", f"{family}-tiny", "--batch", BATCH, "--seq", SEQ, "--dropout", dropout, *heads, "--text")
    if sides:
        named = "".join(f" {side}_segments = %{side}_segments" for side in sides)
        text, count = ATTENTION.subn(lambda m: m[1] + (m[2] or "") + named + m[3], text)
        assert count > 1, text
        text = text.replace("input %tokens", "".join(line for line in INPUTS.splitlines(True)
                                                     if any(side in line for side in sides)) + "input %tokens", 1)
    return text


def write(name, rows):
    packed = array.array("i", [number for row in rows for number in row]).tobytes()
    pathlib.Path(name).write_bytes(safetensors({"any": ("I32", [BATCH, SEQ], packed)}))


def segments(kind, generator):
    """Numbers of each row's tokens: padding on the left or right, packed rows of random lengths."""
    rows = []
    for _ in range(BATCH):
        if kind == "equal":
            rows.append([7] * SEQ)
        elif kind == "packed":
            cuts = sorted(generator.sample(range(1, SEQ), 3))
            rows.append([sum(at >= cut for cut in cuts) for at in range(SEQ)])
        else:
            length = generator.randrange(5, SEQ - 3)
            row = [0] * length + [-1] * (SEQ - length)
            rows.append(row if kind == "right" else row[::-1])
    return rows


def train(name, text, sides, *options, steps=2):
    """(lines of the run, gradients of its first step)."""
    pathlib.Path("model.txt").write_text(text)
    tool.must("compile", "model.txt", *options, "-o", f"{name}.plan")
    given = [f"--input={side}_segments={side}.safetensors" for side in sides]
    done = tool("run", f"{name}.plan", "--text", TEXT, "--seed", 3, "--threads", 1, "--steps", steps, "--lr", 0.01, *given, "--json",
                "--save-gradients", f"{name}.g", "--gradients-step", 1)
    return json_lines(must(done)), {key: floats(tensor) for key, tensor in read_safetensors(f"{name}.g").items()}


def evaluate(text, sides):
    pathlib.Path("model.txt").write_text(text)
    tool.must("compile", "model.txt", "-o", "eval.plan")
    given = [f"--input={side}_segments={side}.safetensors" for side in sides]
    return json_lines(must(tool("run", "eval.plan", "--eval", "--text", TEXT, "--seed", 3, "--steps", 1, *given, "--json")))[0]["loss_hash"]


DIVIDED = {"tp": ["--mesh", "tp=2"], "sp": ["--mesh", "dp=2,tp=2", "--sequence-parallel"],
           "zero": ["--mesh", "dp=2", "--zero", 1]}


def follow(family, dropout, kind, sides, generator):
    rows = segments(kind, generator)
    for side in sides:
        write(f"{side}.safetensors", rows)
    text, what = model(family, dropout, *sides), f"{family}, dropout {dropout}, {kind}, {sides}"
    whole = train("whole", text, sides)
    if kind == "equal":
        check(hashes(whole) == hashes(train("without", model(family, dropout), ())), what, "other hashes than without segments")
        return
    other = train("without", model(family, dropout), (), steps=1)
    check(abs(other[0][0]["loss"] - whole[0][0]["loss"]) > 1e-6, what, "segments change nothing")
    for policy in POLICIES:
        check(hashes(train("policy", text, sides, *policy)) == hashes(whole), what, policy)
    parts = train("parts", text, sides, "--microbatches", 2)
    near(f"{what}: microbatches", parts, whole)
    check(hashes(train("ranks", text, sides, "--mesh", "dp=2")) == hashes(parts), what, "dp=2 is not two microbatches")
    if dropout:
        check(evaluate(text, sides) == evaluate(model(family, 0, *sides), sides), what, "--eval drops segments, or has dropout")
    axes = DIVIDED if family == "gpt2" else {key: DIVIDED[key] for key in ("zero",)}
    for name, options in axes.items():
        near(f"{what}: {name}", train(name, text, sides, *options), whole)


def main():
    generator = random.Random(5)
    both = ("query", "key")
    with scratch():
        for family in "gpt2", "llama":
            for dropout in (0, 0.1) if family == "gpt2" else (0,):
                follow(family, dropout, "equal", both, generator)
                follow(family, dropout, "packed", both, generator)
                follow(family, dropout, "left", ("key",), generator)
                follow(family, dropout, "right", both, generator)
    finish()


main()
