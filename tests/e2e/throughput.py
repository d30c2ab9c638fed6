# SPDX-License-Identifier: Apache-2.0
"""Tokens a second and MFU of every report are those of closed forms: 6 flops for each token and weight of a product,
12 for each pair of a query and a key that it sees and each element of a head; over the step's time and the peak that
the device's description has. What is recomputed, accumulated or divided among ranks changes none of them.

    throughput.py BUILD_DIRECTORY SOURCE_DIRECTORY"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, read_json, scratch, write_json

call, source = Tools(sys.argv[1]).text, os.path.abspath(sys.argv[2])
LAYERS, WIDTH, HEADS, KEY_HEADS, INNER, VOCABULARY, BATCH, SEQ = 3, 64, 4, 2, 160, 256, 8, 48
SHAPE = ("--layers", LAYERS, "--width", WIDTH, "--heads", HEADS, "--batch", BATCH)


def check(found, expected, what):
    assert abs(found - expected) <= 1e-3 * expected, (what, found, expected)


def decoder(weights_of_layer):
    """Flops of a step: each query sees the keys up to its own."""
    tokens = BATCH * SEQ
    return 6 * tokens * (LAYERS * weights_of_layer + WIDTH * VOCABULARY) + 12 * LAYERS * WIDTH * BATCH * SEQ * (SEQ + 1) / 2


def encoder_decoder(source_seq):
    """Each side of LAYERS layers; the decoder's attend to both sides."""
    attention, wide = 4 * WIDTH * WIDTH, 2 * WIDTH * INNER
    read, written = BATCH * source_seq, BATCH * SEQ
    flops = 6 * read * LAYERS * (attention + wide) + 6 * written * (LAYERS * (attention + 2 * WIDTH * WIDTH + wide) + WIDTH * VOCABULARY)
    flops += 6 * read * LAYERS * 2 * WIDTH * WIDTH  # keys and values of the decoder, of what the encoder gives
    return flops + 12 * LAYERS * WIDTH * BATCH * (source_seq * source_seq + SEQ * source_seq + SEQ * (SEQ + 1) / 2)


def look(model, flops, tokens, target, dtype, *options, ranks=1):
    report = json.loads(call("compile", model, "--target", target, "--arch", "none", "--format", "json", "-o", "m.plan", *options))
    device = read_json(f"{source}/schemas/devices/{target}.json")
    peak, what = device["matmul"][f"{dtype}_flops_per_s"], (model, *options)
    seconds = report["step_ns"] / 1e9
    for found in (report, json.loads(call("dump", "m.plan", "--format", "json"))):
        assert found["tokens"] == tokens, (what, found["tokens"])
        check(found["tokens_per_s"], tokens / seconds, what)
        check(found["tokens_per_s_rank"], tokens / seconds / ranks, what)
        check(found["model_flops"], flops / ranks, what)
        assert abs(found["mfu"] * report["step_ns"] - flops / ranks / peak * 1e9) < 1, (what, found["mfu"])  # rounded to ns
    text = call("compile", model, "--target", target, "--arch", "none", "-o", "m.plan", *options)
    each = f", ([0-9,.]+) a {'rank' if target == 'cpu' else 'GPU'}" if ranks > 1 else ""
    for shown in (text, call("dump", "m.plan")):
        line = re.search(rf"^throughput +([0-9,.]+) tokens/s{each}; MFU ([0-9.]+) %$", shown, re.M)
        assert line, (what, shown)
        numbers = [float(number.replace(",", "")) for number in line.groups()]
        check(numbers[0], tokens / seconds, what)
        assert abs(numbers[-1] - 100 * report["mfu"]) <= 0.051, (what, line[0])
        if ranks > 1:
            assert abs(numbers[1] - tokens / seconds / ranks) <= 0.51, (what, line[0])
    return report


def look_at_run(tokens):
    """Of a plan for this processor, and of one for the processor that `cpu` describes."""
    device = read_json(f"{source}/schemas/devices/cpu.json")
    device["name"] = re.search(r"^model name\s*: (.*)$", open("/proc/cpuinfo").read() + "model name: cpu", re.M)[1] + ", 1 thread"
    write_json("this.json", device)
    for target, other in (("./this.json", False), ("cpu", True), ("h100-sxm", True)):
        plan = json.loads(call("compile", "gpt2.fbs", "--target", target, "--arch", "none", "--format", "json", "-o", "m.plan"))
        said = call("run", "m.plan", "--ids", "zipf", "--steps", 2, "--threads", 1, "--device", "cpu", "--report", "run.json")
        run = read_json("run.json")
        assert run["tokens"] == tokens and run["model_flops"] == plan["model_flops"], run
        assert run["other_machine"] == other, (target, run)
        check(run["tokens_per_s"], tokens * 1e9 / run["step_ns"], "run")
        check(run["tokens_per_s_rank"], tokens * 1e9 / run["step_ns"], "run")
        assert run["mfu"] == 0 if other else abs(run["mfu"] / (plan["mfu"] * plan["step_ns"] / run["step_ns"]) - 1) < 1e-3, run
        ratio = "predicted for h100-sxm" if target == "h100-sxm" else (
            "predicted for another machine: --measure-device" if other else f"{run['step_ns'] / plan['step_ns']:.2f} times")
        assert re.search(f"^step time .*  {re.escape(ratio)}, mean of 2, 1 thread$", said, re.M), (ratio, said)
        assert bool(re.search(r"^MFU +[0-9.]+ % +[0-9.]+ %$", said, re.M)) != other, said
        assert re.search(r"^tokens/s +[0-9,.]+ +[0-9,.]+$", said, re.M), said


with scratch():
    gpt2 = decoder(12 * WIDTH * WIDTH)
    call("graph", "gpt2-tiny", *SHAPE, "--seq", SEQ, "--vocab", VOCABULARY, "-o", "gpt2.fbs")
    for options, ranks in (((), 1), (("--ac-mode", "full"), 1), (("--microbatches", 4), 1), (("--loss-chunk", 100), 1),
                           (("--mesh", "dp=2"), 2), (("--mesh", "dp=2,tp=2", "--microbatches", 2, "--ac-mode", "full"), 4)):
        look("gpt2.fbs", gpt2, BATCH * SEQ, "cpu", "fp32", *options, ranks=ranks)
    look_at_run(BATCH * SEQ)
    llama = decoder(2 * WIDTH * WIDTH + 2 * WIDTH * WIDTH * KEY_HEADS // HEADS + 3 * WIDTH * INNER)
    call("graph", "llama-tiny", *SHAPE, "--kv-heads", KEY_HEADS, "--hidden", INNER, "--seq", SEQ, "--vocab", VOCABULARY,
         "--dtype", "bf16", "-o", "llama.fbs")
    look("llama.fbs", llama, BATCH * SEQ, "h100-sxm", "bf16", "--ac-mode", "full")
    look("llama.fbs", llama, BATCH * SEQ, "h100-sxm", "bf16", "--mesh", "dp=2,tp=2", "--sequence-parallel", ranks=4)
    call("graph", "encdec-tiny", *SHAPE, "--hidden", INNER, "--seq", SEQ, "--source-seq", 32, "--vocab", VOCABULARY, "-o", "encdec.fbs")
    look("encdec.fbs", encoder_decoder(32), BATCH * (SEQ + 32), "cpu", "fp32", "--ac-mode", "full")
    call("run", "m.plan", "--ids", "zipf", "--steps", 2, "--threads", 1, "--log", "run.jsonl")
    logged = [json.loads(line) for line in open("run.jsonl")]
    assert [step["tokens"] for step in logged] == [BATCH * (SEQ + 32), 2 * BATCH * (SEQ + 32)], logged
    check(logged[0]["tokens_per_s"], logged[0]["tokens"] * 1e9 / logged[0]["step_ns"], "log")
    sparse = f"{source}/tests/golden/cli/sparse.graph"  # has no symbols, so nothing says what a token is
    report = json.loads(call("compile", sparse, "--format", "json", "-o", "m.plan"))
    assert report["tokens"] == report["tokens_per_s"] == report["tokens_per_s_rank"] == 0, report
    check(report["model_flops"], 6 * 16 * 32 * 256, "sparse")
    assert re.search(r"^throughput   MFU [0-9.]+ %$", call("compile", sparse, "-o", "m.plan"), re.M)
