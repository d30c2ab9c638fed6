# SPDX-License-Identifier: Apache-2.0
"""Figures in the prose of documents are those that a command prints now, or that a recorded run has: a table, the output
that the document shows, or thresholds.txt. Each row of FIGURES is a sentence with {} for its figures, and what gives them.
Every other figure with a unit is in a row of constants.txt, with the reason why no run gives it.

    figures.py BUILD_DIRECTORY [--update]

--update writes them into the documents; tests/renew.sh does."""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, TEXT, Tools, check, faults, finish, scratch

tool = Tools(sys.argv[1])
NUMBER = r"\d(?:[\d.,]*\d)?"


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


def shown(path, pattern):
    """What the document's one place with the pattern has, such as in the output of a command."""
    found = re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"), re.M)
    check(len(found) == 1, f"{path} has {len(found)} times {pattern}")
    return found[:1]


def threshold(name, digits=3, factor=1):
    figure = shown("tests/thresholds.txt", rf"^(\S+) +{re.escape(name)}$")[0]
    return f"{factor * float(figure):#.{digits}g}"


def device(name):
    return json.loads((ROOT / f"schemas/devices/{name}.json").read_text())


def capacity():
    return [size(device("h100-sxm")["capacity_bytes"])]


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


def percent(ratios):
    """How far they are from 1: the least and the most."""
    apart = [round(100 * abs(float(ratio) - 1)) for ratio in ratios]
    return [str(min(apart)), str(max(apart))]


def off_on_the_cpu():
    rows = re.findall(r"^\| ([\w-]+) \| .* \| ([\d.]+) \|$", (ROOT / "docs/tables/cpu_predictions.md").read_text(), re.M)
    return [percent(ratio for model, ratio in rows if (model == "gpt2-124m") == first)[1] for first in (True, False)]


def torchtitan(column):
    return percent(cells("docs/benchmarks.md", row)[column] for row in ("8B, selective, every 2nd layer", "8B, selective, by op", "70B, full"))


def plans_on_gpu():
    """Of the summary between its marks, plans of the profile: predicted over measured."""
    table = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8").split("<!-- first ")[1]
    return percent(float(predicted) / float(measured)
                   for predicted, measured in re.findall(r"^\| [\w-]+ \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \|$", table, re.M))


def over_price():
    """Of the recorded steps the medians over today's prices."""
    return [f"{float(cells(STEPS, f'{name}, remat, fp32 masters and moments')[2]) / float(step_ms(model, digits=3)):.2f}"
            for name, model in (("gpt2-124m", PADDED), ("llama-1b", LLAMA_1B))]


def peers_memory():
    h100 = device("h100-sxm")
    return [f"{size_bytes / 1e9:.3f}" for size_bytes in (h100["links"]["within_peer_bytes"], h100["reserve_bytes"])]


def flops_of_a_token():
    """Of GPT-2 124M, in millions: 6 N + 12 L H Q T, and those of the report."""
    made = planned("gpt2-124m --batch 1 --seq 1024")
    parameters = 50257 * 768 + 12 * (12 * 768 * 768 + 13 * 768) + 2 * 768
    return [f"{flops / 1e6:.0f}" for flops in (6 * parameters + 12 * 12 * 768 * 1024, made["model_flops"] / 1024)]


def full_groups():
    """32 latencies of a transfer within and between machines, in MB."""
    links = device("h100-sxm")["links"]
    sizes = (32e-9 * links[f"{where}_latency_ns"] * links[f"{where}_bytes_per_s"] for where in ("within", "between"))
    return [f"{float(f'{size_bytes / 1e6:.2g}'):g}" for size_bytes in sizes]


def aligned_gradient():
    apart, aligned = (float(cells(STEPS, f"product logits' weight gradient ld {ids}")[0]) for ids in (50257, 50304))
    return [f"{apart / aligned:.1f}"]


def five_saved():
    made = tool.json("compile", ROOT / "docs/examples/five.txt", "--arch", "none", "--format", "json", "-o", "five.plan")
    return [size(made["arena_bytes"])]


def several_machines(model):
    """The mean of its ratios on several machines over those on one."""
    row = rf"^\| llm-foundry benchmarks \| {model} \| H100-80 SXM \|(?: [\d.]+ \|){{5}} ([\d.]+) \| (?:yes|no) \|$"
    return shown("docs/tables/published.md", row)[0]


BENCHMARKS = "docs/benchmarks.md"
LLAMA_3B = "llama3.2-3b --batch 1 --seq 4096 --dtype bf16"
FIGURES = [
    ("README.md", "saving everything takes {} GB", lambda: all_saved("llama3.2-1b --batch 32 --seq 2048 --dtype bf16", "--target", "h100-sxm")),
    ("README.md", "an H100 has {} GB", capacity),
    ("docs/cli.md", "which has {} GB", capacity),
    ("README.md", "on a text of {} kB", lambda: [size(TEXT.stat().st_size)]),
    ("README.md", "With everything saved it needs {} GB", lambda: all_saved("gpt2-124m --batch 2 --seq 512", digits=2)),
    ("README.md", "is predicted to take {} ms and took {} ms, PyTorch's compiled step {} ms; without padding {} and {} ms", step_on_gpu),
    ("README.md", "prediction was within {} % of the measured time, for other models within {} %", off_on_the_cpu),
    (BENCHMARKS, "rows are predicted {} % shorter", lambda: percent([cells(BENCHMARKS, "machines | one")[1]])[:1]),
    (BENCHMARKS, "Where exposed transfers are {} % of the step or more",
     lambda: shown(BENCHMARKS, r"^\| exposed transfers \| (\d+) % and more \|")),
    (BENCHMARKS, "are predicted {} times as long as published", lambda: [cells(BENCHMARKS, "exposed transfers | 40 % and more")[1]]),
    (BENCHMARKS, "of MPT 13B they make it {} times and of MPT 30B {} times as large",
     lambda: [several_machines(model) for model in ("MPT-13b", "MPT-30b")]),
    (BENCHMARKS, "predicted {} to {} % faster than the whole published step", lambda: torchtitan(6)),
    (BENCHMARKS, "predicted rates are {} to {} % higher", lambda: torchtitan(3)),
    (BENCHMARKS, "assumes {} GB/s between machines", lambda: [f"{device('a100-80')['links']['between_bytes_per_s'] / 1e9:g}"]),
    (BENCHMARKS, "and so {} to {} % high", plans_on_gpu),
    ("docs/cost_model.md", "{} GB for each of 7 peers beside the {} GB that one rank took", peers_memory),
    ("docs/cost_model.md", "took {} and {} times their prices", over_price),
    ("docs/cost_model.md", "theirs is {} Mflop a token and this {}", flops_of_a_token),
    ("docs/cuda.md", "the weight's gradient {} times as fast", aligned_gradient),
    ("docs/planning.md", "about `p` and `y`, of {} MB each", lambda: shown("docs/planning.md", r"^save +y .* ([\d.]+) MB ")),
    ("docs/planning.md", "the arena takes {} MB, most", five_saved),
    ("docs/problems.md", "| share of floors that are the least peak | 1 | {};", lambda: [threshold("solve_oracle share of exact floors, extended")]),
    ("docs/problems.md", "mean bound/optimum | {} | {} |",
     lambda: [threshold(f"solve_oracle bound by branches / optimum, {kind}") for kind in ("bare", "extended")]),
    ("docs/problems.md", "{} % of small problems are optimal, and the optima take {} % of the plans' time",
     lambda: [threshold(f"solve_oracle {what}, not exhaustive", factor=100) for what in ("share of optimal plans", "optimum / plan")]),
    ("docs/ranks.md", "of the time: {} MB on 8 H100s with NVLink, {} MB between machines", full_groups),
    ("docs/ranks.md", "{} GB for 8 ranks on H100s", lambda: [size(7 * device("h100-sxm")["links"]["within_peer_bytes"], 2)]),
    (BENCHMARKS, "puts *every 3* only {} % over *full*, and {} % below *none*, which is {} % over *full*", over_full),
    (BENCHMARKS, "fitted since, {} and {} ms", lambda: [step_ms(model, digits=2) for model in (PADDED, LLAMA_1B)]),
    (BENCHMARKS, "`--profile h100-sxm` predicts {} and {} ms for the two models",
     lambda: [step_ms(model, "--profile", "h100-sxm") for model in (PADDED, LLAMA_1B)]),
    ("docs/cost_model.md", "A step of GPT-2 124M took {} ms, predicted {}, and with `remat-graph --make-vocab-size-divisible-by 64` {}, predicted {} (medians)",
     lambda: [without_padding()[0], step_ms(GPT2), rounded(cells(STEPS, "gpt2-124m, remat, fp32 masters and moments")[2]), step_ms(PADDED)]),
    ("docs/memory.md", "the smallest plan that was found takes {} GB", lambda: [size(smallest(LLAMA_3B, "--target", "rtx-4090"))]),
    ("docs/memory.md", "with one of `--master none` and `--moments bf16` {} GB",
     lambda: [size(min(smallest(f"{LLAMA_3B} {option}", "--target", "rtx-4090") for option in ("--master none", "--moments bf16")))]),
    ("docs/ranks.md", "nothing smaller than {} GB was found",
     lambda: [size(smallest("llama3-8b --batch 16 --seq 8192 --dtype bf16", "--target", "h100-sxm", "--mesh", "dp=8", "--zero", "0"), 4)]),
]


UNIT = r"(?:%|times|[num]?s|[kMGT]?B(?:/s)?|[KMGT]iB|bytes|[kMGT]?flop(?:/s)?|TFLOP/s|tokens/s|seconds|minutes|hours|min|h)"
FIGURE = re.compile(rf"(?<![\w.,^/-])\d[\d,]*(?:\.\d+)?(?:(?:\s+(?:to|and|or)\s+|-)\d[\d,]*(?:\.\d+)?)*\s{UNIT}(?!\w)")
# What is not prose: what scripts write between their marks, blocks, rows of tables, commands and targets of links.
OTHER = re.compile(r"^<!-- (\S+) begins -->.*?^<!-- \1 ends -->|^```.*?^```|^(?:\||    )[^\n]*|`[^`]*`|\]\([^)]*\)", re.M | re.S)


def find_sentence(text, sentence):
    return list(re.finditer(re.escape(sentence).replace(r"\{\}", rf"({NUMBER})").replace(r"\ ", r"\s+"), text))


def find_strays(text, sentences):
    """(line, figure) of each figure in prose that is in none of the sentences."""
    spans = [found.span() for sentence in sentences for found in find_sentence(text, sentence)]
    prose = OTHER.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return [(text.count("\n", 0, found.start()) + 1, " ".join(found[0].split())) for found in FIGURE.finditer(prose)
            if not any(begin <= found.start() < end for begin, end in spans)]


def check_strays():
    planted = "It takes 12 ms, 3\nto 4 % less than\n`15 ms`.\n\n    16 ms\n\n| 17 ms |\n\n```console\n18 ms\n```\n"
    found = find_strays(planted, ["takes {} ms"])
    check(found == [(1, "3 to 4 %")], "of the planted figures these are found:", found)
    rows = [[cell.strip() for cell in line.split(" | ")]
            for line in (pathlib.Path(__file__).parent / "constants.txt").read_text().splitlines() if line[:1] != "#"]
    constants = {(row[0], figure) for row in rows for figure in row[1].split("; ")}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        document = str(path.relative_to(ROOT))
        strays = find_strays(path.read_text(encoding="utf-8"), [row[1] for row in FIGURES if row[0] == document])
        listed = {figure for name, figure in constants if name == document}
        faults.extend(f"FAILED: {document}:{line}: \"{figure}\" is given by no row of FIGURES or constants.txt"
                      for line, figure in strays if figure not in listed)
        faults.extend(f"FAILED: constants.txt: {document} has no {figure}" for figure in sorted(listed - {figure for _, figure in strays}))


@scratch()
def main():
    for document, sentence, figures in FIGURES:
        path = ROOT / document
        text = path.read_text(encoding="utf-8")
        found, expected = find_sentence(text, sentence), figures()
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
    check_strays()
    finish()


main()
