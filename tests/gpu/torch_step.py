"""GPT-2's training step in PyTorch, bf16 weights and moments, fused AdamW: fastest of some steps, as JSON.

    torch_step.py eager|compile none|full BATCH SEQ [--device NAME] [--layers N]

full: each layer's activations are recomputed (torch.utils.checkpoint)."""
import argparse
import json
import pathlib
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import torch_gpt2

WARM, TURNS = 4, 10


class Model(torch_gpt2.Gpt2):
    """With layers that may be recomputed."""

    recompute = False

    def layer(self, x, k):
        x = x + self.attention(self.norm(x, f"h.{k}.ln_1"), f"h.{k}.attn")
        return x + self.mlp(self.norm(x, f"h.{k}.ln_2"), f"h.{k}.mlp")

    def loss(self, tokens, targets):
        p = self.params
        x = p["wte.weight"][tokens] + p["wpe.weight"][:tokens.shape[1]]
        for k in range(self.config.layers):
            x = checkpoint(self.layer, x, k, use_reentrant=False) if self.recompute else self.layer(x, k)
        return torch_gpt2.cross_entropy(self.norm(x, "ln_f") @ p["wte.weight"].T, targets)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["eager", "compile"])
    parser.add_argument("recompute", choices=["none", "full"])
    parser.add_argument("batch", type=int)
    parser.add_argument("seq", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    config = torch_gpt2.Config(layers=options.layers)
    weights = {name: value.to(options.device) for name, value in torch_gpt2.random_weights(config).items()}
    model = Model(config, weights, torch.bfloat16)
    model.recompute = options.recompute == "full"
    loss_of = torch.compile(model.loss) if options.how == "compile" else model.loss
    optimizer = torch.optim.AdamW(model.params.values(), lr=3e-4, fused=True)
    ids = torch.randint(0, config.vocab, (2, options.batch, options.seq), device=options.device)
    gpu, times = options.device == "cuda", []
    for _ in range(WARM + TURNS if gpu else 2):
        begin = time.perf_counter()
        loss = loss_of(ids[0], ids[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
        if gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"torch": torch.__version__, "step_ns": int(1e9 * min(times)), "loss": value,
                      "peak_bytes": torch.cuda.max_memory_allocated() if gpu else None}))


main()
