# SPDX-License-Identifier: Apache-2.0
"""Every option of every tool stands in docs/cli.md, --help and --man, and in no other tool's section.

    options.py docs/cli.md TOOL..."""
import os
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def main():
    path, *tools = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        sections = re.split(r"^## ", file.read(), flags=re.M)
    faults = []
    for tool in tools:
        name = os.path.basename(tool)
        section = next((text for text in sections if text.startswith(f"`{name}`")), "")
        documented = set(re.findall(r"^\| `(?:-\w`, `)?(--[\w-]+)", section, flags=re.M))
        rows = [line.split("\t") for line in output(tool, "--list-options").splitlines()]
        common = {"--help", "--version", "--list-options", "--man"}
        options = {row[0] for row in rows}
        faults += [f"{path}: {name} {option} is not documented"
                   for option in sorted(options - common - documented)]
        faults += [f"{path}: {name} has no {option}" for option in sorted(documented - options)]
        shown, manual = output(tool, "--help"), output(tool, "--man").replace("\\", "")
        faults += [f"{name}: {option} is not in {where}" for option in sorted(options - {"--man"})
                   for where, text in (("--help", shown), ("--man", manual))
                   if option not in text and (where == "--help" or option not in common)]
    print("\n".join(faults))
    return 1 if faults or not tools else 0


sys.exit(main())
