# SPDX-License-Identifier: Apache-2.0
"""Runs a program that plants faults in the text of kernels: with all of them if a source of that text differs from the
main branch, else with the slice of the week (mutants.py).

    slice.py FOLDER[,FOLDER...] PROGRAM ARGUMENT..."""
import pathlib
import subprocess
import sys

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    folders, *command = sys.argv[1:]
    differing = [file for file in mutants.changed_files(ROOT) if file.startswith(tuple(folders.split(",")))]
    which = "all" if differing else f"slice:{mutants.slice_of_week()}"
    print(f"{which} of {mutants.SLICES} slices; again: {' '.join(command)} {which}", flush=True)
    return subprocess.run([*command, which]).returncode


if __name__ == "__main__":
    sys.exit(main())
