# SPDX-License-Identifier: Apache-2.0
"""bf16 against PyTorch's bf16 and our own fp32, every family: loss and gradients of one step from the
same bf16 weights, each measured by its distance from float64.

    bf16.py BUILD_DIRECTORY [FAMILY...]

Two bf16 computations differ from each other as much as from the truth, so closeness to PyTorch says
little; closeness to float64 does. The limits are explained in docs/testing.md. Exit codes as
compare_gradients.py."""
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness
try:
    import torch
    import feed
    import torch_families
    import torch_gpt2
    from safetensors.torch import load_file, save_file
except ModuleNotFoundError as error:
    in_ci = os.environ.get("CI") == "true"
    print(f"{'FAILED' if in_ci else 'SKIP'}: {error}: run tools/setup.sh --with-torch")
    sys.exit(1 if in_ci else 77)

BATCH, SEQ, HEADS, VOCAB = 3, 96, 4, 256
LOSS_LIMIT = 2**-12       # relative, to float64
TENSOR_LIMIT = 0.05       # |difference to float64| / |float64| of a gradient, Euclidean norms
TENSOR_TIMES_THEIRS = 3   # the same, as a multiple of PyTorch's
ALL_TIMES_THEIRS = 1.1    # root mean square over the tensors, as a multiple of PyTorch's
FP32_LIMIT = 1e-5         # our fp32 from the same weights
# True gradient zero (compare_gradients.py).
ZERO = ("attention.self.key.bias", "k_proj.bias")


class Tools(harness.Tools):
    def __init__(self, build, work):
        super().__init__(build, cwd=work)
        self.work = work

    def compile(self, family, dtype):
        self.text("graph", f"{family}-tiny", "--batch", str(BATCH), "--seq", str(SEQ), "--dtype",
                  dtype, "-o", "model.fbs")
        self.text("compile", "model.fbs", "-o", "model.plan")

    def step(self, *options):
        lines = self.text("run", "model.plan", "--text", harness.TEXT, "--steps", "1", "--json", *options)
        return json.loads(lines.splitlines()[0])["loss"]

    def measure(self, family, dtype):
        """Loss and gradients from weights.safetensors."""
        self.compile(family, dtype)
        loss = self.step("--init", "weights.safetensors", "--save-gradients", "gradients.safetensors")
        return loss, load_file(self.work / "gradients.safetensors")

    def weights(self, family):
        """Initial values, moved so that norms and biases matter, in bf16."""
        self.compile(family, "bf16")
        self.step("--save-initial-weights", "weights.safetensors")
        generator = torch.Generator().manual_seed(1)
        weights = {name: (weight + 0.05 * torch.randn(weight.shape, generator=generator)).bfloat16()
                   for name, weight in load_file(self.work / "weights.safetensors").items()}
        save_file(weights, self.work / "weights.safetensors")
        return weights


def distance(tensor, exact):
    return ((tensor.double() - exact).norm() / exact.norm()).item()


def mean_square_root(values):
    return (sum(value * value for value in values) / len(values)) ** 0.5


def compare(family, tools):
    """The worst of each quantity and its limit, as lines; whether all are within."""
    weights = tools.weights(family)
    ids = feed.inputs(family, feed.read_text(harness.TEXT), 1, BATCH, SEQ, SEQ, VOCAB)
    exact_loss, exact = torch_gpt2.loss_and_grads(
        torch_families.build(family, weights, HEADS, torch.float64), ids)
    their_loss, theirs = torch_gpt2.loss_and_grads(
        torch_families.build(family, weights, HEADS, torch.bfloat16), ids)
    our_loss, ours = tools.measure(family, "bf16")
    wide_loss, wide = tools.measure(family, "fp32")
    if any(tensor.dtype != torch.bfloat16 for tensor in ours.values()) or ours.keys() != exact.keys():
        sys.exit(f"FAILED: {family}: gradients are not all bf16")
    names = [name for name in exact if not name.endswith(ZERO)]
    d = {name: (distance(ours[name], exact[name]), distance(theirs[name], exact[name]),
                distance(wide[name], exact[name])) for name in names}
    rows = [
        ("loss", abs(our_loss / exact_loss - 1), LOSS_LIMIT),
        ("loss of PyTorch (not limited)", abs(their_loss / exact_loss - 1), float("inf")),
        ("loss, fp32", abs(wide_loss / exact_loss - 1), 1e-6),
        ("gradient", max(x[0] for x in d.values()), TENSOR_LIMIT),
        ("gradient of PyTorch (not limited)", max(x[1] for x in d.values()), float("inf")),
        ("gradient / PyTorch's", max(x[0] / x[1] for x in d.values()), TENSOR_TIMES_THEIRS),
        ("all gradients / PyTorch's", mean_square_root([x[0] for x in d.values()]) /
         mean_square_root([x[1] for x in d.values()]), ALL_TIMES_THEIRS),
        ("gradient, fp32", max(x[2] for x in d.values()), FP32_LIMIT),
        ("gradient, bf16 to our fp32",
         max(distance(ours[name], wide[name].double()) for name in names), TENSOR_LIMIT),
    ]
    for name, value, limit in rows:
        print(f"{family:8} {name:34} {value:9.2e}  limit {limit:8.2e}"
              f"{'' if value <= limit else '   BEYOND'}")
    return all(value <= limit for _, value, limit in rows)


def main():
    torch.set_num_threads(1)
    good = True
    for family in sys.argv[2:] or ["gpt2", "llama", "bert", "encdec"]:
        with tempfile.TemporaryDirectory() as work:
            good = compare(family, Tools(sys.argv[1], pathlib.Path(work))) and good
    print("equal within the limits" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
