# SPDX-License-Identifier: Apache-2.0
"""Plans and sessions of the package against remat-compile and remat-run: the same plan and report, and from the same seed and
batches the same losses, gradients and weights to the bit. A session that restores another's state goes on with its bits, under
another plan too; one that refused something goes on as if nothing had been asked. What is written is read where it lies.

    main()"""
import pathlib
import sys

import numpy
import torch

import harness
import remat
from harness import TEXT, check, json_lines, must, read_safetensors

BUILD = pathlib.Path(sys.argv[1]).resolve()
BATCH, SEQ, SEED, LR = 4, 24, 5 + (3 << 32), 0.25
TEXT_BYTES = TEXT.read_bytes()
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}


def batch(step):
    """What remat-run reads of a text."""
    rows = [TEXT_BYTES[((step - 1) * BATCH + b) * SEQ:][:SEQ + 1] for b in range(BATCH)]
    ids = torch.tensor([list(row) for row in rows], dtype=torch.int32)
    return {"tokens": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}


def train(session, steps, **more):
    return [session.step(lr=LR, **batch(session.steps + 1), **more) for _ in range(steps)]


def tensors(path):
    return {name: torch.frombuffer(bytearray(data), dtype=DTYPES[dtype]).reshape(shape)
            for name, (dtype, shape, data) in read_safetensors(path).items()}


def equal(a, b):
    return a.keys() == b.keys() and all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)


def refused(message, call, *arguments, **named):
    try:
        call(*arguments, **named)
        check(False, "not refused", message)
    except remat.Error as error:
        check(message in str(error), message, error)


def follow(tool, dtype, options):
    tool.must("graph", "gpt2-tiny", "--layers", 2, "--batch", BATCH, "--seq", SEQ, "--dropout", 0.1, "--dtype", dtype, "-o", "m.fbs")
    words = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), value)]
    said = tool.must("compile", "m.fbs", *words, "-o", "tool.plan").stdout
    graph = remat.Graph("m.fbs")
    plan = graph.compile(**options)
    plan.write("own.plan")
    check(pathlib.Path("own.plan").read_bytes() == plan.bytes() == pathlib.Path("tool.plan").read_bytes(), options, "another plan")
    check(plan.report in said and plan.json()["arena_bytes"] == plan.arena_bytes, options, plan.report)
    done = tool("run", "tool.plan", "--text", TEXT, "--seed", SEED, "--threads", 1, "--steps", 3, "--lr", LR, "--json",
                "--save-weights", "w.safetensors", "--save-gradients", "g.safetensors", "--gradients-step", 3)
    losses = [line["loss"] for line in json_lines(must(done))]
    session, gradients = plan.session(device="cpu", threads=1, seed=SEED), {}
    mine = train(session, 2)
    half = session.state()
    mine += train(session, 1, gradients=gradients)
    check([float(f"{loss:.9g}") for loss in mine] == losses and session.finite, options, "other losses", mine, losses)
    check(equal(gradients, tensors("g.safetensors")), options, "other gradients")
    weights = tensors("w.safetensors")
    check(equal({name: session.read(name) for name in weights}, weights), options, "other weights")
    torch.save(half, "half.pt")
    other = graph.compile(**options, recompute="*") if "microbatches" not in options else plan
    again = other.session(device="cpu", threads=2, seed=1)
    again.restore(torch.load("half.pt"))
    check(train(again, 1) == mine[2:] and equal(again.state()["tensors"], session.state()["tensors"]), options, "resumed: other bits")
    check(again.evaluate(**batch(9)) == session.evaluate(**batch(9)), options, "--eval")
    return session, graph


def misuse(session, graph):
    good, before = batch(1), session.state()
    for what, value, message in (("long", good["tokens"].long(), "torch.int64 [4, 24], the plan's is torch.int32 [4, 24]"),
                                 ("short", good["tokens"][:2], "torch.int32 [2, 24], the plan's is"),
                                 ("strided", torch.cat([good["tokens"]] * 2, 1)[:, ::2], "do not lie one after the other"),
                                 ("meta", good["tokens"].to("meta"), "it is on meta"),
                                 ("beyond", good["tokens"] + 1000, "accepted: 0 to")):
        refused(message, session.step, tokens=value, targets=good["targets"])
    refused("the plan has no tensor 'token'", session.step, token=good["tokens"])
    refused("the state is of another model", session.restore, {**before, "tensors": {}})
    refused("no option is named 'budgets'", graph.compile, budgets="1GB")
    refused("for 2 ranks", graph.compile(mesh="dp=2").session)
    refused("smallest", graph.compile, budget="129MB", reserve="128MB")
    refused("none.fbs: No such file", remat.Graph, "none.fbs")
    check(session.steps == before["steps"] and equal(session.state()["tensors"], before["tensors"]), "a refused call changed something")
    given = {name: numpy.ascontiguousarray(value.numpy()) for name, value in batch(session.steps + 1).items()}
    places = [session._take(name, value).data_ptr() for name, value in given.items()]
    check(places == [value.ctypes.data for value in given.values()], "a batch is copied on its way")
    fresh = graph.compile().session(device="cpu", threads=1, seed=SEED)
    fresh.restore(before)
    check(session.step(lr=LR, **given) == train(fresh, 1)[0], "after what was refused: other bits")


@harness.scratch()
def main():
    tool = harness.Tools(BUILD / "tools")
    session, graph = follow(tool, "fp32", {})
    misuse(session, graph)
    follow(tool, "bf16", {"microbatches": "2", "loss_chunk": "auto"})
