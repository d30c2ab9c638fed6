# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the product, with the checks of .clang-tidy and the flags of a build.

    tidy.py BUILD_DIRECTORY [FILE...]"""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
TREES = tuple(os.path.join(ROOT, tree) + os.sep for tree in ("compiler", "runtime", "tools", "schemas"))
FILES_AT_ONCE = 24
C_WARNINGS = " -Wreserved-identifier -Wreserved-macro-identifier"  # generated C++ headers have such names


def product_commands(build):
    """One command for each source, generated ones left out."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    found = {}
    for command in commands:
        path = os.path.normpath(os.path.join(command["directory"], command["file"]))
        if path.startswith(TREES):
            line = command["command"] + C_WARNINGS * path.endswith(".c")
            found[path] = {**command, "file": path, "command": line}
    return found


def run(folder, files):
    # The build's compiler may have warnings that clang does not know.
    command = ["clang-tidy", "-p", folder, "--quiet", "--extra-arg=-Wno-unknown-warning-option", *files]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def main():
    commands = product_commands(sys.argv[1])
    files = [os.path.abspath(path) for path in sys.argv[2:]] or sorted(commands)
    groups = [files[i:i + FILES_AT_ONCE] for i in range(0, len(files), FILES_AT_ONCE)]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump(list(commands.values()), file)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda group: run(folder, group), groups))
    failed = [result for result in results if result.returncode]
    for result in failed:
        print(result.stdout or result.stderr)
    print(f"tidy: {len(files)} files, {len(failed)} of {len(groups)} groups with complaints")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
