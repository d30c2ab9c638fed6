# SPDX-License-Identifier: Apache-2.0
"""README.md and every document in docs and docs/questions is among those whose commands are run, and every relative link
in them, in docs/tables, CONTRIBUTING.md and CHANGELOG.md, leads to a file and a heading in it. No table of the README
is wider than 100 columns.

    complete.py ROOT DOCUMENT..."""
import os
import re
import sys

WIDTH = 100


def anchors_of(path):
    """Those of the headings, as GitHub makes them."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def documents(root, folder):
    return sorted(f"{folder}/{name}" for name in os.listdir(os.path.join(root, folder)) if name.endswith(".md"))


def wide_rows(text):
    """Of tables in markup, and of those that commands print: three gaps at least."""
    rows = [line for line in text.splitlines() if line.startswith("|") or len(re.findall(r"\S {2,}(?=\S)", line)) > 2]
    return [row for row in rows if len(row) > WIDTH]


def main():
    root, *tested = sys.argv[1:]
    written = ["README.md"] + documents(root, "docs") + documents(root, "docs/questions")
    faults = [f"{path}: its commands are not run (tests/docs/meson.build)"
              for path in written if path not in tested]
    for path in written + documents(root, "docs/tables") + ["CONTRIBUTING.md", "CHANGELOG.md"]:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        if path == "README.md":
            faults += [f"{path}: wider than {WIDTH} columns: {row}" for row in wide_rows(text)]
        for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
            target = os.path.join(root, os.path.dirname(path), link) if link else os.path.join(root, path)
            if not os.path.exists(target):
                faults.append(f"{path}: no {link}")
            elif anchor and anchor not in anchors_of(target):
                faults.append(f"{path}: {link} has no heading #{anchor}")
    print("\n".join(faults))
    return 1 if faults else 0


sys.exit(main())
