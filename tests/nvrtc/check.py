# SPDX-License-Identifier: Apache-2.0
"""remat-dump --check: a plan as it was compiled passes, one in which anything of its CUDA code is changed does not, on
NVRTC's look-alike and on NVRTC where it is.

    check.py TOOLS CHANGE_PLAN FOLDER_OF_DOUBLE"""
import json
import os
import sys

import library
from harness import Tools, must, run, scratch

tool = Tools(sys.argv[1])
change_plan, double = map(os.path.abspath, sys.argv[2:4])
os.environ["XDG_CACHE_HOME"] = "cache"
# NVRTC keeps memory when it is unloaded.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


def check(plan, *options, code=0):
    return tool.text("dump", plan, "--check", *options, code=code)


def compile_plan(plan, model, *options):
    return tool.json("compile", model, "--format", "json", "-o", plan, *options)


def check_double():
    nvrtc = ["--nvrtc", double]
    compile_plan("double.plan", "model.fbs", "--arch", "sm_80,sm_90", "--target", "h100-sxm", *nvrtc)
    said = check("double.plan", *nvrtc)
    assert "as derived from the plan's commands" in said and "as NVRTC 13.0 makes them of that text" in said, said
    found = json.loads(check("double.plan", "--format", "json", *nvrtc))
    assert found["cuda_text"] == found["cubins"] == "equal" and found["reason"] is None, found
    assert found["cubin_count"] == 2 * found["cuda_kernels"] > 0 and found["cuda_launches"] > 0, found
    cases = [line.split("\t") for line in must(run([change_plan])).stdout.splitlines()]
    assert len(cases) > 30, cases
    for case, expected in [("untouched", "as NVRTC 13.0 makes them"), *cases]:
        fine = case in ("untouched", "version", "no_version", "no_cubins", "no_code")
        must(run([change_plan, "double.plan", case, "changed.plan"]))
        said = check("changed.plan", *nvrtc, code=0 if fine else 4)
        assert expected in said and (fine or "is not what its commands mean: " in said), (case, said)
        found = None if not fine else json.loads(check("changed.plan", "--format", "json", *nvrtc))
        if "version" in case:
            assert found["cubins"] == "not comparable" and found["reason"], found
    must(run([change_plan, "double.plan", "version", "changed.plan"]))
    said = check("changed.plan", *nvrtc)
    assert "NVRTC 13.1 made them, and this one is 13.0" in said, said
    tool.must("dump", "double.plan", "--check", "--nvrtc", "nowhere", code=5)
    return len(cases)


def check_others():
    """Of other targets and models, among them a plan without text, by its note."""
    for model, *options in (["gpt2-tiny", "--dropout", "0.1"], ["llama-tiny", "--dtype", "bf16"], ["encdec-tiny"]):
        tool.must("graph", model, *options, "-o", "other.fbs")
        for how in (["--recompute-granularity", "full", "--recompute-method", "uniform"], ["--target", "h200", "--microbatches", "1"]):
            compile_plan("other.plan", "other.fbs", "--arch", "none", *how)
            said = check("other.plan")
            assert "as derived" in said and "cubins      none" in said, (model, how, said)


def check_real():
    nvrtc = library.option("--nvrtc")
    tool.must("graph", "mlp", "--layers", "1", "--width", "64", "-o", "mlp.fbs")
    library.must(tool("compile", "mlp.fbs", "-o", "real.plan", "--target", "h100-sxm", "--arch", "sm_90", "--cache", "none", *nvrtc))
    said = check("real.plan", *nvrtc)
    assert " as NVRTC " in said, said
    must(run([change_plan, "real.plan", "cubin", "changed.plan"]))
    said = check("changed.plan", *nvrtc, code=4)
    assert "is not of its text" in said, said


if __name__ == "__main__":
    with scratch():
        tool.must("graph", "gpt2-tiny", "--layers", "1", "--dtype", "bf16", "-o", "model.fbs")
        print(f"{check_double()} changes found")
        check_others()
        check_real()
