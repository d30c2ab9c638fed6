# SPDX-License-Identifier: Apache-2.0
"""Rows of a .def file with faults in CUDA text, for C: each becomes MUTANT(..., what it is, text, what takes its place).

    planted.py OUTPUT ROWS.def CODEGEN_FOLDER

    EDIT(file of compiler/codegen, function, pattern, what takes its place)    mutants.py; the text occurs once
    WRITTEN(text, what takes its place)    of what is written for each kernel: wherever it occurs"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import mutants

BODY = re.compile(r"^BODY\(\w+\)\n\{\n.*?^\}\n", re.M | re.S)  # which only its own kernel has
ROW = re.compile(r"^MUTANT\((.*), (EDIT|WRITTEN)(\(.*\))\)$", re.M)


def unique(whole, text, begin, end):
    """[begin, end) of text, by whole lines more on both sides until it occurs once in all that a kernel has."""
    while whole.count(text[begin:end]) > 1:
        begin, end = text.rfind("\n", 0, max(begin - 1, 0)) + 1, text.index("\n", end) + 1
    return begin, end


def resolve(texts, folder, file, function, pattern, replacement):
    mutants.check(folder, [(file, function, pattern, replacement)], f"{file}, {function}")
    text = texts[file]
    at, to, names = mutants.place(text, function, pattern)
    begin, end = unique(text + "".join(BODY.sub("", other) for name, other in texts.items() if name != file), text, at, to)
    return text[begin:end], text[begin:at] + mutants.with_names(replacement, names) + text[to:end]


def main():
    output, rows, folder = map(pathlib.Path, sys.argv[1:])
    texts = {path.name: path.read_text() for path in folder.glob("*.cu")}

    def planted(row):
        kind, arguments = row[2], eval(row[3])
        find, replacement = arguments if kind == "WRITTEN" else resolve(texts, folder, *arguments)
        return f"MUTANT({row[1]}, {json.dumps(find)}, {json.dumps(replacement)})"

    text = rows.read_text()
    assert len(ROW.findall(text)) == len(re.findall("^MUTANT", text, re.M)), rows
    output.write_text(ROW.sub(planted, text))


main()
