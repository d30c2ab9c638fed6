# SPDX-License-Identifier: Apache-2.0
"""test_bound notices each fault of bound_mutants.def in the graphs that its row names: a bound that is too high fails, one
that is too low lowers the mean of bound / optimum, or of floor / least live peak. Each graph of tests/corpus is named here,
or in a test that says what it shows.

    bound_mutants.py SOURCES COMPILER LINKER ARCHIVE... [--only TEXT | --slice N] [--find]

--find: prints the graphs of tests/corpus that show each."""
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import mutants

BUILDER = mutants.Builder(sys.argv[1:], ["runtime", "compiler"], "compiler", ["-O1"])
FIND = "--find" in sys.argv
FILES = sorted(path.stem for path in (HERE.parents[1] / "corpus").glob("*.graph"))
UNCHANGED = {}  # means, by graph


def means(output):
    return [float(re.search(rf"{of} ([\d.]+|-?nan)", output)[1]) for of in ("bound / optimum", "floor / least")]


def shows(program, side, graph):
    """Whether it fails, or where that is enough has lower means; and what it says."""
    code, output = mutants.run(program, graph)
    failed = (code == 1 and "test_bound.c" in output) or (code < 0 and "Assertion" in output)
    lowered = code == 0 and side == "low" and any(new < old for new, old in zip(means(output), UNCHANGED[graph]))
    return (failed if side == "high" else lowered), f"exit code {code}: {output[:400]}"


def plant(work, index, side, what, graphs, *edits):
    """What is wrong with how this mutant is found, or None."""
    program = BUILDER.build(work, index, edits)
    if FIND:
        return f"{what}: {' '.join(graph for graph in ['samples', 'foreign', 'streams', *FILES] if shows(program, side, graph)[0])}"
    for graph in graphs.split():
        found, said = shows(program, side, graph)
        if not found:
            return f"{what}: NOT FOUND in {graph}: {said}"
    return None


rows = mutants.read(HERE / "bound_mutants.def")
named = {graph for row in rows for graph in row[2].split()}
tests = "".join(path.read_text() for path in HERE.parent.glob("*/test_*.c"))
unnamed = [name for name in FILES if name not in named and f'"{name}"' not in tests]
if unnamed:
    sys.exit(f"tests/corpus has what no fault and no test names: {', '.join(unnamed)}")
with tempfile.TemporaryDirectory() as folder:
    program = BUILDER.build(pathlib.Path(folder), "unchanged", [])
    for graph in named | set(FILES if FIND else []) | {"samples", "foreign", "streams"}:
        code, output = mutants.run(program, graph)
        if code:
            sys.exit(f"{graph}, without a mutant: exit code {code}: {output}")
        UNCHANGED[graph] = means(output)
chosen = BUILDER.choose(rows, lambda row: row[1], lambda row: row[3:])
sys.exit(mutants.plant_all(plant, chosen))
