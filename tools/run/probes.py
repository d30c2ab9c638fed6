# SPDX-License-Identifier: Apache-2.0
"""The plans of device_rates.h as a C table, each of a graph with everything saved:

    probes.py OUTPUT REMAT_GRAPH REMAT_COMPILE NAME ARGUMENT... [-- NAME ARGUMENT...]...

ARGUMENT... are those of remat-graph."""
import os
import subprocess
import sys
import tempfile


def plan_of(graph, compiler, arguments):
    with tempfile.TemporaryDirectory() as work:
        model, plan = os.path.join(work, "model.fbs"), os.path.join(work, "model.plan")
        subprocess.run([graph, *arguments, "-o", model], check=True)
        subprocess.run([compiler, model, "-o", plan], check=True, stdout=subprocess.DEVNULL)
        with open(plan, "rb") as file:
            return file.read()


def main():
    output, graph, compiler, *rest = sys.argv[1:]
    bytes_of, rows = "", ""
    for words in " ".join(rest).split(" -- "):
        name, *arguments = words.split()
        plan = plan_of(graph, compiler, arguments)
        # A string compiles in a tenth of the time that a list of numbers takes.
        lines = "\n".join('    "' + "".join(f"\\{byte:03o}" for byte in plan[at:at + 24]) + '"'
                          for at in range(0, len(plan), 24))
        bytes_of += f"_Alignas(16) static const unsigned char {name}_plan[] =\n{lines};\n"
        rows += f'    {{"{name}", {name}_plan, sizeof {name}_plan - 1}},\n'
    with open(output, "w", encoding="utf-8") as file:
        file.write(f'/* Made by tools/run/probes.py. */\n#include "device_rates.h"\n\n{bytes_of}\n'
                   f"const struct probe probes[PROBE_COUNT] = {{\n{rows}}};\n")


main()
