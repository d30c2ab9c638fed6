# SPDX-License-Identifier: Apache-2.0
"""Runs tests of this folder in one process: importing PyTorch takes longer than most of them.

    run.py BUILD_DIRECTORY NAME[:ARGUMENT,...]...

A test is a module whose main(*arguments) notes failures with harness.check(). Without PyTorch all skip, which fails in
CI."""
import importlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tools/python")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import harness


def main():
    os.environ["PATH"] = str(pathlib.Path(sys.argv[1]).resolve() / "tools") + os.pathsep + os.environ["PATH"]
    try:
        import torch
        import transformers
    except ImportError as missing:
        print(f"SKIP: {missing} (tools/setup.sh --with-torch)")
        return 1 if os.environ.get("CI") == "true" else 77
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name, _, arguments in (test.partition(":") for test in sys.argv[2:]):
        print(f"--- {name} {arguments}", flush=True)
        importlib.import_module(name).main(*filter(None, arguments.split(",")))
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
