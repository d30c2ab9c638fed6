# SPDX-License-Identifier: Apache-2.0
"""A batch so large that blocks of 256 rows of a column reduction would leave more sums than a workspace holds, or that
the deltas of attention exceed the device's: the plan has CUDA text all the same.

    text.py BUILD_DIRECTORY"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools

call = Tools(sys.argv[1]).text
os.chdir(tempfile.mkdtemp())
MODELS = [("bert-large", 144, 512, "h100-sxm", "80GB", 32 << 20),
          ("gpt2-124m", 704, 1024, "b200", "180GB", 704 * 1024 * 12 * 4)]


for model, batch, seq, target, budget, workspace in MODELS:
    call("graph", model, "--dtype", "bf16", "--batch", str(batch), "--seq", str(seq), "-o", "large.fbs")
    report = json.loads(call("compile", "large.fbs", "--target", target, "--budget", budget, "--arch", "none",
                             "--format", "json", "-o", "large.plan"))
    assert report["workspace_bytes"] == workspace, (model, report["workspace_bytes"])
    assert not any("CUDA text" in note for note in report["notes"]), (model, report["notes"])
    kernels = call("dump", "large.plan", "--kernels")
    assert ".columns." in kernels and ".columns_totals." in kernels, (model, kernels)
