# SPDX-License-Identifier: Apache-2.0
"""A refusal, as lines and as an object: its numbers are those of the plan that was refused, and what it says of each
resident is what remat-dump says.

    refusal.py TOOLS"""
import json
import os
import pty
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Tools, run, scratch

call = Tools(sys.argv[1])
MODELS = [["gpt2-tiny"], ["llama-tiny", "--batch", "4"], ["gpt2-tiny", "--batch", "8", "--microbatches", "2"],
          ["encdec-tiny", "--dtype", "bf16"]]
POLICIES = [[], ["--recompute-granularity", "selective", "--recompute-modules", "mlp"],
            ["--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", "2"],
            ["--save", "*.mlp.*"]]
RESIDENT = re.compile(r" +(\d\S* k?[A-Z]*B)  (\S+): (persistent|in use|pinned|needed|[+-]\S+ \S+ a step if recomputed)")


def check(model, policy):
    graph = [word for word in model if word not in ("--microbatches", "2")] if "--microbatches" in model else model
    options = policy + (["--microbatches", "2"] if "--microbatches" in model else [])
    options += [] if "--recompute-granularity" in options else ["--recompute-granularity", "none"]
    call.must("graph", *graph, "-o", "m.fbs")
    call.must("compile", "m.fbs", *options, "-o", "m.plan")
    dumped = json.loads(call("dump", "m.plan", "--memory", "--format", "json").stdout)
    residents = {(r["name"], r["bytes"]): r for r in dumped["residents_at_peak"]}
    report = json.loads(call("compile", "m.fbs", *options, "-o", "m.plan", "--format", "json").stdout)
    done = call("compile", "m.fbs", *options, "--budget", "1MB", "-o", "n.plan", "--format", "json")
    assert done.returncode == 3, done
    refused = json.loads(done.stdout)
    assert refused["budget_bytes"] == 10**6 and "floor_bytes" not in refused, refused  # of a policy nothing is proven
    assert refused["smallest_budget_bytes"] == report["arena_bytes"] + report["reserve_bytes"], (refused, report)
    enough = re.search(f" this policy needs {refused['smallest_budget_bytes']} B \\((.*)\\)\n", done.stderr)[1]
    again = call("compile", "m.fbs", *options, "--budget", enough, "-o", "n.plan", "--format", "json")
    assert again.returncode == 0, (enough, again.stderr)
    assert json.loads(again.stdout)["budget_bytes"] < refused["smallest_budget_bytes"] * 1.01, (enough, refused)
    for key in ("reserve_bytes", "static_bytes", "peak_bytes"):
        assert refused[key] == report[key], (key, refused, report)
    peak = dumped["peak_command"]
    live = [b["bytes"] for b in dumped["buffers"] if b["persistent"] or b["born"] <= peak < b["dies"]]
    named = refused["residents"]
    assert [r["bytes"] for r in named] == sorted(live, reverse=True)[:5], refused
    for r in named:
        resident = residents[r["name"], r["bytes"]]
        for key in ("removal", "recompute_extra_ns"):
            assert r[key] == resident[key], (model, policy, r, resident)
    check_text(done.stderr, refused)
    return [r["removal"] for r in named]


def check_text(text, refused):
    """A few lines, in which the residents are those of the object."""
    binding = refused["binding_command"]
    lines = text.splitlines()
    assert len(lines) <= 11 and all(len(line) <= 100 for line in lines), text
    assert f'\n  at "{binding["name"]}" ({binding["phase"]}), where' in text, (text, binding)
    rows = [row.groups() for row in map(RESIDENT.fullmatch, lines) if row]
    assert [name for _, name, _ in rows] == [r["name"] for r in refused["residents"]], text
    for (_, _, said), r in zip(rows, refused["residents"]):
        assert said.endswith("recomputed") if r["removal"] == "recompute" else said == r["removal"], (said, r)


def check_proven():
    """The planner's floor, in both forms; pins are said."""
    assert call("graph", "gpt2-tiny", "-o", "m.fbs").returncode == 0
    for pins in ([], ["--save", "*.mlp.*"]):
        done = call("compile", "m.fbs", "--budget", "1MB", "-o", "n.plan", "--format", "json", *pins)
        refused = json.loads(done.stdout)
        assert 0 < refused["floor_bytes"] <= refused["smallest_budget_bytes"], refused
        proven = f"no choice of what to recompute needs less than {refused['floor_bytes']} B ("
        assert f"  Proven: {'with these pins ' if pins else ''}{proven}" in done.stderr, done.stderr
        smallest = str(refused["smallest_budget_bytes"])
        done = call("compile", "m.fbs", "--budget", smallest, "-o", "n.plan", *pins)
        assert done.returncode == 0, smallest
        manual = call("compile", "m.fbs", "--budget", smallest, "-o", "n.plan", "--solver", "manual", *pins).returncode
        assert ("\nnote: no manual policy fits\n" in done.stdout) == (manual == 3), (manual, done.stdout)


def check_workspace():
    """It is said among the largest, though no value lies there; --memory has it, so that its classes add up."""
    target = ["m.fbs", "--target", "h100-sxm", "--arch", "none", "-o", "n.plan"]
    done = call("compile", *target, "--budget", "1MB", "--format", "json")
    refused = json.loads(done.stdout)
    workspace = refused["workspace_bytes"]
    sizes = [r["bytes"] for r in refused["residents"]]
    assert workspace > sizes[0], refused
    rows = [row.groups() for row in map(RESIDENT.fullmatch, done.stderr.splitlines()) if row]
    assert rows[0][1:] == ("workspace", "persistent") and len(rows) == 1 + len(sizes), rows
    assert call("compile", *target).returncode == 0
    shown = json.loads(call("dump", "n.plan", "--memory", "--format", "json").stdout)
    assert shown["workspace_bytes"] == workspace, shown["workspace_bytes"]
    assert sum(shown["classes_at_peak"].values()) + workspace == shown["peak_bytes"], shown["classes_at_peak"]
    assert re.search(r"\n   workspace +\d", call("dump", "n.plan", "--memory").stdout)


def on_terminal(command, stream):
    """What it did, and what it wrote to this stream, a terminal."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(command, text=True,
                               **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: terminal})
    os.close(terminal)
    said = b""
    try:
        while part := os.read(master, 1 << 12):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(master)
    out, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, errors), said.decode().replace("\r\n", "\n")


def check_terminal():
    """There messages and reports have the same words, in lines of at most 80 columns; the object stays as it is."""
    arguments = [call.path("compile"), "m.fbs", "--budget", "1MB", "-o", "n.plan", "--format", "json", "--save", "*"]
    long = [call.path("compile"), "m.fbs", "--recompute-modules", "mlp,mlp"]
    for command, code in ((arguments, 3), (long, 2)):
        plain = run(command)
        done, said = on_terminal(command, "stderr")
        assert plain.returncode == done.returncode == code and plain.stdout == done.stdout, (plain, done)
        assert max(map(len, plain.stderr.splitlines())) > 80 >= max(map(len, said.splitlines())), (plain.stderr, said)
        assert plain.stderr.split() == said.split(), (plain.stderr, said)
    report = [call.path("compile"), "m.fbs", "--target", "h100-sxm", "--arch", "none", "--budget", "500MB", "-o", "n.plan"]
    plain, (done, said) = run(report), on_terminal(report, "stdout")
    assert plain.returncode == done.returncode == 0 and plain.stdout.split() == said.split(), (plain, done, said)
    assert max(map(len, plain.stdout.splitlines())) > 80 >= max(map(len, said.splitlines())), (plain.stdout, said)
    for tool in ("graph", "compile", "dump"):
        plain, (done, said) = call(tool, "--help"), on_terminal([call.path(tool), "--help"], "stdout")
        examples = plain.stdout.split("Examples:")[1].split("\n\n")[0].splitlines()  # whole, to copy
        wide = [line for line in said.splitlines() if len(line) > 80 and line not in examples]
        assert plain.stdout.split() == said.split() and not wide and done.returncode == 0, (tool, wide)


def check_pieces():
    """Where a table's gradient is too large to be received at once it comes in pieces, the largest that fit; a refusal is
    that of the smallest."""
    assert call("graph", "gpt2-124m", "--layers", "1", "--batch", "2", "--seq", "64", "-o", "m.fbs").returncode == 0

    def compiled(budget, *pieces):
        done = call("compile", "m.fbs", "--mesh", "dp=2", "--budget", str(budget), "-o", "n.plan", "--format", "json", *pieces)
        return done, json.loads(done.stdout)

    def given(size):
        return compiled("1MB", "--exchange-size", size)[1]["smallest_budget_bytes"]

    def times(done):  # compiled: as it is, and in the smallest pieces where these are smaller
        return len(re.findall(r"\bautodiff\b", done.stderr))

    smallest = {size: given(size) for size in ("256MiB", "64MiB", "16MiB", "4MiB", "1MiB")}
    assert smallest["1MiB"] <= smallest["4MiB"] < smallest["16MiB"] < smallest["64MiB"] < smallest["256MiB"], smallest
    for size, note in ("256MiB", None), ("64MiB", "67.1 MB"), ("16MiB", "16.8 MB"):
        done, report = compiled(smallest[size])
        notes = [said for said in report["notes"] if "in pieces of" in said]
        assert notes == ([f"gradients are exchanged in pieces of {note}: in larger ones nothing fits"] if note else []), notes
        taken = json.loads(call("dump", "n.plan", "--format", "json").stdout)["settings"]
        assert [s["value"] for s in taken if s["name"] == "exchange-size"] == ([str(2**20 * int(size[:-3]))] if note else [])
        if note:
            assert compiled(smallest[size], "--exchange-size", "256MiB")[0].returncode == 3, size
    done, refused = compiled(smallest["1MiB"] - 256, "--verbose")
    assert done.returncode == 3 and refused["smallest_budget_bytes"] == smallest["1MiB"] and times(done) == 2, (done, refused)
    assert f" needs {smallest['1MiB']} B (" in done.stderr, done.stderr
    assert call("graph", "gpt2-tiny", "--batch", "4", "-o", "m.fbs").returncode == 0
    done, _ = compiled("1MB", "--verbose")
    assert done.returncode == 3 and times(done) == 1, done


def check_hopeless():
    """On any mesh the floor is that of the smallest plan, which is found without a search: only the smallest pieces are
    looked at, and no decision after the first one whose arena is the floor."""
    model = ["gpt2-124m", "--layers", "4", "--batch", "8", "--seq", "64", "--dtype", "bf16", "-o", "m.fbs"]
    assert call("graph", *model).returncode == 0
    for mesh in (["dp=8"], ["dp=2", "--microbatches", "2"], ["dp=2,tp=2"]):
        command = ["m.fbs", "--mesh", *mesh, "--format", "json", "-o", "n.plan", "--budget"]
        refused = json.loads(call("compile", *command, "1MB").stdout)
        smallest = refused["smallest_budget_bytes"]
        assert refused["floor_bytes"] == smallest, (mesh, refused)
        shown = call("compile", *command[:-1], "--print-plan", "--budget", "1MB").stdout
        scheduled, decisions = map(int, re.search(r"\A(?:nothing fits: all, smallest bound first: )(\d+) of (\d+) ", shown).groups())
        assert shown.count(" scheduled, ") == 1 and scheduled <= 2 and decisions > 100, (mesh, shown)
        assert call("compile", *command, str(smallest)).returncode == 0, (mesh, smallest)
        assert call("compile", *command, str(smallest - 1)).returncode == 3, (mesh, smallest)


def check_untied():
    """Where no arena is as small as the floor, a long search ends near it."""
    assert call("graph", "llama3-8b", "--batch", "8", "--seq", "512", "--dtype", "bf16", "-o", "m.fbs").returncode == 0
    command = ["m.fbs", "--target", "a100-40", "--mesh", "dp=8", "--arch", "none", "-o", "n.plan", "--budget"]
    refused = json.loads(call("compile", *command, "40GB", "--format", "json").stdout)
    smallest, floor = refused["smallest_budget_bytes"], refused["floor_bytes"]
    assert floor < smallest <= floor + floor // 32, refused
    shown = call("compile", *command[:-1], "--print-plan", "--budget", "40GB").stdout
    scheduled, decisions = map(int, re.search(r"\Anothing fits: all, smallest bound first: (\d+) of (\d+) ", shown).groups())
    assert scheduled <= 20 < decisions // 50, shown
    assert call("compile", *command, str(smallest)).returncode == 0, smallest


def check_sequence():
    """Inputs of layers are half as large with --sequence-parallel, so the smallest plan is smaller, and holds no more
    than two of them above the floor."""
    model = ["llama3-8b", "--layers", "16", "--batch", "16", "--seq", "2048", "--dtype", "bf16", "-o", "m.fbs"]
    call.must("graph", *model)
    command = ["m.fbs", "--target", "h100-sxm", "--mesh", "dp=2,tp=2", "--format", "json", "-o", "n.plan", "--budget", "1GB"]
    whole, parts = (json.loads(call("compile", *command, *way).stdout) for way in ([], ["--sequence-parallel"]))
    assert parts["smallest_budget_bytes"] < whole["smallest_budget_bytes"], (parts, whole)
    input_bytes = 16 // 2 * 2048 * 4096 * 2 // 2
    assert parts["smallest_budget_bytes"] <= parts["floor_bytes"] + 2 * input_bytes, parts


@scratch()
def main():
    said = [removal for model in MODELS for policy in POLICIES for removal in check(model, policy)]
    kinds = set(said)
    check_proven()
    check_workspace()
    check_terminal()
    check_pieces()
    check_hopeless()
    check_untied()
    check_sequence()
    assert kinds >= {"recompute", "in use", "needed", "pinned"}, kinds
    print(f"{len(said)} residents: {', '.join(sorted(kinds))}")


main()
