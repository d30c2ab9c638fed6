# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the libraries that a change can reach: what differs from the main branch, and files not yet in git.
A test of a library is one in tests/unit or tests/solve whose program is linked from an object that includes a changed
file, or whose script imports or names one; a row of READ_BY stands for files that they read. Those of whole tools (e2e, cuda, emulator and so on) run only if they, or what they
import, are changed themselves. The form of the sources and golden files are always checked.

    changed.py BUILD_DIRECTORY [FILE...]    FILE: in place of what differs"""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OF_LIBRARIES = ("tests/unit", "tests/solve")
ALWAYS = {"style", "golden"}
READ_BY = {"tests/corpus/": "tests/unit/search/corpus.c", "tests/thresholds.txt": "tests/check.c"}


def output(*command):
    return subprocess.run(command, check=True, encoding="utf-8", capture_output=True).stdout


def changed_files():
    """Those that differ from the main branch."""
    for branch in "origin/main", "main":
        base = subprocess.run(["git", "-C", ROOT, "merge-base", "HEAD", branch], encoding="utf-8", capture_output=True)
        if base.returncode == 0:
            diff = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", base.stdout.strip()], encoding="utf-8",
                                  capture_output=True)
            return set(diff.stdout.split())
    sys.exit("changed.py: no branch origin/main or main to compare with")


def read_edges(build):
    """{input: outputs}, absolute, of build.ninja and of the headers that compilers found."""
    edges = {}

    def add(inputs, outputs):
        for name in inputs:
            edges.setdefault(os.path.normpath(build / name), set()).update(os.path.normpath(build / o) for o in outputs)

    text = (build / "build.ninja").read_text().replace("$\n", " ")
    for outputs, inputs in re.findall(r"^build (.*?): \S+ (.*)$", text, re.M):
        add((name for name in inputs.replace("$ ", "\0").split() if not name.startswith("|")), outputs.replace("|", " ").split())
    made = None
    for line in output("ninja", "-C", build, "-t", "deps").splitlines():
        if line.startswith(" "):
            add([line.strip()], [made])
        else:
            made = line.split(":")[0]
    return edges


def reached(edges, files):
    found, waiting = set(files), list(files)
    while waiting:
        for name in edges.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def imported(script):
    """The script and the modules of tests/ that it imports, and so on."""
    found, waiting = {script}, [script]
    while waiting:
        script = pathlib.Path(waiting.pop())
        for name in re.findall(r"^\s*(?:import|from) +(\w+)", script.read_text(), re.M):
            for module in script.parent / f"{name}.py", ROOT / f"tests/{name}.py":
                if module.is_file() and str(module) not in found:
                    found.add(str(module))
                    waiting.append(str(module))
    return found


def chosen(build, changed, edges):
    """Names of tests."""
    readers = {reader for file in changed for read, reader in READ_BY.items() if file.startswith(read)}
    files = {os.path.normpath(ROOT / file) for file in changed | readers}
    touched = reached(edges, files)
    libraries = tuple(str(root / folder) for root in (build, ROOT) for folder in OF_LIBRARIES)
    names = set()
    for test in json.loads(output("meson", "introspect", build, "--tests")):
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        own = {os.path.normpath(build / word) for word in test["cmd"] if "/" in word}
        scripts = set().union(*(imported(word) for word in own if word.endswith(".py")))
        own |= scripts | {file for script in scripts for file in files if os.path.dirname(file) == os.path.dirname(script)
                          and f'"{os.path.basename(file)}"' in pathlib.Path(script).read_text()}
        of_library = any(word.startswith(libraries) for word in own)
        if suites & ALWAYS or of_library and own & touched or own & files:
            names.add(test["name"])
    return names


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    changed = set(sys.argv[2:]) or changed_files() | set(
        output("git", "-C", ROOT, "ls-files", "--others", "--exclude-standard").split())
    if not changed:
        print("nothing differs from the main branch")
        return 0
    names = chosen(build, changed, read_edges(build))
    print(f"{len(changed)} files changed, {len(names)} tests", flush=True)
    return subprocess.run(["meson", "test", "-C", build, "--print-errorlogs", *sorted(names)]).returncode


if __name__ == "__main__":
    sys.exit(main())
