# SPDX-License-Identifier: Apache-2.0
"""Losses of a step in parts: microbatches, ranks along dp and tp, both, chunks of the loss.

    losses.py TOOLS_DIRECTORY

A mean over the targets that count has one count in all parts, so that parts with unequal numbers of them, or none, give
loss, evaluation and gradients of the whole batch; without any all are 0. Sums add up, means are averaged. Equal
divisions have equal bits under every policy. What depends on several entries of the batch is refused for more than one
part, also where the parts are for remat-compile to choose. test_losses.c has the faults that this would have."""
import pathlib
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from harness import INVALID, TEXT, Tools, check, finish, floats, json_lines, must, read_safetensors, refused, scratch

tool = Tools(sys.argv[1], timeout=120)
LIMIT = 1e-6  # of the loss, and of a gradient's largest element
SPACE = 32  # the byte that is no target: about every fifth of a text

GRAPH = """graph "losses"
optimizer sgd { weight_decay = 0.0 }
symbol batch = 8
input %tokens : i32[batch,12]
input %targets : i32[batch,12]
parameter %table : f32[256,16] = normal(0.0, 0.3)
parameter %head : f32[16,256] = normal(0.0, 0.3)
%x : f32[batch,12,16] = embedding %table %tokens phase forward
%h : f32[batch,12,16] = tanh %x phase forward scope "layers.0"
%logits : f32[batch,12,256] = linear %h %head phase forward
"""
COUNTED = "%loss : f32[] output, %lse : f32[batch,12,1] = cross_entropy %logits %targets { ignore_index = 32 } phase loss\n"
SLICES = """%ends : i32[batch,7] = slice %targets { axis = 1, begin = 5, end = 12 } phase loss
%firsts : f32[batch,7,256] = slice %logits { axis = 1, begin = 0, end = 7 } phase loss
%loss : f32[] output, %lse : f32[batch,7,1] = cross_entropy %firsts %ends { ignore_index = 32 } phase loss
"""
SUM = """%square : f32[batch,12,256] = mul %logits %logits phase loss
%sums : f32[256] = column_sum %square phase loss
%row : f32[1,256] = reshape %sums { shape = [1, 256] } phase loss
%all : f32[1,1] = row_sum %row phase loss
%loss : f32[] output = reshape %all { shape = [] } phase loss
"""
MEAN = """%square : f32[batch,12,256] = mul %logits %logits phase loss
%loss : f32[] output = mean %square phase loss
"""
STATISTIC = """%sums : f32[256] = column_sum %logits phase loss
%centred : f32[batch,12,256] = sub %logits %sums phase loss
%loss : f32[] output, %lse : f32[batch,12,1] = cross_entropy %centred %targets phase loss
"""
CONTRASTIVE = """%columns : f32[12,batch,256] = transpose %logits { permutation = [1, 0, 2] } phase loss
%pairs : f32[12,batch,batch] = matmul %columns %columns { transpose_b = 1 } phase loss
%likely : f32[12,batch,batch] = softmax %pairs phase loss
%loss : f32[] output = mean %likely phase loss
"""
PARTS = {"m2": ["--microbatches", 2], "m4": ["--microbatches", 4], "m8": ["--microbatches", 8], "dp2": ["--mesh", "dp=2"],
         "dp4": ["--mesh", "dp=4"], "both": ["--mesh", "dp=2", "--microbatches", 2],
         "zero": ["--mesh", "dp=2", "--zero", 3, "--microbatches", 2]}
POLICY = ["--recompute-granularity", "full", "--recompute-method", "uniform"]
DIVIDED = {"tp": ["--mesh", "tp=2"], "dp and tp": ["--mesh", "dp=2,tp=2", "--microbatches", 2],
           "chunks": ["--microbatches", 2, "--loss-chunk", 20], "chunks and dp": ["--mesh", "dp=2", "--loss-chunk", 20]}


def train(body, *options, text=TEXT):
    """Loss, its evaluation, hashes, gradients."""
    pathlib.Path("model.txt").write_text(f"{GRAPH}{body}output %loss\n")
    tool.must("compile", "model.txt", *options, "-o", "m.plan")
    run = ["run", "m.plan", "--text", text, "--threads", 1, "--steps", 1, "--seed", 3, "--json"]
    line = json_lines(must(tool(*run, "--lr", 0.01, "--save-gradients", "m.g")))[0]
    evaluated = json_lines(must(tool(*run, "--eval")))[0]["loss"]
    gradients = {name: list(floats(tensor)) for name, tensor in read_safetensors("m.g").items()}
    return [line["loss"], evaluated], gradients, (line["loss_hash"], line["grad_hash"])


def near(what, run, whole):
    for a, b in zip(run[0], whole[0], strict=True):
        check(abs(a - b) <= LIMIT * abs(b), what, a, b)
    for name, tensor in whole[1].items():
        worst = max(abs(a - b) for a, b in zip(run[1][name], tensor, strict=True))
        check(worst <= LIMIT * max(map(abs, tensor)), what, name, worst)


def follow(what, body, divided=()):
    whole = train(body)
    check(abs(whole[0][0] - whole[0][1]) <= LIMIT * whole[0][0], what, "the evaluation is another loss")
    runs = {name: train(body, *options) for name, options in PARTS.items()}
    for name, run in runs.items():
        near(f"{what}, {name}", run, whole)
    check(runs["dp2"][2] == runs["m2"][2] and runs["dp4"][2] == runs["m4"][2], what, "ranks have other bits than microbatches")
    check(train(body, "--microbatches", 2, *POLICY)[2] == runs["m2"][2], what, "a policy changes bits")
    for name in divided:
        near(f"{what}, {name}", train(body, *DIVIDED[name]), whole)
    return whole


def without_targets():
    pathlib.Path("spaces").write_bytes(bytes([SPACE]) * 1000)
    for options in [], PARTS["m4"], PARTS["both"], DIVIDED["chunks"]:
        loss, gradients, _ = train(COUNTED, *options, text="spaces")
        check(loss == [0, 0] and not any(map(any, gradients.values())), "no target counts", options, loss)


def refusals():
    for body, node in (STATISTIC, '"centred" (sub)'), (CONTRASTIVE, '"pairs" (matmul)'):
        train(body)
        for options in PARTS["m2"], PARTS["dp2"]:
            refused(tool("compile", "model.txt", *options, "-o", "m.plan"), INVALID,
                    f'model.txt: output "loss": node {node} makes something of several entries of the batch', options)


def shown():
    """A step counts before its microbatches; what is shown of it, and emitted as a policy, is of a microbatch."""
    tool.must("graph", "bert-tiny", "--batch", 4, "-o", "bert.fbs")
    sites = []
    for count in 1, 2:
        tool.must("compile", "bert.fbs", "--microbatches", count, "--recompute-granularity", "selective", "--recompute-modules",
                  "core_attn", "-o", "b.plan")
        tool.must("dump", "b.plan", "--emit-policy", "pytorch", "--model", "bert.fbs", "-o", "policy.py")
        sites.append([line for line in pathlib.Path("policy.py").read_text().splitlines() if line.startswith('    ("layers"')])
    check(sites[0] and sites[0] == sites[1], "the policy of microbatches is another", sites)
    check('commands of "microbatch"' in tool.text("dump", "b.plan", "--memory"), "no microbatch is shown")


def main():
    with scratch():
        shown()
        counted = follow("counted", COUNTED, DIVIDED)
        follow("counted slices", SLICES)
        follow("sum", SUM)
        follow("mean", MEAN)
        every = train(COUNTED.replace("= 32", "= 256"))
        check(abs(every[0][0] - counted[0][0]) > 1e-3, "the same loss where all targets count")
        without_targets()
        refusals()
    finish()


main()
