# SPDX-License-Identifier: Apache-2.0
"""Trains a model of Hugging Face's transformers as it is, then again under a policy that remat wrote. Prints the losses
of both, and the peak of what PyTorch allocates in a forward and backward pass: activations, temporaries and gradients.

    train_hf.py CONFIG.json POLICY.py BATCH SEQ

POLICY.py is that of `remat-dump --emit-policy pytorch`. Needs torch and transformers; runs on the CPU."""
import contextlib
import importlib.util
import os
import sys

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own lines
import torch
from torch.autograd.profiler import profile
from transformers import AutoConfig, AutoModelForCausalLM

STEPS = 3


def peak_bytes(events):
    held = peak = 0
    for event in events:
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def train(config, batch, seq, policy=None):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    if policy:
        policy.apply(model.model.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ids = torch.randint(config.vocab_size, (batch, seq))
    losses, profiler = [], profile(profile_memory=True)
    for step in range(1, STEPS + 1):
        with profiler if step == STEPS else contextlib.nullcontext():
            loss = model(ids, labels=ids, use_cache=False).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, peak_bytes(profiler.kineto_results.events())


def main():
    config_path, policy_path, batch, seq = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("policy", policy_path)
    policy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(policy)
    config = AutoConfig.from_pretrained(config_path)
    for name, used in (("as it is", None), ("with the policy", policy)):
        losses, peak = train(config, int(batch), int(seq), used)
        print(f"{name:16}losses {' '.join(f'{loss:.6f}' for loss in losses)}, peak {peak / 1e6:.0f} MB")


main()
