# SPDX-License-Identifier: Apache-2.0
"""CUDA sources as C strings: embed.py OUTPUT NAME DTYPES.def INPUT.cu...

NAME has the definitions of all inputs that have any, cuda_body_KERNEL the lines within

    BODY(KERNEL)
    {
        ...
    }

What loads, stores and rounds the floats of DTYPES.def must be among the definitions of the prelude.
"""
import json
import pathlib
import re
import sys

FLOAT = re.compile(r"^(COMPUTED|ROUNDED|FLOAT)_DTYPE\(\w+, (\w+)", re.M)
BODY = re.compile(r"^\nBODY\((\w+)\)\n\{\n(.*?)^\}\n", re.M | re.S)


def strings(text):
    return "\n    ".join(json.dumps(line, ensure_ascii=True) for line in text.splitlines(keepends=True))


def check_dtypes(rows, definitions):
    words = set(re.findall(r"\w+", definitions))
    for kind, dtype in FLOAT.findall(pathlib.Path(rows).read_text(encoding="ascii")):
        for what in ("load", "store", "DTYPE") + (("round",) if kind == "ROUNDED" else ()):
            if f"{what}_{dtype}" not in words:
                sys.exit(f"{rows}: no .cu file defines {what}_{dtype}")


def main():
    output, name, rows, *inputs = sys.argv[1:]
    definitions, bodies = "", []
    for path in inputs:
        license_line, text = pathlib.Path(path).read_text(encoding="ascii").split("\n", 1)
        assert "SPDX-License-Identifier" in license_line, path
        bodies += BODY.findall(text)
        text = BODY.sub("", text)
        definitions += text if "#ifndef" in text else ""
    if name == "cuda_prelude":
        check_dtypes(rows, definitions)
    # A list of lines, as compilers need not take a string of more than 4095 characters.
    lines = strings(definitions).replace("\n    ", ",\n    ")
    pathlib.Path(output).write_text(
        "/* Made by compiler/codegen/embed.py. */\n"
        '#include "source.h"\n#include "emitter.h"\n\n'
        f"const char *const {name}[] = {{\n    {lines},\n    0}};\n"
        + "".join(f"\nconst char cuda_body_{kernel}[] =\n    {strings(body)};\n" for kernel, body in bodies),
        encoding="ascii")


main()
