# SPDX-License-Identifier: Apache-2.0
"""remat-compile --explain prints what remat-dump --why prints of the plan that it writes, in text and JSON, and the plan is
the one without the option. Where nothing fits it says the same of what needs least.

    explain.py TOOLS"""
import json
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INFEASIBLE, Tools, check, finish, scratch

tool = Tools(sys.argv[1])
LATE = 7  # exit code
PLANS = [  # preset and options, options of remat-compile, lists of globs
    (["gpt2-tiny", "--layers", 3, "--seq", 64, "--batch", 2], ["--budget", "137.4MB"], [["*"], ["h.2.mlp.act"], ["*.ln_?", "h.1.*"]]),
    (["gpt2-tiny", "--batch", 8], ["--ac-mode", "full", "--save", "*.mlp.act"], [["*.act"]]),
    (["encdec-tiny", "--batch", 6], ["--microbatches", 3, "--ac-mode", "full"], [["*encoder*core*", "decoder.embed"]]),
    (["gpt2-tiny", "--batch", 4], ["--mesh", "dp=2,tp=2", "--sequence-parallel", "--ac-mode", "full"], [["h.1.ln_?.whole.*"], ["*"]]),
    (["llama-tiny", "--dtype", "bf16"], ["--target", "h100-sxm", "--arch", "none"], [["*.0.*"]]),
    (["gpt2-tiny", "--unbound", "batch"], ["--bind", "batch=auto:1..4", "--budget", "160MB"], [["*mlp*"]]),
    (["gpt2-tiny", "--batch", 8], ["--microbatches", "auto", "--budget", "160MB"], [["*mlp*"]]),
]
REFUSED = [["--ac-mode", "full"], ["--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", 2],
           ["--save", "*.mlp.*", "--recompute-granularity", "none"]]


def both(options, globs):
    """What each tool prints, by form."""
    words = [word for glob in globs for word in ("--explain", glob)]
    for form in "text", "json":
        said = tool.text("compile", "m.fbs", *options, *words, "--format", form, "-o", "e.plan")
        asked = [word.replace("--explain", "--why") for word in words]
        check(said == tool.text("dump", "e.plan", *asked, "--format", form), options, globs, form)
        check(pathlib.Path("e.plan").read_bytes() == pathlib.Path("m.plan").read_bytes(), options, "the plan")
        check(form == "text" or json.loads(said)["why"], said)


def check_refused(policy):
    tool.must("compile", "m.fbs", *policy, "-o", "m.plan")
    for form in "text", "json":
        why = tool.text("dump", "m.plan", "--why", "h.0.*", "--format", form)
        done = tool("compile", "m.fbs", *policy, "--budget", "1MB", "--explain", "h.0.*", "--format", form, "-o", "none.plan")
        check(done.returncode == INFEASIBLE and not pathlib.Path("none.plan").exists(), policy)
        if form == "text":
            first, _, rest = done.stdout.partition("\n")
            check(rest == why and first.startswith("no plan fits; of the one that needs least, "), policy, first)
            continue
        said = json.loads(done.stdout)
        needed = said.pop("smallest_budget_bytes")
        check(said == json.loads(why) and f" needs {needed} B" in done.stderr, policy, said)
        check(f"{needed:,} B (" in first, first, needed)


def check_nothing():
    """Without the time to find a plan, there is none to say something about."""
    tool.must("graph", "llama3.2-1b", "--batch", 8, "--seq", 2048, "--dtype", "bf16", "-o", "m.fbs")
    done = tool("compile", "m.fbs", "--target", "h100-sxm", "--mesh", "dp=8", "--budget", "2GB", "--time-limit", "1ms", "--arch",
                "none", "--explain", "*.mlp.*", "-o", "none.plan")
    nothing = "\n  --explain: there is no plan of which it could say something\n" in done.stderr
    check(done.returncode in (INFEASIBLE, LATE) and nothing == (not done.stdout.startswith("no plan fits; ")), done.stdout[:100])


with scratch():
    for graph, options, lists in PLANS:
        tool.must("graph", *graph, "-o", "m.fbs")
        tool.must("compile", "m.fbs", *options, "-o", "m.plan")
        for globs in lists:
            both(options, globs)
    tool.must("graph", "gpt2-tiny", "-o", "m.fbs")
    for policy in REFUSED:
        check_refused(policy)
    check_nothing()
finish()
