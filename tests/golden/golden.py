# SPDX-License-Identifier: Apache-2.0
"""Golden test: what a command prints, against a committed file.

    golden.py FILE COMMAND...

Compares standard output, then, if the command fails, its standard error and exit code. Prints a diff
and fails where they differ. With REMAT_UPDATE_GOLDEN=1 in the environment it writes FILE instead
(tests/golden/README.md)."""
import difflib
import os
import subprocess
import sys


def observe(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8")
    text = done.stdout
    if done.returncode:
        text += f"{done.stderr}exit code: {done.returncode}\n"
    return text


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    path, command = sys.argv[1], sys.argv[2:]
    observed = observe(command)
    if os.environ.get("REMAT_UPDATE_GOLDEN") == "1":
        with open(path, "w", encoding="utf-8") as file:
            file.write(observed)
        print(f"{path}: written")
        return 0
    expected = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            expected = file.read()
    diff = difflib.unified_diff(expected.splitlines(True), observed.splitlines(True), path,
                                " ".join(command))
    faults = "".join(diff)
    sys.stdout.write(faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
