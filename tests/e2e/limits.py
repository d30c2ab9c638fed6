# SPDX-License-Identifier: Apache-2.0
"""remat-compile --time-limit, SIGTERM and SIGHUP (tests/solve/cli.py: Ctrl-C too): the best plan so far, which says
that it was cut short; of a limit too short for any plan exit code 7 and no file, 3 only where nothing can fit;
searches that come to their end do not depend on the limit.

    limits.py BUILD_DIRECTORY"""
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, on_terminal, read_json, scratch

tool = Tools(sys.argv[1])
LARGE = ["--target", "h200", "--arch", "none", "--format", "json"]


def refuse(*arguments):
    """Exit code 3: what is said on standard error, and the object."""
    result = tool.must("compile", *arguments, code=3)
    return result.stderr, json.loads(result.stdout)


def interrupt(number, having, *arguments):
    """The report, and the lines of progress, which only a terminal gets. The signal comes after the first one with these
    words."""
    with on_terminal([tool.path("compile"), "large.fbs", *LARGE, *arguments],
                     preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as (process, terminal):
        lines = []
        for line in terminal:
            lines.append(line.rstrip())
            if having in line:
                process.send_signal(number)
                having = "\0"
        out = process.communicate(timeout=100)[0]
    assert process.returncode == 0, (process.returncode, lines)
    return json.loads(out), [line for line in lines if re.match(r"remat-compile: \d+ s[, ]", line)]


def is_cut_short(report):
    return any("cut short" in note for note in report["notes"])


def limited(limit, *arguments):
    """The report, or None where the limit passes before there is a plan: how long that takes is the machine's."""
    result = tool.must("compile", *arguments, "--time-limit", limit, code=(0, 7))
    if result.returncode == 7:
        assert re.search(r"error: (there was no plan to write within the time limit|the search was ended before it found a plan)",
                         result.stderr) and not result.stdout, result
        return None
    return json.loads(result.stdout)


def check_interrupts():
    """The searches for a size and for a curve are the longest ones."""
    sizes = ["--bind", "batch=auto:1..1000", "--budget", "3000GB"]
    report, lines = interrupt(signal.SIGTERM, ": step ", "-o", "sizes.plan", *sizes)
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
    explicit = tool.json("compile", "large.fbs", *LARGE, "--bind", f"batch={value}", "--budget", "3000GB",
                         "-o", "explicit.plan")
    for key in ("step_ns", "arena_bytes", "peak_bytes", "bound_step_ns"):
        assert explicit[key] == report[key], key
    assert not is_cut_short(explicit)
    assert is_cut_short(tool.json("dump", "sizes.plan", "--format", "json"))
    report, lines = interrupt(signal.SIGHUP, ", smallest live peak ", "--curve", "curve.json", "-o", "sizes.plan",
                              "--bind", "batch=auto:2..2", "--budget", "3000GB")
    if "curve" not in lines[-1]:
        print("the curve took less than a second")
        return
    curve = read_json("curve.json")
    assert report["curve"]["cut_short"] and curve["cut_short"] and curve["points"], report
    assert curve["evaluated"] < curve["decisions"]
    seen, to_see = re.search(r" s, batch 2, the curve: (\d+) of (\d+) decisions, fastest ", lines[-1]).groups()
    assert 0 < int(seen) < int(to_see) <= curve["decisions"], (lines, curve)


def check_limits():
    """Which limits give which outcome is the machine's; tests/e2e/test_search_end.c has every end."""
    outcomes = []
    for limit in ("1ms", "300ms", "500ms", "700ms", "1s", "2s"):
        report = limited(limit, "large.fbs", *LARGE, "--budget", "2500GB", "-o", "l.plan")
        if not report:
            outcomes.append("none")
            assert not os.path.exists("l.plan")
            continue
        assert report["bound_step_ns"] <= report["step_ns"]
        assert report["arena_bytes"] + report["reserve_bytes"] <= 2500 * 10**9
        assert tool.json("dump", "l.plan", "--format", "json")["arena_bytes"] == report["arena_bytes"]
        outcomes.append("cut short" if is_cut_short(report) else "whole")
        os.remove("l.plan")
    assert outcomes[0] != "whole", outcomes  # the passes alone take longer
    print(f"limits: {', '.join(outcomes)}")


def check_end():
    """A limit that is not reached changes nothing but the record of it."""
    reports = []
    for limit in ([], ["--time-limit", "100s"], ["--time-limit", "10min"]):
        report = tool.json("compile", "tiny.fbs", "--format", "json", "--budget", "140MB", "-o", "x.plan", *limit)
        assert not is_cut_short(report)
        reports.append((report, tool.text("dump", "x.plan", "--schedule")))
    assert reports[0] == reports[1] == reports[2]


def check_early_end():
    """Before anything has been tried; the passes alone take longer than a millisecond."""
    arguments = ["small.fbs", *LARGE]
    curve = limited("1ms", *arguments, "--curve", "c.json")
    assert not curve or (curve["curve"]["cut_short"] and curve["curve"]["points"] == 1), curve
    ways = [], ["--solver", "manual"], ["--bind", "batch=auto:1..4"]
    for way in ways:
        report = limited("1ms", *arguments, "--budget", "30GB", "-o", "e.plan", *way)
        assert os.path.exists("e.plan") == bool(report) and (not report or is_cut_short(report)), report
        if report:
            os.remove("e.plan")
    _, whole = refuse(*arguments, "--budget", "1GB", "-o", "e.plan")
    for way in ways:
        result = tool("compile", *arguments, "--time-limit", "1ms", "--budget", "1GB", "-o", "e.plan", *way)
        message = result.stderr
        if "there was no plan to write within the time limit" in message:
            assert result.returncode == 7, result
            continue
        if "there was no time to look for what needs least" in message:
            assert result.returncode == 3 and f" needs less than {whole['floor_bytes']} B (" in message, result
            continue
        assert result.returncode == 3, result
        refused = json.loads(result.stdout)
        assert " before the search was ended needs " in message and "Proven: no choice" in message, message
        assert refused["schema"] == "remat-refusal/1" and refused["floor_bytes"] == whole["floor_bytes"], refused
        assert refused["floor_bytes"] <= refused["smallest_budget_bytes"] and refused["residents"], refused
    for way in ways:
        assert limited("1ms", *arguments, "--budget", str(whole["floor_bytes"]), "-o", "e.plan", *way) is None
    assert not os.path.exists("e.plan")


def state(folder):
    files = {name: os.stat(f"{folder}/{name}") for name in os.listdir(folder)}
    return {name: (file.st_ino, file.st_size, file.st_mtime_ns) for name, file in files.items()}


def check_too_short():
    """A chain whose passes alone take more than the half second that a run may be late: exit code 7 whatever is asked
    for, and the folder is as it was."""
    lines = ['graph "chain"', "input %v0 : f32[64,32]", "input %targets : i32[64]"]
    for k in range(20000):
        lines += [f"parameter %w{k} : f32[32,32] = normal(0.0, 0.02)",
                  f"%v{k + 1} : f32[64,32] = linear %v{k} %w{k} phase forward"]
    lines += ["%loss : f32[] output, %lse : f32[64,1] = cross_entropy %v20000 %targets phase loss", "output %loss"]
    os.mkdir("short")
    with open("short/chain.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    for name in ("old.plan", "old.json"):
        with open(f"short/{name}", "w", encoding="utf-8") as file:
            file.write("mine")
    before = state("short")
    for arguments in (["--budget", "1GB", "-o", "short/old.plan"], ["--budget", "1GB", "-o", "short/new.plan"],
                      ["--curve", "short/old.json"], ["--budget", "1GB", "--curve", "short/new.svg"]):
        report = limited("1ms", "short/chain.txt", "--reserve", "0", *arguments)
        assert report is None, arguments
    assert state("short") == before


@scratch()
def main():
    tool.text("graph", "gpt3-175b", "--seq", "2048", "--dtype", "bf16", "--attention", "written-out", "-o", "large.fbs")
    tool.text("graph", "gpt2-124m", "-o", "small.fbs")
    tool.text("graph", "gpt2-tiny", "-o", "tiny.fbs")
    check_interrupts()
    check_limits()
    check_end()
    check_early_end()
    check_too_short()


main()
