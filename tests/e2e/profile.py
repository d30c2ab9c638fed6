# SPDX-License-Identifier: Apache-2.0
"""A plan is run, its profile compiled with: all of its time is then measured, a larger batch's
interpolated. That the prediction comes nearer to the measurement is printed, not demanded.

    profile.py BUILD_DIRECTORY TEXT"""
import json
import os
import subprocess
import sys
import tempfile

build, text = map(os.path.abspath, sys.argv[1:])


def call(tool, *arguments, code=0):
    result = subprocess.run([f"{build}/tools/remat-{tool}", *arguments], capture_output=True, text=True)
    assert result.returncode == code, (tool, arguments, result.returncode, result.stderr)
    return result.stdout if code == 0 else result.stderr


def compile_with(model, *arguments):
    return json.loads(call("compile", model, "--format", "json", "-o", "x.plan", *arguments))


def check_gap(planned):
    """The part of the gap that is the bound's: at most what it is where everything is saved, and so what the
    plan that saves everything is above the bound of any room."""
    roomy = compile_with("m.fbs", "--profile", "p.json", "--budget", "1GB")
    slack = planned["floor_slack_ns"]
    assert roomy["floor_slack_ns"] == slack and 0 < slack <= roomy["base_step_ns"] - roomy["bound_step_ns"], roomy
    part = min(slack, planned["step_ns"] - planned["bound_step_ns"]) / planned["bound_step_ns"]
    text = call("compile", "m.fbs", "--profile", "p.json", "--budget", "140MB", "-o", "y.plan")
    words = f"; {100 * part:.2f} % are the bound's, which takes programs at the profile's floor\n"
    assert words in text and words in call("dump", "y.plan"), text
    assert part > 0.001, planned


def main():
    os.chdir(tempfile.mkdtemp())
    call("graph", "gpt2-tiny", "-o", "m.fbs")
    call("graph", "gpt2-tiny", "--batch", "3", "-o", "larger.fbs")
    modelled = compile_with("m.fbs")
    assert modelled["cost_shares"]["modelled"] == 1
    call("run", "x.plan", "--text", text, "--steps", "9", "-j", "1", "--profile", "p.json", "--report", "r.json")
    measured = compile_with("m.fbs", "--profile", "p.json")
    assert measured["cost_shares"] == {"modelled": 0, "interpolated": 0, "measured": 1}
    with open("p.json", encoding="utf-8") as file:
        profile = json.load(file)
    # The predicted time is that of the rows, as often as they ran in a step.
    rows = sum(row["median_ns"] * row["count"] for row in profile["kernels"]) / 9
    assert rows == measured["step_ns"], (rows, measured["step_ns"])
    assert measured["base_step_ns"] == measured["step_ns"]
    shares = compile_with("larger.fbs", "--profile", "p.json")["cost_shares"]
    assert shares["interpolated"] > 0.5, shares
    assert abs(sum(shares.values()) - 1) < 1e-5
    with open("r.json", encoding="utf-8") as file:
        ran = json.load(file)["step_ns"]
    print(f"step: {ran} ns measured, {modelled['step_ns']} modelled, {measured['step_ns']} with the profile")
    # Same file, same plan; another one is another plan at most in times.
    planned = compile_with("m.fbs", "--profile", "p.json", "--budget", "140MB")
    assert 0 < planned["bound_step_ns"] <= planned["step_ns"], planned
    first = open("x.plan", "rb").read()
    compile_with("m.fbs", "--profile", "p.json", "--budget", "140MB")
    assert open("x.plan", "rb").read() == first
    check_gap(planned)
    assert compile_with("m.fbs", "--budget", "140MB")["floor_slack_ns"] == 0
    message = call("compile", "m.fbs", "--target", "t4", "--profile", "p.json", code=4)
    assert 'p.json: its "device" is "cpu", expected "Tesla T4"' in message, message


main()
