# SPDX-License-Identifier: Apache-2.0
"""Each rule of tests/style fails on an offence planted in a small tree, and passes once it is mended.

    planted.py"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LICENSE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
BUILD = "build/compile_commands.json"


def source(*calls, header="", text=""):
    """A .c file that includes the headers of what it calls."""
    includes = "".join(f'#include "{name}.h"\n' for name in (header, *calls) if name)
    return LICENSE + includes + text


def function(name, body="return 0;"):
    return f"int {name}(void)\n{{\n    {body}\n}}\n"


def build(folder, *flags):
    command = {"directory": ".", "file": f"{folder}/a.c", "command": " ".join(("cc", *flags, "-c", f"{folder}/a.c"))}
    return lambda root: json.dumps([{**command, "directory": str(root)}])


TWO = {"runtime/base/f.h": LICENSE + "int f(void);\n", "runtime/base/g.h": LICENSE + "int g(void);\n"}
THREE = {**TWO, "runtime/base/h.h": LICENSE + "int h(void);\n",
         "runtime/base/f.c": source("g", header="f", text=function("f", "return g();")),
         "runtime/base/g.c": source("h", header="g", text=function("g", "return h();"))}
COLUMNS = LICENSE + "int  a;\n"

# What repeats rows; a further dtype and a further way to keep a value, which nothing else knows.
ROWS = {path: (HERE.parent.parent / path).read_text() for path in (
    "schemas/graph.fbs", "schemas/program.fbs", "runtime/include/remat/dtypes.def", "runtime/program/keeps.def",
    "runtime/program/program.h", "tools/cli/graph.def", "compiler/kernels/device_ranges.def")} | {"tests/thresholds.txt": ""}
DTYPES, KEEPS = "runtime/include/remat/dtypes.def", "runtime/program/keeps.def"
F8 = {**ROWS, DTYPES: ROWS[DTYPES] + 'ROUNDED_DTYPE(F8, f8, 5, 1, 0x7c, "F8", "float8", "fp8", 0)\n'}
HOST = {**ROWS, KEEPS: ROWS[KEEPS] + 'KEEP(HOST, 6, "host", "saved in host memory", "hosted", ".host", "copied")\n'}

# The check, the offence, what its message has, and the files that mend it.
RULES = [
    ("style.py format", {"tools/a.c": COLUMNS}, "tools/a.c", {"tools/a.c": LICENSE + "int a;\n"}),
    ("style.py calls", {"runtime/base/a.c": function("a", 'return printf("a");')}, "must not call printf",
     {"runtime/base/a.c": function("a", "return 0; /* no printf() */")}),
    ("style.py headers", {"runtime/include/remat/a.h": "size_t a(void);\n"}, "does not compile alone",
     {"runtime/include/remat/a.h": "#include <stddef.h>\nint a(void);\n"}),
    ("style.py license", {"tools/a.c": "int a;\n"}, "tools/a.c", {"tools/a.c": LICENSE + "int a;\n"}),
    ("layers.py", {"runtime/base/a.c": '#include "b.h"\n', "runtime/exec/b.h": ""}, "includes runtime/exec/b.h",
     {"runtime/base/a.c": ""}),
    ("layers.py", {"compiler/search/a.h": '#include "compile.h"\n', "compiler/compile.h": ""}, "includes compiler/compile.h",
     {"compiler/search/a.h": ""}),
    ("owners.py ROOT", {"tools/a.h": "int f(void);\n", "tools/a.c": "", "tools/b.c": function("f")}, "f is defined in",
     None),
    ("tidy.py ROOT/build", {"tools/a.c": LICENSE + function("a", "return sizeof(int) == sizeof(int);"), BUILD: build("tools")},
     "misc-redundant-expression", {"tools/a.c": LICENSE + function("a")}),
    ("house.py openings", {"tools/a.h": "/* Of a tensor: its bytes. */\n"}, "tools/a.h:1: begins with Of",
     {"tools/a.h": "/* Bytes of a tensor. */\n"}),
    ("house.py openings", {"tools/a.h": "struct a {\n    int b; /* What it is. */\n};\n"}, "begins with What",
     {"tools/a.h": "struct a {\n    int b; /* index of a */\n};\n"}),
    ("house.py names", {"tools/a.c": "/* As in tools/b.c. */\n"}, "no file tools/b.c", {"tools/a.c": "/* As in tools/a.c. */\n"}),
    ("house.py names", {"docs/a.md": "`docs/b.py`\n"}, "no file docs/b.py", {"docs/a.md": "`policy.py`\n"}),
    ("house.py words", {"tools/a.c": "/* Transfers in line. */\n"}, "write blocking",
     {"tools/a.c": "/* Blocking transfers, recomputed inline. */\n"}),
    ("house.py words", {"docs/a.md": "The norm behind it.\n"}, "write after", {"docs/a.md": "The norm after it.\n"}),
    ("house.py words", {"tests/a.py": '"""A norm."""\nx = "behind"  # behind it\n'}, "tests/a.py:2: 'behind': write after",
     {"tests/a.py": 'behind = "behind"  # after it\n'}),
    ("house.py words", {"README.md": "The norm behind it.\n"}, "README.md:1: 'behind': write after", {"README.md": ""}),
    ("house.py words", {"tools/a.py": "behind = 1\n"}, "tools/a.py:1: 'behind': write after", {"tools/a.py": "after = 1\n"}),
    ("house.py names", {"README.md": "`docs/b.py`\n", "docs/a.md": ""}, "README.md:1: no file docs/b.py", {"README.md": ""}),
    ("house.py types", {"tools/a.c": "struct a {\n};\n", "runtime/b.c": "struct a {\n};\n"}, "a: defined in runtime/b.c",
     {"tools/a.c": "struct a *a;\n"}),
    ("house.py types", {"tools/a.h": "typedef struct {\n} a;\n", "tools/b.c": "enum a { A };\n"}, "a: defined in",
     {"tools/b.c": "enum b { A };\n"}),
    ("house.py circles", {**TWO, "runtime/base/f.c": source("g", header="f", text=function("f", "return g();")),
                          "runtime/base/g.c": source("f", header="g", text=function("g", "return f();"))},
     "calls: runtime/base/f <-> runtime/base/g", {"runtime/base/g.c": source(header="g", text=function("g"))}),
    ("house.py circles", {**THREE, "runtime/base/h.c": source("f", header="h", text=function("h", "return f();"))},
     "calls: runtime/base/f <-> runtime/base/g <-> runtime/base/h",
     {"runtime/base/h.c": source(header="h", text=function("h"))}),
    ("house.py circles", {"tools/a.h": '#include "b.h"\n', "tools/b.h": '#include "a.h"\n'}, "headers: tools/a.h",
     {"tools/b.h": ""}),
    # The inner file takes a type from the header of the file that calls it.
    ("house.py circles", {"tools/a.h": "struct a {\n    int i;\n};\n", "tools/a.c": source("inner", header="a"),
                          "tools/inner.h": '#include "a.h"\nint inner(struct a a);\n'},
     "includes: tools/a <-> tools/inner", {"tools/inner.h": "int inner(int i);\n"}),
    ("house.py circles", {"tools/a.c": source("b", header="a"), "tools/b.c": source("c", header="b"),
                          "tools/c.h": '#include "a.h"\n', "tools/a.h": "", "tools/b.h": ""},
     "includes: tools/a <-> tools/b <-> tools/c", {"tools/c.h": ""}),
    ("house.py spaces ROOT/build", {"tools/a.c": "", "compiler/a/s.h": "", "compiler/b/s.h": "",
                                    BUILD: build("tools", "-Icompiler/a", "-Icompiler/b")}, "s.h: in one include space",
     {BUILD: build("tools", "-Icompiler/a")}),
    ("rows.py", F8, "schemas/graph.fbs, DType", ROWS),
    ("rows.py", F8, "schemas/program.fbs, DType", ROWS),
    ("rows.py", F8, "tools/cli/graph.def, --dtype", ROWS),
    ("rows.py", F8, "no matmul.fp8_flops_per_s", ROWS),
    ("rows.py", HOST, "schemas/program.fbs, Action", ROWS),
    ("rows.py", {**ROWS, "tests/thresholds.txt": "0.5  pack share, small\n", "tests/a.c": 'check_figure(x, "pack share, large");'},
     "no test has the figure pack share, small", {"tests/a.c": 'check_figure(x, "pack share, %s", y);'}),
]


def plant(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text(root) if callable(text) else text)


def run(root, check):
    script, *arguments = check.replace("ROOT", str(root)).split()
    result = subprocess.run([sys.executable, str(root / "tests/style" / script), *arguments], cwd=root,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def main():
    faults = []
    for check, offence, message, mended in RULES:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            shutil.copytree(HERE, root / "tests/style", ignore=shutil.ignore_patterns("__pycache__"))
            for name in (".clang-format", ".clang-tidy"):
                shutil.copy(HERE.parent.parent / name, root)
            # What several checks look for in every tree.
            plant(root, {"tests/style/ceilings.txt": "", "meson.build": "# " + LICENSE, "meson_options.txt": "# " + LICENSE,
                         ".ci/run": "# " + LICENSE, "README.md": "", "CONTRIBUTING.md": "", "CHANGELOG.md": "", **offence})
            code, output = run(root, check)
            if code != 1 or message not in output:
                faults.append(f"{check}: does not see the offence in {', '.join(offence)}: {code}, {output}")
            if mended is not None:
                plant(root, mended)
                code, output = run(root, check)
                faults += [f"{check}: complains of {', '.join(mended)}: {output}"] if code else []
    sys.exit("\n".join(faults) or 0)


main()
