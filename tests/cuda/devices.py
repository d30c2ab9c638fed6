# SPDX-License-Identifier: Apache-2.0
"""Which device remat-run takes, and the one line that it says where "cuda" cannot be had. What each says
is in devices.txt; with REMAT_UPDATE_GOLDEN=1 in the environment that is written instead.

    devices.py TOOLS LIBRARIES COMPILER"""
import ctypes
import difflib
import json
import os
import shutil

from doubles import LIBRARIES, TEXT, check, finish, folder, graph, must, pathlib, plan, tool, train

GOLDEN = pathlib.Path(__file__).parent / "devices.txt"
OPERATION_NS = 1000  # double.h
ALL = {"libcuda.so.1", "libnvtx3interop.so.1", *(name + major for major in ["12", "13"] for name in
       ["libnvrtc.so.", "libcublasLt.so."]), "libnvrtc-builtins.so.12.34", "libnvrtc-builtins.so.13.34"}
NVRTC, CUBLASLT = ({f"{name}.so.12", f"{name}.so.13"} for name in ["libnvrtc", "libcublasLt"])
# name: plan, libraries that are missing, environment
CASES = {
    "an old driver": ("model.plan", set(), {"REMAT_DOUBLE_DRIVER": 11080}),
    "a driver that does not start": ("model.plan", set(), {"REMAT_DOUBLE_FAIL": "cuInit:3"}),
    "no GPU": ("model.plan", set(), {"REMAT_DOUBLE_CAPABILITY": 0}),
    "an old GPU": ("model.plan", set(), {"REMAT_DOUBLE_CAPABILITY": 75}),
    "no cuBLASLt": ("model.plan", CUBLASLT, {}),
    "a driver older than cuBLASLt": ("model.plan", {"libcublasLt.so.12"}, {"REMAT_DOUBLE_DRIVER": 12080}),
    "cuBLASLt does not start": ("model.plan", set(), {"REMAT_DOUBLE_FAIL": "cublasLtCreate:1"}),
    "no memory for cuBLASLt": ("model.plan", set(), {"REMAT_DOUBLE_FAIL": "cublasLtCreate:3"}),
    "no cubin for this GPU and no NVRTC": ("sm_80.plan", NVRTC, {}),
    "no cubin and a driver older than NVRTC": ("model.plan", {"libnvrtc.so.12"}, {"REMAT_DOUBLE_DRIVER": 12080}),
    "no cubin and an NVRTC that does not know the GPU": ("model.plan", set(), {"REMAT_DOUBLE_CAPABILITY": 120}),
    "a driver older than the plan's cubins": ("gpu.plan", set(), {"REMAT_DOUBLE_DRIVER": 12080}),
    "no memory for a context": ("model.plan", set(), {"REMAT_DOUBLE_FAIL": "cuDevicePrimaryCtxRetain:2"}),
    "no memory for kernels": ("model.plan", set(), {"REMAT_DOUBLE_FAIL": "cuModuleLoadData:2"}),
    "too little memory": ("model.plan", set(), {"REMAT_DOUBLE_MEMORY": 8 << 20}),
    "a reserve too small": ("tight.plan", set(), {}),
    "a reserve too small for cuBLASLt's kernels": ("exact.plan", set(), {"REMAT_DOUBLE_PRODUCT": 64 << 20}),
    "a reserve too small for a graph": ("exact.plan", set(), {"REMAT_DOUBLE_GRAPH": 64 << 20}),
    "no memory for cuBLASLt's kernels": ("gpu.plan", set(), {"REMAT_DOUBLE_PRODUCT": 1 << 30}),
    "no CUDA text": ("heads_of_256.plan", set(), {}),
    "no memory for a graph": ("gpu.plan", set(), {"REMAT_DOUBLE_GRAPH": 1 << 30}),
}


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


def without(work, missing):
    """A folder of the other doubles."""
    made = pathlib.Path(work) / "-".join(["without", *sorted(missing)])
    made.mkdir(exist_ok=True)
    for name in ALL - missing:
        shutil.copy(LIBRARIES / name, made)
    return made


def check_errors(work):
    observed, cases = "", dict(CASES)
    if not has_driver():
        cases["no driver"] = ("model.plan", ALL, {})
    for case, (name, missing, environment) in cases.items():
        done = train(work, name, "cuda", "--steps", 2, libraries=without(work, missing), **environment)
        said = done.stderr.replace(work, "WORK")
        observed += f"# {case}\n{said}exit code: {done.returncode}\n\n"
        check(len(said.splitlines()) == 1 and done.returncode, f"{case}: {said}")
    if os.environ.get("REMAT_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(observed, encoding="utf-8")
    golden = GOLDEN.read_text(encoding="utf-8")
    if has_driver():
        golden = golden.split("# no driver")[0]
    for line in difflib.unified_diff(golden.splitlines(), observed.splitlines(), "devices.txt", "observed",
                                     lineterm=""):
        check(False, line)


def report_of(work, name, *arguments, **environment):
    done = must(train(work, name, *arguments, "--report", "report.json", **environment))
    check(not done.stderr, f"{name}, {environment}: {done.stderr}")
    return json.loads((pathlib.Path(work) / "report.json").read_text())


def check_choice(work):
    """Without --device: a GPU where there is one that can run the plan, but a plan with a budget for a CPU stays
    there. What the GPU lacks is said, if it may run it. A plan for a GPU runs on no CPU that nobody asked for."""
    lacks = "the GPU is not used: cannot open cuBLASLt"
    old = {"REMAT_DOUBLE_CAPABILITY": 75}
    for name, missing, environment, expected, said in [
            ("model.plan", set(), {}, "cuda", ""), ("budget.plan", set(), {}, "cpu", ""),
            ("model.plan", set(), old, "cpu", ""), ("model.plan", CUBLASLT, {}, "cpu", lacks),
            ("budget.plan", CUBLASLT, {}, "cpu", ""),
            ("gpu.plan", set(), {}, "cuda", ""),
            ("model.plan", set(), {"REMAT_DOUBLE_DRIVER": 12080}, "cuda", "")]:
        done = must(train(work, name, None, "--steps", 1, "--report", "report.json", libraries=without(work, missing),
                          **environment))
        found = json.loads((pathlib.Path(work) / "report.json").read_text())["device"]
        check(found == expected, f"{name} without {missing}, {environment}: {found}, not {expected}")
        check(said in done.stderr and len(done.stderr.splitlines()) == (said != ""),
              f"{name} without {missing}, {environment}: {done.stderr}")
    for name, missing, environment in [("gpu.plan", set(), old), ("gpu.plan", CUBLASLT, {}), ("sm_80.plan", NVRTC, {})]:
        done = train(work, name, None, "--steps", 1, libraries=without(work, missing), **environment)
        check(done.returncode == 5 and "error: the plan is for h200: " in done.stderr and "--device cpu" in done.stderr,
              f"{name} without {missing}, {environment}: {done.returncode}, {done.stderr}")
        must(train(work, name, "cpu", "--steps", 1))


def check_cubins(work):
    """Those for an earlier GPU of the same major version need no NVRTC."""
    libraries = without(work, NVRTC)
    for name, capability in [("gpu.plan", 90), ("sm_80.plan", 80), ("sm_80.plan", 86)]:
        must(train(work, name, "cuda", "--steps", 1, libraries=libraries, REMAT_DOUBLE_CAPABILITY=capability))


def check_cache(work):
    """What NVRTC compiles at the first run is kept, read by the next, and replaced where it is damaged. Without a
    folder for it a warning says so."""
    cache = pathlib.Path(work) / "folder/cache"
    kernels = json.loads(must(tool("dump", "model.plan", "--kernels", "--format", "json", cwd=work)).stdout)["cuda_kernels"]

    def run(*arguments):
        return train(work, "model.plan", "cuda", "--steps", 1, *arguments)

    def kept():
        return {path: (path.stat().st_ino, path.read_bytes()) for path in sorted(cache.iterdir())}

    plain = must(run())
    first = must(run("--cache", cache))
    entries = kept()
    check(len(entries) == len(kernels), f"{len(entries)} of {len(kernels)} kernels are kept")
    again = must(run("--cache", cache))
    check(kept() == entries, "the next run writes what is kept anew")
    check(all(done.stdout.split("\n")[0] == plain.stdout.split("\n")[0] and not done.stderr for done in (first, again)),
          f"{first.stdout}{again.stdout}{first.stderr}: the cache is noticed")
    path = list(entries)[0]
    path.write_bytes(b"?" + entries[path][1][1:])
    must(run("--cache", cache))
    check({path: data for path, (_, data) in kept().items()} == {path: data for path, (_, data) in entries.items()},
          "a damaged entry stays")
    path.write_bytes(entries[list(entries)[1]][1])  # whole, but of another kernel
    check(run("--cache", cache).returncode != 0, "what is kept is not read")
    (pathlib.Path(work) / "occupied").write_text("")
    occupied = must(run("--cache", "occupied/cache"))
    check(occupied.stderr.count("cubins are not kept") == 1, f"{occupied.stderr}: a folder that cannot be made")
    must(run("--cache", "none"))


def check_memory(work):
    """What the driver reports: within the budget with all that is loaded late, and the same after every step
    from the second on; where it is not, that is said."""
    few = report_of(work, "exact.plan", "cuda", "--steps", 2)
    many = report_of(work, "exact.plan", "cuda", "--steps", 5)
    leaking = train(work, "exact.plan", "cuda", "--steps", 5, REMAT_DOUBLE_LEAK=4096)
    check(few["device_bytes"] == many["device_bytes"], f"{few} {many}: memory grows from step to step")
    check("bytes in use after step 2" in leaking.stderr, f"a leak is not said: {leaking.stderr}")
    check(few["arena_bytes"] <= few["device_bytes"] <= few["budget_bytes"], f"{few}: not within the budget")


def commands_that_wait(work, name):
    """Launches that the step saves because updates of several tensors are one."""
    kernels = json.loads(must(tool("dump", name, "--kernels", "--format", "json", cwd=work)).stdout)
    saved = [kernel["launches"] - kernel["grouped_launches"] for kernel in kernels["cuda_kernels"]
             if not kernel["key"].startswith("fill.")]  # those are of init
    check(sum(saved) > 0, f"{name}: every update has a launch of its own")
    return sum(saved)


def check_profile(work):
    """All time of a plan that saves everything is measured, on the GPU's clock: the double's counts OPERATION_NS for
    each launch, of which each command has its own. Another GPU's profile is refused."""
    arguments = ["--target", "h200", "--format", "json"]
    plan(work, "saved.plan", *arguments)
    must(train(work, "saved.plan", "cuda", "--steps", 2, "--profile", "p.json"))
    with_profile = json.loads(plan(work, "profiled.plan", *arguments, "--profile", "p.json").stdout)
    check(with_profile["cost_shares"] == {"modelled": 0, "interpolated": 0, "measured": 1}, f"{with_profile}")
    log = pathlib.Path(work) / "profiled.log"
    must(train(work, "profiled.plan", "cuda", "--steps", 2, REMAT_DOUBLE_LOG=log))
    launches = int(log.read_text().split()[-1]) + commands_that_wait(work, "profiled.plan")  # of the step's graph
    check(with_profile["step_ns"] == launches * OPERATION_NS, f"{with_profile['step_ns']} ns of {launches} launches")

    other = {"REMAT_DOUBLE_NAME": "NVIDIA A100-SXM4-80GB", "REMAT_DOUBLE_CAPABILITY": 80}
    must(train(work, "sm_80.plan", "cuda", "--steps", 1, "--profile", "a100.json", **other))
    plan(work, "profiled.plan", "--target", "a100-80", "--profile", "a100.json")
    refused = tool("compile", "model.fbs", "-o", "no.plan", *arguments, "--profile", "a100.json", cwd=work)
    check(refused.returncode == 4 and 'its "device" is "NVIDIA A100-SXM4-80GB", expected "NVIDIA H200"' in refused.stderr,
          f"a profile of another GPU: {refused.stderr}")


def check_trace(work):
    """Commands follow one another."""
    must(train(work, "gpu.plan", "cuda", "--steps", 2, "--trace", "t.json"))
    events = json.loads((pathlib.Path(work) / "t.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    ends = [event["ts"] + event["dur"] for event in slices]
    check(slices and all(end <= event["ts"] + 1 for end, event in zip(ends, slices[1:])),
          "commands of the trace overlap")
    check(sum(event["dur"] for event in slices) > 0, "no time passed")


def check_ranges(work):
    """NVTX: each command that is launched in the first step, and in the second while it is captured; then the
    step's graph."""
    log = pathlib.Path(work) / "nvtx.log"
    must(train(work, "gpu.plan", "cuda", "--steps", 4, REMAT_DOUBLE_NVTX=log))
    ranges = log.read_text().splitlines()
    names = [name[1:] for name in ranges[::2]]
    check(all(name.startswith("(") for name in ranges[::2]) and set(ranges[1::2]) == {")"}, f"ranges {ranges}")
    check(names[-3:] == ["train"] * 3 and names.count("train") == 3, f"graphs: {names}")
    dumped = must(tool("run", "gpu.plan", "--text", TEXT, "--device", "cpu", "--steps", 1, "--trace", "names.json",
                       cwd=work))
    check(not dumped.stderr, dumped.stderr)
    events = json.loads((pathlib.Path(work) / "names.json").read_text())["traceEvents"]
    step = [event["name"] for event in events if event["ph"] == "X"]
    launched = step.copy()
    for name in set(step) - set(names):
        launched.remove(name)
    waiting = set(step) - set(launched)
    check(len(waiting) == commands_that_wait(work, "gpu.plan") and all(".next." in name for name in waiting),
          f"commands without a range: {waiting}")
    check(names[-3 - 2 * len(launched):-3] == launched * 2, f"commands: {names}, not twice {launched}")
    must(train(work, "gpu.plan", "cuda", "--steps", 2, libraries=without(work, {"libnvtx3interop.so.1"}),
               REMAT_DOUBLE_NVTX=log))


def check_shared_memory():
    """A kernel whose blocks have more of it than they may without being asked for."""
    with folder() as work:
        graph(work, "gpt2-tiny", "--layers", "1", "--width", "128", "--heads", "1", "--seq", "16")
        plan(work, "wide.plan")
        kernels = json.loads(must(tool("dump", "wide.plan", "--kernels", "--format", "json", cwd=work)).stdout)
        most = max(kernel["dynamic_shared_bytes"] for kernel in kernels["cuda_kernels"])
        check(most > 48 << 10, f"{most} bytes of shared memory: nothing is tested")
        must(train(work, "wide.plan", "cuda", "--steps", 1))


check_shared_memory()
with folder() as work:
    graph(work, "gpt2-tiny", "--layers", "1", "--width", "256", "--heads", "1", "--seq", "16")
    plan(work, "heads_of_256.plan")
    graph(work, "gpt2-tiny", "--layers", "1", "--batch", "2", "--seq", "16", "--attention", "written-out")
    plan(work, "model.plan")
    for name, arch in [("gpu.plan", "sm_90"), ("sm_80.plan", "sm_80")]:
        plan(work, name, "--target", "h200", "--budget", "1GB", cubins=arch)
    plan(work, "budget.plan", "--budget", "1GB")
    plan(work, "exact.plan", "--target", "h200", "--budget", "50MB", "--reserve", "4MB")
    plan(work, "tight.plan", "--target", "h200", "--budget", "1GB", "--reserve", "1000")
    check_errors(work)
    check_choice(work)
    check_cubins(work)
    check_cache(work)
    check_memory(work)
    check_profile(work)
    check_trace(work)
    check_ranges(work)
finish()
