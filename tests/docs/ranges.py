# SPDX-License-Identifier: Apache-2.0
"""The ranges in docs/tables/ranges.md are those that the readers check, row by row.

    ranges.py ROOT"""
import os
import re
import sys


def rows_of(root, name):
    with open(os.path.join(root, "compiler/kernels", name), encoding="utf-8") as file:
        return re.findall(r'^RANGE\("([^"]+)", (\w+), ([^,]+), ([^)]+)\)', file.read(), re.M)


def main():
    root = sys.argv[1]
    kinds = {"INTEGER": "integer", "NUMBER": "number", "NUMBER_OR_0": "0, or number"}
    expected = []
    for name in ("device_ranges.def", "profile_ranges.def"):
        expected += [f"| `{key}` | {kinds[kind]} from {least} to {most} |"
                     for key, kind, least, most in rows_of(root, name)]
    with open(os.path.join(root, "docs/tables/ranges.md"), encoding="utf-8") as file:
        written = re.findall(r"^(\| `[^`]+` \| .*from .* to .*\|)$", file.read(), re.M)
    assert len(expected) > 20, expected
    for row in sorted(set(expected) ^ set(written)):
        print("missing:" if row in expected else "not checked by a reader:", row)
    return 0 if expected == written else 1


sys.exit(main())
