# SPDX-License-Identifier: Apache-2.0
"""Where the tests find NVRTC: the wheel of .venv, else where the system's loader looks; without any they are
skipped, or fail where CI=true.

    library.py PROGRAM [ARGUMENT...]    runs it so, the wheel's folder as --libraries"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def option(name):
    """[name, FOLDER] of the wheel, or nothing."""
    found = sorted((ROOT / ".venv").glob("lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.1[23]"))
    return [name, str(found[-1].parent)] if found else []


def missing(why):
    """The exit code of a test that has no NVRTC; prints why."""
    in_ci = os.environ.get("CI") == "true"
    print(f"{'FAILED' if in_ci else 'SKIP'}: {why.strip().splitlines()[-1]}")
    return 1 if in_ci else 77


def must(done, code=0):
    """As the harness's; without NVRTC the test ends."""
    if "cannot open NVRTC" in done.stderr:
        sys.exit(missing(done.stderr))
    return harness.must(done, code)


def main():
    done = subprocess.run([*sys.argv[1:], *option("--libraries")], stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode == 77:
        return missing(done.stdout.removeprefix("SKIP: "))
    print(done.stdout, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
