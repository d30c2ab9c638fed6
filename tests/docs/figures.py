# SPDX-License-Identifier: Apache-2.0
"""Figures in the prose of documents are those that a command prints now, or that a recorded table has. Each row of FIGURES
is a sentence with {} for its figures, and what gives them.

    figures.py BUILD_DIRECTORY [--update]

--update writes them into the documents; tests/renew.sh does."""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, TEXT, Tools, check, finish, scratch

tool = Tools(sys.argv[1])
NUMBER = r"\d[\d.,]*"


def size(size_bytes, digits=3):
    exponent = (len(str(size_bytes)) - 1) // 3
    return f"{size_bytes / 1000**exponent:#.{digits}g}".rstrip(".")


def planned(model, *options):
    """The report of its plan."""
    tool.text("graph", *model.split(), "-o", "m.fbs")
    return tool.json("compile", "m.fbs", "--arch", "none", "--format", "json", "-o", "m.plan", *options)


def all_saved(model, *options, digits=3):
    made = planned(model, *options)
    return [size(made["reserve_bytes"] + made["arena_bytes"], digits)]


def smallest(model, *options):
    """What a refusal of a byte names, in bytes."""
    tool.text("graph", *model.split(), "-o", "m.fbs")
    said = tool.text("compile", "m.fbs", "--arch", "none", "--budget", "1", "-o", "m.plan", *options, code=3)
    return int(re.search(r"needs (\d+) B", said)[1])


def cells(path, row):
    """Those of the one row of a recorded table that begins so, after that."""
    rows = [line for line in (ROOT / path).read_text(encoding="utf-8").splitlines() if line.startswith(f"| {row} |")]
    check(len(rows) == 1, f"{path} has {len(rows)} rows {row}")
    return [cell.strip() for cell in rows[0][len(f"| {row} |"):].strip(" |").split(" | ")]


def capacity():
    return [size(json.loads((ROOT / "schemas/devices/h100-sxm.json").read_text())["capacity_bytes"])]


GPT2 = "gpt2-124m --batch 8 --seq 1024 --dtype bf16"
PADDED = f"{GPT2} --make-vocab-size-divisible-by 64"
LLAMA_1B = "llama3.2-1b --batch 2 --seq 2048 --dtype bf16"
STEPS = "docs/tables/gpu.md"


def step_ms(model, *options, digits=1):
    return f"{planned(model, '--target', 'h100-sxm', *options)['step_ns'] / 1e6:.{digits}f}"


def rounded(text):
    return f"{float(text):.1f}"


def without_padding():
    return list(re.match(rf"({NUMBER}) ms; PyTorch {NUMBER} eager, ({NUMBER}) compiled",
                         cells("docs/benchmarks.md", "GPT-2 124M without padding ([why](cost_model.md#products))")[1]).groups())


def step_on_gpu():
    """The constants of the description were fitted after the recorded run, so its prediction is today's."""
    ours, theirs = (cells(STEPS, f"gpt2-124m, {who}, fp32 masters and moments")[1] for who in ("remat", "PyTorch 2.11.0+cu130 compile"))
    return [step_ms(PADDED), rounded(ours), rounded(theirs), *without_padding()]


def over_full():
    """Of Llama 3 8B: the most tokens per second of "every 3" beside "full" and "none", and of "none" beside "full"."""
    table = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8").split("<!-- batch_table.py")[1]
    most = {row: float(re.search(rf"^\| {row} \|(?:[^|]*\|){{4}} (\d+) ", table, re.M)[1]) for row in ("none", "every 3", "full")}
    return [f"{100 * (most['every 3'] / most['full'] - 1):.1f}", f"{100 * (1 - most['every 3'] / most['none']):.1f}",
            f"{100 * (most['none'] / most['full'] - 1):.1f}"]


LLAMA_3B = "llama3.2-3b --batch 1 --seq 4096 --dtype bf16"
FIGURES = [
    ("README.md", "saving everything takes {} GB", lambda: all_saved("llama3.2-1b --batch 32 --seq 2048 --dtype bf16", "--target", "h100-sxm")),
    ("README.md", "an H100 has {} GB", capacity),
    ("docs/cli.md", "which has {} GB", capacity),
    ("README.md", "on a text of {} kB", lambda: [size(TEXT.stat().st_size)]),
    ("README.md", "With everything saved it needs {} GB", lambda: all_saved("gpt2-124m --batch 2 --seq 512", digits=2)),
    ("README.md", "is predicted to take {} ms and took {} ms, PyTorch's compiled step {} ms; without padding {} and {} ms", step_on_gpu),
    ("docs/benchmarks.md", "puts *every 3* only {} % over *full*, and {} % below *none*, which is {} % over *full*", over_full),
    ("docs/benchmarks.md", "fitted since, {} and {} ms", lambda: [step_ms(model, digits=2) for model in (PADDED, LLAMA_1B)]),
    ("docs/benchmarks.md", "`--profile h100-sxm` predicts {} and {} ms for the two models",
     lambda: [step_ms(model, "--profile", "h100-sxm") for model in (PADDED, LLAMA_1B)]),
    ("docs/cost_model.md", "A step of GPT-2 124M took {} ms, predicted {}, and with `remat-graph --make-vocab-size-divisible-by 64` {}, predicted {} (medians)",
     lambda: [without_padding()[0], step_ms(GPT2), rounded(cells(STEPS, "gpt2-124m, remat, fp32 masters and moments")[2]), step_ms(PADDED)]),
    ("docs/memory.md", "the smallest plan that was found takes {} GB", lambda: [size(smallest(LLAMA_3B, "--target", "rtx-4090"))]),
    ("docs/memory.md", "with one of `--master none` and `--moments bf16` {} GB",
     lambda: [size(min(smallest(f"{LLAMA_3B} {option}", "--target", "rtx-4090") for option in ("--master none", "--moments bf16")))]),
    ("docs/ranks.md", "nothing smaller than {} GB was found",
     lambda: [size(smallest("llama3-8b --batch 16 --seq 8192 --dtype bf16", "--target", "h100-sxm", "--mesh", "dp=8", "--zero", "0"), 4)]),
]


@scratch()
def main():
    for document, sentence, figures in FIGURES:
        path = ROOT / document
        text = path.read_text(encoding="utf-8")
        pattern = re.escape(sentence).replace(r"\{\}", rf"({NUMBER})").replace(r"\ ", r"\s+")
        found, expected = list(re.finditer(pattern, text)), figures()
        check(len(found) == 1, f"{document} has {len(found)} times \"{sentence}\"")
        if len(found) != 1:
            continue
        shown = list(found[0].groups())
        if "--update" in sys.argv:
            for group in range(len(shown), 0, -1):
                text = text[:found[0].start(group)] + expected[group - 1] + text[found[0].end(group):]
            path.write_text(text, encoding="utf-8")
        else:
            check(shown == expected, f"{document}: \"{sentence}\" has {', '.join(shown)}, and should have {', '.join(expected)}")
    finish()


main()
