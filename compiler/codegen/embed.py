# SPDX-License-Identifier: Apache-2.0
"""CUDA sources as C strings: embed.py OUTPUT NAME INPUT.cu...

NAME has the definitions of all inputs that have any, cuda_body_KERNEL the lines within

    BODY(KERNEL)
    {
        ...
    }
"""
import json
import pathlib
import re
import sys

BODY = re.compile(r"^\nBODY\((\w+)\)\n\{\n(.*?)^\}\n", re.M | re.S)


def strings(text):
    return "\n    ".join(json.dumps(line, ensure_ascii=True) for line in text.splitlines(keepends=True))


def main():
    output, name, *inputs = sys.argv[1:]
    definitions, bodies = "", []
    for path in inputs:
        license_line, text = pathlib.Path(path).read_text(encoding="ascii").split("\n", 1)
        assert "SPDX-License-Identifier" in license_line, path
        bodies += BODY.findall(text)
        text = BODY.sub("", text)
        definitions += text if "#ifndef" in text else ""
    # A list of lines, as compilers need not take a string of more than 4095 characters.
    lines = strings(definitions).replace("\n    ", ",\n    ")
    pathlib.Path(output).write_text(
        "/* Made by compiler/codegen/embed.py. */\n"
        '#include "source.h"\n#include "emitter.h"\n\n'
        f"const char *const {name}[] = {{\n    {lines},\n    0}};\n"
        + "".join(f"\nconst char cuda_body_{kernel}[] =\n    {strings(body)};\n" for kernel, body in bodies),
        encoding="ascii")


main()
