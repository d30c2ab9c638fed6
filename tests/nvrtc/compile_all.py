"""Every emitted kernel of a model's plans compiles with NVRTC for all architectures, within the limits
of limits.csv: registers a thread by layout, and no spills outside the layouts of models named there.

    compile_all.py TOOLS_FOLDER PRESET:DTYPE[:OPTIONS OF remat-graph]...

Exit code 77 where there is no NVRTC."""
import csv
import os
import re
import subprocess
import sys
import tempfile

ARCHITECTURES = "sm_80,sm_86,sm_89,sm_90,sm_100"
KERNEL = re.compile(r"_(pointwise|team|block|columns|columns_totals|gather|scatter|forward|delta|keys|queries|items)_v\d+_[0-9a-f]{16}$")
HERE = os.path.dirname(os.path.abspath(__file__))


def read_limits():
    with open(os.path.join(HERE, "limits.csv"), encoding="ascii") as file:
        return {(row["model"], row["layout"]): {key: int(row[key])
                                                for key in ("registers", "spill_bytes")}
                for row in csv.DictReader(file)}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def compile_model(tools, preset, dtype, options, folder):
    """The rows of resources.csv."""
    graph, plan = os.path.join(folder, "model.fbs"), os.path.join(folder, "model.plan")
    made = run(os.path.join(tools, "remat-graph"), preset, "--dtype", dtype, *options, "-o", graph)
    if made.returncode:
        sys.exit(made.stderr)
    cuda = os.path.join(folder, "cuda")
    made = run(os.path.join(tools, "remat-compile"), graph, "--ac-mode", "full", "-o", plan,
               "--emit-cuda", cuda, "--arch", ARCHITECTURES, "--cache", "none")
    if "cannot open NVRTC" in made.stderr:
        print(f"SKIP: {made.stderr.strip()}")
        sys.exit(77)
    if made.returncode:
        sys.exit(f"{preset} {dtype}: {made.stderr}")
    with open(os.path.join(cuda, "resources.csv"), encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        with open(os.path.join(cuda, f"{row['kernel']}.{row['arch']}.cubin"), "rb") as file:
            if file.read(4) != b"\x7fELF":
                sys.exit(f"{row['kernel']}.{row['arch']}.cubin is no cubin")
    sources = {name[:-3] for name in os.listdir(cuda) if name.endswith(".cu")}
    expected = {(kernel, arch) for kernel in sources for arch in ARCHITECTURES.split(",")}
    if not sources or {(row["kernel"], row["arch"]) for row in rows} != expected:
        sys.exit(f"{preset} {dtype}: resources.csv does not have every kernel on every architecture")
    return rows


def main():
    tools, *models = sys.argv[1:]
    limits, faults, most = read_limits(), [], {}
    for model in models:
        preset, dtype, *options = model.split(":")
        options = " ".join(options or ["--batch 2 --seq 64 --dropout 0.1"]).split()
        with tempfile.TemporaryDirectory() as folder:
            rows = compile_model(tools, preset, dtype, options, folder)
        for row in rows:
            layout = KERNEL.search(row["kernel"])[1]
            usual = limits["", layout]
            for key, limit in limits.get((f"{preset}:{dtype}", layout), usual).items():
                most[layout, key] = max(most.get((layout, key), 0), int(row[key]))
                if int(row[key]) > limit:
                    faults.append(f"{row['kernel']} on {row['arch']}: {row[key]} {key}, limit {limit}")
        print(f"{model}: {len(rows)} cubins")
    for (layout, key), value in sorted(most.items()):
        print(f"{layout} {key}: at most {value}")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
