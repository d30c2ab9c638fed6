# SPDX-License-Identifier: Apache-2.0
"""PyTorch beside ours, an item after the other in one process; a line of JSON each.

    torch_items.py serve                     for each line PATH of standard input the lines of PATH.args, as gpu_worker
    torch_items.py step eager|compile none|full fp32|bf16 BATCH SEQ [DEVICE]
                                             GPT-2's training step in bf16 with fused AdamW: none or each layer's activations
                                             are recomputed (torch.utils.checkpoint), its vocabulary padded as ours; optimizer states are fp32 masters and
                                             moments, as ours, or bf16 moments and no masters; on cpu of a tiny model
    torch_items.py attention HEAD_SIZE TOKENS SEQ [DEVICE]
                                             causal scaled_dot_product_attention, forward and backward, heads of 2048 in all
    torch_items.py budget MODEL NUMBER [DEVICE]
                                             torch_budgets.py: a step under remat.backend, budget NUMBER of five

Exit code 77 and one line where PyTorch or its GPU is missing, or is of a version that remat does not know."""
import contextlib
import json
import math
import pathlib
import sys
import time
import traceback

try:
    import torch
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
    import torch_gpt2
except ImportError:
    torch = None

WARM, TURNS = 4, 10
WIDTH = 2048


def missing(device):
    if not torch:
        return "PyTorch is not installed"
    return None if device == "cpu" or torch.cuda.is_available() else "PyTorch sees no GPU"


class Masters:
    """AdamW on fp32 copies of bf16 parameters."""

    def __init__(self, params):
        self.params = params
        self.copies = [param.detach().float() for param in params]
        self.optimizer = torch.optim.AdamW(self.copies, lr=3e-4, fused=True)

    def step(self):
        for param, copy in zip(self.params, self.copies):
            copy.grad = param.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.params, self.copies)

    def zero_grad(self):
        for param in self.params:
            param.grad = None

    @property
    def state(self):
        return self.optimizer.state


def loss_of(model, recompute):
    """The model's, with layers that are recomputed."""
    def layer(x, k):
        x = x + model.attention(model.norm(x, f"h.{k}.ln_1"), f"h.{k}.attn")
        return x + model.mlp(model.norm(x, f"h.{k}.ln_2"), f"h.{k}.mlp")

    def loss(tokens, targets):
        p = model.params
        x = p["wte.weight"][tokens] + p["wpe.weight"][:tokens.shape[1]]
        for k in range(model.config.layers):
            x = checkpoint(layer, x, k, use_reentrant=False) if recompute else layer(x, k)
        return torch_gpt2.cross_entropy(model.norm(x, "ln_f") @ p["wte.weight"].T, targets)

    return loss


def times_of(run, gpu):
    """Seconds of each turn, by the host's clock."""
    times = []
    for _ in range(WARM + TURNS):
        begin = time.perf_counter()
        run()
        if gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times[WARM:])


def mean_of(run, gpu):
    """Seconds of one of many, by the GPU's clock."""
    if not gpu:
        return times_of(run, gpu)[0]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(WARM):
        run()
    begin.record()
    for _ in range(2 * TURNS):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / (2 * TURNS)


def draw_ids(vocabulary, batch, seq, device):
    """Tokens and targets by Zipf's law, as tools/run/text.h has it."""
    uniform = torch.rand(2, batch, seq, dtype=torch.float64)
    ids = torch.exp(uniform * math.log(vocabulary + 1)).long() - 1
    return ids.clamp(max=vocabulary - 1).to(device)


def step(how, recompute, states, batch, seq, device="cuda"):
    config = torch_gpt2.Config(vocab=50304) if device == "cuda" else torch_gpt2.Config(2, 64, 2, 300, 64)
    weights = {name: value.to(device) for name, value in torch_gpt2.random_weights(config).items()}
    model = torch_gpt2.Gpt2(config, weights, torch.bfloat16)
    loss = loss_of(model, recompute == "full")
    loss = torch.compile(loss) if how == "compile" else loss
    params = list(model.params.values())
    optimizer = Masters(params) if states == "fp32" else torch.optim.AdamW(params, lr=3e-4, fused=True)
    ids, values = draw_ids(config.vocab, int(batch), int(seq), device), []
    gpu = device == "cuda"

    def turn():
        value = loss(ids[0], ids[1])
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        values.append(value.item())

    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times = times_of(turn, gpu)
    moments = next(iter(optimizer.state.values()))["exp_avg"]
    return {"torch": torch.__version__, "states": str(moments.dtype), "step_ns": int(1e9 * times[0]), "median_ns": int(1e9 * times[len(times) // 2]),
            "loss": values[0], "last_loss": values[-1], "peak_bytes": torch.cuda.max_memory_allocated() if gpu else None}


def attention(head_size, tokens, seq, device="cuda"):
    head_size, tokens, seq = int(head_size), int(tokens), int(seq)
    gpu, heads = device == "cuda", WIDTH // head_size
    q, k, v = (torch.randn(tokens // seq, heads, seq, head_size, dtype=torch.bfloat16, device=device, requires_grad=True)
               for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    gradient = torch.randn_like(out)
    found = {"torch": torch.__version__}
    for name, run in [("forward", lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
                      ("backward", lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))]:
        found[f"{name}_ns"] = int(1e9 * mean_of(run, gpu))
    return found


def budget(model, number, device="cuda"):
    import torch_budgets
    return torch_budgets.budget(times_of, model, number, device)


def no_backend():
    """Why remat does not run with this PyTorch."""
    try:
        import torch_budgets
    except ImportError as error:
        return str(error)


def run(arguments):
    """The exit code; prints."""
    name, *values = arguments
    why = missing("cpu" if "cpu" in values else "cuda") or (no_backend() if name == "budget" else None)
    if why:
        print(why)
        return 77
    print(json.dumps({"step": step, "attention": attention, "budget": budget}[name](*values)))
    return 0


def serve():
    replies = sys.stdout
    for line in sys.stdin:
        base = pathlib.Path(line.rstrip("\n"))
        with open(base.with_suffix(".out"), "w") as out, open(base.with_suffix(".err"), "w") as err, \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = run(base.with_suffix(".args").read_text().split("\n"))
            except Exception:
                traceback.print_exc()
                code = 1
        print(code, file=replies, flush=True)


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["serve"] else run(sys.argv[1:]))
