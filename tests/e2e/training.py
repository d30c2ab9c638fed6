# SPDX-License-Identifier: Apache-2.0
"""Masters, moments, frozen parameters and adapters from remat-graph to files: bytes by part, weights and
checkpoints.

    training.py TOOLS_DIRECTORY"""
import itertools
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools, read_safetensors, scratch

tool = Tools(sys.argv[1])
SIZES = ["--layers", 2, "--width", 32, "--heads", 2, "--hidden", 64, "--vocab", 256, "--context", 32, "--batch",
         4, "--seq", 16, "--dtype", "bf16"]


def make(plan, *options, compiling=(), family="llama"):
    tool.text("graph", family, *SIZES, *options, "-o", "model.fbs")
    return tool.json("compile", "model.fbs", *compiling, "--format", "json", "-o", plan)


def train(plan, *options, code=0):
    """The lines of the steps, with hashes."""
    out = tool.text("run", plan, "--text", TEXT, "-j", 1, "--hash", *options, code=code)
    return [line for line in out.splitlines() if re.match(r"step \d+ loss", line)] if code == 0 else out


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAILED: {what}: {found}, expected {wanted}")


def check_parts():
    """Bytes of each parameter that a rank keeps, as in the table of docs/ranks.md: 2 + (4) + 4 + 8."""
    layer = 32 * 32 * 4 + 32 * 64 * 3 + 2 * 32
    elements = 2 * 256 * 32 + 2 * layer + 32  # each tensor divides by 4
    adapters = 2 * 4 * (4 * (32 + 32) + 3 * (32 + 64))
    divided = [(1, 0, 1), (1, 0, 4), (4, 0, 1), (4, 1, 1), (4, 3, 1), (2, 1, 2), (2, 3, 2)]
    for (ranks, zero, microbatches), lora, master, moments in itertools.product(divided, (0, 4), (0, 4), (4, 8)):
        options = ["--master", "fp32" if master else "none", "--moments", "fp32" if moments == 8 else "bf16"]
        options += ["--lora", lora] if lora else []
        compiling = ["--microbatches", microbatches]
        compiling += ["--mesh", f"dp={ranks}", "--zero", zero] if ranks > 1 else []
        report = make("any.plan", *options, compiling=compiling)
        trained, frozen = (adapters, elements) if lora else (elements, 0)
        states, own = ranks if zero else 1, ranks if zero == 3 else 1
        found = report["static_parts"]
        expect("the sum of parts", sum(found.values()), report["static_bytes"])
        expect("parameters", (report["trained_parameters"], report["frozen_parameters"]), (trained, frozen))
        del found["other"]
        expect(f"{options} {compiling}", found,
               {"weights": 2 * trained // own, "accumulators": 4 * trained // own if microbatches > 1 else 0,
                "masters": master * trained // states, "moments": moments * trained // states,
                "frozen": 2 * frozen // own})


def check_weights(family, prefix):
    """The base comes from one file or several, adapters from another or from their initial values."""
    make("base.plan", family=family)
    train("base.plan", "--steps", 3, "--lr", 1e-2, "--save-weights", "base.safetensors")
    make("lora.plan", "--lora", 4, family=family)
    make("zero.plan", "--lora", 4, compiling=["--mesh", "dp=2", "--zero", 3], family=family)
    base = ["--init", "base.safetensors"]
    trained = train("lora.plan", *base, "--steps", 3, "--save-weights", "adapters.safetensors")
    adapters = read_safetensors("adapters.safetensors")
    plain = train("base.plan", *base, "--steps", 1)
    expect("the first loss, as adapters begin with zeros", trained[0].split()[:6], plain[0].split()[:6])
    if not adapters or not all(name.startswith(prefix) and re.search(r"\.lora_[AB]\.weight$", name)
                               for name in adapters):
        sys.exit(f"FAILED: {family}: {list(adapters)}")
    train("lora.plan", *base, "--init", "adapters.safetensors", "--steps", 1, "--save-initial-weights",
          "again.safetensors")
    expect(f"{family}: adapters", read_safetensors("again.safetensors") == adapters, True)
    pathlib.Path(family).mkdir()
    pathlib.Path("adapters.safetensors").rename(f"{family}/adapter_model.safetensors")
    train("lora.plan", *base, "--init", family, "--steps", 1, "--save-initial-weights", "again.safetensors")
    expect(f"{family}: a folder of adapters", read_safetensors("again.safetensors") == adapters, True)
    pathlib.Path(family, "adapter_model.safetensors").rename("adapters.safetensors")
    train("zero.plan", *base, "--init", "adapters.safetensors", "--steps", 1, "--save-initial-weights",
          "again.safetensors")
    expect(f"{family}: adapters in parts", read_safetensors("again.safetensors") == adapters, True)
    name = next(iter(adapters))
    text = pathlib.Path("adapters.safetensors").read_bytes().replace(name.encode(), name.encode()[::-1])
    pathlib.Path("other.safetensors").write_bytes(text)
    message = train("lora.plan", *base, "--init", "other.safetensors", "--steps", 1, code=4)
    expect("another name", f'other.safetensors: tensor "{name[::-1]}", BF16' in message, True)
    message = train("lora.plan", "--init", "adapters.safetensors", "--steps", 1, code=4)
    expect("without a base", bool(re.search(r'adapters.safetensors: tensor ".*", BF16 .* in the plan, is missing',
                                            message)), True)
    message = train("lora.plan", *base, *base, "--steps", 1, code=4)
    expect("a base twice", "is there twice" in message, True)


def check_checkpoints():
    """Small states and adapters last; those of other dtypes are refused."""
    narrow = ["--master", "none", "--moments", "bf16"]
    make("whole.plan", *narrow, "--lora", 4, compiling=["--microbatches", 2])
    make("parts.plan", *narrow, "--lora", 4, compiling=["--mesh", "dp=2", "--zero", 3, "--ac-mode", "full"])
    make("wide.plan", "--master", "none", "--lora", 4)
    whole = train("whole.plan", "--steps", 6)
    first = train("whole.plan", "--steps", 3, "--checkpoint", "c")
    rest = train("parts.plan", "--steps", 6, "--checkpoint", "c", "--resume", "c")
    expect("steps of a resumed run", first + rest, whole)
    states = read_safetensors("c/step-0000000006.safetensors")
    moments = {name: dtype for name, (dtype, _, _) in states.items() if name[-2:] in (".m", ".v")}
    adapters = [name for name in states if re.search(r"\.lora_[AB]\.weight$", name)]
    expect("moments", moments, {f"{name}.{k}": "BF16" for name in adapters for k in "mv"})
    message = train("wide.plan", "--steps", 7, "--resume", "c", code=4)
    expect("other moments", bool(re.search(r'tensor ".*\.m" is BF16 .*, in the plan F32', message)), True)


@scratch()
def main():
    check_parts()
    check_weights("llama", "base_model.model.model.layers.")
    check_weights("gpt2", "base_model.model.transformer.h.")
    check_checkpoints()
    print("as it should be")


main()
