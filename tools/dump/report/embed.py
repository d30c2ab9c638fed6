# SPDX-License-Identifier: Apache-2.0
"""A page as C strings NAME_head and NAME_tail: embed.py NAME OUTPUT page.html page.css SCRIPT...

The style and the scripts go where the page names them, and the page is cut where the data goes."""
import json
import pathlib
import sys


def lines(text):  # a list, as compilers need not take a string of more than 4095 characters
    return ",\n    ".join(json.dumps(line) for line in text.splitlines(keepends=True))


def main():
    page_name, output, *inputs = sys.argv[1:]
    page, style, *scripts = (pathlib.Path(path).read_text(encoding="ascii") for path in inputs)
    script = "\n".join(scripts)
    for mark, text in ("/* style */\n", style), ("/* script */\n", script):
        assert page.count(mark) == 1 and "</" not in text, mark
        page = page.replace(mark, text)
    head, tail = page.split("@data@")
    pathlib.Path(output).write_text(
        '/* Made by tools/dump/report/embed.py. */\n#include "page.h"\n\n#include <stddef.h>\n'
        + "".join(f"\nconst char *const {page_name}_{name}[] = {{\n    {lines(text)},\n    NULL}};\n"
                  for name, text in (("head", head), ("tail", tail))), encoding="ascii")


main()
