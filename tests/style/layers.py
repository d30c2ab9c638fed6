# SPDX-License-Identifier: Apache-2.0
"""Layer test: who may include whose headers, read from the #include lines.

    layers.py [ROOT]

A header belongs to the folder that holds it. The build gives each library only the include
directories it may see; this test also catches a header named by a path, and what leaks through
include directories that libraries pass on."""
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<][^">]+)[">]', re.M)
SOURCES = (".c", ".h", ".cc", ".hpp", ".def", ".inc")
TREES = ("runtime", "compiler", "tools")

# The lower runtime: what the compiler may see. The status codes are part of it, the rest of the
# public API is not.
LOWER = ["runtime/base", "runtime/files", "runtime/units", "runtime/kernel", "runtime/program"]
OWNER = {f"runtime/include/remat/{name}": "runtime/base" for name in ("status.h", "dtypes.def")}

PUBLIC = ("runtime/include/", "compiler/include/")  # headers included as <remat/...>
# folder: the folders it may include, itself aside. A folder takes the longest entry that fits.
MAY_INCLUDE = {
    "runtime/include": ["runtime/base"],  # status.h alone: header_test compiles them by themselves
    "runtime/base": [],
    "runtime/files": ["runtime/base"],
    "runtime/units": ["runtime/base"],
    "runtime/kernel": ["runtime/base"],
    "runtime/program": ["runtime/base", "runtime/files", "runtime/kernel", "schemas"],
    "runtime": ["runtime"],
    "compiler/analysis": ["compiler/ir", "compiler/ops", "compiler/support"] + LOWER,
    "compiler/ingest": ["compiler", "schemas"] + LOWER,
    "compiler/search": ["compiler/" + folder for folder in ("analysis", "checkpoint", "ir", "kernels", "lower",
                                                            "memory", "ops", "policy", "support")] + LOWER,
    "compiler": ["compiler"] + LOWER,
    "tools/run": ["runtime/include", "runtime/files/files.h", "runtime/units", "tools/cli"],
    "tools/solve": ["compiler/include", "compiler/support", "runtime/base", "runtime/units", "tools/cli"],
    "tools/compile": ["compiler/include", "compiler/support", "runtime/base", "runtime/units", "runtime/files/files.h", "tools/cli",
                      "tools/graph/adapters.h"],
    "compiler/library": ["compiler", "compiler/include"] + LOWER,
    "compiler/include": ["runtime/base"],
    "tools": ["runtime", "compiler", "tools"],
}
# folder: what it must not reach through any chain of headers, and the files that may.
MUST_NOT_REACH = {
    "tools/run": ("runtime/base", []),
    "compiler/memory": ("compiler/ir", []),
    "compiler/solve": ("compiler/ir", []),
    "compiler/checkpoint/cut": ("compiler/ir", []),
}


def inside(path, folder):
    return path == folder or path.startswith((folder + "/", folder + "."))


def find_files(root):
    return sorted(os.path.relpath(os.path.join(where, name), root)
                  for tree in TREES
                  for where, _, names in os.walk(os.path.join(root, tree))
                  for name in names if name.endswith(SOURCES))


def resolve(include, path, files):
    """The repository's file that `include` ("name or <name) in `path` means, None for a system's."""
    name = include[1:]
    if name.endswith("_generated.h"):
        return "schemas/" + os.path.basename(name)
    if name.startswith("flatbuffers/"):
        return "schemas/" + name
    if include[0] == "<":
        return next((tree + name for tree in PUBLIC if tree + name in files), None)
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    if beside in files:
        return beside
    found = [file for file in files if file.endswith("/" + name) and not file.startswith(PUBLIC)]
    if len(found) > 1:
        raise ValueError(f"\"{name}\" is ambiguous: {', '.join(found)}")
    return found[0] if found else None


def reach(path, includes):
    """Every file that `path` includes, directly or not, with the file that led to it."""
    seen, queue = {path: None}, [path]
    while queue:
        current = queue.pop()
        for header in includes.get(current, []):
            if header not in seen:
                seen[header] = current
                queue.append(header)
    return seen


def check(root):
    faults, includes = [], {}
    files = find_files(root)
    known = set(files)
    for path in files:
        with open(os.path.join(root, path), encoding="utf-8") as source:
            names = INCLUDE.findall(source.read())
        includes[path] = []
        for name in names:
            try:
                header = resolve(name, path, known)
            except ValueError as error:
                faults.append(f"{path}: {error}")
                continue
            if header:
                includes[path].append(header)

    for path, headers in includes.items():
        layer = max((entry for entry in MAY_INCLUDE if inside(path, entry)), key=len)
        for header in headers:
            owner = OWNER.get(header, header)
            allowed = any(inside(file, folder) for file in (header, owner)
                          for folder in [layer] + MAY_INCLUDE[layer])
            if not allowed:
                accepted = ", ".join(dict.fromkeys([layer] + MAY_INCLUDE[layer]))
                faults.append(f"{path}: includes {header}; it may include: {accepted}")
        for folder, (forbidden, exceptions) in MUST_NOT_REACH.items():
            if not inside(path, folder) or path in exceptions:
                continue
            seen = reach(path, includes)
            for header in seen:
                if inside(header, forbidden):
                    chain = [header]
                    while seen[chain[-1]]:
                        chain.append(seen[chain[-1]])
                    faults.append(f"{path}: must not reach {forbidden}: " + " <- ".join(chain))
    return faults, len(files)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    faults, count = check(root)
    for fault in faults:
        print(fault)
    print(f"layers: {count} files, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
