# SPDX-License-Identifier: Apache-2.0
"""The tables of schemas as plain C: tables.py OUTPUT SCHEMA.fbs...

One TABLE(namespace, name, fields) for each table, in the order of the schemas; fields by their ids:

    FIELD(type, name)    a scalar, an enum as its number, an index with -1 for none
    TEXT(name)           a string
    ARRAY(type, name)    a vector of scalars or of a struct
    TABLES(name)         a vector of tables or of strings
"""
import pathlib
import re
import sys

SCALARS = {"bool": "bool", "ubyte": "uint8_t", "ushort": "uint16_t", "int": "int32_t", "uint": "uint32_t",
           "long": "int64_t", "ulong": "uint64_t", "float": "float", "double": "double"}
FIELD = re.compile(r"(\w+):(\[?)(\w+)\]?[^;]*\(id: (\d+)(, deprecated)?\);")


def field(name, vector, kind, types, structs):
    if kind in structs:
        return f"ARRAY(struct remat_fb_{re.sub('(?<!^)(?=[A-Z])', '_', kind).lower()}, {name})"
    if vector:
        return f"ARRAY({types[kind]}, {name})" if kind in types else f"TABLES({name})"
    return f"TEXT({name})" if kind == "string" else f"FIELD({types[kind]}, {name})"


def tables(schema):
    text = re.sub(r"//.*", "", schema)
    namespace = re.search(r"namespace remat\.(\w+);", text)[1]
    types = SCALARS | {name: SCALARS[kind] for name, kind in re.findall(r"enum (\w+)\s*:\s*(\w+)", text)}
    structs = re.findall(r"struct (\w+)", text)
    for name, body in re.findall(r"table (\w+)\s*\{(.*?)\}", text, re.S):
        rows = FIELD.findall(body)
        assert len(rows) == body.count(";") and [int(row[3]) for row in rows] == list(range(len(rows))), name
        yield f"TABLE({namespace}, {name}, " + " ".join(
            field(*row[:3], types, structs) for row in rows if not row[4]) + ")\n"


def main():
    output, *schemas = sys.argv[1:]
    text = "".join(table for path in schemas for table in tables(pathlib.Path(path).read_text(encoding="ascii")))
    pathlib.Path(output).write_text("/* Made by schemas/tables.py. */\n" + text, encoding="ascii")


main()
