# SPDX-License-Identifier: Apache-2.0
"""Masters, moments, frozen parameters and adapters from remat-graph to files: bytes by part, weights and
checkpoints.

    training.py TOOLS_DIRECTORY"""
import itertools
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(sys.argv[1]).resolve()
TEXT = pathlib.Path(__file__).resolve().parent.parent / "data/genesis_exodus.txt"
SIZES = ["--layers", 2, "--width", 32, "--heads", 2, "--hidden", 64, "--vocab", 256, "--context", 32, "--batch",
         4, "--seq", 16, "--dtype", "bf16"]


def call(work, name, *arguments, code=0):
    done = subprocess.run([TOOLS / name, *map(str, arguments)], cwd=work, encoding="utf-8", capture_output=True)
    if done.returncode != code:
        sys.exit(f"{done.args}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout if code == 0 else done.stderr


def make(work, plan, *options, compiling=(), family="llama"):
    call(work, "remat-graph", family, *SIZES, *options, "-o", "model.fbs")
    return json.loads(call(work, "remat-compile", "model.fbs", *compiling, "--format", "json", "-o", plan))


def run(work, plan, *options, code=0):
    """The lines of the steps, with hashes."""
    out = call(work, "remat-run", plan, "--text", TEXT, "-j", 1, "--hash", *options, code=code)
    return [line for line in out.splitlines() if re.match(r"step \d+ loss", line)] if code == 0 else out


def read(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    header.pop("__metadata__")
    return {name: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for name, e in header.items()}


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAILED: {what}: {found}, expected {wanted}")


def check_parts(work):
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
        report = make(work, "any.plan", *options, compiling=compiling)
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


def check_weights(work, family, prefix):
    """The base comes from one file or several, adapters from another or from their initial values."""
    make(work, "base.plan", family=family)
    run(work, "base.plan", "--steps", 3, "--lr", 1e-2, "--save-weights", "base.safetensors")
    make(work, "lora.plan", "--lora", 4, family=family)
    make(work, "zero.plan", "--lora", 4, compiling=["--mesh", "dp=2", "--zero", 3], family=family)
    base = ["--init", "base.safetensors"]
    trained = run(work, "lora.plan", *base, "--steps", 3, "--save-weights", "adapters.safetensors")
    adapters = read(work / "adapters.safetensors")
    plain = run(work, "base.plan", *base, "--steps", 1)
    expect("the first loss, as adapters begin with zeros", trained[0].split()[:6], plain[0].split()[:6])
    if not adapters or not all(name.startswith(prefix) and re.search(r"\.lora_[AB]\.weight$", name)
                               for name in adapters):
        sys.exit(f"FAILED: {family}: {list(adapters)}")
    run(work, "lora.plan", *base, "--init", "adapters.safetensors", "--steps", 1, "--save-initial-weights",
        "again.safetensors")
    expect(f"{family}: adapters", read(work / "again.safetensors") == adapters, True)
    (work / family).mkdir()
    (work / "adapters.safetensors").rename(work / family / "adapter_model.safetensors")
    run(work, "lora.plan", *base, "--init", family, "--steps", 1, "--save-initial-weights", "again.safetensors")
    expect(f"{family}: a folder of adapters", read(work / "again.safetensors") == adapters, True)
    (work / family / "adapter_model.safetensors").rename(work / "adapters.safetensors")
    run(work, "zero.plan", *base, "--init", "adapters.safetensors", "--steps", 1, "--save-initial-weights",
        "again.safetensors")
    expect(f"{family}: adapters in parts", read(work / "again.safetensors") == adapters, True)
    name = next(iter(adapters))
    text = (work / "adapters.safetensors").read_bytes().replace(name.encode(), name.encode()[::-1])
    (work / "other.safetensors").write_bytes(text)
    message = run(work, "lora.plan", *base, "--init", "other.safetensors", "--steps", 1, code=4)
    expect("another name", f'other.safetensors: tensor "{name[::-1]}", BF16' in message, True)
    message = run(work, "lora.plan", "--init", "adapters.safetensors", "--steps", 1, code=4)
    expect("without a base", bool(re.search(r'adapters.safetensors: tensor ".*", BF16 .* in the plan, is missing',
                                            message)), True)
    message = run(work, "lora.plan", *base, *base, "--steps", 1, code=4)
    expect("a base twice", "is there twice" in message, True)


def check_checkpoints(work):
    """Small states and adapters last; those of other dtypes are refused."""
    narrow = ["--master", "none", "--moments", "bf16"]
    make(work, "whole.plan", *narrow, "--lora", 4, compiling=["--microbatches", 2])
    make(work, "parts.plan", *narrow, "--lora", 4, compiling=["--mesh", "dp=2", "--zero", 3, "--ac-mode", "full"])
    make(work, "wide.plan", "--master", "none", "--lora", 4)
    whole = run(work, "whole.plan", "--steps", 6)
    first = run(work, "whole.plan", "--steps", 3, "--checkpoint", "c")
    rest = run(work, "parts.plan", "--steps", 6, "--checkpoint", "c", "--resume", "c")
    expect("steps of a resumed run", first + rest, whole)
    states = read(work / "c/step-0000000006.safetensors")
    moments = {name: dtype for name, (dtype, _, _) in states.items() if name[-2:] in (".m", ".v")}
    adapters = [name for name in states if re.search(r"\.lora_[AB]\.weight$", name)]
    expect("moments", moments, {f"{name}.{k}": "BF16" for name in adapters for k in "mv"})
    message = run(work, "wide.plan", "--steps", 7, "--resume", "c", code=4)
    expect("other moments", bool(re.search(r'tensor ".*\.m" is BF16 .*, in the plan F32', message)), True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        check_parts(work)
        check_weights(work, "llama", "base_model.model.model.layers.")
        check_weights(work, "gpt2", "base_model.model.transformer.h.")
        check_checkpoints(work)
    print("as it should be")


main()
