# SPDX-License-Identifier: Apache-2.0
"""Style tests over our own C and C++ files.

    style.py format     clang-format agrees with every file
    style.py calls      the libraries neither print, nor exit, nor read the environment
    style.py headers    every public header compiles alone, as C and as C++
    style.py license    every source file begins with the identifier of its license
"""
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
FORBIDDEN = ("getenv|secure_getenv|printf|fprintf|vprintf|vfprintf|puts|putchar|perror|"
             "abort|exit|_exit|quick_exit")
CALL = re.compile(rf"\b({FORBIDDEN})\s*\(")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def find_files(*trees, suffixes=(".c", ".h", ".cc")):
    return sorted(os.path.relpath(os.path.join(where, name), ROOT)
                  for tree in trees
                  for where, _, names in os.walk(os.path.join(ROOT, tree))
                  for name in names if name.endswith(suffixes))


def check_format():
    files = find_files("runtime", "compiler", "tools", "tests")
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *files], cwd=ROOT,
                            stderr=subprocess.PIPE, text=True)
    faults = [line for line in result.stderr.splitlines() if "error:" in line]
    if result.returncode and not faults:
        faults = [f"clang-format: exit code {result.returncode}: {result.stderr.strip()}"]
    if faults:
        names = sorted({fault.split(":")[0] for fault in faults})
        faults.append("to repair: clang-format -i " + " ".join(names))
    return faults, len(files)


def check_calls():
    faults = []
    files = find_files("runtime", "compiler", suffixes=(".c", ".h", ".cc", ".def"))
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8") as source:
            # Comments and strings become empty lines, so line numbers stay.
            code = NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), source.read())
        for number, line in enumerate(code.splitlines(), 1):
            for call in CALL.findall(line):
                faults.append(f"{path}:{number}: a library must not call {call}")
    return faults, len(files)


def check_headers():
    faults = []
    trees = ("runtime/include", "compiler/include")
    files = find_files(*trees, suffixes=(".h",))
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *(f"-I{tree}" for tree in trees)]
    languages = [("gcc", "c", "c11"), ("g++", "c++", "c++11"), ("g++", "c++", "c++17")]
    for path in files:
        for compiler, language, standard in languages:
            name = path.split("/include/")[1]
            result = subprocess.run(
                [compiler, *flags, "-x", language, f"-std={standard}", "-"], cwd=ROOT,
                input=f"#include <{name}>\n#include <{name}>\n", capture_output=True, text=True)
            if result.returncode:
                faults.append(f"{path} does not compile alone as {language}:\n{result.stderr}")
    return faults, len(files)


def check_license():
    faults = []
    sources = (".c", ".h", ".cc", ".def", ".cu", ".fbs", ".py", ".sh", "meson.build")
    files = ["meson.build", "meson_options.txt", ".ci/run"]
    files += find_files("compiler", "docs", "runtime", "schemas", "tests", "tools", suffixes=sources)
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8") as source:
            first = source.readline()
            first = source.readline() if first.startswith("#!") else first
        if "SPDX-License-Identifier: Apache-2.0" not in first:
            faults.append(f"{path}: does not begin with 'SPDX-License-Identifier: Apache-2.0'")
    return faults, len(files)


def main():
    checks = {"format": check_format, "calls": check_calls, "headers": check_headers,
              "license": check_license}
    if len(sys.argv) != 2 or sys.argv[1] not in checks:
        print(f"usage: style.py {'|'.join(checks)}")
        return 2
    faults, count = checks[sys.argv[1]]()
    for fault in faults:
        print(fault)
    print(f"{sys.argv[1]}: {count} files, {len(faults)} lines of complaint")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
