# SPDX-License-Identifier: Apache-2.0
"""CUDA sources as C strings, without the line of their license: embed.py OUTPUT NAME INPUT.cu..."""
import json
import pathlib
import sys


def main():
    output, name, *inputs = sys.argv[1:]
    lines = [json.dumps(line + "\n", ensure_ascii=True)
             for path in inputs
             for line in pathlib.Path(path).read_text(encoding="ascii").splitlines()
             if "SPDX-License-Identifier" not in line]
    pathlib.Path(output).write_text(
        "/* Made by compiler/codegen/embed.py. */\n"
        '#include "source.h"\n\n'
        f"const char *const {name}[] = {{\n    " + ",\n    ".join(lines) + ",\n    0};\n",
        encoding="ascii")


main()
