# SPDX-License-Identifier: Apache-2.0
"""test_losses notices each fault of loss_mutants.def.

    loss_mutants.py SOURCES COMPILER LINKER ARCHIVE... [--only TEXT | --slice N]"""
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import mutants

BUILDER = mutants.Builder(sys.argv[1:], ["runtime", "compiler"], "compiler", ["-O0"])


def plant(work, index, what, *edits):
    """What is wrong with how this mutant is found, or None."""
    code, output = mutants.run(BUILDER.build(work, index, edits))
    found = (code == 1 and "test_losses.c" in output) or (code < 0 and "Assertion" in output)
    return None if found else f"{what}: NOT FOUND: exit code {code}: {output[:400]}"


with tempfile.TemporaryDirectory() as folder:
    code, output = mutants.run(BUILDER.build(pathlib.Path(folder), "unchanged", []))
    if code:
        sys.exit(f"without a mutant: exit code {code}: {output}")
rows = mutants.read(HERE / "loss_mutants.def")
sys.exit(mutants.plant_all(plant, BUILDER.choose(rows, lambda row: row[0], lambda row: row[1:])))
