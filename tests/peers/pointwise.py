# SPDX-License-Identifier: Apache-2.0
"""Pointwise ops in f32 and bf16, norms without weights, patches, an embedding with padding_idx against PyTorch's: loss and
gradients of a table, whose rows an op takes, and of the head after it.

    pointwise.py BUILD_DIRECTORY

PyTorch computes in float64 from the same values, whose roundings in bf16 the limit allows. Exit codes as
compare_gradients.py's."""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools, json_lines
from compare_gradients import load_file, torch
from feed import read_text, rows

BATCH, SEQ, SPACE = 4, 24, 32
LIMITS = {"f32": 1e-5, "bf16": 2**-6}  # of the tensor's largest gradient
GRAPH = """graph "pointwise"
optimizer sgd {{ weight_decay = 0.0 }} no_master
input %tokens : i32[4,24]
input %targets : i32[4,24]
parameter %table : {dtype}[256,16] = normal(0.0, 1.0)
parameter %head : {dtype}[16,256] = normal(0.0, 0.1)
parameter %row : {dtype}[16] = normal(2.0, 0.3)
{more}%x : {dtype}[4,24,16] = embedding %table %tokens{padding} phase forward
{op}
%logits : {dtype}[4,24,256] = linear %y %head phase forward
%used : {dtype}[4,24,16] = add %x %row phase forward
%more : {dtype}[4,24,256] = linear %used %head phase forward
%sum : {dtype}[4,24,256] = add %logits %more phase forward
%loss : f32[] output, %lse : f32[4,24,1] = cross_entropy %sum %targets phase loss
output %loss
"""
MORE = "parameter %kernels : {dtype}[576] = normal(0.0, 0.3)\nparameter %shift : {dtype}[24] = normal(0.5, 0.3)\n"
Y, ONE = "%y : {dtype}[4,24,16]", "f32[4,24,1]"
E = "%e : {dtype}[4,24,16] = exp %x phase forward\n"
F = torch.nn.functional
CASES = {  # name: nodes, the same in PyTorch of x and row
    "embedding": (Y + " = add %x %row", lambda x, r: x + r),
    "sub": (Y + " = sub %x %row", lambda x, r: x - r),
    "mul": (Y + " = mul %x %row", lambda x, r: x * r),
    "div": (Y + " = div %x %row", lambda x, r: x / r),
    "maximum": (Y + " = maximum %x %row", torch.maximum),
    "minimum": (Y + " = minimum %x %row", torch.minimum),
    "neg": ("%p : {dtype}[4,24,16] = mul %x %row phase forward\n" + Y + " = neg %p", lambda x, r: -(x * r)),
    "exp": (Y + " = exp %x", lambda x, r: x.exp()),
    "log": (E + Y + " = log %e", lambda x, r: x.exp().log()),
    "sqrt": (E + Y + " = sqrt %e", lambda x, r: x.exp().sqrt()),
    "rsqrt": (E + Y + " = rsqrt %e", lambda x, r: x.exp().rsqrt()),
    "tanh": (Y + " = tanh %x", lambda x, r: x.tanh()),
    "erf": (Y + " = erf %x", lambda x, r: x.erf()),
    "sigmoid": (Y + " = sigmoid %x", lambda x, r: x.sigmoid()),
    "select": ("%c : f32[4,24,16] = less %x %row phase forward\n" + Y + " = select %c %x %row", lambda x, r: torch.where(x < r, x, r)),
    "softplus": (Y + " = softplus %x", lambda x, r: F.softplus(x, threshold=1e9)),
    "expm1": (Y + " = expm1 %x", lambda x, r: x.expm1()),
    "conv2d": ("%i : {dtype}[4,2,12,16] = reshape %x {{ shape = [4, 2, 12, 16] }} phase forward\n"
               "%w : {dtype}[24,2,3,4] = reshape %kernels {{ shape = [24, 2, 3, 4] }} phase forward\n"
               "%o : {dtype}[4,24,4,4] = conv2d %i %w %shift phase forward\n" + Y + " = reshape %o {{ shape = [4, 24, 16] }}",
               lambda x, r, k, s: F.conv2d(x.reshape(4, 2, 12, 16), k.reshape(24, 2, 3, 4), s, stride=(3, 4)).reshape(4, 24, 16)),
    "layer_norm": (f"{Y}, %m : {ONE}, %r : {ONE} = layer_norm %x", lambda x, r: F.layer_norm(x, (16,))),
    "rms_norm": (f"{Y}, %m : {ONE} = rms_norm %x {{{{ epsilon = 1e-05 }}}}", lambda x, r: F.rms_norm(x, (16,), eps=1e-5)),
}


def ours(tool, dtype, op, padding):
    """Initial values, loss and gradients."""
    more = MORE.format(dtype=dtype) if "%kernels" in op else ""
    text = GRAPH.format(dtype=dtype, more=more, op=op.format(dtype=dtype) + " phase forward", padding=f" {{ padding_idx = {SPACE} }}" if padding else "")
    pathlib.Path("p.txt").write_text(text)
    tool.must("compile", "p.txt", "-o", "p.plan")
    done = tool.must("run", "p.plan", "--text", TEXT, "--steps", 1, "--lr", 0, "--seed", 2, "--threads", 1, "--json", "--save-gradients", "g",
                     "--save-initial-weights", "w")
    return load_file("w"), json_lines(done)[0]["loss"], load_file("g")


def expected(values, tokens, targets, op, padding):
    """PyTorch's loss and gradients."""
    leaves = {name: value.double().requires_grad_() for name, value in values.items()}
    table, head, row = (leaves.pop(name) for name in ("table", "head", "row"))
    x = F.embedding(tokens, table, padding_idx=SPACE if padding else None)
    loss = F.cross_entropy((op(x, row, *(leaves[name] for name in sorted(leaves))) @ head + (x + row) @ head).flatten(0, 1), targets.flatten())
    loss.backward()
    return loss.item(), {"table": table.grad, "head": head.grad, "row": row.grad, **{name: leaf.grad for name, leaf in leaves.items()}}


def compare(what, found, wanted, limit, padding):
    _, loss, gradients = found
    want_loss, want = wanted
    worst = max((float((gradients[name].double() - want[name]).abs().max() / want[name].abs().max()), name) for name in want)
    nothing = not padding or not gradients["table"][SPACE].any()
    good = worst[0] <= limit and abs(loss - want_loss) <= limit * want_loss and nothing
    print(f"{'' if good else 'FAILED: '}{what}: loss {loss:.7f}, PyTorch's {want_loss:.7f}; at worst {worst[0]:.1e} of the largest of {worst[1]}")
    return not good


def main():
    tool, faults = Tools(sys.argv[1]), 0
    data = read_text(TEXT)
    tokens, targets = (rows(data, 0, BATCH, SEQ, shift, SEQ) for shift in (0, 1))
    with tempfile.TemporaryDirectory() as work:
        before = pathlib.Path.cwd()
        os.chdir(work)
        for name, (op, function) in CASES.items():
            for dtype, limit in LIMITS.items():
                padding = name == "embedding"
                found = ours(tool, dtype, op, padding)
                faults += compare(f"{name}, {dtype}", found, expected(found[0], tokens, targets, function, padding), limit, padding)
        os.chdir(before)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
