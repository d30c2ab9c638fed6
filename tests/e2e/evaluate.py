# SPDX-License-Identifier: Apache-2.0
"""remat-run --eval: the losses of training with learning rate 0 and no dropout, their mean, and what it
refuses.

    evaluate.py TOOLS_DIRECTORY"""
import json
import os
import pathlib
import re
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INVALID, TEXT, USAGE, Tools, check, finish, json_lines, must, scratch

tool = Tools(sys.argv[1])
STEPS = 4


def compile_plan(plan, family, *options):
    tool.must("graph", f"{family}-tiny", "--batch", 2, "--seq", 24, *options, "-o", "model.fbs")
    tool.must("compile", "model.fbs", "-o", plan)


def train(plan, *options):
    return tool("run", plan, "--text", TEXT, "--steps", STEPS, *options)


def losses(done):
    return [line["loss"] for line in json_lines(done)]


def evaluates(family):
    compile_plan("plain.plan", family, "--weight-decay", 0)
    compile_plan("dropout.plan", family, "--dropout", 0.3)
    compile_plan("forward.plan", family, "--dropout", 0.3, "--forward-only")
    must(train("plain.plan", "--lr", 1e-2, "--save-weights", "w.safetensors"))
    init = "--init", "w.safetensors"
    expected = losses(train("plain.plan", *init, "--lr", 0, "--json"))
    check(len(set(expected)) == STEPS, f"{family}: windows differ: {expected}")
    check(losses(train("dropout.plan", *init, "--lr", 0, "--json")) != expected, f"{family}: dropout")
    for plan in ("plain.plan", "dropout.plan", "forward.plan"):
        done = train(plan, *init, "--eval", "--json")
        found, mean = losses(done), re.search(r"mean loss ([\d.]+) of (\d+) steps", done.stderr)
        check(found == expected, f"{family}, {plan}: {found} is not {expected}")
        check(mean and abs(float(mean[1]) - sum(expected) / STEPS) < 1e-6 and int(mean[2]) == STEPS,
              f"{family}, {plan}: mean in {done.stderr}")
    check("mean loss" in must(train("forward.plan", "--eval")).stdout, f"{family}: mean in the text form")


def steps(done):
    return re.findall(r"^step .* loss_hash.*$", must(done).stdout, re.M)


def without(lines):
    return [re.sub(" eval_loss [0-9.]+", "", line) for line in lines]


def between_steps(family):
    """--eval-every: the mean of --eval on what is held out, with the weights of that step; the steps are those of a training
    without evaluations on the rest."""
    compile_plan("dropout.plan", family, "--dropout", 0.3)
    data = TEXT.read_bytes()[:5000]
    seq, batch, count = 24, 2, 3
    ahead = 1 + (family == "encdec") * batch * seq - (family == "bert")
    held = (batch * count - 1) * seq + ahead + seq
    pathlib.Path("all").write_bytes(data)
    pathlib.Path("rest").write_bytes(data[:-held])
    pathlib.Path("end").write_bytes(data[-held:])
    plain = "dropout.plan", "--hash", "--lr", 1e-2, "--steps", 6

    def evaluated(text, last, *options):
        tool.must("run", *plain[:-1], last, "--text", text, *options, "--save-weights", "w.safetensors")
        done = tool.must("run", "dropout.plan", "--text", "end", "--steps", count, "--eval", "--init", "w.safetensors")
        return re.search(r"mean loss ([\d.]+) of", done.stdout)[1]

    rest = steps(tool("run", *plain, "--text", "rest"))
    found = steps(tool("run", *plain, "--text", "all", "--eval-every", 4, "--eval-steps", count, "--log", "log"))
    log = [json.loads(line) for line in pathlib.Path("log").read_text().splitlines()]
    check(without(found) == rest and without(found) != found, f"{family}: {found} is not {rest}")
    for step in 4, 6:
        mean = evaluated("rest", step)
        check(f"step {step} " in found[step - 1] and f" eval_loss {float(mean):.4f} " in found[step - 1] and
              abs(log[step - 1]["eval_loss"] - float(mean)) < 1e-6, f"{family}: {found[step - 1]}, evaluated {mean}")
    check([line["step"] for line in log if "eval_loss" in line] == [4, 6], f"{family}: {log}")


def token_files():
    """The same of token files: the last sequences are held out, or others are read, as many batches as there are."""
    tool.must("graph", "gpt2-tiny", "--batch", 2, "--seq", 24, "-o", "model.fbs")
    tool.must("compile", "model.fbs", "-o", "model.plan")
    tool.must("compile", "model.fbs", "--mesh", "dp=2", "--zero", 3, "-o", "ranks.plan")
    ids = [int(byte) for byte in TEXT.read_bytes()[:24 * 30 + 1]]
    rest = 24 * (30 - 2 * 3) + 1
    for name, part in (("all", ids), ("rest", ids[:rest]), ("end", ids[rest - 1:])):
        pathlib.Path(name).write_bytes(struct.pack(f"<{len(part)}H", *part))
    plain = "--hash", "--lr", 1e-2, "--steps", 6
    plan = tool("run", "model.plan", *plain, "--tokens", "rest", "--save-weights", "w.safetensors")
    mean = re.search(r"mean loss ([\d.]+) of 3", tool.text("run", "model.plan", "--tokens", "end", "--eval", "--steps", 3,
                                                           "--init", "w.safetensors"))[1]
    held = steps(tool("run", "model.plan", *plain, "--tokens", "all", "--eval-every", 6, "--eval-steps", 3))
    other = steps(tool("run", "model.plan", *plain, "--tokens", "rest", "--eval-every", 6, "--eval-tokens", "end"))
    check(held == other and without(held) == steps(plan) and f"eval_loss {float(mean):.4f} " in held[-1], f"{held}, {other}, {mean}")
    pathlib.Path("short").write_bytes(struct.pack("<25H", *ids[:25]))  # less than a batch: its sequence comes twice
    for tokens in "end", "short":
        losses = {re.search(r"step 6 loss .*?eval_loss ([\d.]+)", tool.text("run", plan, *plain, "--tokens", "rest",
                                                                            "--eval-every", 6, "--eval-tokens", tokens))[1]
                  for plan in ("model.plan", "ranks.plan")}
        check(len(losses) == 1, f"{tokens}: ranks have {losses}")


def refuses_between():
    for options, code, message in (
            (["--eval-steps", 3], USAGE, "--eval-steps needs --eval-every"),
            (["--eval-tokens", "end"], USAGE, "--eval-tokens needs --eval-every"),
            (["--eval-every", 1, "--eval"], USAGE, "--eval-every contradicts --eval"),
            (["--eval-every", 1, "--eval-steps", 15], USAGE,
             "--eval-every: 30 of the 30 sequences are to be held out for it: take fewer --eval-steps, or --eval-tokens"),
            (["--eval-every", 1, "--eval-tokens", "beyond"], INVALID, "beyond: id 3 is 256, beyond the model's vocabulary")):
        pathlib.Path("beyond").write_bytes(struct.pack("<99H", 1, 2, 3, 256, *range(95)))
        done = tool("run", "model.plan", "--tokens", "all", *options)
        check(done.returncode == code and message in done.stderr, f"{options}: {done.stderr}")


def refuses():
    for option in ("--lr", "--save-weights", "--save-gradients", "--report", "--log"):
        done = train("plain.plan", "--eval", option, 1)
        check(done.returncode == USAGE and f"{option} contradicts --eval" in done.stderr, f"{option}: {done.stderr}")
    done = train("forward.plan")
    check(done.returncode == INVALID and "--eval evaluates it" in done.stderr, f"training: {done.stderr}")


def main():
    for family in ("gpt2", "bert", "encdec"):
        with scratch():
            evaluates(family)
            if family == "gpt2":
                refuses()
                token_files()
                refuses_between()
            between_steps(family)
    finish()


main()
