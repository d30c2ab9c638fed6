# SPDX-License-Identifier: Apache-2.0
"""The Python of docs/pytorch.md runs, block after block, and prints what the text says of it."""
import contextlib
import io
import re
import tempfile
from importlib.metadata import EntryPoint

import torch
from torch._dynamo.backends.registry import _BACKENDS

import harness


def main():
    torch.compiler.reset()
    _BACKENDS["remat"] = EntryPoint("remat", "remat.named:compile_named", "torch_dynamo_backends")  # as if installed
    text = (harness.ROOT / "docs/pytorch.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    names, printed = {"__name__": "document"}, io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, "docs/pytorch.md", "exec"), names)
    for words in ("planned peak", "recomputed", "no plan that fits has less", "no plan fits the budget of 16.00 MB",
                  "none exists below", "traced on fake tensors", "variant 1: keeps"):
        harness.check(words in printed.getvalue(), f"docs/pytorch.md: '{words}' is not printed:\n{printed.getvalue()}")
    harness.check(len(blocks) == 6, f"docs/pytorch.md has {len(blocks)} blocks of Python")
