# SPDX-License-Identifier: Apache-2.0
"""bf16 parameters without master weights and bf16 moments against PyTorch's fused AdamW, which computes
in f32 and rounds what it stores, as we do: parameters and states after 10 steps.

    states.py BUILD_DIRECTORY

PyTorch gets our gradients of each step. It has no masters, and moments in the parameters' dtype only: for
the rest the formula is written out below in float64. The limits are explained in
docs/testing.md; exit codes as compare_gradients.py."""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools
from compare_gradients import load_file, torch, torch_gpt2

STEPS, LR, BETAS, EPSILON, DECAY = 10, 1e-3, (0.9, 0.95), 1e-8, 0.1
DIFFERING_LIMIT = 2**-8  # of the elements of all tensors of a kind
ULPS_EQUAL = 2**-12      # of f32 arithmetic, where what is stored is f32
ULPS_LIMIT = 2           # of any element


def train(tool, work, *options):
    """What it begins with, gradients of each step, what is stored after the last."""
    def run(*arguments):
        tool.must("run", "model.plan", "--text", TEXT, "--lr", LR, *arguments)

    tool.must("graph", "gpt2-tiny", "--layers", 2, "--batch", 2, "--seq", 64, "--dtype", "bf16",
              "--weight-decay", DECAY, "--beta2", BETAS[1], *options, "-o", "model.fbs")
    tool.must("compile", "model.fbs", "-o", "model.plan")
    run("--steps", 1, "--save-initial-weights", "first.safetensors")
    gradients = []
    for step in range(1, STEPS + 1):
        begin = ["--resume", "run"] if step > 1 else ["--init", "first.safetensors"]
        run("--steps", step, "--checkpoint", "run", *begin, "--save-gradients", "gradients.safetensors",
            "--gradients-step", step)
        gradients.append(load_file(work / "gradients.safetensors"))
    return (load_file(work / "first.safetensors"), gradients,
            load_file(work / f"run/step-{STEPS:010}.safetensors"))


class Reference:
    """Name -> tensor after all steps, and the largest absolute value that each element has had."""

    def __init__(self):
        self.values, self.largest = {}, {}

    def store(self, name, value):
        value = value.detach().clone()
        self.values[name] = value
        self.largest[name] = torch.maximum(self.largest.get(name, value.abs()), value.abs())


def pytorch(first, gradients):
    """Parameters and moments of one dtype."""
    params = {name: value.clone().requires_grad_() for name, value in first.items()}
    groups = [{"params": [param for name, param in params.items() if torch_gpt2.decays(name) == decayed],
               "weight_decay": DECAY if decayed else 0} for decayed in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPSILON, fused=True)
    out = Reference()
    for gradient in gradients:
        for name, param in params.items():
            param.grad = gradient[name]
        optimizer.step()
        for name, param in params.items():
            out.store(name, param)
            out.store(f"{name}.m", optimizer.state[param]["exp_avg"])
            out.store(f"{name}.v", optimizer.state[param]["exp_avg_sq"])
    return out


def formula(first, gradients, master, moments):
    """The same in float64; what is stored is rounded."""
    out = Reference()
    for name, p in first.items():
        p = p.float() if master else p
        m = v = torch.zeros_like(p, dtype=moments)
        decay = 1 - LR * DECAY * torch_gpt2.decays(name)
        for t, gradient in enumerate(gradients, 1):
            g = gradient[name].double()
            wide_m = BETAS[0] * m.double() + (1 - BETAS[0]) * g
            wide_v = BETAS[1] * v.double() + (1 - BETAS[1]) * g * g
            root = (wide_v / (1 - BETAS[1]**t)).sqrt() + EPSILON
            p = (p.double() * decay - LR / (1 - BETAS[0]**t) * wide_m / root).to(p.dtype)
            m, v = wide_m.to(moments), wide_v.to(moments)
            for stored, value in ((name, p.bfloat16()), (f"{name}.m", m), (f"{name}.v", v)):
                out.store(stored, value)
            if master:
                out.store(f"{name}.master", p)
    return out


def ulps(ours, reference, name):
    """Differences in units in the last place of a bf16 as large as the element has ever been: after it
    has become smaller, an earlier rounding weighs more."""
    theirs, largest = reference.values[name], reference.largest[name].double().clamp(min=1e-30)
    if ours[name].dtype != theirs.dtype:
        sys.exit(f"FAILED: {name} is {ours[name].dtype}, expected {theirs.dtype}")
    return (ours[name].double() - theirs.double()).abs() / torch.exp2(largest.log2().floor() - 7)


def compare(what, ours, reference):
    good = True
    names = {"parameters": [], ".master": [], ".m": [], ".v": []}
    for name in reference.values:
        ending = next((ending for ending in names if name.endswith(ending)), "parameters")
        names[ending].append(name)
    for kind in filter(names.get, names):
        off = torch.cat([ulps(ours, reference, name).flatten() for name in names[kind]])
        differing, most = (off > ULPS_EQUAL).double().mean().item(), off.max().item()
        fits = differing <= DIFFERING_LIMIT and most <= ULPS_LIMIT
        good = good and fits
        print(f"{what}, {kind}: {differing:.2e} of {len(off)} differ (limit {DIFFERING_LIMIT:.2e}), by at "
              f"most {most:.2g} ulps (limit {ULPS_LIMIT}){'' if fits else '   BEYOND'}")
    return good


def check(master, moments):
    options = ["--master", "fp32" if master else "none",
               "--moments", "fp32" if moments == torch.float32 else "bf16"]
    with tempfile.TemporaryDirectory() as work:
        first, gradients, ours = train(Tools(sys.argv[1], cwd=work), pathlib.Path(work), *options)
    good = True
    if not master and moments == torch.bfloat16:
        good = compare("PyTorch, " + " ".join(options), ours, pytorch(first, gradients))
    reference = formula(first, gradients, master, moments)
    if ours.keys() != reference.values.keys():
        sys.exit(f"FAILED: {options}: states {ours.keys() ^ reference.values.keys()}")
    return compare("formula, " + " ".join(options), ours, reference) and good


def main():
    torch.set_num_threads(1)
    good = True
    for master, moments in ((False, torch.bfloat16), (False, torch.float32), (True, torch.bfloat16)):
        good = check(master, moments) and good
    print("equal within the limits" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
