# SPDX-License-Identifier: Apache-2.0
"""Ids to time steps with: drawn by Zipf's law from the whole vocabulary, for remat-run --ids and bench_session.

    test_ids.py BUILD"""
import json
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, USAGE, Tools, finish, floats, must, read_safetensors, refused, run, scratch

tool = Tools(sys.argv[1])
VOCABULARY, TOKENS = 4099, 4 * 1024


def zipf(rank):
    return math.log((rank + 2) / (rank + 1)) / math.log(VOCABULARY + 1)


def rows_that_occur(values):
    width = len(values) // VOCABULARY
    norms = [math.hypot(*values[row * width:(row + 1) * width]) for row in range(VOCABULARY)]
    return sum(norm > 3 * min(norms) for norm in norms)


with scratch():
    tool.must("graph", "gpt2-tiny", "--layers", 1, "--vocab", VOCABULARY, "--batch", 4, "--seq", 1024, "--context", 1024,
              "-o", "model.fbs")
    tool.must("compile", "model.fbs", "-o", "model.plan", "--arch", "none")
    # bench_session: of tokens and targets
    row = json.loads(must(run([tool.folder.parent / "tests/bench/bench_session", "model.plan", 2, "cpu"], input="\n")).stdout)
    expected = sum(1 - (1 - zipf(rank)) ** (2 * TOKENS) for rank in range(VOCABULARY))
    assert abs(row["distinct_ids"] / expected - 1) < 0.05, (row, expected)
    # remat-run: the table's gradient is large in the rows of ids that occur
    for source, least, most in [(["--text", TEXT], 20, 256), (["--ids", "zipf"], 0.6 * expected, 1.1 * expected)]:
        tool.must("run", "model.plan", *source, "--steps", 1, "--device", "cpu", "--save-gradients", "found")
        found = rows_that_occur(floats(read_safetensors("found")["wte.weight"]))
        assert least <= found <= most, (source, found, expected)
    refused(tool("run", "model.plan", "--steps", "1"), USAGE, "--text is missing, or --tokens, or --ids")
    refused(tool("run", "model.plan", "--ids", "zipf", "--text", "model.fbs"), USAGE, "--ids contradicts --text")
    refused(tool("run", "model.plan", "--ids", "even"), USAGE, "--ids 'even' is unknown (accepted: zipf)")
finish("ok")
