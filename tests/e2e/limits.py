# SPDX-License-Identifier: Apache-2.0
"""remat-compile --time-limit, SIGTERM and SIGHUP (tests/solve/cli.py: Ctrl-C too): the best plan so far, which says
that it was cut short, however early they come; exit code 7 only where budgets are small, 3 only where nothing can fit;
searches that come to their end do not depend on the limit.

    limits.py BUILD_DIRECTORY"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
LARGE = ["--target", "h200", "--arch", "none", "--format", "json"]


def call(tool, *arguments, code=0):
    result = subprocess.run([f"{build}/tools/remat-{tool}", *arguments], capture_output=True, text=True)
    assert result.returncode == code, (tool, arguments, result.returncode, result.stderr)
    return result.stdout if code == 0 else result.stderr


def refuse(*arguments):
    """Exit code 3: what is said on standard error, and the object."""
    result = subprocess.run([f"{build}/tools/remat-compile", *arguments], capture_output=True, text=True)
    assert result.returncode == 3, (arguments, result)
    return result.stderr, json.loads(result.stdout)


def interrupt(number, having, *arguments):
    """A signal after the first line of progress with these words."""
    with subprocess.Popen([f"{build}/tools/remat-compile", "large.fbs", *LARGE, *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if having in line:
                process.send_signal(number)
                break
        out, err = process.communicate(timeout=100)
    assert process.returncode == 0, (process.returncode, lines, err)
    return json.loads(out), lines


def is_cut_short(report):
    return any("cut short" in note for note in report["notes"])


def check_interrupts():
    """The searches for a size and for a curve are the longest ones."""
    sizes = ["--bind", "batch=auto:1..1000", "--budget", "3000GB"]
    report, lines = interrupt(signal.SIGTERM, ": step ", "-o", "sizes.plan", *sizes)
    lines = [line for line in lines if ": warning: " not in line]
    for line in lines:  # each time is of the batch named before it
        assert re.search(r" s, batch \d+(: step [^;]+)?; \d+ of 1000 seen(, best batch \d+: step [^;]+)?$", line), line
    assert lines
    assert report["sizes"]["cut_short"] and is_cut_short(report), report["notes"]
    value = report["sizes"]["chosen"]
    rows, (slower, untried) = report["sizes"]["tried"], (report["sizes"][key] for key in ("slower", "untried"))
    fits = [row["value"] for row in rows if row["fits"]]
    assert value in fits and untried
    end = min((row["value"] for row in rows if not row["fits"]), default=1001)
    assert len(fits) + sum(high - low + 1 for low, high in slower + untried) == end - 1, report["sizes"]
    explicit = json.loads(call("compile", "large.fbs", *LARGE, "--bind", f"batch={value}", "--budget", "3000GB",
                               "-o", "explicit.plan"))
    for key in ("step_ns", "arena_bytes", "peak_bytes", "bound_step_ns"):
        assert explicit[key] == report[key], key
    assert not is_cut_short(explicit)
    assert is_cut_short(json.loads(call("dump", "sizes.plan", "--format", "json")))
    report, lines = interrupt(signal.SIGHUP, ", smallest live peak ", "--curve", "curve.json", "-o", "sizes.plan",
                              "--bind", "batch=auto:2..2", "--budget", "3000GB")
    if "curve" not in lines[-1]:
        print("the curve took less than a second")
        return
    with open("curve.json", encoding="utf-8") as file:
        curve = json.load(file)
    assert report["curve"]["cut_short"] and curve["cut_short"] and curve["points"], report
    assert curve["evaluated"] < curve["decisions"]
    seen, to_see = re.search(r" s, batch 2, the curve: (\d+) of (\d+) decisions, fastest ", lines[-1]).groups()
    assert 0 < int(seen) < int(to_see) <= curve["decisions"], (lines, curve)


def check_limits():
    """Which limits give which outcome is the machine's; tests/e2e/test_search_end.c has every end."""
    outcomes = []
    for limit in ("1ms", "300ms", "500ms", "700ms", "1s", "2s"):
        arguments = ["large.fbs", *LARGE, "--budget", "2500GB", "--time-limit", limit, "-o", "l.plan"]
        result = subprocess.run([f"{build}/tools/remat-compile", *arguments], capture_output=True, text=True)
        assert result.returncode == 0, (result.returncode, result.stderr)
        report = json.loads(result.stdout)
        assert report["bound_step_ns"] <= report["step_ns"]
        assert report["arena_bytes"] + report["reserve_bytes"] <= 2500 * 10**9
        assert json.loads(call("dump", "l.plan", "--format", "json"))["arena_bytes"] == report["arena_bytes"]
        outcomes.append("cut short" if is_cut_short(report) else "whole")
        os.remove("l.plan")
    assert outcomes[0] == "cut short", outcomes  # the passes alone take longer
    print(f"limits: {', '.join(outcomes)}")


def check_end():
    """A limit that is not reached changes nothing but the record of it."""
    reports = []
    for limit in ([], ["--time-limit", "100s"], ["--time-limit", "10min"]):
        report = json.loads(call("compile", "tiny.fbs", "--format", "json", "--budget", "140MB", "-o", "x.plan", *limit))
        assert not is_cut_short(report)
        reports.append((report, call("dump", "x.plan", "--schedule")))
    assert reports[0] == reports[1] == reports[2]


def check_early_end():
    """Before anything has been tried."""
    early = ["large.fbs", *LARGE, "--time-limit", "1ms"]
    report = json.loads(call("compile", *early, "--curve", "c.json"))
    assert report["curve"]["cut_short"] and report["curve"]["points"] == 1, report
    for arguments in (["--solver", "manual"], ["--bind", "batch=auto:1..4"]):
        assert is_cut_short(json.loads(call("compile", *early, "--budget", "3000GB", "-o", "e.plan", *arguments)))
    os.remove("e.plan")
    too_small = ["--budget", "1GB", "-o", "e.plan"]
    for arguments in ([], ["--solver", "manual"], ["--bind", "batch=auto:1..4"]):
        message, refused = refuse(*early, *too_small, *arguments)
        assert " before the search was ended needs " in message and "Proven: no choice" in message, message
        assert refused["schema"] == "remat-refusal/1" and 10**9 < refused["floor_bytes"], refused
        assert refused["floor_bytes"] <= refused["smallest_budget_bytes"] and refused["residents"], refused
    floor = int(re.search(r"less than (\d+) B", message)[1])
    for arguments in ([], ["--solver", "manual"], ["--bind", "batch=auto:1..4"]):
        message = call("compile", *early, "--budget", str(floor), "-o", "e.plan", *arguments, code=7)
        assert "error: the search was ended before it found a plan" in message, message
    assert not os.path.exists("e.plan")


def main():
    os.chdir(tempfile.mkdtemp())
    call("graph", "gpt3-175b", "--seq", "2048", "--dtype", "bf16", "--attention", "written-out", "-o", "large.fbs")
    call("graph", "gpt2-tiny", "-o", "tiny.fbs")
    check_interrupts()
    check_limits()
    check_end()
    check_early_end()


main()
