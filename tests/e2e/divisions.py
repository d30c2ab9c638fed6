# SPDX-License-Identifier: Apache-2.0
"""remat-compile --ranks N and --microbatches auto: the best divisions of a step are those of a loop over all of them,
which is written here once more; each command, typed as printed, makes the plan of its row, and each setting of
Megatron-LM and torchtitan, read back, takes the time that is printed after it.

    divisions.py BUILD_DIRECTORY"""
import functools
import json
import os
import pathlib
import re
import shlex
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import ROOT, Tools, must, run, scratch

call = Tools(sys.argv[1])
GPU = ["--target", "h100-sxm", "--arch", "none", "--reserve", "0"]
BEST, CONTAINER_BYTES = 10, 32


def read(path):
    return pathlib.Path(path).read_bytes()


def fields(path):
    """All that the plan's table has, as flatc reads it."""
    pathlib.Path("plan.bin").write_bytes(read(path)[CONTAINER_BYTES:])
    must(run(["flatc", "--json", "--strict-json", "--raw-binary", ROOT / "schemas/program.fbs", "--", "plan.bin"]))
    return pathlib.Path("plan.json").read_text(encoding="utf-8")


def check_chosen(chosen, typed, option):
    """The same plan but for the record of who chose."""
    record = f',\n  "chosen_by": "{option}"'
    chosen, typed = fields(chosen), fields(typed)
    assert chosen.count(record) == 1 and "chosen_by" not in typed and typed.count("\n") > 1000, chosen[-200:]
    assert chosen.replace(record, "") == typed, "another plan than that of the command"


def report(model, *arguments):
    return call.json("compile", model, *GPU, "--format", "json", "-o", "chosen.plan", *arguments)


@functools.cache
def compile_one(model, budget, batch, options):
    """None: it does not fit, or is not possible."""
    done = call("compile", model, *GPU, "--budget", budget, "--bind", f"batch={batch}", *options, "--format", "json", "-o",
                "one.plan")
    assert done.returncode in (0, 2, 3, 4), done.stderr
    return done.returncode, json.loads(done.stdout) if done.returncode in (0, 3) else done.stderr


def options_of(dp, tp, sequence, zero, microbatches):
    mesh = [f"{axis}={size}" for axis, size in (("dp", dp), ("tp", tp)) if size > 1]
    return (*(["--mesh", ",".join(mesh)] if mesh else []), *(["--sequence-parallel"] if sequence else []),
            *(["--zero", str(zero)] if zero else []), *(["--microbatches", str(microbatches)] if microbatches > 1 else []))


def all_divisions(ranks, batch, stages=None):
    for dp in (d for d in range(ranks, 0, -1) if ranks % d == 0):
        tp = ranks // dp
        for sequence in (False, True) if tp > 1 else (False,):
            for zero in stages or ((0, 1, 3) if dp > 1 else (0,)):
                for m in (m for m in range(1, batch + 1) if m == 1 or batch % (dp * m) == 0):
                    yield options_of(dp, tp, sequence, zero, m)


def check_command(row, model, budget):
    """As it is printed."""
    words = shlex.split(row["command"])
    assert words[:2] == ["remat-compile", model], words
    made = call.json("compile", *words[1:], "--format", "json", "-o", "typed.plan")
    assert all(made[key] == row[key] for key in ("step_ns", "peak_bytes", "policy")), (row, made)
    assert made["budget_bytes"] == budget, made


def read_megatron(words, batch):
    """The options of a division, and of a policy, that Megatron-LM's say."""
    words = iter(words)
    given, policy = {}, []
    for word in words:
        if word.startswith("--recompute"):
            policy.append(word)
            value = next(words)
            if word == "--recompute-modules":
                rest = list(words)
                value, words = ",".join([value, *rest]), iter(())
            policy.append(value)
        elif word in ("--sequence-parallel", "--use-distributed-optimizer", "--use-megatron-fsdp",
                      "--no-gradient-accumulation-fusion"):
            given[word] = True
        else:
            given[word] = next(words)
    assert int(given["--global-batch-size"]) == batch, given
    zero = 3 if "--use-megatron-fsdp" in given else 1 if "--use-distributed-optimizer" in given else 0
    assert (zero == 3) == (given.get("--data-parallel-sharding-strategy") == "optim_grads_params"), given
    return (int(given["--tensor-model-parallel-size"]), "--sequence-parallel" in given, zero,
            int(given["--micro-batch-size"])), policy or ["--recompute-granularity", "none"]


TITAN_POLICIES = {"none": ["--ac-mode", "none"], "full": ["--ac-mode", "full"],
                  "selective": ["--ac-mode", "selective", "--ac-option", "op"]}


def read_torchtitan(words, batch):
    last = words.pop()
    words = [word for word in words if word != "--parallelism.no-enable-sequence-parallel"]
    given = dict(zip(words[::2], words[1::2]))
    replicate, shard, tp = (int(given[f"--parallelism.{key}"]) for key in
                            ("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree"))
    assert int(given["--training.global_batch_size"]) == batch and min(replicate, shard) == 1, given
    kind = last.split(":")[1]
    if shard > 1:
        assert given["--parallelism.fsdp_reshard_after_forward"] == ("never" if kind == "none" else "always"), given
    return (tp, replicate, 3 if shard > 1 else 0, int(given["--training.local_batch_size"])), TITAN_POLICIES[kind]


def check_manual(row, manual, model, budget, ranks, batch):
    words = shlex.split(manual["flags"])
    if manual["system"] == "megatron":
        (tp, sequence, zero, micro), policy = read_megatron(words, batch)
    else:
        sequence = "--parallelism.no-enable-sequence-parallel" not in words and "tp=" in row["mesh"]
        (tp, _, zero, micro), policy = read_torchtitan(words, batch)
    dp = ranks // tp
    assert zero == row["zero"] and sequence == row["sequence_parallel"], (row, manual)
    assert batch // dp // micro == row["microbatches"], (row, manual)
    code, made = compile_one(model, str(budget), batch, (*options_of(dp, tp, sequence, zero, batch // dp // micro), *policy))
    assert code == 0 and made["step_ns"] == manual["step_ns"], (row, manual, code, made)


def check(model, ranks, batch, budget, kinds, *given, every=None):
    """Against a loop over all divisions."""
    found = report(model, "--ranks", str(ranks), "--global-batch", str(batch), "--budget", str(budget), *given)
    table = found["divisions"]
    every = every or list(all_divisions(ranks, batch))
    single = [compile_one(model, str(budget), batch, options) for options in every]
    fits = sorted((made["step_ns"], number) for number, (code, made) in enumerate(single) if code == 0)
    assert table["count"] == len(every) and len(table["best"]) == min(BEST, len(fits)), (table, len(fits))
    for place, (row, (ns, number)) in enumerate(zip(table["best"], fits)):
        assert row["step_ns"] == ns, (row, every[number])
        assert set(every[number]) <= set(shlex.split(row["command"])), (row, every[number])
        if model.startswith("gpt2"):
            check_command(row, model, budget)
        assert abs(row["rate"] * row["step_ns"] / 1e9 / (batch * 64) - 1) < 1e-12, row
    assert table["planned"] + table["slower"] + table["too_large"] + table["impossible"] == len(every), table
    assert len(fits) >= table["planned"] and table["untried"] == 0, (table, len(fits))
    assert kinds <= {kind for kind in ("slower", "too_large", "impossible") if table[kind]}, table
    assert {name: table[name] for name in ("ranks", "batch", "unit", "cut_short")} == {
        "ranks": ranks, "batch": batch, "unit": "tokens", "cut_short": False}
    check_command(table["best"][0], model, budget)
    check_chosen("chosen.plan", "typed.plan", f"--ranks {ranks}")
    return table, single


def check_refusal(model, ranks, batch):
    """The smallest budget of all, at which there is a plan."""
    def smallest(budget):
        done = must(call("compile", model, *GPU, "--ranks", str(ranks), "--global-batch", str(batch), "--budget", budget,
                         "--format", "json", "-o", "none.plan"), 3)
        assert not os.path.exists("none.plan") and "error: no division fits; the smallest, --" in done.stderr, done.stderr
        return json.loads(done.stdout)["smallest_budget_bytes"]

    least = smallest("1MB")
    every = [compile_one(model, "1MB", batch, options) for options in all_divisions(ranks, batch)]
    assert least == min(made["smallest_budget_bytes"] for code, made in every if code == 3), least
    assert smallest(str(least - 256)) == least
    assert report(model, "--ranks", str(ranks), "--global-batch", str(batch), "--budget", str(least))["budget_bytes"] == least


def check_microbatches(model, mesh, batch, budget):
    """The best divisor of a rank's batch, in its place among the options; of equals the smaller one."""
    def made(number):
        done = call("compile", model, *GPU, *mesh, "--microbatches", number, "--budget", budget, "--bind", f"batch={batch}",
                    "--format", "json", "-o", f"{number}.plan")
        return json.loads(done.stdout) if done.returncode == 0 else None

    part = batch // (2 if "dp=2" in mesh else 1)
    single = {m: made(str(m)) for m in range(1, part + 1) if part % m == 0}
    best = min((one["step_ns"], m) for m, one in single.items() if one)[1]
    auto = made("auto")
    assert [row["microbatches"] for row in auto["divisions"]["best"]][0] == best == auto["microbatches"], (best, auto)
    check_chosen("auto.plan", f"{best}.plan", "--microbatches auto")
    assert auto["divisions"]["count"] == len(single), auto
    text = call.text("compile", model, *GPU, *mesh, "--microbatches", "auto", "--budget", budget, "--bind", f"batch={batch}",
                     "-o", "auto.plan")
    assert re.search(rf"^Loss and gradients have the bits of .*--microbatches {best}$", text, re.M), text
    return best


def check_pieces():
    """A division that fits only with its gradients in pieces."""
    call.must("graph", "gpt2-124m", "--layers", "1", "--batch", "2", "--seq", "64", "-o", "table.fbs")
    options = ("--mesh", "dp=2", "--zero", "1", "--exchange-size", "64MiB")
    budget = compile_one("table.fbs", "1MB", 2, options)[1]["smallest_budget_bytes"]
    table, _ = check("table.fbs", 2, 2, budget, {"too_large"}, "--mesh", "dp=2", every=[
        options_of(2, 1, False, zero, 1) for zero in (0, 1, 3)])
    row = next(row for row in table["best"] if row["zero"] == 1)
    made = call.text("compile", *shlex.split(row["command"])[1:], "-o", "typed.plan")
    assert "note: gradients are exchanged in pieces of 67.1 MB: in larger ones nothing fits" in made, made


def check_given(model):
    """Where ranks and microbatches are given, no number of parts was chosen."""
    given = ["--ranks", "2", "--mesh", "dp=2", "--microbatches", "2", "--budget", "40MB"]
    best = report(model, *given)["divisions"]["best"][0]
    call.must("compile", *shlex.split(best["command"])[1:], "-o", "typed.plan")
    assert read("chosen.plan") == read("typed.plan")
    for open_mesh in (given[:2] + given[4:], given[:4] + given[6:]):
        report(model, *open_mesh)
        assert '"chosen_by": "--ranks 2"' in fields("chosen.plan"), open_mesh


def check_errors(model):
    done = must(call("compile", model, "--arch", "none", "--ranks", "3", "--budget", "1GB", "-o", "none.plan"), 2)
    rest = done.stderr.splitlines()[1:]
    assert rest[:1] == ["  not possible: --mesh dp=3 --microbatches 1: batch 8 is not divisible by 3 ranks along dp"], done.stderr
    assert re.match("  not possible: --mesh tp=3 --microbatches 1: value .* 3 ranks along tp", rest[1]), done.stderr
    for arguments, message in (
            (["--ranks", "4"], "--ranks needs --budget"),
            (["--microbatches", "auto"], "--microbatches auto needs --budget"),
            (["--ranks", "4", "--budget", "1GB", "--bind", "batch=auto"], "--ranks and auto in --bind exclude each other"),
            (["--ranks", "4", "--budget", "1GB", "--mesh", "dp=2"], "--mesh dp=2 has 2 ranks, --ranks 4 has another number"),
            (["--ranks", "257", "--budget", "1GB"], "--ranks 257 is no product of two axes of at most 256 ranks"),
            (["--ranks", "3", "--budget", "1GB", "--mesh", "dp=3"], f"{model}: batch 8 is not divisible by 3 ranks along dp"),
            (["--global-batch", "8", "--bind", "batch=8"], "--global-batch and batch in --bind exclude each other"),
            (["--global-batch", "8", "--bind", "seq=32,batch=auto"], "--global-batch and batch in --bind exclude each other"),
            (["--microbatches", "all"], "--microbatches 'all' is not an integer (accepted: 1..65536|auto)")):
        done = must(call("compile", model, "--target", "h100-sxm", "--arch", "none", "-o", "none.plan", *arguments), 2)
        assert message in done.stderr and not os.path.exists("none.plan"), (message, done.stderr)


def check_cut_short():
    """A table that is not the whole one says that its rows may be slower than the plans of their commands."""
    call.must("graph", "gpt2-124m", "--batch", "64", "--seq", "512", "-o", "deep.fbs")
    for limit in (f"{2**k * 20}ms" for k in range(8)):
        done = call("compile", "deep.fbs", *GPU, "--ranks", "16", "--budget", "8GB", "--time-limit", limit, "-o", "cut.plan")
        if done.returncode == 0:
            break
    said = "; the search was cut short: a command may make a faster plan than its row says\n"
    assert done.returncode == 0 and said in done.stdout, (limit, done)


def check_limit(model):
    """A search that is ended has the best so far, planned in full, or nothing."""
    options = ["--ranks", "4", "--global-batch", "8", "--budget", "34.6MB"]
    done = call("compile", model, *GPU, *options, "--time-limit", "1ms", "-o", "late.plan")
    assert (done.returncode, os.path.exists("late.plan")) in ((7, False), (0, True)), done
    done = call("compile", model, *GPU, *options[:-1], "1MB", "--time-limit", "1ms", "-o", "none.plan")
    tried = "no division fits; the smallest that there was time for, --mesh"
    assert done.returncode == 7 or done.returncode == 3 and tried in done.stderr, done
    check_cut_short()
    whole = call.must("compile", model, *GPU, *options, "--time-limit", "10min", "-o", "limited.plan")
    assert "--time-limit" not in whole.stdout and "cut short" not in whole.stdout, whole.stdout


@scratch()
def main():
    sizes = ["--layers", "2", "--batch", "8", "--seq", "64", "--dtype", "bf16"]
    call.must("graph", "gpt2-tiny", *sizes, "-o", "gpt2 tiny.fbs")
    call.must("graph", "llama-tiny", *sizes, "-o", "llama.fbs")
    table, single = check("gpt2 tiny.fbs", 4, 8, 34_600_000, {"slower", "too_large"})
    for row in table["best"]:
        for manual in row["manuals"]:
            check_manual(row, manual, "gpt2 tiny.fbs", 34_600_000, 4, 8)
    systems = {manual["system"] for row in table["best"] for manual in row["manuals"]}
    assert systems == {"megatron", "torchtitan"}, table
    codes = [code for code, _ in single]
    assert table["too_large"] == codes.count(3) and table["impossible"] == codes.count(4) + codes.count(2), (table, codes)
    check("llama.fbs", 4, 4, 34_400_000, {"too_large", "impossible"})
    check("llama.fbs", 2, 4, 34_900_000, {"impossible"}, "--zero", "1", every=list(all_divisions(2, 4, (1,))))
    check_pieces()
    text = call.text("compile", "llama.fbs", *GPU, "--ranks", "3", "--global-batch", "6", "--budget", "1GB", "-o",
                     "chosen.plan")
    assert re.search(r"^not possible: --mesh tp=3 --microbatches 1: value .* 3 ranks along tp$", text,
                                                    re.M), text
    check_refusal("llama.fbs", 2, 4)
    assert check_microbatches("llama.fbs", ["--mesh", "dp=2", "--zero", "3"], 8, "35MB") > 1
    check_microbatches("gpt2 tiny.fbs", [], 6, "40MB")
    check_given("llama.fbs")
    check_errors("llama.fbs")
    check_limit("llama.fbs")


main()
