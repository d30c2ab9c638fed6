# SPDX-License-Identifier: Apache-2.0
"""Raises the figures of thresholds.txt to what the tests that have them measure now, and adds new ones. None is lowered: a
figure that falls is a fault, or has its row changed by hand, with the reason in the commit.

    thresholds.py BUILD_DIRECTORY"""
import json
import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).parent / "thresholds.txt"


def main():
    build = pathlib.Path(sys.argv[1])
    text = TABLE.read_text()
    rows = {name: figure for figure, name in re.findall(r"^([\d.]+) +(.*)$", text, re.M)}
    tests = sorted({name.split()[0] for name in rows})
    subprocess.run(["meson", "test", "-C", build, "--quiet", "--logbase", "thresholds", *tests])
    measured = {}
    for line in (build / "meson-logs/thresholds.json").read_text().splitlines():
        measured.update({name: figure for figure, name in re.findall(r"^figure (\S+) (.*)$", json.loads(line).get("stdout", ""), re.M)})
    for name in sorted(rows.keys() - measured.keys()):
        print(f"{name}: no run has it", file=sys.stderr)
    for name, figure in measured.items():
        if float(figure) < float(rows.get(name, 0)):
            print(f"{name}: {figure} is below {rows[name]}", file=sys.stderr)
        else:
            rows[name] = figure
    TABLE.write_text("".join(line + "\n" for line in text.splitlines() if line.startswith("#")) +
                     "".join(f"{figure:<9} {name}\n" for name, figure in sorted(rows.items())))
    return measured.keys() != rows.keys()


if __name__ == "__main__":
    sys.exit(main())
