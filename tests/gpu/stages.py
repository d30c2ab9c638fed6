# SPDX-License-Identifier: Apache-2.0
"""Runs one stage of the tests and measurements on a GPU, or the part of it that is left, in less than eight minutes.

    stages.py STAGE [--build FOLDER] [--out FOLDER] [--libraries FOLDER] [--doubles COMPILER] [--target NAME]
                    [--seconds N] [--small] [--commit NAME]
    stages.py keep FOLDER

A stage is a list of items. BUILD/gpu/STAGE.json holds the result of each; it is written after each item and read first.
Results of another commit or GPU do not count. Items that failed or were skipped are tried again, except in the stage
first. Items that were cut off come last, and keep the plans they had already timed. After each item the files of the
stage are copied to --out (default: $OUT).

--build      default: build-carried where it exists, else build
--libraries  NVIDIA's (default: links to those in LD_LIBRARY_PATH, wheels and toolkits)
--doubles    the libraries are the doubles of tests/cuda, whose kernels COMPILER compiles
--target     the GPU's description (default: by its name)
--commit     whose results count, and are added to (default: the commit of the build)

keep: puts the results of the stage first in FOLDER into schemas/devices, docs/tables/gpu.md and docs/benchmarks.md.

Exit code: 75 time ran out (the same command goes on), else 1 an item failed, 77 an item cannot run here, 0 all passed."""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import first
from items import SMALL, items_of
from machine import ROOT, Fault, Later, Machine, Skip, collect_libraries, describe, replace_file

STAGES = ["first", "conformance", "kernels", "steps", "ranks", "sanitizer", "profile", "bench"]


def do(machine, function, *arguments):
    """What goes into the results."""
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as work:
            row = {"status": "ok", "found": function(machine, pathlib.Path(work), *arguments)}
    except Skip as skip:
        row = {"status": "skipped", "why": str(skip)}
    except subprocess.TimeoutExpired:
        row = {"status": "unfinished", "why": "time ran out"}
    except Later as later:
        row = {"status": "unfinished", "why": str(later)}
    except Fault as fault:
        row = {"status": "failed", "why": str(fault)} | ({"found": fault.found} if fault.found else {})
    except Exception as unforeseen:  # as of PyTorch
        row = {"status": "failed", "why": repr(unforeseen)[-700:]}
    return row | {"seconds": round(time.monotonic() - begin, 1)}


ABOUT = ["when", "commit", "command", "gpu", "driver", "nvrtc", "cublaslt"]  # every row that was begun says


def commit_of(build):
    """What is built: as tools/gpu.sh pack wrote it, or this tree's."""
    carried = build / "commit"
    if carried.exists():
        return carried.read_text().strip()
    try:
        said = subprocess.run([ROOT / "tools/gpu.sh", "commit"], encoding="utf-8", capture_output=True)
    except OSError:
        return None
    return said.stdout.strip() or None


def is_done(row, about, once):
    """once: a failure or a skip is a result."""
    states = ["ok", "failed", "skipped"] if once else ["ok"]
    return row.get("status") in states and is_same(row, about)


def is_same(row, about):
    return all(row.get(key) == about[key] for key in ["commit", "gpu"])


def items_left(wanted, rows, about, once=False):
    """In order, but items that were cut off last."""
    left = [name for name in wanted if not is_done(rows.get(name, {}), about, once)]
    return sorted(left, key=lambda name: rows.get(name, {}).get("times", 0))


def save(machine, stage, results):
    """Writes the results, and copies the stage's files to --out."""
    options = machine.options
    replace_file(options.state / f"{stage}.json", json.dumps(results, indent=1) + "\n")
    made = [f"{stage}.json", f"{options.name}.json", f"{options.name}.profile.json"]
    for path in [options.state / name for name in made]:
        if options.out and path.exists():
            replace_file(options.out / path.name, path.read_text())


def begun(before, about):
    """The row of an item that has not ended, in case that it never does."""
    return {"status": "unfinished", "why": "it was cut off", "times": before.get("times", 0) + 1,
            "kept": before.get("kept", {})} | about


def run_stage(machine, stage, about):
    """about: of every row: commit, versions, command."""
    path = machine.options.state / f"{stage}.json"
    results = json.loads(path.read_text()) if path.exists() else {"stage": stage, "items": {}}
    wanted, rows = first.items(machine) if stage == "first" else items_of(machine, stage), results["items"]
    if machine.options.small:
        wanted = {name: wanted[name] for name in SMALL.get(stage, wanted)}
    machine.rows = rows
    for name in [name for name in rows if not is_same(rows[name], about)]:
        del rows[name]
    left = items_left(wanted, rows, about, stage == "first")
    for name in left:
        rows[name] = rows.get(name, {}) | {"status": "unfinished", "why": "time ran out"}
    save(machine, stage, results)
    for name in left:
        if machine.left() <= 0:
            break
        about |= {"when": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M}"}
        rows[name] = begun(rows[name], about)
        save(machine, stage, results)
        machine.kept = rows[name]["kept"]
        done = do(machine, *wanted[name])
        rows[name] = rows[name] | done if done["status"] == "unfinished" else done | about
        save(machine, stage, results)
        print(f"{stage}: {name}: {done['status']} {' '.join(done.get('why', '').split())[:300]}".rstrip(), flush=True)
    machine.close()
    print(f"{stage}: {len(wanted) - len(left)} of {len(wanted)} items were done before; {path}")
    states = [rows[name]["status"] for name in wanted]
    if "unfinished" in states:
        print(f"{stage}: time ran out, {states.count('unfinished')} items are left")
    return 75 if "unfinished" in states else 1 if "failed" in states else 77 if "skipped" in states else 0


def arguments():
    carried = ROOT / "build-carried"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--build", type=pathlib.Path, default=carried if carried.exists() else ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT"))
    parser.add_argument("--libraries", type=pathlib.Path)
    parser.add_argument("--doubles", metavar="COMPILER")
    parser.add_argument("--target")
    parser.add_argument("--commit")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--small", action="store_true", help="tiny models and few items, to try the stages")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not (options.build / "tools/remat-run").exists():
        sys.exit(f"gpu.sh: nothing is built in {options.build}: run tools/build.sh build, or carry a build-carried")
    options.state = options.build / "gpu"
    for folder in filter(None, [options.state, options.out]):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    options.out = pathlib.Path(options.out).resolve() if options.out else None
    loader = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    options.libraries = options.libraries.resolve() if options.libraries else \
        collect_libraries(options.state / "libraries", [place for place in loader if place])
    return options


def know_gpu(options, gpu):
    """Selects the GPU's description."""
    options.target = options.target or describe(gpu, options.state)
    path = pathlib.Path(options.target)
    options.description = path if path.suffix == ".json" else ROOT / f"schemas/devices/{options.target}.json"
    options.name, options.arch = options.description.stem, gpu["arch"]


def probe(machine, _):
    done = machine.call("gpu_probe", machine.libraries(), accept=(0, 77))
    if done.returncode == 77:
        raise Skip(done.stdout.strip().removeprefix("SKIP: "))
    return json.loads(done.stdout)


def main():
    if sys.argv[1:2] == ["keep"]:
        print("\n".join(first.keep(pathlib.Path(sys.argv[2]))))
        return 0
    options, command = arguments(), shlex.join(["tools/gpu.sh", *sys.argv[1:]])
    if options.doubles:  # Meson's; the tools shall find the doubles where they are told to
        os.environ.pop("LD_LIBRARY_PATH", None)
    # doubles.py reads its arguments when it is imported
    sys.argv = [sys.argv[0], str(options.build / "tools"), str(options.libraries or "-"), options.doubles or "-"]
    sys.path.append(str(ROOT / "tests/cuda"))
    machine = Machine(options)
    found = do(machine, probe)
    if found["status"] != "ok":
        print(f"{'SKIP' if found['status'] == 'skipped' else 'FAILED'}: {options.stage}: {found['why']}")
        return 77 if found["status"] == "skipped" else 1
    gpu = found["found"]
    try:
        know_gpu(options, gpu)
    except Fault as fault:
        sys.exit(f"gpu.sh: {fault}")
    about = {key: gpu[key] for key in ["gpu", "driver", "nvrtc", "cublaslt"]}
    return run_stage(machine, options.stage, {"commit": options.commit or commit_of(options.build), "command": command} | about)


if __name__ == "__main__":
    sys.exit(main())
