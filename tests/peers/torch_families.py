# SPDX-License-Identifier: Apache-2.0
"""Llama, BERT and the original encoder-decoder in PyTorch, fp32, eager, written from Hugging Face's
models: parameters have their names and shapes. Data are feed.py's, training is torch_gpt2's."""
import math

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import torch_gpt2
from torch_gpt2 import cross_entropy


class Model:
    """Sizes show in the shapes of the weights, but for the number of heads."""

    def __init__(self, weights, heads, dtype=torch.float32):
        self.heads = heads
        self.params = {name: weight.detach().to(dtype).clone().requires_grad_()
                       for name, weight in weights.items()}

    @property
    def vocab(self):
        return self.params[self.TABLE].shape[0]

    def layers(self, prefix):
        return 1 + max(int(name[len(prefix) + 1:].split(".")[0]) for name in self.params
                       if name.startswith(prefix + "."))

    def linear(self, x, name):
        return F.linear(x, self.params[f"{name}.weight"], self.params.get(f"{name}.bias"))

    def norm(self, x, name, epsilon):
        p = self.params
        return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"], epsilon)

    def split(self, x, size):
        return x.view(*x.shape[:2], -1, size).transpose(1, 2)

    def attend(self, q, k, v, causal):
        """q, k, v [B, H, T, D], keys with fewer heads repeated; [B, T, H D]."""
        groups = q.shape[1] // k.shape[1]
        k, v = (part.repeat_interleave(groups, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y.transpose(1, 2).flatten(2)


class Llama(Model):
    TABLE = "model.embed_tokens.weight"
    THETA = 1e4

    def rms_norm(self, x, name):
        wide = x.float() if x.dtype == torch.bfloat16 else x
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.params[f"{name}.weight"]

    def rope(self, x):
        pairs = x.shape[-1] // 2
        angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * \
            self.THETA ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
        cos, sin = (f(angle).to(x.dtype) for f in (torch.cos, torch.sin))
        a, b = x.split(pairs, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def layer(self, x, name):
        size = x.shape[-1] // self.heads
        y = self.rms_norm(x, f"{name}.input_layernorm")
        q, k, v = (self.split(self.linear(y, f"{name}.self_attn.{part}_proj"), size)
                   for part in "qkv")
        y = self.attend(self.rope(q), self.rope(k), v, True)
        x = x + self.linear(y, f"{name}.self_attn.o_proj")
        y = self.rms_norm(x, f"{name}.post_attention_layernorm")
        y = F.silu(self.linear(y, f"{name}.mlp.gate_proj")) * self.linear(y, f"{name}.mlp.up_proj")
        return x + self.linear(y, f"{name}.mlp.down_proj")

    def loss(self, tokens, targets):
        table = self.params[self.TABLE]
        x = table[tokens]
        for layer in range(self.layers("model.layers")):
            x = self.layer(x, f"model.layers.{layer}")
        head = self.params.get("lm_head.weight", table)
        return cross_entropy(self.rms_norm(x, "model.norm") @ head.T, targets)


class Bert(Model):
    TABLE = "bert.embeddings.word_embeddings.weight"

    def layer(self, x, name):
        size = x.shape[-1] // self.heads
        q, k, v = (self.split(self.linear(x, f"{name}.attention.self.{part}"), size)
                   for part in ("query", "key", "value"))
        y = self.linear(self.attend(q, k, v, False), f"{name}.attention.output.dense")
        x = self.norm(x + y, f"{name}.attention.output.LayerNorm", 1e-12)
        y = self.linear(F.gelu(self.linear(x, f"{name}.intermediate.dense")), f"{name}.output.dense")
        return self.norm(x + y, f"{name}.output.LayerNorm", 1e-12)

    def loss(self, tokens, targets):
        p, embeddings = self.params, "bert.embeddings"
        words = p[self.TABLE]
        x = words[tokens] + p[f"{embeddings}.token_type_embeddings.weight"][0]
        x = x + p[f"{embeddings}.position_embeddings.weight"][:tokens.shape[1]]
        x = self.norm(x, f"{embeddings}.LayerNorm", 1e-12)
        for layer in range(self.layers("bert.encoder.layer")):
            x = self.layer(x, f"bert.encoder.layer.{layer}")
        x = F.gelu(self.linear(x, "cls.predictions.transform.dense"))
        x = self.norm(x, "cls.predictions.transform.LayerNorm", 1e-12)
        return cross_entropy(x @ words.T + p["cls.predictions.bias"], targets)


class EncoderDecoder(Model):
    """The sign of a relu's input that is zero up to rounding is a matter of the order of sums, and
    decides a contribution to the gradients. `watch`, a list, receives (layer, element) of such inputs;
    `flips`, {layer: [element]}, are taken for the other sign."""
    TABLE = "model.shared.weight"
    flips, watch = {}, None

    def embed(self, tokens):
        table = self.params[self.TABLE]
        pairs = table.shape[1] // 2
        angle = torch.arange(tokens.shape[1], dtype=torch.float64)[:, None] * \
            1e4 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
        sines = torch.cat([angle.sin(), angle.cos()], dim=1).to(table.dtype)
        return table[tokens] * math.sqrt(table.shape[1]) + sines

    def attention(self, x, y, name, causal):
        size = x.shape[-1] // self.heads
        q = self.split(self.linear(x, f"{name}.q_proj"), size)
        k, v = (self.split(self.linear(y, f"{name}.{part}_proj"), size) for part in "kv")
        return self.linear(self.attend(q, k, v, causal), f"{name}.out_proj")

    def inner(self, x, name):
        """relu(fc1 x). Rounding moves a sum by about 2^-24 of the sum of its absolute terms."""
        p, z = self.params, self.linear(x, f"{name}.fc1")
        keep = z.detach() > 0
        if self.watch is not None:
            terms = F.linear(x.abs(), p[f"{name}.fc1.weight"].abs(), p[f"{name}.fc1.bias"].abs())
            close = torch.nonzero(z.abs() <= 2 * 2**-24 * terms)
            self.watch += [(name, tuple(element)) for element in close.tolist()]
        for element in self.flips.get(name, ()):
            keep[element] = ~keep[element]
        return z * keep

    def layer(self, x, name, encoded=None):
        y = self.attention(x, x, f"{name}.self_attn", encoded is not None)
        x = self.norm(x + y, f"{name}.self_attn_layer_norm", 1e-5)
        if encoded is not None:
            y = self.attention(x, encoded, f"{name}.encoder_attn", False)
            x = self.norm(x + y, f"{name}.encoder_attn_layer_norm", 1e-5)
        y = self.linear(self.inner(x, name), f"{name}.fc2")
        return self.norm(x + y, f"{name}.final_layer_norm", 1e-5)

    def loss(self, tokens, targets, source):
        encoded, x = self.embed(source), self.embed(tokens)
        for layer in range(self.layers("model.encoder.layers")):
            encoded = self.layer(encoded, f"model.encoder.layers.{layer}")
        for layer in range(self.layers("model.decoder.layers")):
            x = self.layer(x, f"model.decoder.layers.{layer}", encoded)
        return cross_entropy(x @ self.params[self.TABLE].T, targets)


FAMILIES = {"llama": Llama, "bert": Bert, "encdec": EncoderDecoder}


def build(family, weights, heads, dtype=torch.float32):
    """A model of any family, GPT-2 included, from name -> weight."""
    if family == "gpt2":
        return torch_gpt2.Gpt2(torch_gpt2.config_of(weights, heads), weights, dtype)
    return FAMILIES[family](weights, heads, dtype)


def load(family, path, heads):
    if family == "gpt2":
        return torch_gpt2.Gpt2(*torch_gpt2.load_weights(path, heads))
    return build(family, load_file(path), heads)
