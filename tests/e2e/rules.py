# SPDX-License-Identifier: Apache-2.0
"""The comparison of plans notices each broken rule of rule_mutants.def: the changed files of the CPU device are compiled
and linked in front of the archives with rules_bits.c, which must then say that bits differ.

    rules.py SOURCES COMPILER LINKER ARCHIVE... [--only TEXT]"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCES, COMPILER, LINKER = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3].split()
ARCHIVES = [str(pathlib.Path(name).resolve()) for name in sys.argv[4:] if name.endswith(".a")]
ONLY = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
DEVICE, HERE = SOURCES / "runtime/device/cpu", pathlib.Path(__file__).resolve().parent
INCLUDES = [f"-I{folder}" for folder in sorted((SOURCES / "runtime").glob("**/")) if folder.is_dir()]
RULES, LIMIT_S = range(1, 7), 60


def read(path):
    """The rows of a .def file, whose strings are Python's too."""
    rows = []
    text = re.sub(r"/\*.*?\*/\n", "", path.read_text(), flags=re.S)
    exec(text, {"MUTANT": lambda *row: rows.append(row), "EDIT": lambda *edit: edit})
    return rows


def changed(edits):
    """The text of each file with its edits."""
    texts = {}
    for file, find, replacement in edits:
        text = texts[file] if file in texts else (DEVICE / file).read_text()
        if text.count(find) != 1:
            raise ValueError(f"{file} has {text.count(find)} times \"{find}\", not once")
        texts[file] = text.replace(find, replacement)
    return texts


def run(work, name, model, texts):
    """The exit code of rules_bits with these files in place of the archives', and what it says."""
    objects = []
    for file, text in texts.items():
        source, made = work / f"{name}_{file}", work / f"{name}_{file}.o"
        source.write_text(text)
        subprocess.run([*COMPILER, "-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-O1", "-w", "-include", HERE / "broken_rules.h", "-c",
                        source, "-o", made, *INCLUDES], check=True)
        objects.append(made)
    program = work / f"{name}.program"
    subprocess.run([*LINKER, "-o", program, *objects, "-Wl,--start-group", *ARCHIVES, "-Wl,--end-group", "-ldl", "-pthread",
                    "-lm", "-ljansson"], check=True)
    try:
        done = subprocess.run([program, model], encoding="utf-8", capture_output=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return 124, f"no end after {LIMIT_S} s"
    return done.returncode, done.stdout + done.stderr


def plant(work, index, rule, what, model, threads, *edits):
    """What is wrong with how this mutant is found, or None."""
    try:
        code, output = run(work, index, model, changed(edits))
    except ValueError as error:
        return f"rule {rule}, {what}: {error}"
    said = f"{threads} threads: bits differ"
    if code == 0:
        return f"rule {rule}, {what}: NOT FOUND"
    return None if code == 1 and said in output else f"rule {rule}, {what}: exit code {code} without \"{said}\": {output}"


mutants = [row for row in read(HERE / "rule_mutants.def") if ONLY in row[1]]
faults = [f"rule {rule}: no mutant" for rule in RULES if not ONLY and all(row[0] != rule for row in mutants)]
with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    work = pathlib.Path(folder)
    for model in sorted({row[2] for row in mutants}):
        code, output = run(work, model, model, {})
        faults += [f"{model} without a mutant: exit code {code}: {output}"] if code else []
    faults += [fault for fault in pool.map(lambda row: plant(work, *row), [(i, *row) for i, row in enumerate(mutants)]) if fault]
for fault in faults:
    print(fault, file=sys.stderr)
print(f"{len(mutants)} mutants planted")
sys.exit(bool(faults))
