# SPDX-License-Identifier: Apache-2.0
"""Prices of kernels against what their machine code takes on an H100: the largest of the time to issue the
instructions (sass.py), to move the bytes, and to multiply the matrices, beside the launch. Within 30 % for every
kernel of the models, but matmul, whose code is NVIDIA's.

    prices.py TOOLS_FOLDER LAUNCHES CACHE_FOLDER

The tensor cores' rate in attention is that of these kernels as reviewed: loads and the softmax between two
products hold them back (docs/cost_model.md). In the embedding's gradient the rows of an id are added one after the
other, as fast as latencies allow (chain.py); the test draws ids by Zipf's law and counts the most frequent one. Its
time must be linear in the tokens.

Exit code 77 without NVRTC or nvdisasm (1 when CI=true)."""
import json
import math
import os
import pathlib
import random
import re
import shutil
import sys

import chain
import library
import sass
import harness

MODELS = {"gpt2-124m": ["--batch", "8", "--seq", "1024"], "llama3.2-1b": ["--batch", "4", "--seq", "2048"],
          "bert-large": ["--batch", "8", "--seq", "512", "--dropout", "0.1"]}
PLANS = [[], ["--ac-mode", "full"]]
LAUNCH_NS = 2000
PROCESSORS = 132
CLOCKS_PER_NS = 1.755
ISSUED_PER_NS = PROCESSORS * 4 * CLOCKS_PER_NS
BYTES_PER_NS = 3352 * 0.9
PRODUCT_FLOPS = 2 * 16 * 8 * 16
TENSOR_FLOPS_PER_NS = 989.4e3 * 0.22
STEP_ROWS = int(re.search(r"RUN_ROWS\s+(\d+)", (library.ROOT / "compiler/codegen/embedding_backward.cu").read_text())[1])
APART_MOST = 0.3


def find_nvdisasm():
    found = sorted((library.ROOT / ".venv").glob("lib/python*/site-packages/nvidia/*/bin/nvdisasm"))
    return str(found[-1]) if found else shutil.which("nvdisasm")


def most_frequent(tokens, rows):
    """How often one id comes, of ids by Zipf's law."""
    weights = [1 / (i + 1) for i in range(rows)]
    return random.Random(1).choices(range(rows), weights, k=tokens).count(0)


class Codes:
    """Machine code by symbol, and what launches of it do."""

    def __init__(self, nvdisasm):
        self.nvdisasm, self.codes, self.counts = nvdisasm, {}, {}

    def read(self, folder):
        cubins = {str(path): path.name.split(".")[0] for path in pathlib.Path(folder).glob("*.sm_90.cubin")}
        new = [path for path, symbol in cubins.items() if symbol not in self.codes]
        for path, code in sass.disassemble(self.nvdisasm, new).items() if new else ():
            self.codes[cubins[path]] = code

    def count(self, launch):
        key = launch["symbol"], launch["blocks"], *launch["words"][:2]
        if key not in self.counts:
            self.counts[key] = sass.count(self.codes[launch["symbol"]], launch)
        return self.counts[key]

    def row_ns(self, launch):
        """Of a row of an id that has many."""
        return chain.step_clocks(self.codes[launch["symbol"]], launch["words"]) / STEP_ROWS / CLOCKS_PER_NS


def time_of(command, codes):
    """By machine code, beside the first launch."""
    issued = products = loaded = first = 0
    for launch in command["launches"]:
        found = codes.count(launch)
        if "_sort_v" in launch["symbol"]:
            first += LAUNCH_NS + found[0] / ISSUED_PER_NS * max(1, PROCESSORS / launch["blocks"])
        else:
            issued, products, loaded = (a + b for a, b in zip((issued, products, loaded), found))
    if command["kind"] == "embedding_backward":
        adding, table = command["launches"][-1], command["operands"][-1]
        rows_ns = codes.row_ns(adding) * most_frequent(adding["words"][0], table["axes"][0][0])
        first += LAUNCH_NS * ("_pointwise_v" in command["launches"][0]["symbol"])
        return first + max(issued / ISSUED_PER_NS, command["moved_bytes"] / BYTES_PER_NS, rows_ns)
    moved = command["moved_bytes"]
    if "_block_v" in command["launches"][0]["symbol"]:  # which may read its row again
        written = sum(math.prod(n for n, stride in o["axes"] if stride) * o["element_bytes"]
                      for o in command["operands"] if o["access"] & 2)
        moved = max(moved, loaded + written)
    return max(issued / ISSUED_PER_NS, moved / BYTES_PER_NS, products * PRODUCT_FLOPS / TENSOR_FLOPS_PER_NS)


def grown(command, factor):
    """The gradient of an embedding with so many times the tokens."""
    launches = [{**launch, "words": [launch["words"][0] * factor, *launch["words"][1:]],
                 "blocks": launch["blocks"] * (factor if "_scatter_v" in launch["symbol"] else 1)}
                for launch in command["launches"]]
    return {**command, "moved_bytes": command["moved_bytes"] * factor, "launches": launches}


def compare(run, launches, cache, codes, model, plan):
    """Of each distinct kernel and size: price / time, and a line that says so."""
    folder = "+".join([model, *plan])
    run("graph", model, "--dtype", "bf16", *MODELS[model], "-o", "model.fbs")
    run("compile", "model.fbs", "--target", "h100-sxm", *plan, "-o", "model.plan", "--emit-cuda", folder,
        "--arch", "sm_90", "--cache", cache, *library.option("--nvrtc"))
    listed = harness.must(harness.run([launches, "model.plan"])).stdout
    codes.read(folder)
    rows = {}
    for line in listed.splitlines():
        command = json.loads(line)
        key = command["kernel"], command["ns"], json.dumps([(c["symbol"], c["blocks"]) for c in command["launches"]])
        if key in rows:
            continue
        ns = LAUNCH_NS + time_of(command, codes)
        for factor in [2, 4, 8] if command["kind"] == "embedding_backward" else []:
            if LAUNCH_NS + time_of(grown(command, factor), codes) > factor * ns:
                sys.exit(f"{folder}: {factor} times the tokens take more than {factor} times as long")
        rows[key] = command["ns"] / ns, (f"{command['ns'] / ns:5.2f} {command['ns']:9} ns, {ns:9.0f} by machine code: "
                                         f"{folder} {command['launches'][0]['symbol']}")
    return rows.values()


def main():
    tool = harness.Tools(sys.argv[1])
    launches, cache = map(os.path.abspath, sys.argv[2:])
    os.makedirs(cache, exist_ok=True)
    nvdisasm = find_nvdisasm()
    if not nvdisasm:
        return library.missing("no nvdisasm: tools/setup.sh --with-torch installs it")
    codes, rows = Codes(nvdisasm), []

    def run(name, *arguments):
        library.must(tool(name, *arguments))

    with harness.scratch():
        for model in MODELS:
            for plan in PLANS:
                rows += compare(run, launches, cache, codes, model, plan)
    apart = [row for row in rows if not 1 - APART_MOST <= row[0] <= 1 + APART_MOST]
    for _, line in sorted(apart or rows):
        print(line)
    print(f"{len(rows)} kernels, {len(apart)} more than 30 % apart")
    return 1 if apart or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
