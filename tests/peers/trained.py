# SPDX-License-Identifier: Apache-2.0
"""Trains presets with our tools and with PyTorch from the same weights and text, and compares.

    trained.py BUILD_DIRECTORY NAME...    rows of CASES, in one process: importing PyTorch takes seconds

Limits and exit codes as compare_gradients.py."""
import os
import pathlib
import sys
import tempfile
from dataclasses import dataclass

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools
import compare_gradients



@dataclass
class Case:
    preset: str
    family: str
    heads: int = 4
    batch: int = 3
    seq: int = 96
    steps: int = 10
    seed: int = 0
    microbatches: int = 1
    clip_norm: float = 0
    options: tuple = ()  # of remat-graph


CASES = {"gpt2-124m": Case("gpt2-124m", "gpt2", heads=12, batch=1, seq=128, steps=2)}
for FAMILY in "gpt2", "llama", "bert", "encdec":
    # With seed 0, rounding decides the sign of a relu's input of encdec in step 2, and with it an update.
    SEED = 1 if FAMILY == "encdec" else 0
    CASES[FAMILY] = Case(f"{FAMILY}-tiny", FAMILY, seed=SEED)
    CASES[f"{FAMILY}-written-out"] = Case(f"{FAMILY}-tiny", FAMILY, seed=SEED, options=("--attention", "written-out"))
for FAMILY in "gpt2", "bert":
    CASES[f"{FAMILY}-microbatches"] = Case(f"{FAMILY}-tiny", FAMILY, batch=4, microbatches=2)
# Initial weights with a relu input so close to zero that we and PyTorch differ about its sign.
CASES["encdec-relu"] = Case("encdec-tiny", "encdec", seed=84)
# Rows of 4 tokens, of which the draw hides none in most.
CASES["bert-short"] = Case("bert-tiny", "bert", batch=2, seq=4)
# What adamw gets is other than without clipping: the norms of the first gradients are above it.
CASES["gpt2-clip-norm"] = Case("gpt2-tiny", "gpt2", clip_norm=1.5)
for OPTIONS in ("--no-bias",), ("--kv-heads", 2), ("--kv-heads", 1, "--attention", "written-out"):
    CASES["gpt2" + "".join(map(str, OPTIONS[:2]))] = Case("gpt2-tiny", "gpt2", options=OPTIONS)


def compare(tool, case, work):
    """The exit code of compare_gradients.py."""
    clip_norm = ["--clip-norm", case.clip_norm] if case.clip_norm else []
    tool.must("graph", case.preset, *clip_norm, *case.options, "--batch", case.batch, "--seq", case.seq, "-o", "model.fbs")
    tool.must("compile", "model.fbs", "--recompute-granularity", "full", "--recompute-method", "uniform",
              "--microbatches", case.microbatches, "-o", "model.plan")
    losses = tool.text("run", "model.plan", "--text", TEXT, "--steps", case.steps, "--lr", 3e-4, "--seed", case.seed, "--json",
                       "--save-initial-weights", "initial.safetensors", "--save-gradients", "gradients.safetensors",
                       "--save-weights", "after.safetensors")
    (work / "losses.jsonl").write_text(losses)
    return compare_gradients.main([str(argument) for argument in (
        "--weights", work / "initial.safetensors", "--gradients", work / "gradients.safetensors",
        "--losses", work / "losses.jsonl", "--weights-after", work / "after.safetensors", "--text", TEXT,
        "--heads", case.heads, "--batch", case.batch, "--seq", case.seq, "--steps", case.steps, "--lr", 3e-4,
        "--family", case.family, *clip_norm)])


def main():
    worst = 0
    for name in sys.argv[2:]:
        print(f"{name}:", flush=True)
        with tempfile.TemporaryDirectory() as work:
            worst = max(worst, compare(Tools(sys.argv[1], cwd=work), CASES[name], pathlib.Path(work)))
    return worst


if __name__ == "__main__":
    sys.exit(main())
