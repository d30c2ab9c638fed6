# SPDX-License-Identifier: Apache-2.0
"""A model of tests/peers under remat.backend with Inductor's kernels: what PyTorch's allocator sees of a step beside
what was planned, and the step's time. Inductor makes the kernels; on a CPU nothing is measured but the time."""
import functools
import os
import pathlib
import sys
from unittest import mock

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/peers"), str(ROOT / "tools/python")]
for build in ("build-carried", "build"):
    if (ROOT / build / "compiler/library").is_dir():
        os.environ.setdefault("REMAT_PREFIX", str(ROOT / build))
import remat
import remat.inductor
import torch_families
import torch_gpt2

BUDGETS = 5  # from the smallest that is found to the fastest plan
NO_LIMIT = 2**60  # bytes


class Model(torch.nn.Module):
    """One of tests/peers: its parameters are a module's, so that the budget counts them."""

    def __init__(self, model, vocab, batch, seq):
        super().__init__()
        self.loss, self.ids = model.loss, (vocab, batch, seq)
        for name, value in model.params.items():
            parameter = model.params[name] = torch.nn.Parameter(value)
            self.register_parameter(name.replace(".", "_"), parameter)

    def forward(self, tokens, targets):
        return self.loss(tokens, targets)


def gpt2(config, batch, seq, device):
    weights = torch_gpt2.random_weights(config)
    model = torch_gpt2.Gpt2(config, {name: value.to(device) for name, value in weights.items()}, torch.bfloat16)
    return Model(model, config.vocab, batch, seq)


def llama(layers, width, inner, heads, vocab, batch, seq, device):
    def normal(*shape):
        return torch.randn(*shape, device=device, dtype=torch.bfloat16) * 0.02
    weights = {"model.embed_tokens.weight": normal(vocab, width), "model.norm.weight": normal(width)}
    for layer in range(layers):
        name, keys = f"model.layers.{layer}", width // 4  # as many as of a quarter of the heads
        weights |= {f"{name}.{norm}.weight": normal(width) for norm in ("input_layernorm", "post_attention_layernorm")}
        weights |= {f"{name}.self_attn.{part}_proj.weight": normal(size, width)
                    for part, size in (("q", width), ("k", keys), ("v", keys), ("o", width))}
        weights |= {f"{name}.mlp.{part}_proj.weight": normal(inner, width) for part in ("gate", "up")}
        weights[f"{name}.mlp.down_proj.weight"] = normal(width, inner)
    return Model(torch_families.Llama(weights, heads, torch.bfloat16), vocab, batch, seq)


MODELS = {"gpt2-124m": lambda device: gpt2(torch_gpt2.Config(vocab=50304), 8, 1024, device),
          "llama-4-layers": lambda device: llama(4, 4096, 14336, 32, 128256, 1, 8192, device),
          "gpt2-tiny": lambda device: gpt2(torch_gpt2.Config(2, 64, 2, 300, 64), 2, 32, device),
          "llama-tiny": lambda device: llama(2, 64, 160, 4, 300, 2, 32, device)}


class Planned(Exception):
    """Ends a compilation before there is code."""


def made(name, device):
    torch.compiler.reset()
    torch.manual_seed(0)
    with torch.device(device):
        model = MODELS[name](device)
        vocab, batch, seq = model.ids
        ids = torch.randint(vocab, (2, batch, seq))
    return model, ids


def backend_of(model, budget_bytes):
    return remat.backend(budget=budget_bytes, model=model, kernels="inductor")


def refused(backend, model, ids):
    """The error that ends the compilation: the budget is too small, or Planned."""
    with mock.patch.object(remat.inductor, "compile_fx_inner", side_effect=Planned):
        try:
            torch.compile(model, backend=backend)(*ids)
        except Exception as error:
            inner = getattr(error, "inner_exception", error)
            if isinstance(inner, (Planned, remat.InfeasibleBudget)):
                return inner
            raise


@functools.lru_cache(maxsize=None)
def bounds(name, device):
    """The smallest budget that is found, and one that the fastest plan fits."""
    least, found = 1, None
    while found is None:
        model, ids = made(name, device)
        error = refused(backend_of(model, least), model, ids)
        found = least if isinstance(error, Planned) else error.smallest_bytes
        least = found or max(error.floor_bytes, least + 1)
    model, ids = made(name, device)
    backend = backend_of(model, NO_LIMIT)
    refused(backend, model, ids)
    return least, int(backend.report().planned_peak_bytes / (1 - 0.05))


def budget(times_of, name, number, device="cuda"):
    """Number `number` of BUDGETS. `times_of(run, gpu)`: seconds of a step, sorted."""
    gpu = device == "cuda"
    least, most = bounds(name, device)
    given = least + (most - least) * int(number) // (BUDGETS - 1)
    model, ids = made(name, device)
    backend = backend_of(model, given)
    run = torch.compile(model, backend=backend)

    def turn():
        run(*ids).backward()
        model.zero_grad(set_to_none=True)

    turn()
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times = times_of(turn, gpu)
    report = backend.report()
    graph = report.graphs[0]
    return {"torch": torch.__version__, "budget_bytes": given, "planned_bytes": report.planned_peak_bytes,
            "allocated_bytes": torch.cuda.max_memory_allocated() if gpu else None,
            "reserved_bytes": torch.cuda.max_memory_reserved() if gpu else None,
            "overhead": graph.overhead, "bound": graph.bound, "predicted_ns": graph.time_ns,
            "step_ns": int(1e9 * times[0]), "median_ns": int(1e9 * times[len(times) // 2])}
