# SPDX-License-Identifier: Apache-2.0
"""In compiler/, runtime/ and tools/ the header of a function is known from the file that defines it.

It is the header of that file's name or of the beginning of that name (verify.h for verify_alias.c), the one of the
folder's name, one of the folder that has no source of its own name, or one of the folder whose text names the file. Two
kinds of declarations are free: runtime/include and compiler/include are the APIs, and a name that a macro makes, as CPU_NAME(x) and
REMAT_PASS(x) do, is an interface with several implementations, such as an instruction set or a pass.

    owners.py ROOT"""
import pathlib
import re
import sys

TREES = ("compiler", "runtime", "tools")
DEFINITION = re.compile(r"^(?!static)[A-Za-z_][^;{}=#]*?\b([a-z]\w*)\([^;{}]*\)\n\{", re.M)
DECLARATION = re.compile(r"^(?!static|#|typedef)[A-Za-z_][^;{}=#]*?\b([a-z]\w*)\([^;{}]*\)[^;{}]*;", re.M)


def names(pattern, paths):
    """Of each name the files that have it."""
    found = {}
    for path in paths:
        for match in pattern.finditer(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)):
            found.setdefault(match[1], set()).add(path)
    return found


def speaks_for(header, source):
    return header.parent == source.parent and (
        source.stem == header.stem or source.stem.startswith(header.stem + "_") or
        header.stem == header.parent.name or not header.with_suffix(".c").exists() or
        re.search(rf"\b{source.name}\b", header.read_text()) is not None)


def main():
    root = pathlib.Path(sys.argv[1])
    files = [path for tree in TREES for path in sorted((root / tree).rglob("*.[ch]"))]
    owners = names(DEFINITION, [path for path in files if path.suffix == ".c"])
    declared = names(DECLARATION, [path for path in files
                                   if path.suffix == ".h" and not {root / "runtime/include", root / "compiler/include"} & set(path.parents)])
    faults = [f"{path}: {name} is defined in {', '.join(map(str, sorted(owners[name])))}"
              for name in declared if name in owners for path in sorted(declared[name])
              if not any(speaks_for(path, source) for source in owners[name])]
    if len(owners) < 800 or len(declared) < 700:
        faults.append(f"{len(owners)} definitions, {len(declared)} declarations: too few to be all")
    sys.exit("\n".join(faults) or 0)


main()
