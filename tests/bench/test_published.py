# SPDX-License-Identifier: Apache-2.0
"""bench_published.py: what rows of the table of published steps are typed as, why others are not, and its statistics
against figures found by hand.

    test_published.py"""
import math

import bench_published as bench

MPT = "MPT-{} ({}, heads of 128 or 64, MLP 4x, vocab 50368, ALiBi, no biases)"
ROW = {"source": "s", "model": MPT.format("7b", "32x4096"), "hardware": "H100-80 SXM", "gpus": "256",
       "parallelism": "FSDP FULL_SHARD", "micro_batch": "6", "global_batch": "1536", "seq": "2048",
       "precision": "amp_bf16", "recompute": "none", "offload": "", "tokens_s_gpu": "10119"}
TYPED = [
    ({}, "gpt2 --layers 32 --width 4096 --vocab 50368 --heads 32 --context 2048 --no-bias --seq 2048 --batch 1536 --dtype bf16",
     "--target h100-sxm --ac-mode none --arch none --mesh dp=256 --zero 3", 6),
    ({"model": MPT.format("125m", "12x768"), "gpus": "8", "global_batch": "96", "parallelism": "FSDP SHARD_GRAD_OP",
      "hardware": "A100-40 SXM", "recompute": "full (every block)"},
     "gpt2 --layers 12 --width 768 --vocab 50368 --heads 12 --context 2048 --no-bias --seq 2048 --batch 96 --dtype bf16",
     "--target a100-40 --ac-mode full --arch none --mesh dp=8 --zero 1 --microbatches 2", 12),
    ({"model": "Llama2-13B (40x5120, 40 heads, MLP 13824, vocab 32000)", "gpus": "64", "parallelism": "FSDP64",
      "micro_batch": "2", "global_batch": "128", "hardware": "A100-80 SXM", "recompute": "selective, every 2nd layer"},
     "llama --layers 40 --width 5120 --vocab 32000 --heads 40 --hidden 13824 --context 2048 --seq 2048 --batch 128 --dtype bf16",
     "--target a100-80 --ac-mode selective --ac-option 2 --arch none --mesh dp=64 --zero 3", 2),
    ({"model": "Llama3.1-8B", "gpus": "64", "parallelism": "FSDP8 TP8", "micro_batch": "12", "global_batch": "",
      "hardware": "H100-96 HBM2e 500 W", "recompute": "per-op SAC (every second mm)"},
     "llama3-8b --seq 2048 --batch 96 --dtype bf16",
     "--target h100-96 --ac-mode selective --ac-option op --arch none --mesh dp=8,tp=8 --zero 3 --sequence-parallel", 1.5),
    ({"model": "Llama-3.2-1B", "gpus": "1", "parallelism": "-", "micro_batch": "8", "global_batch": ""},
     "llama3.2-1b --seq 2048 --batch 8 --dtype bf16", "--target h100-sxm --ac-mode none --arch none", 8),
]
UNSAID = [({"tokens_s_gpu": ""}, "no time"), ({"hardware": "TPU v4"}, "no description of TPU v4"),
          ({"recompute": "half"}, "no policy half"), ({"offload": "cpu"}, "no policy none, cpu"),
          ({"precision": "fp8"}, "no precision fp8"), ({"parallelism": "PP4"}, "no mesh for PP4 on 256 GPUs"),
          ({"parallelism": "FSDP8 TP8"}, "no mesh for FSDP8 TP8 on 256"), ({"global_batch": "1537"}, "no multiple of 6"),
          ({"model": "Mixtral-8x7B"}, "no model Mixtral-8x7B")]


def check_commands():
    for changes, graph, plan, batch in TYPED:
        assert bench.commands_of({**ROW, **changes}) == (graph.split(), plan.split(), batch), (changes, bench.commands_of({**ROW, **changes}))
    for changes, reason in UNSAID:
        try:
            raise AssertionError(f"{changes}: {bench.commands_of({**ROW, **changes})}")
        except bench.Unsaid as said:
            assert reason in str(said), (changes, said)


def check_statistics():
    mean, spread = bench.geometric([0.5, 2.0])
    assert math.isclose(mean, 1) and math.isclose(spread, 2 ** math.sqrt(2)), (mean, spread)
    assert bench.geometric([0.7]) == (math.exp(math.log(0.7)), 1)
    one = [(1, 10), (2, 30), (3, 20), (4, 40)]  # one of six pairs is discordant
    assert math.isclose(bench.tau([one]), 4 / 6)
    assert bench.tau([[(x, -y) for x, y in one]]) == -bench.tau([one])
    # a tie in x: 5 pairs are concordant, 5 of 6 differ in x, 6 in y
    assert math.isclose(bench.tau([[(1, 1), (2, 3), (2, 2), (3, 4)]]), 5 / math.sqrt(5 * 6))
    # pairs count within a group alone
    assert bench.tau([[(1, 2), (2, 3)], [(100, 1), (200, 0)]]) == 0
    assert bench.tau([[(1, 1)], [(2, 2)]]) is None and bench.tau([[(1, 2), (1, 3)]]) is None


def check_table():
    def row(published, predicted, exposed, gpus=8, model="m"):
        return bench.Row("s", model, "h", gpus, 512, 4, "bf16", "none", published, predicted, exposed)
    rows = [row(100, 200, 0), row(300, 150, 0.5, 16), row(50, 50, 0.2, 8, "other")]
    cells = [list(map(str.strip, line.strip("|").split("|"))) for line in bench.class_table(rows).splitlines()[2:]]
    assert ["all", "", "3", "1.00", "2.00", "0.74", "-1.00"] in cells, cells
    assert ["machines", "several", "1", "2.00", "1.00", "1.00", "–"] in cells, cells
    assert ["exposed transfers", "10 to 40 %", "1", "1.00", "1.00", "0.80", "–"] in cells, cells


def check_across():
    def row(hardware, gpus, ratio, model="m"):
        return bench.Row("s", model, hardware, gpus, 512, 4, "bf16", "none", 100 * ratio, 100, 0)
    rows = [row("a", 8, 0.8), row("a", 8, 0.5), row("a", 16, 0.8), row("b", 4, 0.5), row("b", 64, 0.4), row("c", 8, 3), row("c", 16, 1, "n")]
    assert list(bench.across(rows)) == [("s", "m")]
    (a, b), = bench.across(rows).values()
    assert a[:3] == ("a", 2, 1) and b[:3] == ("b", 1, 1)
    assert math.isclose(a[4] / a[3], 0.8 / math.sqrt(0.4)) and math.isclose(b[4] / b[3], 0.8)
    table, good = bench.across_table(rows)  # sqrt(1.265 * 0.8) = 1.006
    assert good and "1.26 | 1.01 | yes" in table and "0.80 | 1.01 | yes" in table, table
    assert not bench.across_table(rows + [row("b", 64, 0.1)])[1]


def check_order():
    source, model, policies, *_ = bench.ORDER
    for steps, expected in [((3.79, 4.28, 4.30), True), ((3.79, 4.0, 4.0), False), ((3.79, 4.45, 4.45), False), ((3.79, 4.2, 4.3), False)]:
        rows = [bench.Row(source, model, "h", 64, 4096, 2, "bf16", policy, 1, 8192 / step, 0) for policy, step in zip(policies, steps)]
        said, good = bench.order_of(rows)
        assert good == expected and f"{steps[0]:.2f} s" in said, (steps, said)
        assert bench.order_of(rows[1:]) == (None, True)


check_commands()
check_statistics()
check_table()
check_across()
check_order()
