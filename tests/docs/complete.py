# SPDX-License-Identifier: Apache-2.0
"""README.md and every document in docs is among those whose commands are run, and every relative link
in them, and in CONTRIBUTING.md and CHANGELOG.md, leads somewhere.

    complete.py ROOT DOCUMENT..."""
import os
import re
import sys


def main():
    root, *tested = sys.argv[1:]
    written = ["README.md"] + sorted("docs/" + name for name in os.listdir(os.path.join(root, "docs"))
                                     if name.endswith(".md"))
    faults = [f"{path}: its commands are not run (tests/docs/meson.build)"
              for path in written if path not in tested]
    for path in written + ["CONTRIBUTING.md", "CHANGELOG.md"]:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not os.path.exists(os.path.join(root, os.path.dirname(path), link)):
                faults.append(f"{path}: no {link}")
    print("\n".join(faults))
    return 1 if faults else 0


sys.exit(main())
