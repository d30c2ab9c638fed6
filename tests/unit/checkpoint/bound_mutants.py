# SPDX-License-Identifier: Apache-2.0
"""test_bound notices each fault of bound_mutants.def: a bound that is too high fails one of its graphs, one that is too
low lowers the mean of bound / optimum, or of floor / least live peak.

    bound_mutants.py SOURCES COMPILER LINKER ARCHIVE... [--only TEXT | --slice N] [--find]

--find: prints what test_bound says of each without its seeds, to choose them."""
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import mutants

BUILDER = mutants.Builder(sys.argv[1:], ["runtime", "compiler"], "compiler", ["-O1"])
FIND = "--find" in sys.argv
UNCHANGED = {}  # means, by first seed and count


def means(output):
    return [float(re.search(rf"{of} ([\d.]+)", output)[1]) for of in ("bound / optimum", "floor / least")]


def test(program, first, count):
    return mutants.run(program, str(first), *([str(count)] if count else []))


def find(work, index, side, what, first, count, *edits):
    code, output = mutants.run(BUILDER.build(work, index, edits), limit_s=300)
    seeds = sorted({int(seed) for seed in re.findall(r"seed (\d+)", output)})
    return f"{side}, {what}: exit code {code}, seeds {seeds[:8]}: {output[:400]}"


def plant(work, index, side, what, first, count, *edits):
    """What is wrong with how this mutant is found, or None."""
    code, output = test(BUILDER.build(work, index, edits), first, count)
    failed = (code == 1 and "seed " in output) or (code < 0 and "Assertion" in output)
    lowered = code == 0 and side == "low" and any(new < old for new, old in zip(means(output), UNCHANGED[first, count]))
    return None if (failed if side == "high" else lowered) else f"{what}: NOT FOUND: exit code {code}: {output[:400]}"


rows = BUILDER.choose(mutants.read(HERE / "bound_mutants.def"), lambda row: row[1], lambda row: row[4:])
with tempfile.TemporaryDirectory() as folder:
    program = BUILDER.build(pathlib.Path(folder), "unchanged", [])
    for first, count in {row[2:4] for row in rows}:
        code, output = test(program, first, count)
        if code:
            sys.exit(f"graphs {first}, {count}, without a mutant: exit code {code}: {output}")
        UNCHANGED[first, count] = means(output) if re.search(r"optimum \d", output) else None
sys.exit(mutants.plant_all(find if FIND else plant, rows))
