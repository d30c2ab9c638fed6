# SPDX-License-Identifier: Apache-2.0
"""A plan is run, its profile compiled with: all of its time is then measured, a larger batch's
interpolated. That the prediction comes nearer to the measurement is printed, not demanded.

    profile.py BUILD_DIRECTORY TEXT"""
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, read_json, scratch, write_json

call, text = Tools(sys.argv[1]).text, os.path.abspath(sys.argv[2])


def compile_with(model, *arguments):
    return json.loads(call("compile", model, "--format", "json", "-o", "x.plan", *arguments))


def gap_of(plan):
    return plan["step_ns"] / plan["bound_step_ns"] - 1


def make_noisy(profile, path):
    """Times that depend on nothing but the rows: each kernel's is 0.5 to 2 times a roofline's."""
    for row in profile["kernels"]:
        draw = zlib.crc32((row["kernel"] + row["operands"]).encode()) % 1000 / 1000
        row["median_ns"] = int((2000 + row["moved_bytes"] / 10 + row["flops"] / 100) * 4**draw / 2)
    write_json(path, profile)


def check_gap(path):
    """Where the certificate is below 1 % without a profile, it is with one; and where everything fits, the bound
    is the time of the plan that saves everything, but for rounding."""
    make_noisy(read_json(path), "noisy.json")
    profile = ["--profile", "noisy.json"]
    compared = 0
    for budget in ["140.2MB", "140.4MB", "140.6MB", "140.8MB", "141MB", "141.2MB"]:
        modelled = compile_with("m.fbs", "--budget", budget)
        planned = compile_with("m.fbs", "--budget", budget, *profile)
        compared += gap_of(modelled) < 0.01
        assert gap_of(modelled) >= 0.01 or gap_of(planned) < 0.01, (budget, modelled, planned)
    assert compared == 6
    roomy = compile_with("m.fbs", "--budget", "1GB", *profile)
    assert gap_of(roomy) < 1e-4, roomy


def check_beside():
    """The profile that a report names is typed as it is printed; a folder is none."""
    devices = pathlib.Path(__file__).resolve().parent.parent.parent / "schemas/devices"
    os.makedirs("it's here/no.profile.json")
    for name in "h100-sxm.json", "h100-sxm.profile.json":
        shutil.copy(devices / name, "it's here")
    shutil.copy(devices / "h100-sxm.json", "it's here/no.json")
    report = call("compile", "m.fbs", "--arch", "none", "--target", "it's here/h100-sxm.json")
    said = shlex.split(re.search("^costs .*; a measured profile: (.*)$", report, re.M)[1])
    assert said == ["--profile", "it's here/h100-sxm.profile.json"], said
    assert compile_with("m.fbs", "--arch", "none", "--target", "h100-sxm", *said)["cost_shares"]["modelled"] < 1
    assert "profile_beside" not in compile_with("m.fbs", "--arch", "none", "--target", "it's here/no.json")


@scratch()
def main():
    call("graph", "gpt2-tiny", "-o", "m.fbs")
    call("graph", "gpt2-tiny", "--batch", "3", "-o", "larger.fbs")
    check_beside()
    modelled = compile_with("m.fbs")
    assert modelled["cost_shares"]["modelled"] == 1
    call("run", "x.plan", "--text", text, "--steps", "9", "-j", "1", "--profile", "p.json", "--report", "r.json")
    measured = compile_with("m.fbs", "--profile", "p.json")
    assert measured["cost_shares"] == {"modelled": 0, "interpolated": 0, "measured": 1}
    profile = read_json("p.json")
    # The predicted time is that of the rows, as often as they ran in a step.
    rows = sum(row["median_ns"] * row["count"] for row in profile["kernels"]) / 9
    assert rows == measured["step_ns"], (rows, measured["step_ns"])
    assert measured["base_step_ns"] == measured["step_ns"]
    shares = compile_with("larger.fbs", "--profile", "p.json")["cost_shares"]
    assert shares["interpolated"] > 0.5, shares
    assert abs(sum(shares.values()) - 1) < 1e-5
    ran = read_json("r.json")["step_ns"]
    print(f"step: {ran} ns measured, {modelled['step_ns']} modelled, {measured['step_ns']} with the profile")
    # Same file, same plan; another one is another plan at most in times.
    planned = compile_with("m.fbs", "--profile", "p.json", "--budget", "140MB")
    assert 0 < planned["bound_step_ns"] <= planned["step_ns"], planned
    first = open("x.plan", "rb").read()
    compile_with("m.fbs", "--profile", "p.json", "--budget", "140MB")
    assert open("x.plan", "rb").read() == first
    check_gap("p.json")
    # A profile of a plan that recomputes prices most kernels that it changed by their other layers.
    compile_with("m.fbs", "--profile", "p.json", "--budget", "140MB")
    call("run", "x.plan", "--text", text, "--steps", "9", "-j", "1", "--profile", "q.json")
    check_gap("q.json")
    message = call("compile", "m.fbs", "--target", "t4", "--profile", "p.json", code=4)
    assert 'p.json: its "device" is "cpu", expected "Tesla T4"' in message, message


main()
