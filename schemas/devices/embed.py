# SPDX-License-Identifier: Apache-2.0
"""Device descriptions as a C table: embed.py OUTPUT INPUT.json..."""
import json
import pathlib
import sys


def main():
    output, *inputs = sys.argv[1:]
    folder = pathlib.Path(__file__).resolve().parent
    forgotten = set(folder.glob("*.json")) - set(folder.glob("*.profile.json")) - set(
        path.resolve() for path in map(pathlib.Path, inputs))
    if forgotten:
        sys.exit(f"not listed in compiler/kernels/meson.build: {sorted(forgotten)}")
    rows, profiles = [], []
    for path in sorted(map(pathlib.Path, inputs)):
        text = path.read_text(encoding="utf-8")
        if json.loads(text)["name"] != path.stem:
            sys.exit(f"{path}: its name must be \"{path.stem}\"")
        lines = "\n".join("        " + json.dumps(line + "\n") for line in text.splitlines())
        profile = path.with_suffix(".profile.json")
        if profile.exists():
            numbers = ", ".join(map(str, profile.read_bytes()))  # longer than a string may be
            profiles.append(f"static const char profile_{len(rows)}[] = {{{numbers}, 0}};\n")
        symbol = f"profile_{len(rows)}" if profile.exists() else "NULL"
        rows.append(f'    {{"{path.stem}",\n{lines},\n        {symbol}}},\n')
    pathlib.Path(output).write_text(
        "/* Made by schemas/devices/embed.py. */\n"
        '#include "device_description.h"\n\n#include <stddef.h>\n\n' + "".join(profiles) + "\n"
        "const struct remat_device_text remat_device_texts[] = {\n" + "".join(rows) +
        "};\nconst unsigned remat_device_text_count = " + str(len(rows)) + ";\n",
        encoding="utf-8")


main()
