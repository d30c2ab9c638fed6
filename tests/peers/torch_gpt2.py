# SPDX-License-Identifier: Apache-2.0
"""GPT-2 in PyTorch, fp32, eager: what remat's training runs are held against.

Parameters have the names and shapes of Hugging Face's GPT-2 ([in, out] linear weights, head tied to
wte), without biases those of nanoGPT with bias=False ([out, in]). Data are feed.py's."""
import re
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


@dataclass
class Config:
    layers: int = 12
    width: int = 768
    heads: int = 12
    vocab: int = 50257
    positions: int = 1024
    kv_heads: int = None  # heads
    bias: bool = True

    @property
    def kv_width(self):
        return self.width // self.heads * (self.kv_heads or self.heads)


def config_of(weights, heads):
    """Everything but the number of heads shows in the shapes."""
    vocab, width = weights["wte.weight"].shape
    layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("h."))
    kv_width = (max(weights["h.0.attn.c_attn.weight"].shape) - width) // 2
    return Config(layers, width, heads, vocab, weights["wpe.weight"].shape[0], kv_width * heads // width,
                  "ln_f.bias" in weights)


def shapes(config):
    """Name -> shape of every parameter, in Hugging Face's order."""
    width = config.width
    result = {"wte.weight": (config.vocab, width), "wpe.weight": (config.positions, width)}

    def norm(name):
        result.update({f"{name}.{kind}": (width,) for kind in ("weight", "bias")[:1 + config.bias]})

    def linear(name, inputs, outputs):
        result[f"{name}.weight"] = (inputs, outputs) if config.bias else (outputs, inputs)
        if config.bias:
            result[f"{name}.bias"] = (outputs,)

    for layer in range(config.layers):
        norm(f"h.{layer}.ln_1")
        linear(f"h.{layer}.attn.c_attn", width, width + 2 * config.kv_width)
        linear(f"h.{layer}.attn.c_proj", width, width)
        norm(f"h.{layer}.ln_2")
        linear(f"h.{layer}.mlp.c_fc", width, 4 * width)
        linear(f"h.{layer}.mlp.c_proj", 4 * width, width)
    norm("ln_f")
    return result


def random_weights(config, seed=0):
    """GPT-2's kind of initial values; for timing and for testing the tests, not remat's own."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes(config).items():
        if name.endswith(".bias"):
            weights[name] = torch.zeros(shape)
        elif "ln_" in name:
            weights[name] = torch.ones(shape)
        else:
            weights[name] = torch.randn(shape, generator=generator) * 0.02
    return weights


def load_weights(path, heads):
    """Reads a .safetensors file; complains about any name or shape that GPT-2 does not have."""
    weights = load_file(path)
    config = config_of(weights, heads)
    expected = shapes(config)
    for name in sorted(expected.keys() | weights.keys()):
        found = tuple(weights[name].shape) if name in weights else None
        if found != expected.get(name):
            raise ValueError(f"{path}: {name}: shape {found}, expected {expected.get(name)}")
    return config, weights


def cross_entropy(logits, targets):
    """In fp32 where logits are bf16, as Hugging Face's losses."""
    wide = logits.float() if logits.dtype == torch.bfloat16 else logits
    return F.cross_entropy(wide.flatten(0, 1), targets.flatten())


class Gpt2:
    def __init__(self, config, weights, dtype=torch.float32):
        self.config, self.vocab = config, config.vocab
        self.params = {name: weights[name].detach().to(dtype).clone().requires_grad_()
                       for name in shapes(config)}

    def norm(self, x, name):
        p = self.params
        return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p.get(f"{name}.bias"), 1e-5)

    def linear(self, x, name):
        p = self.params
        if not self.config.bias:
            return F.linear(x, p[f"{name}.weight"])
        rows = torch.addmm(p[f"{name}.bias"], x.reshape(-1, x.shape[-1]), p[f"{name}.weight"])
        return rows.view(*x.shape[:-1], -1)

    def attention(self, x, name):
        batch, seq, width = x.shape
        size, kv_width = width // self.config.heads, self.config.kv_width
        q, k, v = (part.view(batch, seq, -1, size).transpose(1, 2)
                   for part in self.linear(x, f"{name}.c_attn").split([width, kv_width, kv_width], dim=2))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv_width < width)
        return self.linear(context.transpose(1, 2).reshape(batch, seq, width), f"{name}.c_proj")

    def mlp(self, x, name):
        hidden = F.gelu(self.linear(x, f"{name}.c_fc"), approximate="tanh")
        return self.linear(hidden, f"{name}.c_proj")

    def loss(self, tokens, targets):
        """Mean cross entropy over all tokens, at least in fp32; tokens and targets are [batch, seq]."""
        p = self.params
        x = p["wte.weight"][tokens] + p["wpe.weight"][:tokens.shape[1]]
        for layer in range(self.config.layers):
            x = x + self.attention(self.norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn")
            x = x + self.mlp(self.norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp")
        logits = self.norm(x, "ln_f") @ p["wte.weight"].T
        return cross_entropy(logits, targets)


def loss_and_grads(model, ids):
    """The loss as a float and name -> gradient; ids as of feed.inputs."""
    for param in model.params.values():
        param.grad = None
    loss = model.loss(**ids)
    loss.backward()
    return loss.item(), {name: param.grad for name, param in model.params.items()}


def decays(name):
    """Norms, biases and embeddings do not."""
    return not re.search(r"bias$|norm|ln_|embed|w[tp]e\.|shared", name, re.IGNORECASE)


def adamw(model, lr, weight_decay=0.01, fused=False):
    groups = [{"params": [param for name, param in model.params.items() if decays(name) == decayed],
               "weight_decay": weight_decay if decayed else 0} for decayed in (True, False)]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.999), eps=1e-8, fused=fused)


def train(model, ids_of, steps, lr, weight_decay=0.01, fused=False, clip_norm=None):
    """Losses before each of `steps` updates and after the last, so steps + 1 of them; the parameters.
    ids_of(step), counted from 1, gives the step's data."""
    optimizer = adamw(model, lr, weight_decay, fused)
    losses = []
    for step in range(1, steps + 1):
        loss, _ = loss_and_grads(model, ids_of(step))
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(model.params.values(), clip_norm)
        optimizer.step()
        losses.append(loss)
    with torch.no_grad():
        losses.append(model.loss(**ids_of(steps + 1)).item())
    return losses, {name: param.detach() for name, param in model.params.items()}
