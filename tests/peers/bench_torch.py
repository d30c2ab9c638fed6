# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch eager on the CPU: GPT-2's training step and single operations, fp32.

Prints one JSON object a line: name, threads, min_ms, and what else describes the case. Each training
step is timed in a process of its own, so that peak_rss_mb is that case's. Warns on stderr when the
machine is not idle: PyTorch's spinning threads then lose a multiple of the time that is taken."""
import argparse
import json
import resource
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

import torch_gpt2

# transposition, M, N, K of C[M, N] = A[M, K] B[K, N]; N: as named, T: stored the other way round
GEMMS = [("NN", 256, 2304, 768), ("NN", 256, 768, 3072), ("NT", 256, 50257, 768),
         ("NN", 256, 768, 50257), ("TN", 768, 3072, 256), ("TN", 50257, 768, 256),
         ("NN", 2048, 3072, 768), ("NN", 1023, 3071, 769)]
PRESETS = {"gpt2-124m": torch_gpt2.Config(),
           "gpt2-tiny": torch_gpt2.Config(layers=6, width=64, heads=4, vocab=256, positions=1024)}


def busy_fraction(seconds=1.0):
    """Of all processors, from /proc/stat."""
    def read():
        with open("/proc/stat") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]
    total, idle = read()
    time.sleep(seconds)
    total_after, idle_after = read()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def min_ms(function, seconds, at_least=3):
    function()
    best, spent, runs = float("inf"), 0.0, 0
    while spent < seconds or runs < at_least:
        start = time.perf_counter()
        function()
        elapsed = time.perf_counter() - start
        best, spent, runs = min(best, elapsed), spent + elapsed, runs + 1
    return round(1e3 * best, 4)


def emit(name, milliseconds, **facts):
    print(json.dumps({"name": name, "threads": torch.get_num_threads(), "min_ms": milliseconds,
                      **facts}), flush=True)


def time_step(options, fused):
    config = PRESETS[options.model]
    model = torch_gpt2.Gpt2(config, torch_gpt2.random_weights(config))
    optimizer = torch_gpt2.adamw(model, 3e-4, fused=fused)
    tokens = torch.randint(0, 256, (options.batch, options.seq))
    targets = torch.randint(0, 256, (options.batch, options.seq))

    def step():
        optimizer.zero_grad(set_to_none=True)
        model.loss(tokens, targets).backward()
        optimizer.step()

    best = min_ms(step, options.seconds * 4)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    emit("step", best, model=options.model, batch=options.batch, seq=options.seq,
         optimizer="fused" if fused else "default", peak_rss_mb=rss)


def time_gemms(options):
    for layout, m, n, k in GEMMS:
        a = torch.randn(k, m).T if layout[0] == "T" else torch.randn(m, k)
        b = torch.randn(n, k).T if layout[1] == "T" else torch.randn(k, n)
        c = torch.empty(m, n)
        best = min_ms(lambda: torch.mm(a, b, out=c), options.seconds)
        emit("sgemm", best, layout=layout, m=m, n=n, k=k, gflops=round(2e-6 * m * n * k / best, 1))


def time_both_ways(options, name, function, inputs, **facts):
    """Forward alone, then forward and backward."""
    for tensor in inputs:
        tensor.requires_grad_()
    with torch.no_grad():
        result = function(*inputs)
        emit(f"{name}_forward", min_ms(lambda: function(*inputs), options.seconds), **facts)
    up = torch.ones_like(result)
    both = min_ms(lambda: torch.autograd.grad(function(*inputs), inputs, up), options.seconds)
    emit(f"{name}_forward_backward", both, **facts)


def time_adamw(options, elements=25_000_000):
    for fused in (False, True):
        param = torch.randn(elements).requires_grad_()
        param.grad = torch.randn(elements)
        optimizer = torch.optim.AdamW([param], lr=3e-4, fused=fused)
        emit("adamw", min_ms(optimizer.step, options.seconds), elements=elements,
             optimizer="fused" if fused else "default")


def time_operations(options):
    config = PRESETS[options.model]
    batch, seq, width = options.batch, options.seq, config.width
    rows = batch * seq
    time_gemms(options)
    head = (batch, config.heads, seq, width // config.heads)
    time_both_ways(options, "attention",
                   lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                   [torch.randn(head) for _ in range(3)], shape=head)
    time_both_ways(options, "gelu", lambda x: F.gelu(x, approximate="tanh"),
                   [torch.randn(rows, 4 * width)], shape=(rows, 4 * width))
    time_both_ways(options, "layer_norm", lambda x, w, b: F.layer_norm(x, (width,), w, b, 1e-5),
                   [torch.randn(rows, width), torch.ones(width), torch.zeros(width)],
                   shape=(rows, width))
    time_both_ways(options, "dropout", lambda x: F.dropout(x, 0.1),
                   [torch.randn(rows, 4 * width)], shape=(rows, 4 * width))
    targets = torch.randint(0, config.vocab, (rows,))
    time_both_ways(options, "cross_entropy", lambda x: F.cross_entropy(x, targets),
                   [torch.randn(rows, config.vocab)], shape=(rows, config.vocab))
    ids = torch.randint(0, config.vocab, (rows,))
    time_both_ways(options, "embedding", lambda table: F.embedding(ids, table),
                   [torch.randn(config.vocab, width)], shape=(rows, width))
    time_adamw(options)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", choices=PRESETS, default="gpt2-124m")
    add("--batch", type=int, default=1)
    add("--seq", type=int, default=256)
    add("--threads", type=int, nargs="+", default=[1, 2])
    add("--seconds", type=float, default=2.0, help="per operation; four times as long per step")
    add("--only", choices=["step", "operations"], help="one half of it")
    add("--case", choices=["default", "fused", "operations"], help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.case:
        torch.set_num_threads(options.threads[0])
        torch.manual_seed(0)
        if options.case == "operations":
            time_operations(options)
        else:
            time_step(options, fused=options.case == "fused")
        return 0

    busy = busy_fraction()
    if busy > 0.1:
        print(f"warning: the machine is {100 * busy:.0f} % busy: these times are too long", file=sys.stderr)
    cases = {"step": ["default", "fused"], "operations": ["operations"]}
    cases = cases[options.only] if options.only else sum(cases.values(), [])
    for threads in options.threads:
        for case in cases:
            subprocess.run([sys.executable, __file__, "--case", case, "--threads", str(threads),
                            "--model", options.model, "--batch", str(options.batch),
                            "--seq", str(options.seq), "--seconds", str(options.seconds)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
