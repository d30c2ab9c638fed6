# SPDX-License-Identifier: Apache-2.0
"""The ranges in docs/tables/ranges.md are those that the readers check, row by row; what options accept lies in them.

    ranges.py ROOT"""
import os
import re
import sys


def rows_of(root, name):
    with open(os.path.join(root, "compiler/kernels", name), encoding="utf-8") as file:
        return re.findall(r'^RANGE\("([^"]+)", (\w+), ([^,]+), ([^)]+)\)', file.read(), re.M)


def spelled(kind, least, most, ends):
    """As range.c writes it."""
    if kind == "INT" and most == "1":
        return "0 or 1"
    before = "more than " if ends == "ABOVE" else ""
    if most == "INFINITY":
        return f"{before}{least}" if before else f"{least} or more"
    between = {"ABOVE": ", up to ", "BELOW": " up to, not including, ", "CLOSED": " to "}[ends]
    return f"{before}{least}{between}{most.replace('0x1p24', '16777216')}"


def attributes(root):
    """Rows of attribute_ranges.def that have a range: key to (kind, least, most, ends)."""
    with open(os.path.join(root, "compiler/ops/attribute_ranges.def"), encoding="utf-8") as file:
        rows = re.findall(r'^RANGE\("(\w+)", (\w+), [^,]+, ([^,]+), ([^,]+), (\w+)\)', file.read(), re.M)
    return {key: rest for key, *rest in rows if rest[1] != "-INFINITY"}


def check_options(root, table):
    """What an option accepts is in the range of what it becomes."""
    with open(os.path.join(root, "tools/cli/graph.def"), encoding="utf-8") as file:
        options = dict(re.findall(r'^OPTION\(\w+, "([\w-]+)", 0, NUMBER, "X", "([^"]*)"', file.read(), re.M))
    options = {name: accepted for name, accepted in options.items() if name.replace("-", "_") in table}
    assert len(options) == 5, options
    wrong = []
    for name, accepted in options.items():
        least, most = map(float, accepted.split(".."))
        _, low, high, _ = table[name.replace("-", "_")]
        if least < float(low) or most > float(high):
            wrong.append(f"--{name} accepts {accepted}, the readers {low} to {high}")
    return wrong


def main():
    root = sys.argv[1]
    kinds = {"INTEGER": "integer", "NUMBER": "number", "NUMBER_OR_0": "0, or number", "FACTOR": "number"}
    expected = []
    for name in ("device_ranges.def", "profile_ranges.def"):
        expected += [f"| `{key}` | {kinds[kind]} from {least} to {most} |"
                     for key, kind, least, most in rows_of(root, name)]
    with open(os.path.join(root, "docs/tables/ranges.md"), encoding="utf-8") as file:
        written = re.findall(r"^(\| `[^`]+` \| .*\|)$", file.read(), re.M)
    table = attributes(root)
    expected += [f"| `{key}` | {spelled(*row)} |" for key, row in table.items()]
    assert len(expected) > 40 and len(table) > 15, expected
    for row in sorted(set(expected) ^ set(written)):
        print("missing:" if row in expected else "not checked by a reader:", row)
    wrong = check_options(root, table)
    print(*wrong, sep="\n", end="")
    return 0 if expected == written and not wrong else 1


sys.exit(main())
