# SPDX-License-Identifier: Apache-2.0
"""A script that generates tables, small, with its option --output on a copy of docs/benchmarks.md: it writes its tables,
their summary between its marks, and nothing else.

    test_tables.py BUILD_DIRECTORY SCRIPT [OPTION...]"""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

import tables


def main():
    build, path, *options = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("script", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with tempfile.TemporaryDirectory() as work:
        document = os.path.join(work, "benchmarks.md")
        shutil.copy(os.path.join(tables.ROOT, "docs/benchmarks.md"), document)
        with open(document, encoding="utf-8") as file:
            before = tables.between(file.read(), path)
        subprocess.run([sys.executable, path, build, "--small", *options, "--output", document], check=True)
        with open(document, encoding="utf-8") as file:
            after = tables.between(file.read(), path)
        text = tables.published(document, script.NAME)
        found = set(os.listdir(work) + os.listdir(os.path.join(work, "tables")))
        print(after[1])
        assert (before[0], before[2]) == (after[0], after[2]), "the document was changed outside the marks"
        assert after[1].strip() == script.summary(text) != before[1].strip()
        assert found == {"benchmarks.md", "tables", script.NAME + ".md"}, found
        assert all(table.rows for table in tables.read(text)) and tables.read(after[1])[0].rows


main()
