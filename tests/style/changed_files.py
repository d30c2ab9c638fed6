# SPDX-License-Identifier: Apache-2.0
"""tools/test.sh --changed runs the tests that a change can reach, and no others: through archives, headers, and what
scripts import.

    changed_files.py BUILD_DIRECTORY"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import changed
from harness import check, finish

build = pathlib.Path(sys.argv[1])
EXPECTED = [  # a file, tests that it reaches, tests that it does not
    ("compiler/memory/pack.c", {"memory_pack", "compile_planner"}, {"comm_local", "docs_figures"}),
    ("runtime/comm/local.c", {"comm_local"}, {"memory_pack"}),
    ("compiler/ir/graph.h", {"ir_graph", "compile_bound"}, {"comm_local"}),
    ("tests/unit/search/subject.h", {"compile_bound", "compile_planner"}, {"memory_pack"}),
    ("tests/mutants.py", {"bound_mutants", "rules"}, {"memory_pack"}),
    ("tests/unit/checkpoint/bound_mutants.def", {"bound_mutants"}, {"compile_bound"}),
    ("tests/corpus/root_of_two_needs.graph", {"compile_bound", "compile_optimum"}, {"memory_pack"}),
    ("tests/thresholds.txt", {"compile_optimum", "memory_pack"}, {"docs_design"}),
    ("tests/harness.py", {"docs_figures", "config"}, {"memory_pack"}),
]
edges = changed.read_edges(build)
for file, reached, others in EXPECTED:
    names = changed.chosen(build, {file}, edges)
    check(reached <= names, f"{file} does not reach {', '.join(sorted(reached - names))}")
    check(not others & names, f"{file} reaches {', '.join(sorted(others & names))}")
    check({"format", "golden_layer_gpt2-tiny"} <= names, f"{file}: without the form of the sources, or golden files")
finish()
