# SPDX-License-Identifier: Apache-2.0
"""Every emitted kernel of a model's plans compiles with NVRTC for the architectures given, without a warning and
within the limits of limits.csv: registers and bytes of local memory a thread, bytes of shared memory a block. Of its
rows the first that fits counts: the model (empty: any), a pattern of the kernel's name without its hash.

    compile_all.py TOOLS_FOLDER CACHE_FOLDER PLANS ARCHITECTURES PRESET DTYPE [OPTION OF remat-graph...]

PLANS: "all" for one of each kind, "few" for the first two. Plans share most kernels, which are compiled
once: the rest is in the cache, where a later run of the same build finds all. ARCHITECTURES: "all", or as
--arch has them. Exit code 77 where there is no NVRTC (1 when CI=true)."""
import csv
import fnmatch
import json
import os
import re
import sys

import library
from harness import Tools, scratch

ALL_ARCHITECTURES = "sm_80,sm_86,sm_89,sm_90,sm_100"
TARGET = "h200"
# One plan of each kind that has kernels of its own; a budget halfway from full recomputation to none.
FEW = [[], ["--ac-mode", "full"]]
ALL = FEW + [["--recompute-activations"], ["--microbatches", "2", "--ac-mode", "full"],
             ["--loss-chunk", "auto", "--budget", "half"]]
LAYOUT = re.compile(r"_(columns_totals|[a-z]+)_v\d+$")
HERE = os.path.dirname(os.path.abspath(__file__))


def read_rows(*path):
    with open(os.path.join(*path), encoding="ascii") as file:
        return list(csv.DictReader(file))


class Model:
    def __init__(self, tool, cache, architectures, preset, dtype, *options):
        self.tool, self.cache, self.name = tool, cache, f"{preset}:{dtype}"
        self.architectures = ALL_ARCHITECTURES if architectures == "all" else architectures
        self.rows = {}  # (kernel, architecture) -> row of resources.csv
        self.run("graph", preset, "--dtype", dtype, *options, "-o", "model.fbs")

    def run(self, name, *arguments):
        return library.must(self.tool(name, *arguments))

    def compile(self, *options):
        """What remat-dump says of the plan."""
        before, folder = len(self.rows), f"cuda{len(os.listdir())}"
        verbose = self.run("compile", "model.fbs", "-v", "--target", TARGET, *options, "-o", "model.plan",
                           "--emit-cuda", folder, "--arch", self.architectures, "--cache", self.cache,
                           *library.option("--nvrtc")).stderr
        rows = {(row["kernel"], row["arch"]): row for row in read_rows(folder, "resources.csv")}
        kernels = {name[:-3] for name in os.listdir(folder) if name.endswith(".cu")}
        if not rows or rows.keys() != {(kernel, arch) for kernel in kernels for arch in self.architectures.split(",")}:
            sys.exit(f"{self.name} {options}: resources.csv does not have every kernel on every architecture")
        for kernel, arch in rows.keys() - self.rows.keys():
            with open(f"{folder}/{kernel}.{arch}.cubin", "rb") as file:
                if file.read(4) != b"\x7fELF":
                    sys.exit(f"{kernel}.{arch}.cubin is no cubin")
        self.rows |= rows
        said = [line for line in verbose.splitlines() if line.startswith("cubins ")]
        print(f"{' '.join(options) or 'everything saved'}: {len(rows)} cubins, {len(self.rows) - before} "
              f"of no plan before; {' '.join(said[0].split())}", flush=True)
        return json.loads(self.run("dump", "model.plan", "--format", "json").stdout)

    def compile_plans(self, plans):
        made = []
        for options in plans:
            if options[-1:] == ["half"]:
                most, least = made[0]["arena_bytes"], made[1]["arena_bytes"]
                options = [*options[:-1], str(made[0]["reserve_bytes"] + (most + least) // 2)]
            made.append(self.compile(*options))

    def check(self):
        """What is beyond the limits, and limits of this model that no kernel has; prints the most of each layout."""
        limits, faults, most = read_rows(HERE, "limits.csv"), [], {}
        unused = [limit for limit in limits if limit["model"] == self.name]
        for (symbol, arch), row in sorted(self.rows.items()):
            name = symbol[:-len("_0123456789abcdef")]
            layout = LAYOUT.search(name)[1]
            limit = next((limit for limit in limits if limit["model"] in ("", self.name)
                          and fnmatch.fnmatchcase(name, limit["kernels"])), None)
            if not limit:
                faults.append(f"{symbol}: no limit")
                continue
            unused = [other for other in unused if other is not limit]
            if row["warnings"]:
                faults.append(f"{symbol} on {arch}: {row['warnings']}")
            for key in ("registers", "spill_bytes", "shared_bytes"):
                used = int(row[key])
                most[layout, key] = max(most.get((layout, key), 0), used)
                if used > int(limit[key]):
                    faults.append(f"{symbol} on {arch}: {used} {key}, limit {limit[key]}")
        for (layout, key), value in sorted(most.items()):
            print(f"{layout} {key}: at most {value}")
        return faults + [f"limits.csv: no {limit['kernels']} in {self.name}" for limit in unused]


def main():
    tools, cache, plans, *model = sys.argv[1:]
    cache = os.path.abspath(cache)
    os.makedirs(cache, exist_ok=True)
    tool = Tools(tools)
    with scratch():
        model = Model(tool, cache, *model)
        model.compile_plans({"all": ALL, "few": FEW}[plans])
    faults = model.check()
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
