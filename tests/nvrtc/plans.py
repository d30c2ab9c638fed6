# SPDX-License-Identifier: Apache-2.0
"""Which cubins a plan carries, and that its bytes do not depend on the cache.

    plans.py TOOLS_FOLDER

Exit code 77 where there is no NVRTC (1 when CI=true)."""
import os
import sys

import library
from harness import Tools, scratch

tool = Tools(sys.argv[1])


def compile_plan(name, *options):
    """The plan's bytes, what -v says of cubins, and what remat-dump says."""
    made = "--arch" in options and options[-1] != "none"
    verbose = library.must(tool("compile", "tiny.fbs", "-v", "-o", name, *options, *(library.option("--nvrtc") if made else []))).stderr
    kernels = tool.json("dump", name, "--kernels", "--format", "json")
    summary = tool.json("dump", name, "--format", "json")
    said = [line for line in verbose.splitlines() if line.startswith("cubins ")]
    with open(name, "rb") as file:
        return file.read(), said, kernels["cuda_kernels"], summary


def architectures(kernels):
    found = {tuple(cubin["arch"] for cubin in kernel["cubins"]) for kernel in kernels}
    assert len(found) == 1, found
    return found.pop()


def main():
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.getcwd(), "cache")
    tool.must("graph", "mlp-tiny", "--dtype", "bf16", "-o", "tiny.fbs")
    first, said, kernels, _ = compile_plan("first.plan", "--target", "h100-sxm", "--arch", "sm_90")
    assert architectures(kernels) == ("sm_90",), kernels
    assert f"{len(kernels)} compiled, 0 from the cache" in said[0], said
    assert all(kernel["cubins"][0]["registers"] > 0 for kernel in kernels)
    assert len(os.listdir("cache/remat")) == len(kernels)
    second, said, *_ = compile_plan("second.plan", "--target", "h100-sxm", "--arch", "sm_90")
    assert second == first, "the cache changes the plan"
    assert f"0 compiled, {len(kernels)} from the cache" in said[0], said
    third, said, *_ = compile_plan("third.plan", "--target", "h100-sxm", "--cache", "none", "--arch", "sm_90")
    assert third == first and f"{len(kernels)} compiled" in said[0], said

    _, _, kernels, _ = compile_plan("two.plan", "--arch", "sm_90,sm_80", "--cache", "other/cache")
    assert architectures(kernels) == ("sm_80", "sm_90"), kernels
    assert len(os.listdir("other/cache")) == 2 * len(kernels)
    later = "no cubins: kernels are compiled at the first run, and kept; --arch sm_90 makes them now"
    for options, note in ((["--target", "h100-sxm", "--arch", "none"], ""), ([], ""), (["--target", "h100-sxm"], later),
                          (["--target", "v100"], "no cubins: v100 is sm_70, and kernels need sm_80")):
        dtype = ["--dtype", "fp32" if "v100" in options else "bf16"]
        tool.must("graph", "mlp-tiny", *dtype, "-o", "tiny.fbs")
        _, said, kernels, summary = compile_plan("none.plan", *options)
        assert architectures(kernels) == () and not said, (options, kernels)
        assert [said for said in summary["notes"] if "cubins" in said] == [note] * bool(note), (options, summary["notes"])
    message = library.must(tool("compile", "tiny.fbs", "--arch", "sm_20", *library.option("--nvrtc")), 2).stderr
    assert "architecture 'sm_20' is too old: kernels need sm_80 or later (accepted: sm_80, " in message, message
    return 0


if __name__ == "__main__":
    with scratch():
        sys.exit(main())
