# SPDX-License-Identifier: Apache-2.0
"""What repeats the rows of a table has them all: the enums of schemas, options and ranges. Each row of thresholds.txt is a
figure that a test names.

    rows.py"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROW = re.compile(r"^(\w+)\((.+)\)$", re.M)
KINDS = ("FOREIGN_DTYPE", "DTYPE", "FLOAT_DTYPE", "COMPUTED_DTYPE", "ROUNDED_DTYPE")  # each is one of those before it, too


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows_of(path):
    """(macro, columns without quotes) of each row."""
    return [(macro, [cell.strip().strip('"') for cell in cells.split(",")]) for macro, cells in ROW.findall(text_of(path))]


def enum_of(schema, name):
    body = re.search(rf"enum {name} : \w+ {{([^}}]*)}}", text_of(f"schemas/{schema}.fbs"))[1]
    return {key: int(number) for key, number in re.findall(r"(\w+) = (\d+)", body)}


def actions():
    text = re.search(r"enum remat_action {(.*?)^}", text_of("runtime/program/program.h"), re.S | re.M)[1]
    given = {name: int(number) for name, number in re.findall(r"REMAT_ACTION_(\w+) = (\d+)", text)}
    return given | {cells[2].upper(): int(cells[1]) for _, cells in rows_of("runtime/program/keeps.def")}


def unmeasured():
    """Rows of thresholds.txt that are the figure of no call of check_figure() or figure() in tests."""
    paths = [path for suffix in ("c", "py") for path in (ROOT / "tests").rglob(f"*.{suffix}") if path.parent.name != "style"]
    names = {name for path in paths
             for name in re.findall(r'\b(?:check_)?figure\([^;"]*"(\w+ [^"\n]+)"', path.read_text(encoding="utf-8"))}
    patterns = {re.sub(r"%\w+|\\{\w+\\}", ".+", re.escape(name)).replace("%%", "%") for name in names}
    rows = re.findall(r"^[\d.]+ +(.*)$", text_of("tests/thresholds.txt"), re.M)
    return [row for row in rows if not any(re.fullmatch(pattern, row) for pattern in patterns)]


def main():
    dtypes = rows_of("runtime/include/remat/dtypes.def")
    of_kind = lambda kind: [cells for macro, cells in dtypes if KINDS.index(macro) >= KINDS.index(kind)]
    numbers = lambda kind: {"INVALID": 0} | {cells[0]: int(cells[2]) for cells in of_kind(kind)}
    choices = re.search(r'^OPTION\(dtype, "dtype", \w+, \w+, "\w+", "([^"]*)"', text_of("tools/cli/graph.def"), re.M)[1]
    ranges = {cells[0] for _, cells in rows_of("compiler/kernels/device_ranges.def")}
    faults = [f"{what}: {found}, where the rows have {rows}" for what, found, rows in (
        ("schemas/graph.fbs, DType", enum_of("graph", "DType"), numbers("FOREIGN_DTYPE")),
        ("schemas/program.fbs, DType", enum_of("program", "DType"), numbers("DTYPE")),
        ("schemas/program.fbs, Action", enum_of("program", "Action"), actions()),
        ("tools/cli/graph.def, --dtype", choices.split("|"), [cells[7] for cells in of_kind("COMPUTED_DTYPE")]),
    ) if found != rows]
    faults += [f"compiler/kernels/device_ranges.def: no {key}"
               for key in (f"matmul.{cells[7]}_flops_per_s" for cells in of_kind("FLOAT_DTYPE")) if key not in ranges]
    faults += [f"tests/thresholds.txt: no test has the figure {row}" for row in unmeasured()]
    sys.exit("\n".join(faults) or 0)


main()
