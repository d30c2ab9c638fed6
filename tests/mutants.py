# SPDX-License-Identifier: Apache-2.0
"""Programs with planted faults: a .def file says what to change in sources, and the changed files are compiled and linked
in front of the archives that hold them.

    MUTANT(..., EDIT(file, text that is there once, what takes its place), ...)"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def read(path):
    """The rows of a .def file, whose strings are Python's too: a tuple of arguments each, edits are tuples of three."""
    rows = []
    text = re.sub(r"^/\*.*?\*/\n", "", path.read_text(), flags=re.S | re.M)
    exec(text, {"MUTANT": lambda *row: rows.append(row), "EDIT": lambda *edit: edit})
    return rows


def plant_all(plant, rows):
    """Calls plant(work folder, index, *row) for all; what these return but None is printed. Returns the exit code."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(lambda row: plant(pathlib.Path(folder), *row), [(i, *row) for i, row in enumerate(rows)])
                  if fault]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(rows)} mutants planted")
    return bool(faults)


class Builder:
    """Arguments of the command line: SOURCES COMPILER LINKER ARCHIVE..."""

    def __init__(self, arguments, included, edited, flags):
        sources = pathlib.Path(arguments[0])
        self.edited = sources / edited
        self.compiler, self.linker = arguments[1].split(), arguments[2].split()
        self.archives = [str(pathlib.Path(name).resolve()) for name in arguments[3:] if name.endswith(".a")]
        self.flags = [*flags, *(f"-I{folder}" for tree in included
                        for folder in sorted((sources / tree).glob("**/")) if folder.is_dir())]

    def changed(self, edits):
        """The text of each file with its edits."""
        texts = {}
        for file, find, replacement in edits:
            text = texts[file] if file in texts else (self.edited / file).read_text()
            if text.count(find) != 1:
                raise ValueError(f"{file} has {text.count(find)} times \"{find}\", not once")
            texts[file] = text.replace(find, replacement)
        return texts

    def build(self, work, name, edits):
        """The program with these edits; ValueError where one has no place, or two."""
        objects = []
        for file, text in self.changed(edits).items():
            source = work / f"{name}_{file.replace('/', '_')}"
            source.write_text(text)
            objects.append(source.with_suffix(".o"))
            subprocess.run([*self.compiler, "-std=c11", "-D_GNU_SOURCE", "-w", *self.flags, "-c", source, "-o", objects[-1]], check=True)
        program = work / f"{name}.program"
        subprocess.run([*self.linker, "-o", program, *objects, "-Wl,--start-group", *self.archives, "-Wl,--end-group", "-ldl", "-pthread",
                        "-lm", "-ljansson"], check=True)
        return program


def run(program, *arguments, limit_s=60):
    """The exit code, and what it says."""
    try:
        done = subprocess.run([program, *arguments], encoding="utf-8", capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return 124, f"no end after {limit_s} s"
    return done.returncode, done.stdout + done.stderr
