# SPDX-License-Identifier: Apache-2.0
"""--mesh and --zero on the command line: the hashes, gradients and weights of dp=N are those of N microbatches, dp=1
is no mesh, reports and dumps name the mesh, unfit settings are refused, and a rank that fails or an
interrupted run ends all.

    run_ranks.py TOOLS_DIRECTORY [part]    part: what runs other code, for builds with sanitizers"""
import json
import math
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import (INTERRUPTED, INVALID, NOT_FINITE, TEXT, USAGE, Tools, check, faults, finish, floats, json_lines, must,
                     read_json, read_safetensors, refused, run, scratch, write_json)

tool = Tools(sys.argv[1])
STRETCH = tool.folder.parent / "tests/e2e/stretch"
PART = sys.argv[2:] == ["part"]
SLACK_US = 0.01  # rounding: threads have one clock
ATTEMPTS = 3  # a rank that loses its core between its clock and its first command is late in the trace


def train(plan, *options):
    return tool("run", plan, "--text", TEXT, "--steps", 3, *options)


def hashes(done):
    return [{key: value for key, value in line.items() if "hash" in key or key == "loss"} for line in json_lines(done)]


def same_as_microbatches(family, dtype):
    tool.must("graph", f"{family}-tiny", "--batch", 6, "--seq", 16, "--dtype", dtype, "--clip-norm", 1,
              *(() if family == "llama" else ("--dropout", 0.1)), "-o", "model.fbs")
    found = {}
    for name, option in (("ranks", ("--mesh", "dp=3")), ("parts", ("--microbatches", 3))):
        tool.must("compile", "model.fbs", *option, "-o", f"{name}.plan")
        done = train(f"{name}.plan", "--json", "--save-gradients", f"{name}.g", "--save-weights", f"{name}.w",
                     "--threads", 1, "--gradients-step", 2, "--report", f"{name}.json")
        found[name] = (hashes(done), read_safetensors(f"{name}.g"), read_safetensors(f"{name}.w"),
                       hashes(train(f"{name}.plan", "--eval", "--json")))
    for a, b, what in zip(found["ranks"], found["parts"], ("hashes", "gradients", "weights", "evaluation")):
        check(a == b and len(a) >= 3, f"{family} {dtype}: {what} differ")
    ranks, parts = (read_json(f"{name}.json") for name in ("ranks", "parts"))
    check(ranks["ranks"] == 3 and "ranks" not in parts, f"reports: {ranks}, {parts}")


def same_as_whole():
    """--zero 1 and 3: hashes, gradients and weights are those of states and parameters that every rank has whole; from
    a file too."""
    tool.must("graph", "gpt2-tiny", "--batch", 6, "--seq", 16, "--dtype", "bf16", "--dropout", 0.1, "-o", "z.fbs")
    found = []
    for zero in 0, 1, 3:
        made = tool.must("compile", "z.fbs", "--mesh", "dp=3", "--zero", zero, "--format", "json", "-o", "z.plan")
        report, runs = json.loads(made.stdout), []
        for init in (), ("--init", "first.w"):
            done = train("z.plan", "--json", "--save-gradients", "z.g", "--save-weights", "z.w", *init,
                         "--save-initial-weights", "z.i", "--threads", 1, "--gradients-step", 2)
            runs += [hashes(done), read_safetensors("z.g"), pathlib.Path("z.w").read_bytes(), pathlib.Path("z.i").read_bytes()]
            if zero == 0 and not init:
                pathlib.Path("z.w").rename("first.w")
        found.append((runs, report))
    (whole, first), *others = found
    check(whole[0] != whole[4] and whole[2] == whole[7], "from a file: the hashes differ, initial weights are its own")
    for parts, report in others:
        check(whole == parts, "other hashes, gradients or weights")
        notes = [note for note in report["notes"] if note.startswith("ZeRO: ")]
        check(len(notes) == 1 and "h.0.ln_1.weight" in notes[0] and not any("ZeRO" in note for note in first["notes"]),
              f"what 3 ranks do not divide: {report['notes']}")
    sizes = [report["static_bytes"] for _, report in found]
    check(sizes[0] > sizes[1] > sizes[2], f"nothing is saved: {sizes}")
    kept, again = (tool.json("compile", "z.fbs", "--mesh", "dp=3", "--zero", 3, *pins, "--format", "json", "-o", "x.plan")
                   for pins in (("--save", "*.gathered"), ("--recompute", "*.gathered")))
    check(again["sent_bytes"] > kept["sent_bytes"] and again["communication_ns"] > kept["communication_ns"],
          "gathered again: more is sent")
    kept, again = (smallest_bytes("--save", "*.gathered"), smallest_bytes("--recompute", "*.gathered"))
    check(again < kept, f"gathered again: less is kept: {again} bytes, {kept}")


def smallest_bytes(*pins):
    """The smallest budget of z.fbs, from the refusal of one that is too small."""
    done = tool("compile", "z.fbs", "--mesh", "dp=3", "--zero", 3, *pins, "--budget", "1MB", "-o", "x.plan")
    return int(re.search(r"the smallest plan found needs (\d+) B", done.stderr).group(1))


def apart(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def gradients_apart(one, other, divided):
    """Gradients that one rank and several have apart, by more than sums in another order explain: four times as far as
    those of attention in other kernels, `other`, and 16 roundings of the largest element (tests/e2e/test_tensor.c)."""
    for name, tensor in one.items():
        g = floats(tensor)
        limit = 4 * apart(g, floats(other[name])) + 16 * 2.0**-8 * max(map(abs, g))
        if len(g) != len(floats(divided[name])) or not apart(g, floats(divided[name])) <= limit:
            yield name


def adamw_apart(before, gradients, after, step):
    """Parameters whose master is not where AdamW takes it from a checkpoint, by more than f32 rounds: an operation by
    2^-24, of which each of m and v sees 4 and an update 12."""
    ulp = 2.0**-24
    for name, tensor in gradients.items():
        w, m, v = (floats(before[name + state]) for state in (".master", ".m", ".v"))
        found = floats(after[name + ".master"])
        for k, g in enumerate(floats(tensor)):
            mean, square = 0.9 * m[k] + 0.1 * g, 0.999 * v[k] + 0.001 * g * g
            scale = 1e-3 / (1 - 0.9**step) / (math.sqrt(square / (1 - 0.999**step)) + 1e-8)
            limit = 4 * ulp * scale * (abs(0.9 * m[k]) + abs(0.1 * g)) + 12 * ulp * scale * abs(mean) + 2 * ulp * abs(w[k])
            if not abs(found[k] - (w[k] - scale * mean)) <= limit:
                yield name
                break


def zero_tensor_parallel(gradients, name, *options):
    """Against "both", the same mesh without ZeRO."""
    tool.must("compile", "t.fbs", "--mesh", "dp=2,tp=2", *options, "-o", f"{name}.plan")
    must(train(f"{name}.plan", "--save-initial-weights", f"{name}.i", "--save-weights", f"{name}.w", "--save-gradients",
               f"{name}.g", "--checkpoint", f"{name}.c", "--threads", 1))
    for file in "i", "w":
        check(pathlib.Path(f"{name}.{file}").read_bytes() == pathlib.Path(f"both.{file}").read_bytes(), f"{name}: other weights, {file}")
    check(read_safetensors(f"{name}.g") == gradients, f"{name}: other gradients")
    saved = [next(pathlib.Path(f"{folder}.c").iterdir()) for folder in ("both", name)]
    check(read_safetensors(saved[0]) == read_safetensors(saved[1]), f"{name}: another checkpoint")
    # The same, whoever goes on; and what one rank has is taken as it is.
    ended = []
    for plan, other in ("both", "both"), (name, "both"), ("both", name), (name, "one"), ("both", "one"):
        tool.must("run", f"{plan}.plan", "--text", TEXT, "--steps", 5, "--resume", f"{other}.c", "--lr", 1e-3,
                  "--save-weights", "again.w")
        ended.append(pathlib.Path("again.w").read_bytes())
    check(ended[0] == ended[1] == ended[2] and ended[3] == ended[4] != ended[0], f"{name}: it does not go on")
    for plan in name, "both":
        tool.must("run", f"{plan}.plan", "--text", TEXT, "--steps", 1, "--init", "one.w", "--lr", 1e-3,
                  "--save-initial-weights", "again.w", "--save-weights", f"after.{plan}")
        check(pathlib.Path("again.w").read_bytes() == pathlib.Path("one.w").read_bytes(), f"{plan} takes what one rank saved")
    check(pathlib.Path(f"after.{name}").read_bytes() == pathlib.Path("after.both").read_bytes(), f"{name}: masters from a file")


def whole_on_ranks():
    """Of what ranks along tp divide, and those along dp do not, a note names the parameter, and its state is as before."""
    tool.must("graph", "gpt2-tiny", "--layers", 1, "--vocab", 258, "--batch", 6, "--seq", 16, "-o", "six.fbs")
    ends = []
    for zero in 0, 1:
        made = tool.must("compile", "six.fbs", "--mesh", "tp=2,dp=3", "--zero", zero, "--sequence-parallel",
                         "--format", "json", "-o", "six.plan")
        notes = [note for note in json.loads(made.stdout)["notes"] if note.startswith("ZeRO: ")]
        ends.append((hashes(train("six.plan", "--json", "--hash", "--save-weights", "six.w")), pathlib.Path("six.w").read_bytes()))
    check(ends[0] == ends[1] and len(ends[0][0]) == 3, "tp=2,dp=3: other bits")
    check(len(notes) == 1 and "h.0.mlp.c_fc.bias" in notes[0] and "wte.weight" not in notes[0], f"tp=2,dp=3: {notes}")


def tensor_parallel():
    """--mesh tp=4 and dp=2,tp=2, with a padded vocabulary and microbatches: gradients are joined, files of weights and
    checkpoints are those of one rank, which every mesh takes, and goes on from as AdamW does. With ZeRO they are the
    bytes of the mesh without, and it goes on to the bit; refusals."""
    graph = ("graph", "gpt2-tiny", "--layers", 2, "--vocab", 250, "--batch", 4, "--seq", 16, "--dtype", "bf16",
             "--dropout", 0.1, "--weight-decay", 0)
    tool.must(*graph, "-o", "t.fbs")
    tool.must(*graph, "--attention", "written-out", "-o", "other.fbs")
    meshes = {"one": (), "tp": ("--mesh", "tp=4"), "both": ("--mesh", "dp=2,tp=2"),
              "parts": ("--mesh", "tp=2", "--microbatches", 2),
              "sums": ("--mesh", "dp=2,tp=2", "--microbatches", 2, "--zero", 3), "other": ()}
    for name, mesh in meshes.items():
        tool.must("compile", "other.fbs" if name == "other" else "t.fbs", *mesh, "-o", f"{name}.plan")
        must(train(f"{name}.plan", "--save-initial-weights", f"{name}.i", "--save-weights", f"{name}.w",
                   "--save-gradients", f"{name}.g", "--checkpoint", f"{name}.c", "--threads", 1))
    gradients = {name: read_safetensors(f"{name}.g") for name in meshes}
    for name in "tp", "both", "parts", "sums":
        check(pathlib.Path(f"{name}.i").read_bytes() == pathlib.Path("one.i").read_bytes(), f"{name}: other initial weights")
        bad = list(gradients_apart(gradients["one"], gradients["other"], gradients[name]))
        check(not bad and len(gradients[name]) == len(gradients["one"]) > 9, f"{name}: other gradients of {bad}")
    for name, other in ("both", "tp"), ("one", "both"), ("tp", "one"), ("parts", "tp"), ("sums", "parts"):
        tool.must("run", f"{name}.plan", "--text", TEXT, "--steps", 4, "--resume", f"{other}.c", "--lr", 1e-3,
                  "--save-gradients", "again.g", "--gradients-step", 4, "--checkpoint", f"{name}.again")
        before, after = (read_safetensors(next(pathlib.Path(folder).iterdir())) for folder in (f"{other}.c", f"{name}.again"))
        bad = list(adamw_apart(before, read_safetensors("again.g"), after, 4))
        check(not bad and before.keys() == after.keys(), f"{name} goes on where {other} was: {bad}")
        tool.must("run", f"{name}.plan", "--text", TEXT, "--steps", 1, "--init", f"{other}.w",
                  "--save-initial-weights", "again.w")
        check(pathlib.Path("again.w").read_bytes() == pathlib.Path(f"{other}.w").read_bytes(), f"{name} takes what {other} saved")
    for zero in (3,) if PART else (1, 3):
        zero_tensor_parallel(gradients["both"], f"zero{zero}", "--zero", zero)
    pathlib.Path("idle.txt").write_text('graph "idle"\ninput %x : f32[3]\n%y : f32[3] = mul %x %x phase forward\n'
                                        '%z : f32[1] = row_sum %y phase forward\noutput %z\n')
    for graph, options, code, message in (
            ("t.fbs", ("--mesh", "tp=3"), INVALID, 't.fbs: value "h.0.attn.c_attn.weight": dimension 1, of 192 in blocks of 64, is not divisible by 3 ranks along tp'),
            ("idle.txt", ("--mesh", "tp=2"), USAGE, 'graph "idle" has nothing to divide along axis tp of the mesh')):
        refused(tool("compile", graph, *options, "-o", "x.plan"), code, message)


def beside():
    """Transfers that go on beside commands: the bits of blocking ones; dump and trace say which they are."""
    tool.must("graph", "gpt2-tiny", "--batch", 6, "--seq", 16, "--dropout", 0.1, "-o", "b.fbs")
    for zero in (3,) if PART else (0, 1, 3):
        tool.must("compile", "b.fbs", "--mesh", "dp=3", "--zero", zero, "-o", "b.plan")
        expected = hashes(train("b.plan", "--json"))
        must(run([STRETCH, "b.plan"]))
        check(hashes(train("b.plan", "--json")) == expected, f"--zero {zero}: other bits")
        check(hashes(train("b.plan", "--json", "--hash", "--save-gradients", "b.g")) ==
              hashes(train("b.plan", "--json", "--hash")), f"--zero {zero}: looking changes bits")
    schedule = tool.json("dump", "b.plan", "--schedule", "--format", "json")["schedule"]
    text = tool.text("dump", "b.plan", "--schedule")
    flights = {c["index"]: c["transfer"]["complete_before"] for c in schedule if "complete_before" in c.get("transfer", {})}
    lines = {int(line.split()[0]): line for line in text.splitlines() if re.match(r" *\d+ ", line)}
    for command, before in flights.items():
        check(before > command + 1 and f", complete before command {before} {schedule[before]['name']})" in lines[command],
              f"{before}: {lines[command]}")
    check(len(flights) > 10 and text.count(", complete ") == len(flights), f"{len(flights)} transfers beside commands")
    must(train("b.plan", "--trace", "b.json", "--threads", 1))
    trace = read_json("b.json")["traceEvents"]
    members = [c for c in schedule if "transfer" in c and c["transfer"]["group"] != c["index"]]
    check(len(members) > 10 and all(f", with command {c['transfer']['group']}" in lines[c["index"]] for c in members),
          f"{len(members)} transfers continue groups")
    names = {(event["pid"], event["args"]["name"]): event["tid"] for event in trace if event["name"] == "thread_name"}
    check(names == {(r + 1, name): tid for r in range(3) for tid, name in ((1, "computation"), (2, "transfers"))}, f"{names}")
    slices = [event for event in trace if event["ph"] == "X"]
    check(all((event["tid"] == 2) == ("transfer" in schedule[event["args"]["command"]]) for event in slices),
          "transfers are on a lane of their own")
    for rank in range(3):
        for tid in 1, 2:
            mine = [event for event in slices if (event["pid"], event["tid"]) == (rank + 1, tid)]
            spans = list(dict.fromkeys((event["ts"], event["dur"]) for event in mine))  # a group's transfers have one
            check(len(mine) > 100 and all(a[0] + a[1] <= b[0] + SLACK_US for a, b in zip(spans, spans[1:])),
                  f"lane {tid} of rank {rank} does one thing after the other")


def near_bound():
    """What a step waits for its first gathers, of a table of 525 MB above all, and for its last gradients is not in
    the bound; but for it and for layers that are cut in two where budgets are small, steps are near it."""
    tool.must("graph", "llama3.2-1b", "--batch", 8, "--seq", 2048, "--dtype", "bf16", "-o", "t.fbs")

    def plan(*options):
        return tool.json("compile", "t.fbs", "--mesh", "dp=8", "--zero", 3, "--target", "h100-sxm",
                         "--arch", "none", "--format", "json", "-o", "t.plan", *options)
    least, most = plan("--recompute-activations", "--recompute-modules", "mlp,layernorm"), plan()
    for share, beyond in (2, 1.022), (5, 1.003), (8, 1.001):
        budget = least["arena_bytes"] + (most["arena_bytes"] - least["arena_bytes"]) * share // 10
        found = plan("--budget", budget + most["reserve_bytes"])
        waited = found["exposed_ns"]
        check(found["bound_step_ns"] <= found["step_ns"] - waited <= beyond * found["bound_step_ns"],
              f"{share} of 10: {found['step_ns']}, {waited} of it waited, bound {found['bound_step_ns']}")


def shown():
    """In the plan's report and in dumps; nothing of it where there is one rank."""
    tool.must("compile", "model.fbs", "--mesh", "dp=1", "-o", "one.plan")
    tool.must("compile", "model.fbs", "-o", "none.plan")
    check(pathlib.Path("one.plan").read_bytes() == pathlib.Path("none.plan").read_bytes(), "dp=1 is no mesh")
    report = tool.json("compile", "model.fbs", "--mesh", "dp=3", "--format", "json", "-o",
                       "ranks.plan")
    dump = tool.json("dump", "ranks.plan", "--format", "json")
    schedule = tool.json("dump", "ranks.plan", "--schedule", "--format", "json")
    for where in report, dump:
        check(where["mesh"] == [{"axis": "dp", "size": 3}] and where["ranks"] == 3, f"mesh: {where.get('mesh')}")
    step = [command for command in schedule["schedule"] if command["segment"] == "step" and "transfer" in command]
    sent = sum(command["transfer"]["sent_bytes"] for command in step)
    spent = sum(command["estimated_ns"] for command in step)
    for where in report, dump:
        check(where["communication_ns"] == spent > where["exposed_ns"] > 0, f"{where['communication_ns']}, {spent}")
    check(report["sent_bytes"] == dump["sent_bytes"] == sent > 0, f"sent: {report['sent_bytes']}, {sent}")
    check(re.search(r"^mesh +dp=3: 3 ranks, rank 0 sends ", tool.text("dump", "ranks.plan"), re.M),
          "the summary names the mesh")
    check(not any("no CUDA text" in note for note in report["notes"]), "a GPU can run it")
    plain = tool.json("compile", "model.fbs", "--format", "json", "-o", "x.plan")
    check(not {"mesh", "ranks", "sent_bytes", "communication_ns", "exposed_ns"} & plain.keys(), "fields of a mesh in a plan of one rank")


def refusals():
    for mesh, message in (("dp=0", "dp is 0, accepted: 1 to 256"), ("dp=257", "dp is 257, accepted: 1 to 256"),
                          ("xp=2", 'axis "xp" is unknown (accepted: dp, tp)'), ("dp=2,dp=3", "axis dp is given twice"),
                          ("dp", "is malformed"), ("dp=2,", "is malformed"), ("dp=99999999999999999999", "accepted: 1 to"),
                          ("dp=4", "batch 6 is not divisible by 4 ranks along dp\n")):
        refused(tool("compile", "model.fbs", "--mesh", mesh, "-o", "x.plan"), USAGE, message)
    for options, message in ((("--zero", 1), "--zero 1 divides optimizer state among ranks: it needs --mesh dp=N, N from 2"),
                             (("--zero", 1, "--mesh", "dp=1"), "it needs --mesh dp=N, N from 2"),
                             (("--zero", 3), "--zero 3 divides optimizer state and parameters among ranks: it needs"),
                             (("--zero", 2, "--mesh", "dp=3"), "--zero 2: there is no such stage: 1 divides"),
                             (("--zero", "x", "--mesh", "dp=3"), "--zero 'x' is unknown (accepted: 0|1|3)")):
        refused(tool("compile", "model.fbs", *options, "-o", "x.plan"), USAGE, message)
    for option in ("--forward-only",), ("--optimizer", "none"):
        tool.must("graph", "gpt2-tiny", "--batch", 6, *option, "-o", "without.fbs")
        for zero in 1, 3:
            refused(tool("compile", "without.fbs", "--mesh", "dp=3", "--zero", zero, "-o", "x.plan"), USAGE,
                    "the graph has no optimizer")
    refused(tool("compile", "model.fbs", "--mesh", "dp=3", "--microbatches", 4, "-o", "x.plan"), USAGE,
            "batch 6 is not divisible by 3 ranks along dp times 4 microbatches")
    tool.must("compile", "model.fbs", "--mesh", "dp=3", "--emit-cuda", "cuda", "-o", "x.plan")
    check(any(pathlib.Path("cuda").iterdir()), "the kernels of a mesh as CUDA text")
    auto = tool("compile", "model.fbs", "--mesh", "dp=3", "--microbatches", 2, "--bind", "batch=auto:1..20",
                "--budget", "400MB", "--format", "json", "-o", "auto.plan")
    tried = [trial["value"] for trial in json.loads(must(auto).stdout)["sizes"]["tried"]]
    check(sorted(tried) == [6, 12, 18], f"whole batches: {tried}")


def check_records(count, steps, commands):
    """Of every rank the trace has the same commands in the same order, on one time axis."""
    trace = read_json("trace.json")["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in trace if event["name"] == "process_name"}
    check(names == {f"rank {r}": r + 1 for r in range(count)}, f"processes of the trace: {names}")
    slices = [[event for event in trace if event["ph"] == "X" and event["pid"] == r + 1] for r in range(count)]
    check(len(slices[0]) == steps * commands > 0, f"{len(slices[0])} slices")
    for mine in slices:
        check([event["name"] for event in mine] == [event["name"] for event in slices[0]], "ranks run other commands")
        for lane in 1, 2:  # computation and transfers
            events = [event for event in mine if event["tid"] == lane]
            check(events == sorted(events, key=lambda event: event["ts"]), "not in order")
        check(mine[0]["ts"] < slices[0][-1]["ts"] and slices[0][0]["ts"] < mine[-1]["ts"], "ranks do not run at one time")
    # A transfer ends nowhere before it has begun everywhere.
    for at, event in enumerate(slices[0]):
        if event["args"]["kernel"] in ("exchange", "gather"):
            begin, end = (max(mine[at]["ts"] for mine in slices), min(mine[at]["ts"] + mine[at]["dur"] for mine in slices))
            check(end >= begin - SLACK_US, f"{event['name']}: ends at {end} before it begins at {begin}")
    profile = read_json("profile.json")
    report = read_json("report.json")
    shortest = {}
    for at, event in enumerate(slices[0]):
        if event["args"]["kernel"] == "exchange":
            spent = min(mine[at]["dur"] for mine in slices) * 1000
            shortest.setdefault(event["args"]["moved_bytes"], []).append(spent)
    for row in profile["kernels"]:
        if row["kernel"] == "exchange":
            found = shortest[row["moved_bytes"]]
            check(min(found) - 1 <= row["median_ns"] <= max(found) + 1 and row["count"] == len(found), f"{row}, {found}")
    times = report["rank_step_ns"]
    check(len(times) == count and max(times) == report["step_ns"] and min(times) > 0, f"{times}, {report['step_ns']}")


def recorded():
    segments = tool.json("dump", "ranks.plan", "--format", "json")["segments"]
    for _ in range(ATTEMPTS):
        known = len(faults)
        done = train("ranks.plan", "--threads", 1, "--trace", "trace.json", "--profile", "profile.json", "--report",
                     "report.json", "--hash", "--json")
        check_records(3, 3, segments["step"])
        if len(faults) == known:
            break
        found = faults[known:]
        del faults[known:]
    else:
        faults.extend(found)
    check(hashes(done) == hashes(train("ranks.plan", "--json")), "recording changes bits")


def priced():
    """A profile of this mesh measures all of its plan; that of another one, no transfer."""
    must(train("ranks.plan", "--threads", 1, "--profile", "p.json"))
    profile = read_json("p.json")
    transfers = [row for row in profile["kernels"] if row["kernel"] in ("exchange", "gather")]
    check(profile["mesh"] == "dp=3" and len(transfers) > 4, f"profile of {profile.get('mesh')}")

    def times(dump):
        """Of transfers by kind, bytes, and whether they continue a group."""
        return {(c["kind"], c["transfer"]["whole_bytes"], c["transfer"]["group"] == c["index"]): c["estimated_ns"]
                for c in dump["schedule"] if "transfer" in c}

    def costs(mesh):
        tool.must("compile", "model.fbs", "--mesh", mesh, "--profile", "p.json", "-o", "p.plan")
        dump = tool.json("dump", "p.plan", "--schedule", "--format", "json")
        shares = tool.json("dump", "p.plan", "--format", "json")["cost_shares"]
        return shares, times(dump)

    tool.must("compile", "model.fbs", "--mesh", "dp=2", "-o", "two.plan")
    dump = tool.json("dump", "two.plan", "--schedule", "--format", "json")
    modelled = times(dump)
    check(costs("dp=3")[0]["measured"] == 1, f"costs of the profile's mesh: {costs('dp=3')[0]}")
    priced = costs("dp=2")[1]
    common = modelled.keys() & priced.keys()
    check(len(common) > 4 and all(modelled[key] == priced[key] for key in common), "a profile of dp=3 prices transfers of dp=2")
    plain = json.loads((pathlib.Path(__file__).resolve().parent.parent.parent / "schemas/devices/cpu.json").read_text())
    del plain["links"]
    write_json("plain.json", plain)
    tool.must("compile", "model.fbs", "--target", "plain.json", "-o", "x.plan")
    refused(tool("compile", "model.fbs", "--target", "plain.json", "--mesh", "dp=3", "-o", "x.plan"), USAGE,
            'device "cpu" describes no "links" between ranks, which a mesh needs')


def failures():
    """One message, the code of the rank's own failure, and no output."""
    refused(train("one.plan", "--engine", "x"), USAGE, "--engine 'x' is unknown (accepted: local|mpi|nccl)")
    pathlib.Path("short.txt").write_bytes(b"\xff" * 100)
    for plan in "ranks.plan", "z.plan":
        done = tool("run", plan, "--text", "short.txt", "--steps", 2, "--lr", 1e30, "--save-weights", "w")
        refused(done, NOT_FINITE, "step 2: ")
        check(not pathlib.Path("w").exists(), "weights that are not finite are not saved")
        process = tool.start("run", plan, "--text", TEXT, "--steps", 1000000, "--save-weights", f"{plan}.w",
                             "--checkpoint", f"{plan}.c", "--every", 1000000)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
        last = re.search(r"interrupted after step (\d+) ", error)
        check(process.returncode == INTERRUPTED and last and pathlib.Path(f"{plan}.w").exists(), f"interrupted: {process.returncode} {error}")
        check([int(path.name[5:15]) for path in pathlib.Path(f"{plan}.c").iterdir()] == [int(last[1])], f"checkpoints: {error}")


@scratch()
def main():
    cases = [("gpt2", "fp32"), ("encdec", "bf16"), ("llama", "bf16"), ("bert", "fp32")]
    for family, dtype in cases[:2] if PART else cases:
        same_as_microbatches(family, dtype)
    same_as_whole()
    tensor_parallel()
    whole_on_ranks()
    beside()
    if not PART:
        near_bound()
    shown()
    refusals()
    recorded()
    priced()
    failures()
    finish()


main()
