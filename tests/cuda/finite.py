# SPDX-License-Identifier: Apache-2.0
"""A gradient that is not finite ends remat-run after its step, with exit code 8 and no weights, on the CPU and on
doubles of NVIDIA's libraries, where steps after the first are a graph; clipped, in microbatches, in bf16.

The weights are those of tests/e2e/test_finite.c: the loss is finite whatever the text, and the gradient of the last
norm's first weight is 2^130 times what the text has fewer of byte "a" than the model expects, a 256th.

    finite.py TOOLS LIBRARIES COMPILER"""
import array
import math
import struct

from doubles import check, finish, folder, graph, must, pathlib, plan, tool, LIBRARIES
from gradients import read_tensors
from harness import NOT_FINITE, read_safetensors, safetensors

BATCH, SEQ, WIDTH = 2, 8, 64
GOOD_STEPS = 3
# options of remat-graph, of remat-compile, devices
MODELS = [(["--clip-norm", 1], ["--ac-mode", "full"], ["cpu", "cuda"]),
          (["--optimizer", "sgd"], [], ["cpu"]), (["--dtype", "bf16"], ["--microbatches", 2], ["cpu", "cuda"])]


def spoil(path):
    """1 in the first column of the embeddings and 2^127 in the head's weight of "a"; nothing comes of the layers."""
    tensors = read_safetensors(path)
    for name, (dtype, shape, data) in tensors.items():
        size = 2 if dtype == "BF16" else 4
        values = array.array("f", bytes(4 * (len(data) // size)))
        if "embed_tokens" in name:
            values[::WIDTH] = array.array("f", [1.0] * (len(values) // WIDTH))
        elif name == "lm_head.weight":
            values[ord("a") * WIDTH] = 2.0 ** 127
        elif "o_proj" not in name and "down_proj" not in name and name != "model.norm.weight":
            continue
        tensors[name] = dtype, shape, b"".join(struct.pack("<f", value)[4 - size:] for value in values)
    path.write_bytes(safetensors(tensors))


def run(work, device, *arguments):
    libraries = ["--cuda-libraries", LIBRARIES] if device == "cuda" and LIBRARIES else []
    return tool("run", "model.plan", "--text", "text", "--device", device, *libraries, *arguments, cwd=work)


def check_device(work, name, device):
    path, options = pathlib.Path(work), ["--steps", 9, "--lr", 0, "--init", "weights"]
    (path / "saved").write_text("old")
    done = run(work, device, *options, "--save-weights", "saved")
    check(done.returncode == NOT_FINITE and done.stdout.count(" loss 5.54") == GOOD_STEPS + 1 and
          f"step {GOOD_STEPS + 1}: a gradient is not finite" in done.stderr,
          f"{name}: exit code {done.returncode}, {done.stdout} {done.stderr}")
    check("--save-gradients" in done.stderr, f"{name}: no word on how to find it: {done.stderr}")
    check((path / "saved").read_text() == "old", f"{name}: weights were saved")
    if device == "cuda":
        return
    for step in GOOD_STEPS, GOOD_STEPS + 1:
        done = run(work, device, *options, "--save-gradients", "gradients", "--gradients-step", step)
        check(done.returncode == NOT_FINITE, f"{name}: exit code {done.returncode} where gradients are saved")
        bad = [(key, k) for key, values in read_tensors(path / "gradients").items()
               for k, value in enumerate(values) if not math.isfinite(value)]
        expected = [("model.norm.weight", 0)] if step > GOOD_STEPS else []
        check(bad == expected, f"{name}: gradients of step {step} that are not finite: {bad}")
    must(run(work, device, "--steps", GOOD_STEPS + 2, "--eval", "--init", "weights"))


def check_model(settings, options, devices):
    with folder() as work:
        path = pathlib.Path(work)
        graph(work, "llama-tiny", "--batch", BATCH, "--seq", SEQ, *settings)
        plan(work, "model.plan", *options)
        (path / "text").write_bytes(b"b" * (GOOD_STEPS * BATCH * SEQ) + b"a" * (2 * BATCH * SEQ))
        must(run(work, "cpu", "--steps", 1, "--save-initial-weights", "weights"))
        spoil(path / "weights")
        for device in devices:
            check_device(work, f"{device}: {' '.join(map(str, settings + options))}", device)


for model in MODELS:
    check_model(*model)
finish()
