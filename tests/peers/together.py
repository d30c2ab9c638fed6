# SPDX-License-Identifier: Apache-2.0
"""Runs tests of this folder in one process.

    together.py BUILD_DIRECTORY NAME[:ARGUMENT,...]...

Each gets the build directory and its arguments. The exit code is the largest, as compare_gradients.py's."""
import importlib
import sys


def main():
    build, worst = sys.argv[1], 0
    for name, _, arguments in (test.partition(":") for test in sys.argv[2:]):
        print(f"--- {name} {arguments}", flush=True)
        sys.argv = [name, build, *filter(None, arguments.split(","))]
        worst = max(worst, importlib.import_module(name).main())
    return worst


if __name__ == "__main__":
    sys.exit(main())
