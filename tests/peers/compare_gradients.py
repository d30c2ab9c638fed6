# SPDX-License-Identifier: Apache-2.0
"""Holds one of our training runs against PyTorch from the same weights and text.

Exit code 0: everything within its limit, 1: something is not, 77: PyTorch is absent (1 when CI=true).
The limits are explained in docs/testing.md."""
import argparse
import json
import os
import sys

try:
    import torch
    import feed
    import torch_families
    import torch_gpt2
    from safetensors.torch import load_file
except ModuleNotFoundError as error:
    in_ci = os.environ.get("CI") == "true"
    print(f"{'FAILED' if in_ci else 'SKIP'}: {error}: run tools/setup.sh --with-torch")
    sys.exit(1 if in_ci else 77)


UNDECIDED_MAX = 4  # 2 to this many gradients are tried


def read_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--weights", required=True, help="our initial weights, .safetensors")
    add("--gradients", required=True, help="our gradients of step 0, .safetensors")
    add("--losses", required=True, help="our losses, one JSON object with \"step\", \"loss\" a line")
    add("--weights-after", help="our weights after --steps updates; without it only step 0 is compared")
    add("--text", required=True)
    add("--family", default="gpt2", help="gpt2, llama, bert, encdec (default: %(default)s)")
    add("--heads", type=int, required=True)
    add("--batch", type=int, required=True)
    add("--seq", type=int, required=True)
    add("--source-seq", type=int, help="of an encoder (default: as --seq)")
    add("--steps", type=int, default=10, help="AdamW updates (default: %(default)s)")
    add("--lr", type=float, default=3e-4, help="(default: %(default)s)")
    add("--weight-decay", type=float, default=0.01, help="(default: %(default)s)")
    add("--clip-norm", type=float, help="of all gradients before an update (default: none)")
    add("--threads", type=int, default=1, help="of PyTorch (default: %(default)s)")
    add("--first-loss-limit", type=float, default=1e-6, help="relative, step 0 (default: %(default)s)")
    add("--loss-limit", type=float, default=1e-5, help="relative, later steps (default: %(default)s)")
    add("--gradient-limit", type=float, default=1e-5,
        help="of the tensor's largest gradient (default: %(default)s)")
    add("--gradient-floor", type=float, default=1e-6,
        help="of the model's largest gradient (default: %(default)s)")
    add("--parameter-max", type=float,
        help="largest difference of a parameter as a fraction of lr * steps (default: 2 / steps: where "
        "the gradient is below its rounding noise, one of the steps may go the other way)")
    add("--parameter-rms", type=float, default=1e-3,
        help="the same, root mean square of a tensor (default: %(default)s)")
    add("--worst", type=int, default=5, help="tensors to print (default: %(default)s)")
    return parser.parse_args(arguments)


def read_losses(path):
    """Number of updates before it -> loss; remat-run counts steps from 1."""
    with open(path) as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    return {record["step"] - 1: record["loss"] for record in records if "loss" in record}


def load_like(path, expected):
    """Our tensors, which must have exactly the names and shapes of `expected`."""
    ours = load_file(path)
    for name in sorted(ours.keys() | expected.keys()):
        found, wanted = (tuple(t[name].shape) if name in t else None for t in (ours, expected))
        if found != wanted:
            sys.exit(f"FAILED: {path}: {name}: shape {found}, expected {wanted}")
    return ours


def without_key_bias(name, tensor, params):
    """A key's bias moves every score of a row alike, so its true gradient is zero, and AdamW turns
    the rounding noise there into whole steps: the columns of
    c_attn.bias between the C of queries and those of values are left out."""
    if name.endswith(("attention.self.key.bias", "k_proj.bias")):
        return torch.zeros(1)
    if not name.endswith("attn.c_attn.bias"):
        return tensor
    width = params[name.replace("c_attn", "c_proj")].numel()
    return torch.cat([tensor[:width], tensor[(tensor.numel() + width) // 2:]])


class Report:
    def __init__(self, options):
        self.options, self.worst = options, options.worst
        self.failed = False

    def table(self, title, rows):
        """rows: (name, value, limit); prints those closest to their limit."""
        # "not <=", so that NaN is the worst of all
        rows = sorted(rows, key=lambda row: row[1] / row[2] if row[1] == row[1] else float("inf"),
                      reverse=True)
        beyond = [row for row in rows if not row[1] <= row[2]]
        self.failed = self.failed or bool(beyond) or not rows
        print(f"{title}: {len(rows)} compared, {len(beyond)} beyond the limit")
        for name, value, limit in rows[:max(self.worst, min(len(beyond), 20))]:
            mark = "" if value <= limit else "   BEYOND"
            print(f"  {name:28} {value:10.3e}  limit {limit:9.2e}  ({value / limit:.3f}){mark}")


def compare_losses(report, ours, theirs, options):
    """theirs: list over steps. Ours may end with the last step or hold one more, after all updates."""
    missing = [step for step in range(max(options.steps, 1)) if step not in ours]
    if missing and len(theirs) > 1:
        sys.exit(f"FAILED: {options.losses}: no loss of step {missing[0]}")
    rows = [(f"step {step}: {ours[step]:.8f}", abs(ours[step] - loss) / abs(loss),
             options.first_loss_limit if step == 0 else options.loss_limit)
            for step, loss in enumerate(theirs) if step in ours]
    report.table("loss, relative", rows)


def gradient_rows(ours, theirs, options):
    floor = options.gradient_floor * max(grad.abs().max().item() for grad in theirs.values())
    return [(name, (ours[name] - grad).abs().max().item(),
             max(options.gradient_limit * grad.abs().max().item(), floor))
            for name, grad in theirs.items()]


def undecided_relus(model, ids):
    """Inputs of relus that are zero up to rounding, by their values in float64: (layer, element)."""
    if not isinstance(model, torch_families.EncoderDecoder):
        return []
    exact = torch_families.EncoderDecoder(model.params, model.heads, torch.float64)
    exact.watch = []
    with torch.no_grad():
        exact.loss(**ids)
    return exact.watch


def compare_gradients(report, model, ours, ids):
    """Where relus are undecided, ours must be theirs for one choice of these signs."""
    undecided = undecided_relus(model, ids)
    print(f"relu inputs within rounding of zero: {len(undecided)}")
    if len(undecided) > UNDECIDED_MAX:
        sys.exit(f"FAILED: more than {UNDECIDED_MAX} of them: take other weights")
    best = None
    for chosen in range(2 ** len(undecided)):
        flips = {}
        for i, (layer, element) in enumerate(undecided):
            if chosen >> i & 1:
                flips.setdefault(layer, []).append(element)
        model.flips = flips
        loss, theirs = torch_gpt2.loss_and_grads(model, ids)
        rows = gradient_rows(load_like(ours, theirs), theirs, report.options)
        worst = max(value / limit if value == value else float("inf") for _, value, limit in rows)
        if best is None or worst < best[0]:
            best = worst, flips, rows, loss
    model.flips = {}
    print(f"relu inputs taken for the other sign: {best[1] or 'none'}")
    report.table("gradients, max |difference|", best[2])
    return best[3]


def compare_parameters(report, ours, theirs, options):
    scale = options.lr * options.steps
    limit = options.parameter_max or 2 / options.steps
    largest, rms = [], []
    for name, param in theirs.items():
        difference = without_key_bias(name, ours[name] - param, theirs).double() / scale
        largest.append((name, difference.abs().max().item(), limit))
        rms.append((name, difference.square().mean().sqrt().item(), options.parameter_rms))
    report.table(f"parameters after {options.steps} steps, max |difference| / (lr * steps)", largest)
    report.table(f"parameters after {options.steps} steps, rms / (lr * steps)", rms)


def main(arguments):
    options = read_arguments(arguments)
    torch.set_num_threads(options.threads)
    model = torch_families.load(options.family, options.weights, options.heads)
    text = feed.read_text(options.text)
    report = Report(options)

    def ids_of(step):
        return feed.inputs(options.family, text, step, options.batch, options.seq,
                           options.source_seq or options.seq, model.vocab)

    loss = compare_gradients(report, model, options.gradients, ids_of(1))
    losses = [loss]
    if options.weights_after:
        losses, params = torch_gpt2.train(model, ids_of, options.steps, options.lr,
                                          options.weight_decay,
                                          clip_norm=options.clip_norm)
        compare_parameters(report, load_like(options.weights_after, params), params, options)
    compare_losses(report, read_losses(options.losses), losses, options)

    print("FAILED" if report.failed else "equal within the limits")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
