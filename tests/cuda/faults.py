# SPDX-License-Identifier: Apache-2.0
"""The doubles show each fault of driver_mutants.def, planted into the CUDA device, and say what it is, by host.c or,
for what is cut in plans too large to run here, by dry.c, or for several ranks by nccl_ranks.c, which also prints
losses: others show a fault, too.

    faults.py TOOLS LIBRARIES COMPILER SOURCES LINKER ARCHIVE... [--only TEXT | --slice N]"""
import concurrent.futures
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mutants
from doubles import CACHE, COMPILER, LIBRARIES, check, finish, folder, graph, pathlib, plan, small_target

SOURCES, LINKER = pathlib.Path(sys.argv[4]), sys.argv[5].split()
ARCHIVES = [str(pathlib.Path(name).resolve()) for name in sys.argv[6:] if name.endswith(".a")]
HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 60
PROGRAMS = {  # of each kind of fault: the program, its arguments after the libraries, what the doubles are told
    "MUTANT": ("host.c", "small.plan", ["--doubles"], {}),
    "NCCL_MUTANT": ("nccl_ranks.c", "ranks.plan", [], {}),
    "EAGER_MUTANT": ("nccl_ranks.c", "ranks.plan", [], {"REMAT_DOUBLE_EAGER": "1"}),
    "EAGER_TRANSFER_MUTANT": ("nccl_ranks.c", "ranks.plan", [], {"REMAT_DOUBLE_EAGER": "2"}),
    "DRY_MUTANT": ("dry.c", "large.plan", ["{name}.log", "wide.plan"], {"REMAT_DOUBLE_MEMORY": str(512 * 10**9)})}


def compiled(work, name, path):
    folders = [HERE.parent, *(folder for folder in (SOURCES / "runtime").glob("**") if folder.is_dir())]
    made = f"{work}/{name}.o"
    subprocess.run([*COMPILER.split(), "-std=c11", "-D_GNU_SOURCE", "-O0", "-w", "-c", str(path), "-o", made,
                    *(f"-I{folder}" for folder in folders)], check=True)
    return made


def run(work, kind, name, *planted):
    """The exit code of the kind's program with these objects in place of the archives', and what it says."""
    program = f"{work}/{name}.program"
    source, model, arguments, variables = PROGRAMS[kind]
    subprocess.run([*LINKER, "-o", program, f"{work}/{source}.o", *planted, "-Wl,--start-group", *ARCHIVES, "-Wl,--end-group", "-ldl",
                    "-pthread", "-lm"], check=True)
    environment = {**os.environ, **variables, "REMAT_DOUBLE_COMPILER": COMPILER, "REMAT_DOUBLE_CACHE": str(CACHE)}
    try:
        done = subprocess.run([program, model, str(LIBRARIES), *(argument.format(name=name) for argument in arguments)],
                              cwd=work, env=environment, encoding="utf-8", capture_output=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return 124, ""
    os.remove(program)
    return done.returncode, done.stdout + done.stderr


def plant(work, index, kind, what, said, *edits):
    objects = []
    for file, text in mutants.edited_files(SOURCES, edits).items():
        path = pathlib.Path(work) / f"{index}_{pathlib.Path(file).name}"
        path.write_text(text)
        objects.append(compiled(work, path.stem, path))
    code, output = run(work, kind, str(index), *objects)
    if code == 0:
        return f"{what}: NOT FOUND" if output == outputs.get(PROGRAMS[kind][0], output) else None
    return f"{what}: found by another check than \"{said}\": {output}" if said not in output else None


outputs = {}  # of nccl_ranks.c without a fault, by source
CACHE.mkdir(exist_ok=True)
with folder() as work:
    graph(work, "gpt2-tiny", "--layers", "1", "--width", "16", "--heads", "1", "--vocab", "5", "--batch", "1", "--seq",
          "4", "--context", "4", "--dropout", "0.1")
    plan(work, "small.plan", "--target", small_target(work))
    graph(work, "gpt2-tiny", "--layers", "1", "--width", "20", "--heads", "1", "--vocab", "7", "--batch", "3", "--seq", "4",
          "--context", "4", "--dropout", "0.1")
    plan(work, "ranks.plan", "--mesh", "dp=3", "--target", small_target(work))
    graph(work, "llama", "--layers", "1", "--width", "2048", "--heads", "2", "--hidden", "4096", "--vocab", "70000",
          "--batch", "4", "--seq", "65600", "--context", "65600", "--attention", "written-out")
    plan(work, "large.plan", "--target", "h200", "--microbatches", "2")
    graph(work, "gpt2", "--layers", "1", "--width", "512", "--heads", "4", "--vocab", "256", "--batch", "2",
          "--seq", "1024")
    plan(work, "wide.plan", "--target", "h200")  # heads of 128 elements
    for kind, (source, *_) in PROGRAMS.items():
        compiled(work, source, HERE / source)
        code, output = run(work, kind, source)
        check(code == 0, f"{source} without a fault: {output}")
        if source == "nccl_ranks.c":
            check(outputs.setdefault(source, output) == output, f"{kind}: other losses: {output}")
    rows = mutants.choose(SOURCES, mutants.read(HERE / "driver_mutants.def", *PROGRAMS), lambda row: row[1],
                          lambda row: row[3:])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for fault in pool.map(lambda row: plant(work, *row), [(index, *row) for index, row in enumerate(rows)]):
            check(fault is None, fault)
    print(f"{len(rows)} faults planted")
finish()
