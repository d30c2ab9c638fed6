# SPDX-License-Identifier: Apache-2.0
"""Adapters (LoRA) of our training runs against PyTorch: gradients, losses and adapters after 10 steps.

    lora.py BUILD_DIRECTORY FAMILY...

PyTorch's model knows nothing of adapters: their products are added to its weights, W + 2 B A, and
autograd differentiates through that. Files have the names of Hugging Face's peft. Limits and exit codes
as compare_gradients.py."""
import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness
import compare_gradients
from compare_gradients import feed, load_file, torch, torch_families, torch_gpt2
from safetensors.torch import save_file

BATCH, SEQ, HEADS, STEPS, LR, RANK = 3, 96, 4, 10, 3e-4, 4
PREFIX = {"gpt2": "base_model.model.transformer.", "llama": "base_model.model."}  # in peft's files


class Tools(harness.Tools):
    def __init__(self, build, work):
        super().__init__(build, cwd=work)
        self.work = work

    def compile(self, family, *options):
        self.text("graph", f"{family}-tiny", "--batch", BATCH, "--seq", SEQ, *options, "-o", "model.fbs")
        self.text("compile", "model.fbs", "-o", "model.plan")

    def run(self, steps, *options):
        lines = self.text("run", "model.plan", "--text", harness.TEXT, "--steps", steps, "--lr", LR, "--json",
                          *options)
        return {record["step"] - 1: record["loss"] for record in map(json.loads, lines.splitlines())}


class Adapted:
    """A model of which only the adapters are parameters."""

    def __init__(self, model, adapters):
        self.model, self.vocab, self.base = model, model.vocab, model.params
        self.params = {name: value.clone().requires_grad_() for name, value in adapters.items()}
        for param in self.base.values():
            param.requires_grad_(False)

    def loss(self, **ids):
        merged = dict(self.base)
        for name, a in self.params.items():
            if not name.endswith("lora_A.weight"):
                continue
            weight = name.replace("lora_A.weight", "weight")
            change = 2 * self.params[name.replace("lora_A", "lora_B")] @ a  # alpha is twice the rank
            conv1d = weight.startswith("h.")  # GPT-2's weights are [in, out]
            merged[weight] = merged[weight] + (change.T if conv1d else change)
        self.model.params = merged
        return self.model.loss(**ids)


def make_weights(tools, family):
    """Base and adapters, all of them moved away from their initial values, of which many are 0 or 1."""
    generator = torch.Generator().manual_seed(1)
    prefix = PREFIX[family]

    def moved(path, std):
        return {name: weight + std * torch.randn(weight.shape, generator=generator)
                for name, weight in load_file(tools.work / path).items()}

    tools.compile(family)
    tools.run(1, "--save-initial-weights", "base.safetensors")
    base = moved("base.safetensors", 0.05)
    tools.compile(family, "--lora", RANK)
    tools.run(1, "--save-initial-weights", "adapters.safetensors")
    adapters = moved("adapters.safetensors", 0.1)
    names = {prefix + name.replace(".weight", f".lora_{k}.weight") for name in base
             if torch_gpt2.decays(name) and name != "lm_head.weight" for k in "AB"}
    if adapters.keys() != names:
        sys.exit(f"FAILED: {family}: names of adapters: {sorted(adapters.keys() ^ names)}")
    save_file(base, tools.work / "base.safetensors")
    save_file(adapters, tools.work / "adapters.safetensors")
    return base, {name.removeprefix(prefix): weight for name, weight in adapters.items()}, prefix


def compare(family, tools):
    base, adapters, prefix = make_weights(tools, family)
    model = Adapted(torch_families.build(family, base, HEADS), adapters)
    options = argparse.Namespace(steps=STEPS, lr=LR, worst=3, first_loss_limit=1e-6, loss_limit=1e-5,
                                 gradient_limit=1e-5, gradient_floor=1e-6, parameter_max=None,
                                 parameter_rms=1e-3, losses="remat-run")
    report = compare_gradients.Report(options)
    text = feed.read_text(harness.TEXT)

    def ids_of(step):
        return feed.inputs(family, text, step, BATCH, SEQ, SEQ, model.vocab)

    ours = tools.run(STEPS, "--init", "base.safetensors", "--init", "adapters.safetensors",
                     "--save-gradients", "gradients.safetensors", "--save-weights", "after.safetensors")
    compare_gradients.compare_gradients(report, model, tools.work / "gradients.safetensors", ids_of(1))
    losses, params = torch_gpt2.train(model, ids_of, STEPS, LR)
    after = {prefix + name: param for name, param in params.items()}
    compare_gradients.compare_parameters(
        report, compare_gradients.load_like(tools.work / "after.safetensors", after), after, options)
    compare_gradients.compare_losses(report, ours, losses, options)
    return not report.failed


def main():
    torch.set_num_threads(1)
    good = True
    for family in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as work:
            good = compare(family, Tools(sys.argv[1], pathlib.Path(work))) and good
    print("equal within the limits" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
