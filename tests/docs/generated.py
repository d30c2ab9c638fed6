# SPDX-License-Identifier: Apache-2.0
"""What docs/benchmarks.md shows between marks is the summary of the tables in docs/tables.

    generated.py ROOT"""
import os
import sys

ROOT = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(ROOT, "tests/bench"))

import batch_table
import bench_budgets
import bench_predictions
import bench_published
import bench_step
import partitioner_tables
import plan_tables
import tables


def main():
    document = os.path.join(ROOT, "docs/benchmarks.md")
    with open(document, encoding="utf-8") as file:
        text = file.read()
    faults = 0
    for script in (bench_step, bench_budgets, bench_predictions, bench_published, batch_table, partitioner_tables,
                   plan_tables):
        expected = script.summary(tables.published(document, script.NAME))
        if tables.between(text, script.__file__)[1].strip() != expected:
            print(f"docs/tables/{script.NAME}.md does not have this summary, but:\n{expected}")
            faults += 1
    return 1 if faults else 0


sys.exit(main())
