# SPDX-License-Identifier: Apache-2.0
"""--make-vocab-size-divisible-by: a padded model is the model. Losses, every gradient and every weight of a
run have the bits of the run without padding, in all families and under all plans, and so have files, which
go from one to the other. Garbage in the padding changes no loss and has a gradient of 0. Uses no library that
reads safetensors.

    vocabulary.py TOOLS_DIRECTORY"""
import json
import os
import pathlib
import re
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INVALID, TEXT, Tools, check, finish, read_json, read_safetensors, refused, safetensors, scratch

tool = Tools(sys.argv[1])
CLASSES, PADDED, STEPS = 250, 256, 3
TINY = ["gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"]
TABLE = {"gpt2-tiny": "wte.weight", "llama-tiny": "model.embed_tokens.weight",
         "bert-tiny": "bert.embeddings.word_embeddings.weight", "encdec-tiny": "model.shared.weight"}
HEADS = {"llama-tiny": ["lm_head.weight"], "bert-tiny": ["cls.predictions.bias"]}
FULL = ["--recompute-granularity", "full", "--recompute-method", "uniform"]


def graph(path, preset, *options, padded, classes=CLASSES):
    multiple = ["--make-vocab-size-divisible-by", PADDED // 2] if padded else []
    tool.must("graph", preset, "--layers", 2, "--batch", 4, "--seq", 16, "--vocab", classes, *multiple, *options, "-o", path)


def train(plan, *options):
    """The losses of the steps, and what is saved: names -> tensors."""
    out = {name: f"{name}.safetensors" for name in ("save-initial-weights", "save-gradients", "save-weights")}
    outputs = [word for name, path in out.items() for word in (f"--{name}", path)]
    done = tool.must("run", plan, "--text", TEXT, "--steps", STEPS, "--gradients-step", STEPS, "--threads", 1, "--lr", 1e-2,
                     "--json", *outputs, *options)
    losses = [line["loss"] for line in map(json.loads, done.stdout.splitlines()) if "loss" in line]
    return losses, {name: read_safetensors(path) for name, path in out.items()}


def compile_(source, *options):
    tool.must("compile", source, "-o", "model.plan", *options)
    return "model.plan"


def both(preset, graph_options, plan_options=(), classes=CLASSES):
    """The runs without and with padding."""
    for padded in (False, True):
        graph("model.fbs", preset, *graph_options, padded=padded, classes=classes)
        yield train(compile_("model.fbs", *plan_options))


def same(what, a, b):
    check(a[0] == b[0] and len(a[0]) >= STEPS, what, "losses", a[0], b[0])
    for name in a[1]:
        different = [k for k in a[1][name].keys() | b[1][name].keys() if a[1][name].get(k) != b[1][name].get(k)]
        check(not different, what, name, different)


def smallest_budget(source):
    done = tool("compile", source, "--budget", 1, "-o", "none.plan")
    return re.search(r"needs (\d+) B", done.stderr).group(1)


def families():
    """Both dtypes, with dropout, under three plans. What the padded run saves has the shapes of the other."""
    for preset in TINY:
        for dtype in ("fp32", "bf16"):
            options = ["--dtype", dtype, "--dropout", 0.1, "--weight-decay", 0.1, "--decay", "*", "--clip-norm", 1]
            graph("plain.fbs", preset, *options, padded=False)
            graph("padded.fbs", preset, *options, padded=True)
            plain = train(compile_("plain.fbs"))
            for plan in ([], FULL, ["--budget", smallest_budget("padded.fbs")]):
                same(f"{preset} {dtype} {plan}", train(compile_("padded.fbs", *plan)), plain)
            for name in [TABLE[preset]] + HEADS.get(preset, []):
                for saved in plain[1].values():
                    check(saved[name][1][0] == CLASSES, preset, name, saved[name][1])


def ways():
    """Gradients in accumulators, and of ranks, some of whose parts are padding alone; the loss in chunks; other
    optimizers and states; adapters of the head."""
    few = 130  # of 256 rows: rank 2 of 4 has the last two of them, rank 3 none
    rows = [("gpt2-tiny", [], ["--microbatches", 2], CLASSES),
            ("bert-tiny", [], ["--loss-chunk", 16], CLASSES),
            ("llama-tiny", ["--dtype", "bf16"], ["--loss-chunk", 16, "--microbatches", 2], CLASSES),
            ("gpt2-tiny", ["--optimizer", "sgd", "--weight-decay", 0.1, "--decay", "*"], [], CLASSES),
            ("gpt2-tiny", ["--dtype", "bf16", "--master", "none", "--moments", "bf16"], [], few),
            ("llama-tiny", ["--lora", "4:*"], [], CLASSES)]
    rows += [("llama-tiny", ["--dtype", dtype], ["--mesh", "dp=4", "--zero", zero], few)
             for dtype in ("fp32", "bf16") for zero in (0, 1, 3)]
    for preset, graph_options, plan_options, classes in rows:
        plain, padded = both(preset, graph_options, plan_options, classes)
        same(f"{preset} {graph_options} {plan_options}", padded, plain)


def files():
    """Weights and checkpoints of one go to the other, and what has the shape of the plan is refused."""
    for padded in (False, True):
        graph("model.fbs", "gpt2-tiny", "--dtype", "bf16", padded=padded)
        tool.must("compile", "model.fbs", "-o", f"{padded}.plan")
    text = ["--text", TEXT, "--threads", 1]
    for plan, other in ((False, True), (True, False)):
        tool.must("run", f"{plan}.plan", *text, "--steps", 2, "--checkpoint", "there", "--save-weights", "two.safetensors")
        ends = []
        for resumed in (plan, other):
            shutil.copytree("there", "here", dirs_exist_ok=True)
            tool.must("run", f"{resumed}.plan", *text, "--steps", 4, "--resume", "here", "--save-weights", "four.safetensors",
                      "--save-gradients", "gradients.safetensors", "--gradients-step", 4)
            ends.append((read_safetensors("four.safetensors"), read_safetensors("gradients.safetensors")))
            shutil.rmtree("here")
        check(ends[0] == ends[1], "resumed", plan, other)
        shutil.rmtree("there")
        tool.must("run", f"{other}.plan", *text, "--steps", 1, "--init", "two.safetensors", "--save-initial-weights",
                  "again.safetensors")
        check(read_safetensors("two.safetensors") == read_safetensors("again.safetensors"), "weights change on their way", plan, other)
    tool.must("run", "True.plan", *text, "--steps", 1, "--save-weights", "folder/")
    check(read_json("folder/config.json")["vocab_size"] == CLASSES, "config.json")
    tensors = read_safetensors("two.safetensors")
    dtype, (rows, width), data = tensors["wte.weight"]
    tensors["wte.weight"] = dtype, [PADDED, width], data + data[:len(data) // rows * (PADDED - CLASSES)]
    pathlib.Path("wide.safetensors").write_bytes(safetensors(tensors))
    done = tool("run", "True.plan", *text, "--steps", 1, "--init", "wide.safetensors")
    refused(done, INVALID, 'wide.safetensors: tensor "wte.weight" has shape [256, 64], in the plan it has [250, 64]')


def ids():
    """The first row of padding is no id."""
    graph("model.fbs", "gpt2-tiny", padded=True)
    pathlib.Path("bytes.txt").write_bytes(b"a" * 20 + bytes([CLASSES]) + b"a" * 200)
    done = tool("run", compile_("model.fbs"), "--text", "bytes.txt", "--steps", 1)
    refused(done, INVALID, f"bytes.txt: byte 20 is {CLASSES}, beyond the model's vocabulary of {CLASSES}")


def garbage():
    """The same graph without a word about its parameters: all rows are drawn and saved, and then written over
    with 1e30, so that the logits of padding are far beyond all others. (Not infinite: dx is a product with
    these rows, and 0 times infinity is no number.)"""
    for preset in TINY:
        for options in ([], ["--loss-chunk", 16]):
            graph("padded.fbs", preset, "--dropout", 0.1, padded=True)
            clean = train(compile_("padded.fbs", *options))
            text = tool.text("dump", "padded.fbs", "--text")
            pathlib.Path("garbage.graph").write_text(text.replace(f" unpadded {CLASSES}", ""), encoding="utf-8")
            plan = compile_("garbage.graph", *options)
            tool.must("run", plan, "--text", TEXT, "--steps", 1, "--save-initial-weights", "drawn.safetensors")
            tensors, wide = read_safetensors("drawn.safetensors"), [TABLE[preset]] + HEADS.get(preset, [])
            for name in wide:
                dtype, shape, data = tensors[name]
                kept = len(data) // PADDED * CLASSES
                tensors[name] = dtype, shape, data[:kept] + struct.pack("<f", 1e30) * ((len(data) - kept) // 4)
            pathlib.Path("garbage.safetensors").write_bytes(safetensors(tensors))
            losses, saved = train(plan, "--init", "garbage.safetensors")
            for name in wide:
                _, _, gradient = saved["save-gradients"][name]
                check(not any(gradient[len(gradient) // PADDED * CLASSES:]), preset, name, "padding has a gradient")
                for kind in saved:
                    dtype, shape, data = saved[kind][name]
                    saved[kind][name] = dtype, [CLASSES] + shape[1:], data[:len(data) // PADDED * CLASSES]
            same(f"garbage, {preset} {options}", (losses, saved), clean)


def wrong():
    """What is no padding, in the text form."""
    graph("padded.fbs", "gpt2-tiny", padded=True)
    text = tool.text("dump", "padded.fbs", "--text")
    loss, table = 'node "loss" (cross_entropy): attribute "classes" is', 'value "wte.weight": unpadded rows'
    for old, new, message in (
            ("classes = 250", "classes = 0", f"{loss} 0, expected 1 to 256, the columns"),
            ("classes = 250", "classes = 257", f"{loss} 257, expected 1 to 256, the columns"),
            ("unpadded 250", "unpadded 256", f"{table} must be fewer than axis 0 has, and at least 1"),
            ("= normal(0.0, 0.02) no_decay unpadded", "= constant(1.0) no_decay unpadded",
             f"{table}, but a constant that is not 0")):
        pathlib.Path("wrong.graph").write_text(text.replace(old, new), encoding="utf-8")
        done = tool("compile", "wrong.graph", "-o", "wrong.plan")
        check(done.returncode == INVALID and done.stderr == f"remat-compile: error: wrong.graph: {message} (batch = 4, seq = 16)\n", new,
              done.stderr)


@scratch()
def main():
    for test in (families, ways, files, ids, garbage, wrong):
        test()
    finish()


main()
