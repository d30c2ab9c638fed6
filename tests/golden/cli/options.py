# SPDX-License-Identifier: Apache-2.0
"""Every option of every tool stands in its --help and --man.

    options.py TOOL..."""
import os
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def main():
    tools = sys.argv[1:]
    faults = []
    for tool in tools:
        name = os.path.basename(tool)
        rows = [line.split("\t") for line in output(tool, "--list-options").splitlines()]
        options = {row[0] for row in rows}
        shown, manual = output(tool, "--help"), output(tool, "--man").replace("\\", "")
        faults += [f"{name}: {option} is not in {where}" for option in sorted(options)
                   for where, text in (("--help", shown), ("--man", manual)) if option not in text]
    print("\n".join(faults))
    return 1 if faults or not tools else 0


sys.exit(main())
