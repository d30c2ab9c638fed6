# SPDX-License-Identifier: Apache-2.0
"""The half hour with a GPU as it is typed in docs/cuda.md, on a GPU that does nothing (stub.c). The machine is bare at
each call and returns only $OUT; two calls run out of time and one is killed. Then the parts one by one.

    test_first.py BUILD STUBS DOUBLES"""
import argparse
import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import first
import items
import machine
import stages
from harness import check, finish, read_json

BUILD, STUBS, DOUBLES = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
ROOT = machine.ROOT
GPU = "h100-sxm"
IN_USE_BYTES = 600_000_000  # as stub.c has it
TREE = ["tools/gpu.sh", "tests/gpu/*.py", "tests/harness.py", "tests/cuda/*.py", "tests/peers/torch_gpt2.py", "tests/emulator/attention_sizes.def",
        "schemas/devices/*", "docs/benchmarks.md"]
# Tools that are not NVIDIA's: they note what they were called with, and run the program.
TOOL = """#!/bin/sh
echo "$LD_LIBRARY_PATH" >>"$(dirname "$0")/paths"
echo "$@" >>"$(dirname "$0")/$(basename "$0").log"
while [ "${1##*/}" != gpu_worker ]; do shift; done
"""
COUNTERS = """"$@" >/dev/null || exit $?
cat <<END
==PROF== Disconnected
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","adamw_tensors_v4_1","GPU Speed Of Light Throughput","Duration","us","50.0"
"0","1","adamw_tensors_v4_1","GPU Speed Of Light Throughput","DRAM Throughput","%","81.5"
END
"""
# These compare numbers, and find that the GPU computes nothing.
WRONG = re.compile(r"primitives|attention|(memcheck|racecheck) attention \d+|samples|step \S+-tiny (fp32|bf16)")


# --- the half hour ---

def typed():
    """The commands of docs/cuda.md: before, each call, after each call, at the end."""
    text = (ROOT / "docs/cuda.md").read_text()
    commands = re.findall(r"^\$ (.*?)(?:  +#.*)?$", text[text.index("## Half an hour"):], re.M)
    check(all(len(command) < 2000 for command in commands), "a command is too long for the device machine")
    check(len(commands) == 4, f"docs/cuda.md has {commands}")
    return commands


def copy_tree(to):
    for pattern in TREE:
        for path in ROOT.glob(pattern):
            (to / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to / path.relative_to(ROOT))


def put_tools(folder):
    for name, text in [("ncu", TOOL + COUNTERS), ("compute-sanitizer", TOOL + 'exec "$@"\n')]:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


class Device:
    """The machine with the GPU, for one call: a copy of the tree, an empty $OUT."""

    def __init__(self, here, folder, tools, libraries):
        self.tree, self.out = folder / "tree", folder / "out"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(here, self.tree, ignore=shutil.ignore_patterns("build"))
        self.out.mkdir()
        self.environment = os.environ | {"OUT": str(self.out), "LD_LIBRARY_PATH": str(libraries), "PYTHONUNBUFFERED": "1",
                                         "PATH": f"{tools}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache")}

    def run(self, command, kill_after=None):
        """Lines and exit code; killed with its process group after so many lines."""
        with subprocess.Popen(shlex.split(command), cwd=self.tree, env=self.environment, encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if len(lines) == kill_after:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        return lines, process.returncode


def half_hour(work):
    """The tree after it, the folder of ncu's double, and the lines of each call."""
    pack, call, bring, keep = typed()
    here, tools, libraries = work / "here", work / "tools", work / "libraries"
    copy_tree(here)
    (here / "build").symlink_to(BUILD)
    tools.mkdir()
    put_tools(tools)
    libraries.mkdir()
    for path in [*STUBS.glob("lib*.so.*"), *DOUBLES.glob("libnvrtc*.so.13*")]:
        (libraries / path.name).symlink_to(path)
    subprocess.run(shlex.split(pack), cwd=here, check=True, stdout=subprocess.DEVNULL)
    lines, codes = [], []
    # time runs out, then the call is killed in the tenth item of its own, then it goes on to the end
    for seconds, kill_after in [(1, None), (400, 10), (0.1, None), (400, None), (400, None)]:
        device = Device(here, work / "device", tools, libraries)
        said, code = device.run(f"{call} --small --seconds {seconds}", kill_after)
        for path in device.out.rglob("*"):
            if path.is_file():
                path.chmod(0o444)  # as they come back
        lines.append(said)
        codes.append(code)
        files = list(device.out.iterdir())
        check(0 < len(files) <= 8, f"$OUT has {files}: {said[-3:]}")
        subprocess.run(["sh", "-c", bring.replace("FILES", str(device.out))], cwd=here, check=True)
    check(codes == [75, -signal.SIGKILL, 75, 1, 1], f"exit codes {codes}: {lines}")
    kept = subprocess.run(shlex.split(keep), cwd=here, encoding="utf-8", capture_output=True)
    check(kept.returncode == 0, f"keep: {kept.stderr}")
    return here, tools, lines


def check_items(here, lines):
    """All items are done, none twice; exactly those that compare numbers fail."""
    rows = read_json(here / "build-carried/gpu/first.json")["items"]
    results = [match[1] for line in sum(lines, []) if (match := re.match(r"first: (.*?): (ok|failed|skipped)\b", line))]
    check(len(results) == len(set(results)) and set(results) == set(rows), f"done twice or never: {sorted(results)}")
    check(f"{len(rows)} of {len(rows)} items were done before" in lines[-1][-1],
          f"at last: {lines[-1][-1]}")
    for name, row in rows.items():
        expected = "skipped" if name.startswith("torch ") else "failed" if WRONG.fullmatch(name) else "ok"
        check(row["status"] == expected, f"{name} is {row['status']}: {row.get('why')}")
        check(expected != "skipped" or "PyTorch" in row["why"], f"{name}: {row}")
    return rows


def check_kept(here, rows):
    """Description, profile and tables fit the tree."""
    devices = here / "schemas/devices"
    reserved = rows["reserve"]["found"]["reserve_bytes"]
    check(0 <= reserved - IN_USE_BYTES - first.MARGIN_BYTES < 1 << 20, f"{reserved} bytes are reserved")
    before, after = (read_json(root / f"schemas/devices/{GPU}.json") for root in [ROOT, here])
    check(after == before | {"reserve_bytes": reserved}, "of the description more was changed than the reserve")
    profile = read_json(devices / f"{GPU}.profile.json")
    check(profile["device"] in after["cuda"]["gpus"] and profile["kernels"], f"the profile is of {profile['device']}")
    listed = [path for path in devices.glob("*.json") if path != devices / f"{GPU}.profile.json"]
    made = subprocess.run([sys.executable, devices / "embed.py", here / "devices.c", *listed], encoding="utf-8",
                          capture_output=True)
    check(made.returncode == 0, f"schemas/devices does not build: {made.stderr}")
    text = (here / "docs/benchmarks.md").read_text()
    outside = [re.sub(f"{first.BEGINS}.*{first.ENDS}", "", each, flags=re.S)
               for each in [text, (ROOT / "docs/benchmarks.md").read_text()]]
    check(outside[0] == outside[1] and text.count(first.BEGINS) == 1, "docs/benchmarks.md was changed outside the summary")
    summary = text[text.index(first.BEGINS):text.index(first.ENDS)]
    for said in ["NVIDIA H100 80GB HBM3", "(tables/gpu.md)", "remat, fp32 masters and moments", "Kendall's tau"]:
        check(said in summary, f"the summary lacks {said}")
    tables = (here / "docs/tables/gpu.md").read_text()
    for said in ["## Kernels of gpt2-tiny", "## Attention", "## Products", "## Steps", "## Plans", "adamw_tensors_v4_1",
                 "NVIDIA H100 80GB HBM3"]:
        check(said in tables, f"the tables lack {said}")


def check_tools(tools):
    """NVIDIA's tools do not see our libraries."""
    ncu = (tools / "ncu.log").read_text().splitlines()
    kinds = {match[0] for line in ncu if (match := re.search(r"--clock-control none .*--kernel-name regex:\^\S+", line))}
    check(len(ncu) == len(kinds) == first.SLOWEST, f"ncu: {ncu}")
    sanitized = (tools / "compute-sanitizer.log").read_text().splitlines()
    check(len(sanitized) == 2 * len(items.SANITIZED), f"compute-sanitizer: {sanitized}")
    check("build-carried" not in (tools / "paths").read_text(), "ncu and compute-sanitizer look for libraries in ours")
    needed = subprocess.run(["ldd", BUILD / "tests/gpu/gpu_worker"], encoding="utf-8", capture_output=True).stdout
    check("libstdc++" not in needed and "libgcc_s" not in needed and "libc.so" in needed, f"gpu_worker needs {needed}")


# --- row by row ---

def machine_of(folder, libraries, **more):
    known = {"build": BUILD, "libraries": libraries, "doubles": None, "seconds": 100, "small": True, "target": None,
             "state": folder, "out": None}
    options = argparse.Namespace(**known | more)
    found = machine.Machine(options)
    stages.know_gpu(options, stages.probe(found, None))
    return found


def fault_of(function, *arguments):
    try:
        function(*arguments)
    except (machine.Fault, machine.Skip) as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""


def check_names(work):
    """A GPU's description is that of its name; of an unknown one, of its nearest sibling."""
    for name, arch, total, expected in [("NVIDIA H200", "sm_90", 150_000_000_000, "h200"),
                                        ("NVIDIA H100 80GB HBM3", "sm_90", 84_942_979_072, "h100-sxm")]:
        found = machine.describe({"gpu": name, "arch": arch, "total_bytes": total}, work)
        check(found == expected, f"{name} is {found}")
    path = pathlib.Path(machine.describe({"gpu": "NVIDIA H200 NVL", "arch": "sm_90", "total_bytes": 150_000_000_000}, work))
    made = json.loads(path.read_text())
    check(path.name == "h200-nvl.json" and made["name"] == "h200-nvl" and made["cuda"]["gpus"] == ["NVIDIA H200 NVL"]
          and made["memory"]["peak_bytes_per_s"] == 4.8e12, f"an unknown GPU: {made}")
    said = fault_of(machine.describe, {"gpu": "GPU", "arch": "sm_42", "total_bytes": 1}, work)
    check("--target" in said, f"an unknown architecture: {said}")


def check_profile_first(work, libraries):
    """Times are kept before anything is compiled from them, which fails for another GPU's description."""
    (work / "profile").mkdir()
    found = machine_of(work / "profile", libraries, target="h200")
    row = stages.do(found, items.profile, "gpt2-tiny")
    found.close()
    path = work / "profile/h200.profile.json"
    check(row["status"] == "failed" and row["found"]["kernels"] and path.exists() and json.loads(path.read_text())["kernels"],
          f"a profile that nothing is compiled from: {row}")


def check_reserve(work, libraries):
    """Without the measured reserve a plan under a budget does not run beside 600 MB."""
    (work / "reserve").mkdir()
    found = machine_of(work / "reserve", libraries)
    found.rows = {"profile gpt2-tiny": stages.do(found, items.profile, "gpt2-tiny")}
    said = fault_of(first.plan, found, work, 2)
    check("--reserve" in said, f"without a reserve: {said}")
    waits = [({}, "unfinished"), ({"status": "unfinished"}, "unfinished"), ({"status": "failed"}, "skipped")]
    for row, expected in waits:
        found.rows = {"profile gpt2-tiny": row}
        check(stages.do(found, first.plan, 2)["status"] == expected, f"without a profile that is {row}")
    found.close()


def check_one_process(work, libraries):
    """Items share a process until one fails; a program that runs alone is alone on the GPU."""
    found = machine_of(work, libraries)
    first_id = found.worker.process.pid
    first.copy(found, work)
    check(found.worker.process.pid == first_id, "a process for each item")
    check(fault_of(found.call, "no_program") and found.worker is None, "what failed leaves its process behind")
    first.copy(found, work)
    found.call("gpu_copy", libraries, alone=True)
    check(found.worker is None, "the worker's memory is in use where it should not be")
    found.end = 0
    check(fault_of_time(found), "a program that hangs is waited for")


def fault_of_time(found):
    """No item outlasts its call."""
    class Hanging(machine.Server):
        def run(self, arguments, given, timeout):
            return super().run(["bench_session"], given, 0.0)
    found.worker = Hanging(["sleep", "100"], dict(os.environ))
    try:
        found.call("bench_session")
    except subprocess.TimeoutExpired:
        return found.worker is None
    return False


def check_ids(work):
    """Ids are Zipf's of the whole vocabulary wherever steps are run."""
    called = []
    fake = argparse.Namespace(options=argparse.Namespace(libraries=None), call=lambda *arguments, **_: called.append(arguments))
    machine.Machine.train(fake, "model.plan")
    check("--ids zipf" in " ".join(map(str, called[0])), f"remat-run is called with {called}")


def check_order():
    """What was cut off, by a GPU that hangs perhaps, comes after what was never begun."""
    about = {"commit": "here", "gpu": "this"}
    rows = {"hangs": stages.begun({}, about), "failed": {"status": "failed"} | about}
    left = stages.items_left(["hangs", "failed", "new", "newer"], rows, about, once=True)
    check(left == ["new", "newer", "hangs"], f"left are {left}")


def check_libraries(work):
    """Found in wheels and toolkits, the driver where containers mount it unless the loader finds it."""
    root = work / "system"
    for path in ["usr/local/cuda-13.0/lib64/libcublasLt.so.13", "usr/local/cuda-13.0/lib64/libnvrtc.so.13",
                 "usr/local/cuda-13.0/lib64/libnvrtc-builtins.so.13.0", "usr/local/nvidia/lib64/libcuda.so.1",
                 "site/nvidia/cu13/lib/libcublasLt.so.13"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    sys.path.append(str(root / "site"))
    for has_driver in [True, False]:
        found = machine.collect_libraries(work / "found", prefix=f"{root}/", has_driver=lambda: has_driver)
        names = {path.name: path.read_text() for path in found.iterdir()}
        check(names.keys() == {"libcublasLt.so.13", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0",
                               *([] if has_driver else ["libcuda.so.1"])}, f"found {names}")
        check(names["libcublasLt.so.13"].startswith("site/"), f"of two {names['libcublasLt.so.13']}")
    sys.path.pop()


def check_missing(work, libraries):
    """Without ncu and compute-sanitizer their items are skipped, with the reason."""
    (work / "missing").mkdir()
    path, os.environ["PATH"], machine.PROGRAM_FOLDERS = os.environ["PATH"], str(work / "missing"), []
    said = [fault_of(first.counters, None, work, 0), fault_of(items.sanitizer, None, work, "memcheck", "attention", 1)]
    os.environ["PATH"] = path
    check(said == ["Skip: ncu is not installed", "Skip: compute-sanitizer is not installed"], f"without tools: {said}")
    command = first.counters_command("ncu", "linear.gelu")
    check("regex:^linear_gelu_[a-z]+_v[0-9]+_" in command, f"ncu is called with {command}")


def check_torch():
    """PyTorch's items on the CPU, tiny: both forms of optimizer states."""
    python = ROOT / ".venv/bin/python"
    if not python.exists() or not glob.glob(str(ROOT / ".venv/lib/python*/site-packages/torch")):
        print("PyTorch is not in .venv: its items are not tried")
        return
    server = machine.Server([python, ROOT / "tests/gpu/torch_items.py", "serve"], dict(os.environ))
    for arguments in [["step", "eager", "none", "fp32", "2", "16", "cpu"], ["step", "eager", "full", "bf16", "2", "16", "cpu"],
                      ["attention", "64", "64", "32", "cpu"]]:
        done = server.run(arguments, "", 200)
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        check(found.get("step_ns", found.get("backward_ns", 0)) > 0, f"PyTorch: {arguments}: {done}")
        check(arguments[0] != "step" or found["last_loss"] < found["loss"], f"PyTorch: {arguments} learns nothing: {found}")
        check(arguments[0] != "step" or found["states"] == {"fp32": "torch.float32", "bf16": "torch.bfloat16"}[arguments[3]],
              f"PyTorch: moments of {arguments} are {found.get('states')}")
    for arguments in [["step", "eager", "none", "fp32", "2", "16"], ["budget", "gpt2-tiny", "0"]]:
        missing = server.run(arguments, "", 200)
        check(missing.returncode in (0, 77), f"PyTorch without a GPU: {missing}")
    server.end()


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    here, tools, lines = half_hour(work)
    check_kept(here, check_items(here, lines))
    check_tools(tools)
    libraries = work / "libraries"
    check_names(work)
    check_profile_first(work, libraries)
    check_reserve(work, libraries)
    check_one_process(work, libraries)
    check_ids(work)
    check_order()
    check_libraries(work)
    check_missing(work, libraries)
    check_torch()
finish()
