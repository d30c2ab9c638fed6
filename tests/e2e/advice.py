# SPDX-License-Identifier: Apache-2.0
"""Advice, typed as it is printed, gives what it says: the same bytes and the same step. It is given where it helps, and
not where it cannot.

    advice.py TOOLS SOURCE_DIRECTORY"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, read_json, scratch, write_json

call, source = Tools(sys.argv[1]).must, os.path.abspath(sys.argv[2])
WIDE = ("gpt2-tiny", "--batch", "64", "--seq", "64", "--layers", "2", "--vocab", "2048")  # most of it is logits
MASKED = ("bert-tiny", "--batch", "64", "--seq", "64", "--layers", "2", "--vocab", "2048")  # and the head has a bias
DEEP = ("gpt2-tiny", "--batch", "8", "--seq", "16", "--width", "256", "--dtype", "bf16")  # most of it is states
TALL = ("gpt2-tiny", "--batch", "8", "--seq", "64")
UNIFORM = ("--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers")


def compile_plan(graph, options):
    """The object, a report or a refusal."""
    call("graph", *graph, "-o", "m.fbs")
    return json.loads(call("compile", "m.fbs", *options, "-o", "m.plan", "--format", "json", code=(0, 3)).stdout)


def needed(report):
    return report["arena_bytes"] + report["reserve_bytes"]


def words_of(advice):
    """What is typed to remat-graph and to remat-compile."""
    options = advice["options"].split()
    if advice["tool"] == "remat-graph":
        return options, []
    return advice.get("graph_options", "").split(), options


def name_of(advice):
    graph, own = words_of(advice)
    return " ".join([*own, *graph]) if not graph or not own else f"{' '.join(own)}, remat-graph {' '.join(graph)}"


def typed(graph, options, advice):
    """The report with the advice: an option that was given is replaced."""
    more, own = words_of(advice)
    kept = list(options)
    for word in own:
        if word in kept:
            del kept[kept.index(word):kept.index(word) + 2]
    return compile_plan((*graph, *more), (*kept, *own))


def look(graph, options, *expected, refused=False):
    """The options that are advised (None: any), of which each planned one gives what is said of it."""
    found = compile_plan(graph, options)
    text = call("compile", "m.fbs", *options, "-o", "m.plan", code=(0, 3))
    text = text.stdout + text.stderr
    assert (found["schema"] == "remat-refusal/1") == refused, (graph, options, found)
    assert expected == (None,) or [name_of(advice) for advice in found["advice"]] == list(expected), (graph, options, found["advice"])
    for advice in found["advice"]:
        name = name_of(advice) if advice["tool"] == "remat-compile" else f"remat-graph {advice['options']}"
        line = re.search(f"^ *(?:advice +|fits with |smaller with ){name}: (.*)$", text, re.M)
        assert line, (name, text)
        if not advice["step_ns"]:
            if "the time is not known" not in line[1]:
                refusal = typed(graph, options, advice)
                assert refusal["smallest_budget_bytes"] == advice["needed_bytes"] > found["budget_bytes"], (advice, refusal)
                assert re.fullmatch("needs [0-9.]+ MB, still more than the budget", line[1]), line[1]
            continue
        report = typed(graph, options, advice)
        assert needed(report) == advice["needed_bytes"] and report["step_ns"] == advice["step_ns"], (graph, options, advice, report)
        said = re.match(r"([0-9.]+) (us|ms) a step, needs ([0-9.]+) MB(?:;|$)", line[1])
        assert abs(float(said[1]) * {"us": 1e3, "ms": 1e6}[said[2]] - report["step_ns"]) <= 0.01 * report["step_ns"], (line[0], report["step_ns"])
        assert 0 <= float(said[3]) * 1e6 - needed(report) <= 0.01 * needed(report), (line[0], needed(report))
        if refused:
            assert needed(report) <= report["budget_bytes"] and found["budget_bytes"] < found["smallest_budget_bytes"], (found, report)
            assert (found["budget_bytes"] < report["budget_bytes"]) == ("--budget 100%" in advice["options"]), (advice, report)
        else:
            assert report["step_ns"] < 0.99 * found["step_ns"] or needed(report) < 0.99 * needed(found), (advice, found)
    return found, text


def smallest(graph, *options):
    return compile_plan(graph, (*options, "--budget", "1MB"))["smallest_budget_bytes"]


def check_adapters(reserve):
    """Planned with adapters where the graph can be made anew, whatever it was made with, and else not."""
    lora = smallest((*DEEP, "--lora", "16"), *reserve)
    *_, advice = look(DEEP, (*reserve, "--budget", str(lora)), "--lora 16", refused=True)[0]["advice"]
    assert advice["step_ns"] and advice["needed_bytes"] <= lora, (advice, lora)
    found, _ = look(DEEP, (*reserve, "--budget", str(lora - 1)), "--lora 16", "--moments bf16 --lora 16", refused=True)
    assert found["advice"][0]["needed_bytes"] == lora and not found["advice"][0]["step_ns"], found["advice"]
    for model in (("llama-tiny", "--dropout", "0.1", "--attention", "written-out", "--make-vocab-size-divisible-by", "96"),
                  ("bert-tiny", "--weight-decay", "0.1", "--beta2", "0.95"), ("encdec-tiny", "--source-seq", "32", "--clip-norm", "1"),
                  ("gpt2-tiny", "--unbound", "batch,seq")):
        graph = (*model, "--layers", "1", "--batch", "8", "--seq", "16", "--width", "128", "--heads", "4", "--dtype", "bf16")
        options = (*reserve, "--bind", "batch=4,seq=8")
        budget = smallest(graph, *options) - compile_plan(graph, options)["static_parts"]["moments"]
        advice = look(graph, (*options, "--budget", str(budget)), None, refused=True)[0]["advice"][-1]
        assert advice["options"] == "--lora 16" and advice["step_ns"], (graph, advice)
    for more, why in ((["--kv-heads", "2"], "the graph has no config.json"),
                      (["--no-decay", "*"], "the graph is not what its config.json makes")):
        graph = (*DEEP, *more)
        part = compile_plan(graph, reserve)["static_parts"]
        options = (*reserve, "--budget", str(smallest(graph, *reserve) - part["moments"] // 2 + 100000))
        found, text = look(graph, options, "--moments bf16", "--lora 16", refused=True)
        assert found["advice"][-1]["needed_bytes"] == part["weights"] + part["other"], (found, part)
        assert re.search(f"--lora 16: weights without states take [0-9.]+ MB; the time is not known: {why}$", text, re.M), text


def check_sets(mesh):
    """The fewest options, where none by itself is enough; adapters are among them where nothing else fits."""
    def least(*words):
        return smallest((*DEEP, *words), *mesh, "--zero", "3")

    for words, alone in ((("--moments", "bf16"), ["--lora 16"]), (("--master", "none", "--moments", "bf16"), ["--lora 16"]),
                         (("--lora", "16"), [])):
        found, _ = look(DEEP, (*mesh, "--budget", str(least(*words))), *alone, f"--zero 3, remat-graph {' '.join(words)}", refused=True)
        assert [advice["step_ns"] is None for advice in found["advice"]] == [True] * len(alone) + [False], found["advice"]
    look(DEEP, (*mesh, "--budget", str(least("--lora", "16") - 1)), refused=True)


def check_frozen(reserve):
    """Adapters and the loss in chunks, together."""
    graph = ("gpt2-tiny", "--batch", "32", "--seq", "64", "--layers", "8", "--width", "256", "--vocab", "6144", "--dtype", "bf16")
    lora = (*graph, "--lora", "16")
    chunked, whole = smallest(lora, *reserve, "--loss-chunk", "auto"), smallest(lora, *reserve)
    assert chunked < whole < compile_plan(graph, reserve)["static_bytes"], (chunked, whole)
    look(graph, (*reserve, "--budget", str(chunked)), "--lora 16", "--loss-chunk auto, remat-graph --lora 16", refused=True)


@scratch()
def main():
    chunks, reserve = ("--loss-chunk", "auto"), ("--reserve", "1MB")
    # Logits at the peak: of a plan without a budget, of one that waits for its budget, of a refusal; not when in chunks.
    look(WIDE, reserve, "--loss-chunk auto")
    look(MASKED, reserve, "--loss-chunk auto")
    look(WIDE, (*reserve, *chunks))
    check_frozen(reserve)
    look(WIDE, (*reserve, "--global-batch", "32"), "--loss-chunk auto")
    least = smallest(WIDE, *reserve)
    look(WIDE, (*reserve, "--budget", str(least)), "--loss-chunk auto")
    look(WIDE, (*reserve, "--budget", str(least - 1)), "--loss-chunk auto", "--moments bf16", refused=True)
    found, _ = look(WIDE, (*reserve, "--budget", str(smallest(WIDE, *reserve, *chunks) - 1)), "--loss-chunk auto",
                    "--loss-chunk auto, remat-graph --moments bf16", refused=True)
    assert not found["advice"][0]["step_ns"] and found["advice"][1]["step_ns"], found["advice"]  # by itself it does not suffice
    look(TALL, (*reserve, "--budget", str(smallest(TALL, *reserve) - 1)), "--moments bf16", refused=True)  # at the layers
    # States above the budget; what saves more is planned where what saves less does not fit.
    least, static = smallest(DEEP, *reserve), compile_plan(DEEP, reserve)["static_parts"]
    budget = str(least - static["moments"] // 2 + 100000)
    found, _ = look(DEEP, (*reserve, "--budget", budget), "--moments bf16", "--lora 16", refused=True)
    assert found["advice"][-1]["step_ns"], found["advice"]
    budget = str(least - static["moments"] // 2 - static["masters"] + 100000)
    look(DEEP, (*reserve, "--budget", budget), "--master none --moments bf16", "--lora 16", refused=True)
    check_adapters(reserve)
    mesh, alone = (*reserve, "--mesh", "dp=4"), least
    least, states = smallest(DEEP, *mesh), static["moments"] + static["masters"]
    look(DEEP, (*mesh, "--budget", str(least - states * 3 // 5)), "--zero 1", "--master none --moments bf16",
         "--lora 16", refused=True)
    check_sets(mesh)
    look(DEEP, (*mesh, "--zero", "1", "--budget", str(smallest(DEEP, *mesh, "--zero", "1") - static["weights"] // 4)),
         "--zero 3", "--moments bf16", "--lora 16", refused=True)
    # A budget below the capacity, but not far below it.
    for share, advised in ((0.9, ["--budget 100%"]), (0.7, [])):
        device = read_json(f"{source}/schemas/devices/cpu.json") | {"name": "small", "capacity_bytes": int(alone / share)}
        write_json("small.json", device)
        target = (*reserve, "--target", "small.json", "--budget")
        look(DEEP, (*target, str(alone)), *advised)
        look(DEEP, (*target, str(int(alone / share))))
    device["capacity_bytes"] = int(alone * 1.1)
    write_json("small.json", device)
    look(DEEP, (*target, str(alone - 100000)), "--budget 100%", "--moments bf16", refused=True)
    # One unit of all layers.
    _, text = look(TALL, (*reserve, *UNIFORM, "6"), "--recompute-num-layers 1")
    assert re.search("one unit of all layers, recomputed together, saves [0-9.]+ % of the [0-9.]+ MB that", text), text
    look((*TALL, "--layers", "80"), (*reserve, *UNIFORM, "80"), "--recompute-num-layers 1")  # of any number of commands
    look(TALL, (*reserve, *UNIFORM, "3"))
    look(TALL, (*reserve, *UNIFORM, "3", "--mesh", "tp=2", "--distribute-saved-activations"))
    look(TALL, (*reserve, *UNIFORM, "1"))
    # A budget that is far away is refused without a word.
    look(DEEP, (*mesh, "--budget", "1MB"), refused=True)


main()
