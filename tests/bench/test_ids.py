# SPDX-License-Identifier: Apache-2.0
"""Ids to time steps with: drawn by Zipf's law from the whole vocabulary, for remat-run --ids and bench_session.

    test_ids.py BUILD"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/cuda"))
from gradients import read_tensors

BUILD = pathlib.Path(sys.argv[1]).resolve()
TEXT = ROOT / "tests/data/genesis_exodus.txt"
VOCABULARY, TOKENS = 4099, 4 * 1024


def call(program, *arguments, code=0, said="", **more):
    done = subprocess.run([BUILD / program, *arguments], encoding="utf-8", capture_output=True, **more)
    assert done.returncode == code and said in done.stderr, (program, arguments, done)
    return done.stdout


def zipf(rank):
    return math.log((rank + 2) / (rank + 1)) / math.log(VOCABULARY + 1)


def rows_that_occur(values):
    width = len(values) // VOCABULARY
    norms = [math.hypot(*values[row * width:(row + 1) * width]) for row in range(VOCABULARY)]
    return sum(norm > 3 * min(norms) for norm in norms)


with tempfile.TemporaryDirectory() as work:
    graph, plan = f"{work}/model.fbs", f"{work}/model.plan"
    call("tools/remat-graph", "gpt2-tiny", "--layers", "1", "--vocab", str(VOCABULARY), "--batch", "4", "--seq", "1024",
         "--context", "1024", "-o", graph)
    call("tools/remat-compile", graph, "-o", plan, "--arch", "none")
    # bench_session: of tokens and targets
    row = json.loads(call("tests/bench/bench_session", plan, "2", "cpu", input="\n"))
    expected = sum(1 - (1 - zipf(rank)) ** (2 * TOKENS) for rank in range(VOCABULARY))
    assert abs(row["distinct_ids"] / expected - 1) < 0.05, (row, expected)
    # remat-run: the table's gradient is large in the rows of ids that occur
    for source, least, most in [(["--text", str(TEXT)], 20, 256), (["--ids", "zipf"], 0.6 * expected, 1.1 * expected)]:
        call("tools/remat-run", plan, *source, "--steps", "1", "--device", "cpu", "--save-gradients", f"{work}/found")
        found = rows_that_occur(read_tensors(pathlib.Path(work) / "found")["wte.weight"])
        assert least <= found <= most, (source, found, expected)
    call("tools/remat-run", plan, "--steps", "1", code=2, said="--text is missing, or --tokens, or --ids")
    call("tools/remat-run", plan, "--ids", "zipf", "--text", graph, code=2, said="--ids contradicts --text")
    call("tools/remat-run", plan, "--ids", "even", code=2, said="--ids 'even' is unknown (accepted: zipf)")
print("ok")
