# SPDX-License-Identifier: Apache-2.0
"""The tables of schemas as plain C: tables.py TABLES.def RECORDS.def SCHEMA.fbs...

TABLES.def has one TABLE(namespace, name, fields) for each table, in the order of the schemas; fields by their ids:

    FIELD(type, name)    a scalar, an enum as its number, an index with -1 for none
    TEXT(name)           a string
    ARRAY(type, name)    a vector of scalars or of a struct
    TABLES(name)         a vector of tables or of strings

RECORDS.def has those that are arrays of structs in a program: RECORDS(table, struct, array, count, fields):

    FIELD(name)          a scalar
    TEXT(name)
    RANK(name)           dims, whose number is the struct's `rank`
    DIMS(name)           as many as those
    WHOLE(name)          dims, whose number is NAME_rank
"""
import pathlib
import re
import sys

SCALARS = {"bool": "bool", "ubyte": "uint8_t", "ushort": "uint16_t", "int": "int32_t", "uint": "uint32_t",
           "long": "int64_t", "ulong": "uint64_t", "float": "float", "double": "double"}
FIELD = re.compile(r'(\w+):(\[?)(\w+)\]?[^;]*\(id: (\d+)(, deprecated)?(, along: "\w+")?\);')
TABLE = re.compile(r'table (\w+)(?: \(record: "(\w+)"\))?\s*\{(.*?)\}', re.S)


def field(name, vector, kind, types, structs):
    if kind in structs:
        return f"ARRAY(struct remat_fb_{re.sub('(?<!^)(?=[A-Z])', '_', kind).lower()}, {name})"
    if vector:
        return f"ARRAY({types[kind]}, {name})" if kind in types else f"TABLES({name})"
    return f"TEXT({name})" if kind == "string" else f"FIELD({types[kind]}, {name})"


def read(path):
    """The schema's text, its tables as (name, record, fields)."""
    text = re.sub(r"//.*", "", pathlib.Path(path).read_text(encoding="ascii"))
    tables = []
    for name, record, body in TABLE.findall(text):
        rows = FIELD.findall(body)
        assert len(rows) == body.count(";") and [int(row[3]) for row in rows] == list(range(len(rows))), name
        tables.append((name, record, [row for row in rows if not row[4]]))
    return text, tables


def tables(text, rows):
    namespace = re.search(r"namespace remat\.(\w+);", text)[1]
    types = SCALARS | {name: SCALARS[kind] for name, kind in re.findall(r"enum (\w+)\s*:\s*(\w+)", text)}
    structs = re.findall(r"struct (\w+)", text)
    for name, _, fields in rows:
        yield f"TABLE({namespace}, {name}, " + " ".join(field(*row[:3], types, structs) for row in fields) + ")\n"


def records(rows):
    arrays = {kind: name for _, _, fields in rows for name, vector, kind, *_ in fields if vector}
    for table, record, fields in rows:
        if not record:
            continue
        out, ranked = [], False
        for name, vector, kind, _, _, along in fields:
            row = "DIMS" if along else "WHOLE" if vector and ranked else "RANK" if vector else "TEXT" if kind == "string" else "FIELD"
            ranked |= row == "RANK"
            out.append(f"{row}({name})")
        items = arrays[table]
        count = re.sub("s$", "", re.sub("ies$", "y", items)) + "_count"
        yield f"RECORDS({table}, struct {record}, {items}, {count}, {' '.join(out)})\n"


def main():
    outputs, schemas = sys.argv[1:3], [read(path) for path in sys.argv[3:]]
    for output, lines in zip(outputs, ([line for text, rows in schemas for line in tables(text, rows)],
                                       [line for _, rows in schemas for line in records(rows)])):
        pathlib.Path(output).write_text("/* Made by schemas/tables.py. */\n" + "".join(lines), encoding="ascii")


main()
