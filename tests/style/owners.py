# SPDX-License-Identifier: Apache-2.0
"""In compiler/ a header declares no function that another file than the one of its name defines.

    owners.py ROOT"""
import pathlib
import re
import sys

DEFINITION = re.compile(r"^(?!static)[A-Za-z_][^;{}=#]*?\b(\w+)\([^;{}]*\)\n\{", re.M)
DECLARATION = re.compile(r"^(?!static|#|typedef)[A-Za-z_][^;{}=#]*?\b(\w+)\([^;{}]*\)[^;{}]*;", re.M)


def names(pattern, path):
    return [found[1] for found in pattern.finditer(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S))]


def main():
    compiler = pathlib.Path(sys.argv[1]) / "compiler"
    owners = {name: path for path in compiler.rglob("*.c") for name in names(DEFINITION, path)}
    declared = [(name, path) for path in sorted(compiler.rglob("*.h")) for name in names(DECLARATION, path)]
    faults = [f"{path}: {name} is {owners[name]}'s" for name, path in declared
              if name in owners and owners[name].with_suffix(".h") != path]
    if len(owners) < 300 or len(declared) < 300:
        faults.append(f"{len(owners)} definitions, {len(declared)} declarations: too few to be all")
    sys.exit("\n".join(faults) or 0)


main()
