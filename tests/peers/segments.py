# SPDX-License-Identifier: Apache-2.0
"""Segments of attention against PyTorch's attention with the mask written out: padding left and right, packed rows,
cross attention, queries that see nothing, grouped heads, dropout; the loss and the gradients of q, k and v.

    segments.py BUILD_DIRECTORY

PyTorch computes in float64 from the same values, in bf16 too, whose own roundings the limit allows. The masks of
dropout are drawn here from Philox. Exit codes as compare_gradients.py's."""
import array
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools, json_lines, safetensors
from compare_gradients import load_file, torch
from feed import read_text, rows

BATCH, HEADS, SIZE, CLASSES, SITE = 3, 4, 8, 256, 7
SEED, STEP = (0x12345678, 0x9ABCDEF), 3
SCALE = SIZE**-0.5
LIMITS = {"f32": 1e-5, "bf16": 2**-6}  # of the tensor's largest gradient
OPERANDS = {"noise": "rng"}  # remat-run writes an input "rng" itself
NOTHING = 1e-12  # where a query sees nothing, the gradient is 0

GRAPH = """graph "segments"
optimizer sgd {{ weight_decay = 0.0 }} no_master
input %tokens : i32[{batch},{queries}]
input %targets : i32[{batch},{queries}]
{inputs}parameter %table : {dtype}[{classes},{width}] = constant(0.0) frozen
parameter %head : {dtype}[{width},{classes}] = normal(0.0, 0.5) frozen
parameter %q : {dtype}[{batch},{queries},{heads},{size}] = normal(0.0, 1.5)
parameter %k : {dtype}[{batch},{keys},{kv_heads},{size}] = normal(0.0, 1.5)
parameter %v : {dtype}[{batch},{keys},{kv_heads},{size}] = normal(0.0, 1.5)
%x : {dtype}[{batch},{queries},{width}] = embedding %table %tokens phase forward
%out : {dtype}[{batch},{queries},{heads},{size}], %lse : f32[{batch},{heads},{queries}] = attention %q %k %v{optional} {{ scale = {scale}, causal = {causal}, p = {p}, site = {site} }} phase forward
%context : {dtype}[{batch},{queries},{width}] = reshape %out {{ shape = [{batch}, {queries}, {width}] }} phase forward
%sum : {dtype}[{batch},{queries},{width}] = add %x %context phase forward
%logits : {dtype}[{batch},{queries},{classes}] = linear %sum %head phase forward
%loss : f32[] output, %log_sum : f32[{batch},{queries},1] = cross_entropy %logits %targets phase loss
output %loss
"""


def packed(generator, length):
    cuts = sorted(generator.sample(range(1, length), 2))
    return [sum(at >= cut for cut in cuts) for at in range(length)]


def padded(generator, length, left):
    count = generator.randrange(2, length - 1)
    row = [0] * count + [-1] * (length - count)
    return row[::-1] if left else row


# name: causal, queries, keys, heads of keys, segments of queries and keys
def cases(generator):
    def many(make, *arguments):
        return [make(generator, *arguments) for _ in range(BATCH)]
    same = many(packed, 12)
    yield "padding right", True, 12, 12, 4, None, many(padded, 12, False)
    yield "padding left", True, 12, 12, 4, None, many(padded, 12, True)
    left = many(padded, 12, True)
    yield "padding left of both", True, 12, 12, 2, left, left
    yield "packed rows", True, 12, 12, 1, same, same
    yield "packed rows, not causal", False, 12, 12, 4, same, same
    yield "cross attention", False, 7, 13, 2, None, many(padded, 13, False)
    yield "packed cross attention", False, 7, 13, 2, many(packed, 7), many(packed, 13)
    yield "queries alone, of which some see nothing", False, 9, 9, 4, many(padded, 9, False), None
    yield "all hidden", False, 5, 6, 4, None, [[-1] * 6] * BATCH


def uniform(element):
    """Philox4x32-10, a word of the call with the element's number / 4."""
    x, key = [element // 4 & 0xFFFFFFFF, element // 4 >> 32, SITE, STEP], list(SEED)
    for _ in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [b >> 32 ^ x[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ x[3] ^ key[1], a & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return (x[element % 4] >> 8) / 2**24


def factors(shape, p):
    count = int(torch.tensor(shape).prod())
    if p == 0:
        return torch.ones(shape, dtype=torch.float64)
    kept = torch.tensor([float(uniform(element) >= torch.tensor(p, dtype=torch.float32).item()) for element in range(count)], dtype=torch.float64)
    return kept.reshape(shape) / (1 - p)


def expected(values, targets, causal, p, query_segments, key_segments):
    """PyTorch's loss and gradients."""
    q, k, v = (values[name].double().requires_grad_() for name in "qkv")
    (queries, keys), group = (q.shape[1], k.shape[1]), HEADS // k.shape[2]
    zeros = torch.zeros(BATCH, max(queries, keys), dtype=torch.long)
    own = torch.tensor(query_segments) if query_segments else zeros[:, :queries]
    other = torch.tensor(key_segments) if key_segments else zeros[:, :keys]
    mask = (own[:, :, None] == other[:, None, :]) & (other >= 0)[:, None, :]
    if causal:
        mask = mask & torch.ones(queries, keys).tril(keys - queries).bool()
    heads = [x.repeat_interleave(group, 2).transpose(1, 2) for x in (k, v)]
    scores = (q.transpose(1, 2) @ heads[0].transpose(2, 3) * SCALE).masked_fill(~mask[:, None], float("-inf"))
    sees = mask.any(-1)[:, None, :, None]
    weights = torch.softmax(scores.masked_fill(~sees, 0.0), -1) * sees
    out = (weights * factors(weights.shape, p)) @ heads[1]
    logits = out.transpose(1, 2).flatten(2) @ values["head"].double()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    return loss.item(), {"q": q.grad, "k": k.grad, "v": v.grad}, sees.flatten(1)


def write_integers(path, values):
    data = array.array("i", torch.tensor(values).flatten().tolist()).tobytes()
    pathlib.Path(path).write_bytes(safetensors({"any": ("I32", list(torch.tensor(values).shape), data)}))


def ours(tool, dtype, causal, queries, keys, kv_heads, p, given):
    """Initial values, loss and gradients."""
    inputs = "".join(f"input %{name} : i32{list(torch.tensor(values).shape)}\n" for name, values in given.items())
    text = GRAPH.format(batch=BATCH, queries=queries, keys=keys, heads=HEADS, kv_heads=kv_heads, size=SIZE, width=HEADS * SIZE,
                        classes=CLASSES, dtype=dtype, scale=SCALE, causal=int(causal), p=float(p), site=SITE, inputs=inputs,
                        optional="".join(f" {OPERANDS.get(name, name)} = %{name}" for name in given))
    pathlib.Path("s.txt").write_text(text)
    tool.must("compile", "s.txt", "-o", "s.plan")
    for name, values in given.items():
        write_integers(f"{name}.safetensors", values)
    done = tool("run", "s.plan", "--text", TEXT, "--steps", 1, "--lr", 0, "--seed", 2, "--threads", 1, "--json", "--save-gradients", "g",
                "--save-initial-weights", "w", *(f"--input={name}={name}.safetensors" for name in given))
    return load_file("w"), json_lines(done)[0]["loss"], load_file("g")


def compare(name, found, wanted, limit):
    values, loss, gradients = found
    want_loss, want, sees = wanted
    worst = max((float((gradients[key].double() - want[key]).abs().max() / max(want[key].abs().max(), NOTHING)), key) for key in want)
    nothing = gradients["q"][~sees.any(1)].abs().sum() + want["q"][~sees.any(1)].abs().sum()
    good = worst[0] <= limit and abs(loss - want_loss) <= limit * want_loss and nothing == 0
    print(f"{'' if good else 'FAILED: '}{name}: loss {loss:.7f}, PyTorch's {want_loss:.7f}; at worst {worst[0]:.1e} of the largest of {worst[1]}")
    return not good


def main():
    tool, generator, faults = Tools(sys.argv[1]), random.Random(4), 0
    text = read_text(TEXT)
    with tempfile.TemporaryDirectory() as work:
        before = pathlib.Path.cwd()
        os.chdir(work)
        for name, causal, queries, keys, kv_heads, own, other in cases(generator):
            for dtype, p in (("f32", 0), ("f32", 0.25), ("bf16", 0)):
                given = {"noise": [*SEED, STEP, 0]} if p else {}
                given |= {key: value for key, value in (("query_segments", own), ("key_segments", other)) if value}
                found = ours(tool, dtype, causal, queries, keys, kv_heads, p, given)
                targets = rows(text, 0, BATCH, queries, 1, queries)
                wanted = expected(found[0], targets, causal, p, own, other)
                faults += compare(f"{name}, {dtype}, dropout {p}", found, wanted, LIMITS[dtype])
        os.chdir(before)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
