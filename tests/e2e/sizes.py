# SPDX-License-Identifier: Apache-2.0
"""remat-compile --bind SYMBOL=auto: the plan is that of the value chosen, the table is what single
compilations say, and no value that fits is faster, also of those that were ruled out unplanned.

    sizes.py BUILD_DIRECTORY SOURCE_DIRECTORY"""
import functools
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INFEASIBLE, INVALID, Tools, scratch

tool, source = Tools(sys.argv[1]), os.path.abspath(sys.argv[2])


def read(path):
    return pathlib.Path(path).read_bytes()


def compile_with(bind, options, plan, code=0):
    """None where it is refused with another exit code."""
    done = tool.must("compile", "m.fbs", "--bind", bind, "-o", plan, "--format", "json", *options, code=code)
    return json.loads(done.stdout) if done.returncode == 0 else None


def check_table(sizes, bind, tokens, options, single):
    """Each row against a compilation of its own; the first that does not fit says so."""
    fits = [row for row in sizes["tried"] if row["fits"]]
    begin = sizes["tried"].index(fits[0])
    assert fits == sizes["tried"][begin:begin + len(fits)]
    for row in fits[:: max(1, len(fits) // 4)]:
        report = single(row["value"])
        for key in ("policy", "step_ns", "peak_bytes"):
            assert row[key] == report[key], (row, key, report[key])
        assert abs(row["rate"] / (tokens(row["value"]) * 1e9 / row["step_ns"]) - 1) < 1e-12, row
    for row in sizes["tried"]:
        if not row["fits"]:
            message = tool.text("compile", "m.fbs", "--bind", bind(row["value"]), "-o", "row.plan", *options,
                                code=4 if "why" in row else 3)
            assert row.get("why", "") in message, (row, message)
    assert sizes["chosen"] == max(fits, key=lambda row: (row["rate"], -row["value"]))["value"], sizes


def check(preset, model, bind, tokens, low, high, multiple, options):
    tool.text("graph", preset, "-o", "m.fbs", *model)
    return check_range(preset, bind, tokens, low, high, multiple, options)


def check_kinds(sizes, possible):
    """Every value below the first that does not fit was tried or is slower, but for those that the graph
    cannot have. How many are slower."""
    tried = [row["value"] for row in sizes["tried"]]
    slower, untried, below, above = ([v for v in possible if any(low <= v <= high for low, high in sizes[key])]
                                     for key in ("slower", "untried", "below", "above"))
    assert sorted(tried + slower + untried + below + above) == possible and not untried, "a value is left out, or there twice"
    no = {row["value"] for row in sizes["tried"] if not row["fits"]}
    assert all(any(v < other for other in no) for v in below) and all(any(other < v for other in no) for v in above)
    fits = [row["value"] for row in sizes["tried"] if row["fits"]] + slower
    assert tried == sorted(set(tried)) and max(below, default=0) < min(fits)
    assert min(above, default=max(possible) + 1) > next((v for v in tried if v > max(fits)), max(possible))
    return len(slower)


def check_range(preset, bind, tokens, low, high, multiple, options):
    report = compile_with(bind(f"auto:{low}..{high}"), options, "auto.plan")
    sizes = report["sizes"]
    single = functools.cache(lambda value: compile_with(bind(value), options, f"{value}.plan", code=(0, INFEASIBLE, INVALID)))
    possible = [v for v in range(low, high + 1) if v % multiple == 0]
    assert sizes["values"] == len(possible) and not sizes["cut_short"]
    slower = check_kinds(sizes, possible)
    explicit = single(sizes["chosen"])
    assert read("auto.plan") == read(f"{sizes['chosen']}.plan"), "another plan than that of the value chosen"
    compile_with(bind(f"auto:{low}..{high}"), options, "again.plan")
    assert read("auto.plan") == read("again.plan")
    check_table(sizes, bind, tokens, options, single)
    best, rate = 0, tokens(sizes["chosen"]) / explicit["step_ns"]
    for value in possible:
        report = single(value)
        if report:
            best = max(best, tokens(value) / report["step_ns"])
        elif best > 0:
            break
    print(f"{preset} {bind('auto')}: {len(sizes['tried'])} of {len(possible)} values tried, {slower} slower, "
          f"{sizes['chosen']} chosen, the best of all is {100 * (best / rate - 1):.3f} % faster")
    assert best <= rate
    return slower


def write_long():
    """A graph that reads eight tokens at least."""
    text = tool.text("graph", "mlp-tiny", "--text")
    dead = "%eight : f32[batch,8,32] = slice %embed { axis = 1, begin = 0, end = 8 } phase forward\n"
    assert text.count("parameter %h.0.fc.weight") == 1
    with open("m.fbs", "w", encoding="utf-8") as file:
        file.write(text.replace("parameter %h.0.fc.weight", dead + "parameter %h.0.fc.weight"))


def check_words(tiny):
    """What rates and memory are of, and why a value is not in the table."""
    tool.text("graph", "gpt2-tiny", "-o", "m.fbs")
    text = tool.text("compile", "m.fbs", "--bind", "batch=auto:1..40", "--budget", "140MB", "-o", "auto.plan")
    assert "\n5 of the 40 values from 1 to 40 were tried\nnot tried, as 3 does not fit: 5-7, 9-40\n\n" in text, text
    text = tool.text("compile", "m.fbs", "--bind", "batch=auto:2..4", "--mesh", "dp=2", "-o", "auto.plan", *tiny)
    assert "\nbatch and tokens/s are of all 2 ranks, the peak is of one\n" in text, text
    text = tool.text("compile", "m.fbs", "--bind", "seq=auto:120..150", "-o", "auto.plan", *tiny)
    assert re.search(r"\nnot tried, as 129 is not possible: 13\d", text), text
    fixed = tool.text("graph", "mlp-tiny", "--text").replace("symbol seq = 16\n", "").replace("seq", "16")
    with open("m.fbs", "w", encoding="utf-8") as file:
        file.write(fixed)
    text = tool.text("compile", "m.fbs", "--bind", "batch=auto:1..3", "-o", "auto.plan", *tiny)
    assert "     sequences/s  " in text and "batch/s" not in text, text


def check_impossible(tiny):
    """Sizes that the graph cannot have, above what it can and below."""
    check("gpt2-tiny", ["--batch", "3"], lambda v: f"seq={v}", lambda v: 3 * v, 90, 140, 1, tiny)
    check("gpt2-tiny", ["--batch", "3"], lambda v: f"seq={v}", lambda v: 3 * v, 120, 131, 1, tiny)
    text = tool.text("compile", "m.fbs", "--bind", "seq=auto:1..300", *tiny)
    row = 'not possible: node "embed.position" (slice): range [0, 129) of an axis of length 128'
    assert f"\n       129  {row}" in text, text
    os.remove("m.plan")
    message = tool.text("compile", "m.fbs", "--bind", "seq=auto:200..300", *tiny, code=4)
    assert 'm.fbs: no seq from 200 to 300 is possible; 200: node "embed.position"' in message, message
    write_long()
    for low, high in ((1, 12), (1, 40), (6, 22)):
        check_range("eight tokens at least", lambda v: f"batch=64,seq={v}", lambda v: 64 * v, low, high, 1, tiny)
    message = tool.text("compile", "m.fbs", "--bind", "batch=64,seq=auto:1..50", "--budget", "134.3MB", code=3)
    assert "the smallest seq that is possible, 8, does not fit: budget" in message, message
    assert not os.path.exists("m.plan")


def check_curve(options):
    """The curve and its picture are of the value chosen."""
    chosen = compile_with("batch=auto:1..6", [*options, "--curve", "auto.svg"], "auto.plan")["sizes"]["chosen"]
    compile_with(f"batch={chosen}", [*options, "--curve", "chosen.svg"], "auto.plan")
    assert read("auto.svg") == read("chosen.svg") and f"batch {chosen}, sequence 32".encode() in read("auto.svg")


def check_gpu():
    """Where rates fall and rise from one batch to the next: rows that are not aligned, ranks, measured kernels."""
    gpu = ["--target", "h100-sxm", "--arch", "none", "--reserve", "0"]
    profile = ["--profile", os.path.join(source, "schemas/devices/h100-sxm.profile.json")]
    bf16 = ["--dtype", "bf16"]
    assert check("gpt2-tiny", ["--seq", "63", *bf16], lambda v: f"batch={v}", lambda v: 63 * v, 1, 24, 1,
                 gpu + ["--budget", "50MB"]) > 0
    assert check("gpt2-tiny", ["--seq", "61", *bf16], lambda v: f"batch={v}", lambda v: 61 * v, 2, 36, 2,
                 gpu + ["--mesh", "dp=2", "--zero", "1", "--budget", "55MB"]) > 0
    check("gpt2-tiny", ["--seq", "65", *bf16], lambda v: f"batch={v}", lambda v: 65 * v, 1, 18, 1,
          gpu + profile + ["--budget", "48MB"])
    check("gpt2-tiny", ["--seq", "63", *bf16], lambda v: f"batch={v}", lambda v: 63 * v, 1, 18, 1,
          gpu + ["--ac-mode", "full", "--budget", "45MB"])


@scratch()
def main():
    tiny = ["--budget", "160MB"]
    check("gpt2-tiny", [], lambda v: f"batch={v}", lambda v: 128 * v, 1, 16, 1, tiny)
    check("gpt2-tiny", ["--seq", "64"], lambda v: f"batch={v}", lambda v: 64 * v, 1, 24, 1, tiny)
    check("gpt2-tiny", [], lambda v: f"seq={v},batch=3", lambda v: 3 * v, 96, 128, 1, tiny)
    check("llama-tiny", ["--dtype", "bf16"], lambda v: f"seq=96,batch={v}", lambda v: 96 * v, 2, 30, 4,
          ["--microbatches", "4", "--budget", "142MB"])
    check("encdec-tiny", ["--seq", "32"], lambda v: f"source_seq=16,batch={v},seq=24", lambda v: 40 * v, 1,
          6, 1, tiny + ["--ac-mode", "full"])
    check_curve(["--budget", "144MB"])
    check_gpu()
    check_impossible(tiny)
    check_words(tiny)
    tool.text("graph", "encdec-tiny", "--seq", "32", "-o", "m.fbs")
    message = tool.text("compile", "m.fbs", "--bind", "batch=auto:3..8", "--budget", "135MB", code=3)
    assert "the smallest batch, 3, does not fit: budget 135000000 B is too small" in message, message
    assert not os.path.exists("m.plan")


main()
