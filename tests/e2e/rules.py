# SPDX-License-Identifier: Apache-2.0
"""The comparison of plans notices each broken rule of rule_mutants.def: the changed files of the CPU device are linked
with rules_bits.c, which must then say that bits differ.

    rules.py SOURCES COMPILER LINKER ARCHIVE... [--only TEXT | --slice N]"""
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import mutants

BUILDER = mutants.Builder(sys.argv[1:], ["runtime"], "runtime/device/cpu", ["-ffp-contract=off", "-O1", "-include", HERE / "broken_rules.h"])
RULES = range(1, 7)


def plant(work, index, rule, what, model, threads, *edits):
    """What is wrong with how this mutant is found, or None."""
    code, output = mutants.run(BUILDER.build(work, index, edits), model)
    said = f"{threads} threads: bits differ"
    if code == 0:
        return f"rule {rule}, {what}: NOT FOUND"
    return None if code == 1 and said in output else f"rule {rule}, {what}: exit code {code} without \"{said}\": {output}"


rows = mutants.read(HERE / "rule_mutants.def")
for rule in RULES:
    if all(row[0] != rule for row in rows):
        sys.exit(f"rule {rule}: no mutant")
rows = BUILDER.choose(rows, lambda row: row[1], lambda row: row[4:])
with tempfile.TemporaryDirectory() as folder:
    program = BUILDER.build(pathlib.Path(folder), "unchanged", [])
    for model in sorted({row[2] for row in rows}):
        code, output = mutants.run(program, model)
        if code:
            sys.exit(f"{model} without a mutant: exit code {code}: {output}")
sys.exit(mutants.plant_all(plant, rows))
