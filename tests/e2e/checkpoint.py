# SPDX-License-Identifier: Apache-2.0
"""Runs that are resumed have the bits of one that was not interrupted; what is no checkpoint of the run is refused.

    checkpoint.py BUILD_DIRECTORY TEXT"""
import json
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, join_safetensors, read_safetensors, scratch, split_safetensors

tool, text = Tools(sys.argv[1]), os.path.abspath(sys.argv[2])
STEPS, SEQ = 14, 64
FALL = ["--lr", "1e-3", "--schedule", "cosine", "--warmup", "3", "--min-lr", "1e-4", "--decay-steps", "12"]  # a resumed run knows


def train(plan, *arguments, code=0):
    return tool.text("run", plan, "--text", text, "-j", "1", "--hash", *arguments, code=code)


def steps_of(output):
    return [line for line in output.splitlines() if re.match(r"step \d+ loss", line)]


def read(path):
    return pathlib.Path(path).read_bytes()


def make_plans():
    """Of one training, on one rank and on two."""
    tool.text("graph", "gpt2-tiny", "--batch", "4", "--dropout", "0.1", "--dtype", "bf16", "-o", "m.fbs")
    tool.text("compile", "m.fbs", "--microbatches", "2", "-o", "one.plan")
    tool.text("compile", "m.fbs", "--mesh", "dp=2", "-o", "two.plan")
    tool.text("compile", "m.fbs", "--mesh", "dp=2", "--zero", "1", "-o", "zero.plan")
    tool.text("compile", "m.fbs", "--mesh", "dp=2", "--zero", "3", "-o", "three.plan")
    tool.text("compile", "m.fbs", "--mesh", "dp=4", "-o", "four.plan")
    tool.text("compile", "m.fbs", "--mesh", "dp=2", "--microbatches", "2", "-o", "sums.plan")
    tool.text("compile", "m.fbs", "--mesh", "dp=2", "--microbatches", "2", "--zero", "3", "-o", "sums3.plan")


def check_equal():
    """A checkpoint is the same by whomever it was written."""
    expected = read_safetensors("w/step-0000000006.safetensors")
    assert {"wte.weight", "wte.weight.m", "wte.weight.v", "wte.weight.master"} < set(expected)
    for plan in ["two.plan", "zero.plan", "three.plan"]:
        train(plan, "--steps", "6", *FALL, "--checkpoint", f"t.{plan}", "--every", "4")
        assert read_safetensors(f"t.{plan}/step-0000000006.safetensors") == expected, plan


def check_sums():
    """Ranks that have microbatches: the bits of the uninterrupted run, and under any other mesh the loss of the next step, a
    mean over as many tokens in another order."""
    for plan in ["sums3.plan", "sums.plan"]:
        shutil.rmtree("s", ignore_errors=True)
        train(plan, "--steps", str(STEPS), *FALL, "--save-weights", "sums.safetensors")
        train(plan, "--steps", "6", *FALL, "--checkpoint", "s")
        assert set(read_safetensors("s/step-0000000006.safetensors")) == set(read_safetensors("w/step-0000000006.safetensors"))
        train(plan, "--steps", str(STEPS), "--resume", "s", "--save-weights", "resumed.safetensors")
        assert read("resumed.safetensors") == read("sums.safetensors"), plan
    over = train("sums.plan", "--steps", "6", "--checkpoint", "s", "--resume", "s")
    assert not steps_of(over) and re.search(r"step time +\S+ \S+ +no step\n", over), over

    parts = {"w": 2, "one.plan": 2, "two.plan": 2, "s": 4, "four.plan": 4, "sums.plan": 4, "sums3.plan": 4}

    def next_loss(plan, folder):
        done = tool.must("run", plan, "--text", text, "-j", "1", "--steps", "7", "--resume", folder)
        said = f"in {parts[plan]} microbatches (of all ranks along dp), the checkpoint's run in {parts[folder]}: from here on"
        assert (said in done.stderr) == ("microbatches" in done.stderr) == (parts[plan] != parts[folder]), (plan, folder, done.stderr)
        return float(steps_of(done.stdout)[0].split()[3])

    for folder in ["s", "w"]:
        expected = next_loss("one.plan", folder)
        for plan in ["sums.plan", "sums3.plan", "two.plan", "four.plan"]:
            assert abs(next_loss(plan, folder) - expected) < 4 * SEQ * 2**-24 * expected, (plan, folder)


def check_chosen():
    """A plan whose number of microbatches was chosen goes on only with a run of as many: the refusal has what to type."""
    budget = ["--budget", "4GB"]

    def resume(*options):
        tool.text("compile", "m.fbs", *options, "-o", "n.plan")
        return tool("run", "n.plan", "--text", text, "-j", "1", "--steps", "7", "--resume", "w")

    for asked, given, parts, command in ((["--microbatches", "auto"], [], 1, "--microbatches 2"),
                                         (["--microbatches", "auto"], ["--mesh", "tp=2"], 1, "--mesh tp=2 --microbatches 2"),
                                         (["--ranks", "2"], ["--mesh", "tp=2"], 1, "--mesh tp=2 --microbatches 2"),
                                         (["--ranks", "4"], ["--mesh", "dp=4"], 4, None)):
        done = resume(*asked, *given, *budget)
        begin = (f"w/step-0000000006.safetensors: the plan has a step's batch in {parts} microbatches (of all ranks along dp), "
                 f"which {' '.join(asked)} chose, the checkpoint's run in 2: remat-compile ... ")
        said = command or "with a --mesh whose dp divides 2, and --microbatches"
        assert done.returncode == 2 and f"{begin}{said} makes the plan to continue with; with --microbatches 1 typed" in done.stderr, done
        if asked != ["--microbatches", "auto"]:
            continue
        done = resume(*command.split(), *budget)
        assert done.returncode == 0 and "microbatches" not in done.stderr, done
        done = resume("--microbatches", "1", *given, *budget)
        assert done.returncode == 0 and f"in {parts} microbatches (of all ranks along dp), the checkpoint's run in 2: from" in done.stderr, done
    done = resume("--microbatches", "auto", "--mesh", "dp=2", *budget)
    assert done.returncode == 0 and "microbatches" not in done.stderr, done
    for bindings, said in (("batch=auto:8..8", "batch is 8, of the checkpoint's run 4: remat-compile ... --bind batch=4"),
                           ("batch=4,seq=32", "sequence is 32, of the checkpoint's run 128: remat-compile ... --bind seq=128")):
        done = resume("--bind", bindings, *budget)
        assert done.returncode == 2 and f"the plan's {said}" in done.stderr, done


def change_header(path, change):
    header, data = split_safetensors(path)
    length = os.path.getsize(path) - 8 - len(data)
    change(header)
    with open(path, "wb") as file:
        file.write(join_safetensors(json.dumps(header).encode().ljust(length), data))


def check_refused():
    def set_metadata(key, value):
        return lambda header: header["__metadata__"].update({key: value})

    def rename(header):
        header["wpe.other"] = header.pop("wpe.weight")

    def retype(header):
        header["wpe.weight"]["dtype"] = "F16"

    faults = [(set_metadata("format", "pt"), 4, 'no checkpoint: its "format" is "pt"'),
              (set_metadata("step", "7x"), 4, '"step" must be a number'),
              (set_metadata("step", "7"), 4, "it is of step 7"),
              (set_metadata("seed", "-1"), 4, '"seed" must be a number'),
              (set_metadata("lr", "nan"), 4, '"lr" must be a number'),
              (set_metadata("lr", "1e999"), 4, '"lr" must be a number'),
              (set_metadata("lr", "1e39"), 4, '"lr" must be a number from 0 to 3e+38'),
              (set_metadata("lr", "0x10"), 4, '"lr" must be a number from 0 to 3e+38'),
              (set_metadata("min_lr", "0X1p-3"), 4, '"min_lr" must be a number'),
              (set_metadata("parts", "0"), 4, '"parts" must be a number from 1 to 1.84467e+19'),
              (set_metadata("batch", "-1"), 4, '"batch" must be a number from 0'),
              (set_metadata("warmup", "1000000001"), 4, '"warmup" must be a number from 0 to 1e+09'),
              (set_metadata("schedule", "steep"), 4, '"schedule" is "steep", no schedule'),
              (set_metadata("batch", "8"), 2, "the plan's batch is 4, of the checkpoint's run 8"),
              (set_metadata("format", "remat-checkpoint/1"), 4, 'its "format" is "remat-checkpoint/1", expected "remat-checkpoint/2"'),
              (set_metadata("data_size", "5"), 2, "the size of the data, without what --eval-every holds out for evaluation, is "),
              (set_metadata("data_hash", "5"), 2, "the hash of the data is "),
              (rename, 4, 'tensor "wpe.weight" of the plan is missing'),
              (retype, 4, 'tensor "wpe.weight" is F16 [128, 64], in the plan BF16 [128, 64]')]
    assert "accepted: 0..3e38" in train("one.plan", "--lr", "1e39", code=2)
    train("one.plan", "--steps", "1", "--lr", "1e-310", "--checkpoint", "f")
    train("one.plan", "--steps", "2", "--resume", "f")
    train("one.plan", "--steps", "2", *FALL, "--checkpoint", "d")
    name = os.listdir("d")[0]
    whole = read(f"d/{name}")
    for change, code, said in faults:
        shutil.rmtree("e", ignore_errors=True)
        shutil.copytree("d", "e")
        change_header(f"e/{name}", change)
        message = train("one.plan", "--resume", "e", code=code)
        assert said in message and "e/step-0000000002.safetensors: " in message, message
    with open(f"e/{name}", "wb") as file:
        file.write(read(f"d/{name}")[:-1])
    message = train("one.plan", "--resume", "e", code=4)
    assert "its data ends at" in message and "without this file" not in message, message
    for make in os.mkdir, os.mkfifo:
        os.unlink(f"e/{name}")
        make("e/step-0000000003.safetensors")
        shutil.copy(f"d/{name}", "e")
        message = train("one.plan", "--resume", "e", code=5)
        assert "not a regular file; without this file --resume begins after step 2" in message, message
        (os.rmdir if make == os.mkdir else os.unlink)("e/step-0000000003.safetensors")
    tool.text("graph", "llama-tiny", "--batch", "4", "-o", "l.fbs")
    tool.text("compile", "l.fbs", "-o", "l.plan")
    assert " of the plan is missing" in train("l.plan", "--resume", "d", code=4)
    for arguments, said in [(["--checkpoint", "d"], "checkpoints of another run, up to step 2"),
                            (["--resume", "d", "--steps", "2"], "begins after step 2"),
                            (["--resume", "d", "--seed", "1"], "--seed is 1, of the checkpoint's run 0"),
                            (["--resume", "d", "--init", f"d/{name}"], "--init contradicts --resume"),
                            (["--resume", "."], "it has no checkpoint"), (["--every", "2"], "--every needs"),
                            (["--eval", "--resume", "d"], "--resume contradicts --eval"),
                            (["--resume", "d", "--min-lr", "1"], "--min-lr 1 is above --lr 0.001"),
                            (["--resume", "d", "--schedule", "constant", "--min-lr", "0"], "--min-lr needs --schedule"),
                            (["--resume", "d", "--warmup", "12"], "--warmup 12 leaves none of 12 steps")]:
        assert said in train("one.plan", *arguments, code=2), arguments
    assert "No such file" in train("one.plan", "--resume", "nowhere", code=5)
    os.symlink("d", "linked")
    for arguments, said in [(["--resume", "d", "--save-weights", f"d/{name}"], f"--save-weights 'd/{name}' has the name of a checkpoint"),
                            (["--resume", "d", "--save-weights", f"./linked/../linked/{name}"], "in the folder of --resume"),
                            (["--resume", "d", "--save-gradients", "d/step-0000000009.safetensors"], "has the name of a checkpoint"),
                            (["--checkpoint", "new", "--save-weights", "new"], "'new' is the folder of --checkpoint: take another name"),
                            (["--checkpoint", "new/", "--report", "./new"], "'./new' is the folder of --checkpoint"),
                            (["--resume", "d", "--log", f"d/{name}"], f"--log 'd/{name}' has the name of a checkpoint")]:
        assert said in train("one.plan", *arguments, code=2), arguments
    assert os.listdir("d") == [name] and read(f"d/{name}") == whole and not os.path.exists("new")
    train("one.plan", "--steps", "1", "--checkpoint", "both", "--save-weights", "both/")
    assert sorted(os.listdir("both")) == ["config.json", "model.safetensors", "step-0000000001.safetensors"]


def check_header():
    """A header that would take a lot of memory is refused before it does."""
    for text_of in (b'{"a":' + b"[" * 2**21, b'{"a":{"dtype":"F32","shape":[' + b"1," * 2**21 + b'1],"data_offsets":[0,4]}}'):
        with open("large.safetensors", "wb") as file:
            file.write(join_safetensors(text_of, bytes(4)))
        assert "a header of more than 2097152 values" in train("one.plan", "--init", "large.safetensors", code=4)


def check_kept():
    """The newest two, and nothing that has another name."""
    os.mkdir("k")
    others = ["step-1.safetensors", "step-0000000001.safetensors.bak", "notes", "notes.7-0.remat-tmp"]
    for name in others:
        with open(f"k/{name}", "w", encoding="utf-8") as file:
            file.write("mine")
    train("one.plan", "--steps", "5", "--checkpoint", "k", "--every", "1")
    expected = others + ["step-0000000004.safetensors", "step-0000000005.safetensors"]
    assert sorted(os.listdir("k")) == sorted(expected), os.listdir("k")
    for left in ["step-0000000003.safetensors", "step-0000000006.safetensors.7-0.remat-tmp"]:  # of a killed run
        shutil.copy("k/step-0000000004.safetensors", f"k/{left}")
    train("one.plan", "--steps", "5", "--checkpoint", "k", "--resume", "k")
    assert sorted(os.listdir("k")) == sorted(expected), os.listdir("k")
    with open("k/step-0000000005.safetensors", "r+b") as file:
        file.truncate(1000)
    message = train("one.plan", "--resume", "k", code=4)
    assert "k/step-0000000005.safetensors: " in message, message
    assert message.rstrip().endswith("without this file --resume begins after step 4"), message
    os.remove("k/step-0000000005.safetensors")
    assert len(steps_of(train("one.plan", "--steps", "5", "--resume", "k"))) == 1


@scratch()
def main():
    make_plans()
    whole = steps_of(train("one.plan", "--steps", str(STEPS), *FALL, "--save-weights", "whole.safetensors"))
    assert len(whole) == STEPS
    train("one.plan", "--steps", "6", *FALL, "--checkpoint", "w")
    for plan in ["two.plan", "zero.plan", "three.plan"]:
        train(plan, "--steps", str(STEPS), "--resume", "w", "--save-weights", "resumed.safetensors")
        assert read("resumed.safetensors") == read("whole.safetensors"), plan
    check_equal()
    check_sums()
    check_chosen()
    check_refused()
    check_header()
    check_kept()


main()
