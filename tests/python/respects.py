# SPDX-License-Identifier: Apache-2.0
"""What a partitioner must respect, each by name: results, gradients, buffers and the generator's state are eager's with
everything saved and at the smallest budget found, and the two graphs show that the rule held.

    main(KIND, CASE...)   of kernels.KINDS, aot_eager unless told; of CASES, or all"""
import functools
import traceback
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F
from torch._inductor import config
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import budgets
import harness
import kernels
from graphs import Graphs

WIDTH = 32
aten = torch.ops.aten
CASES = {}
WITH = kernels.KINDS["aot_eager"]  # what runs the plans


def case(check):
    CASES[check.__name__] = check
    return check


class Net(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.register_buffer("seen", torch.zeros(WIDTH))
        self.register_buffer("late", torch.zeros(1))
        self.call = forward

    def forward(self, x):
        return self.call(self, x)


def plain(budget, **settings):
    return budgets.plain(budget, kernels=WITH.kernels, **settings)


def observe(forward, backend, rows=(64, 64), **settings):
    """Everything that two steps leave."""
    with WITH.compiling():
        return _observe(forward, backend, rows, **settings)


def _observe(forward, backend, rows, **settings):
    torch.compiler.reset()
    torch.manual_seed(0)
    COUNT[0] = 0
    net = Net(forward)
    f = torch.compile(net, backend=backend, **settings) if backend else net
    torch.manual_seed(3)
    seen = []
    for count in rows:
        x = torch.randn(count, WIDTH, requires_grad=True)
        result = f(x)
        result.square().mean().backward()
        seen += [result.detach(), x.grad]
    seen += [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    return seen + [buffer.clone() for buffer in net.buffers()] + [torch.get_rng_state(), torch.tensor(COUNT[0])]


EAGER = object()


def trained(name, forward, against=None, options=None, **settings):
    """The graphs with all the memory that there is and at the smallest budget, after both have given what eager mode does,
    or the backend `against`, or PyTorch's cut that saves all, unless that is told to be EAGER."""
    expected = observe(forward, None if against is EAGER else WITH.everything_saved or against, **settings)
    everything = Graphs(plain(budgets.EVERYTHING, options=options), look=True)
    harness.check(not WITH.differ(observe(forward, everything, **settings), expected), f"{name}: results differ")
    least = Graphs(plain(everything.least_bytes, options=options))
    harness.check(not WITH.differ(observe(forward, least, **settings), expected),
                  f"{name}: results differ at {everything.least_bytes} bytes")
    return everything, least


def refused(name, forward, *words, error="Refused"):
    """The message has all the words, and the kind of error."""
    try:
        observe(forward, plain(budgets.EVERYTHING))
    except Exception as raised:
        text = str(raised)
        harness.check(error in text and all(word in text for word in words), f"{name}: {text}")
    else:
        harness.check(False, f"{name}: not refused")


# Tags of checkpointing.

def tagged(policies, last=torch.exp):
    """A forward pass in which operators have a policy each. The derivative of tanh is an operator of its own."""
    def policy(_, op, *args, **kwargs):
        return policies.get(op, CheckpointPolicy.PREFER_SAVE)

    def forward(net, x):
        def block(t):
            return last(torch.tanh(net.b(torch.tanh(net.a(t)))))
        h = checkpoint(block, x, use_reentrant=False,
                       context_fn=functools.partial(create_selective_checkpoint_contexts, policy))
        return net.c(h).exp()
    return forward


@case
def must_save():
    for graphs in trained("MUST_SAVE", tagged({aten.tanh.default: CheckpointPolicy.MUST_SAVE})):
        harness.check(graphs.count("tanh", "backward") == 0, "MUST_SAVE: tanh runs again")
    _, least = trained("without tags", lambda net, x: tagged({})(net, x))
    harness.check(least.count("tanh", "backward") > 0, "without a tag tanh does not run again: the case shows nothing")


@case
def must_recompute():
    for graphs in trained("MUST_RECOMPUTE", tagged({aten.tanh.default: CheckpointPolicy.MUST_RECOMPUTE})):
        harness.check(graphs.count("tanh", "backward") == 2, "MUST_RECOMPUTE: tanh does not run again")
        harness.check("tanh" not in graphs.saved_names(), "MUST_RECOMPUTE: tanh is saved")


@case
def must_recompute_in_a_power():
    """The derivative of t**3 is made of t**2, which is made of no tangent."""
    for graphs in trained("MUST_RECOMPUTE", tagged({aten.tanh.default: CheckpointPolicy.MUST_RECOMPUTE}, lambda t: t**3)):
        harness.check(graphs.count("tanh", "backward") >= 2 and "tanh" not in graphs.saved_names(),
                      f"MUST_RECOMPUTE of t in t**3: {graphs.count('tanh', 'backward')} in the backward graph")


@case
def prefer():
    everything, _ = trained("PREFER", tagged({aten.tanh.default: CheckpointPolicy.PREFER_RECOMPUTE}))
    report = everything.report()
    harness.check(report.graphs[0].tags.get("PREFER_RECOMPUTE", 0) >= 2, f"PREFER_RECOMPUTE: {report.graphs[0].tags}")
    harness.check(any("PREFER_*" in remark for remark in report.remarks), f"PREFER_*: {report.remarks}")


@case
def offload():
    for policy in (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD):
        refused(policy.name, tagged({aten.tanh.default: policy}), policy.name, "tanh", "respects.py")


@case
def must_recompute_random():
    def policy(_, op, *args, **kwargs):
        return CheckpointPolicy.MUST_RECOMPUTE

    def forward(net, x):
        return net.b(checkpoint(lambda t: F.dropout(net.a(t), 0.3), x, use_reentrant=False,
                                context_fn=functools.partial(create_selective_checkpoint_contexts, policy)))
    refused("MUST_RECOMPUTE of a random operator", forward, "MUST_RECOMPUTE", "respects.py")


# Operators with effects, and of the user's own.

COUNT = [0]


@torch.library.custom_op("rematcheck::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    COUNT[0] += 1
    return x * 3


@torch.library.custom_op("rematcheck::bump", mutates_args=("n",))
def bump(n: torch.Tensor) -> None:
    n.add_(1)


@torch.library.custom_op("rematcheck::effect", mutates_args=())
def effect(x: torch.Tensor) -> torch.Tensor:
    COUNT[0] += 1
    return x * COUNT[0]


triple.register_fake(torch.empty_like)
triple.register_autograd(lambda ctx, gradient: gradient * 3)
effect.register_fake(torch.empty_like)
effect.register_autograd(lambda ctx, gradient: gradient * 2)


@case
def custom_operator():
    def forward(net, x):
        return net.c(torch.cos(net.b(torch.sin(triple(torch.tanh(net.a(x)))))))
    for graphs in trained("custom operator", forward):
        harness.check(graphs.count("triple", "backward") == 0, "a custom operator runs again")
    declared = {"recomputable": ["rematcheck::triple"]}
    everything = Graphs(plain(budgets.EVERYTHING, options=declared), look=True)
    expected = observe(forward, everything)
    least = Graphs(plain(everything.least_bytes, options=declared))
    seen = observe(forward, least)
    # The last is the count of runs.
    harness.check(budgets.equal(seen[:-1], expected[:-1]), "declared recomputable: bits differ")
    harness.check(least.count("triple", "backward") == 1, "declared recomputable, but not recomputed")


@case
def custom_operator_that_mutates():
    def forward(net, x):
        y = torch.tanh(net.a(x)) + net.seen
        bump(net.seen)
        return net.b(torch.sin(y) + net.seen).cos()
    trained("custom operator that mutates", forward)


@case
def effects_and_tokens():
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
    _register_effectful_op(torch.ops.rematcheck.effect.default, _EffectType.ORDERED)
    for graphs in trained("effect", lambda net, x: net.b(torch.sin(effect(torch.tanh(net.a(x))))).cos()):
        harness.check(graphs.count("with_effects") == 1, "an effect runs twice")


@case
def collectives():
    import torch.distributed as distributed
    from torch.distributed import _functional_collectives
    from torch.testing._internal.distributed.fake_pg import FakeStore
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)

    def forward(net, x):
        h = torch.tanh(net.a(x))
        reduced = _functional_collectives.all_reduce(h, "sum", distributed.group.WORLD)
        return net.b(torch.sin(reduced) * h).cos()
    for graphs in trained("collective", forward):
        for name in ("all_reduce", "wait_tensor"):  # one of the value, one of its gradient
            found = graphs.count(name, "forward"), graphs.count(name, "backward")
            harness.check(found == (1, 1), f"{name}: {found[0]} in the forward and {found[1]} in the backward graph")
    distributed.destroy_process_group()


# Higher-order operators.

@case
def condition():
    def forward(net, x):
        chosen = torch.cond(x.sum() > 0, lambda t: torch.tanh(net.a(t)).sin(), lambda t: net.c(t).cos(), (x,))
        return net.b(chosen).exp()
    for graphs in trained("cond", forward):
        harness.check(graphs.count("cond", "backward") <= 1, "cond runs again")


def region_of(block):
    def forward(net, x):
        region = torch.compiler.nested_compile_region(lambda t: block(net, t))
        return net.b(region(region(torch.cos(x)))).sin()
    return forward


@case
def nested_region():
    """Compiled, PyTorch's own cut that saves all gives wrong gradients."""
    for graphs in trained("nested region", region_of(lambda net, t: torch.tanh(net.a(t)).sin()), against=EAGER):
        harness.check(len(graphs.report().graphs) == 1, "a nested region got a budget of its own")


@case
def nested_region_that_draws():
    """With Inductor regions are PyTorch's own cuts, which draw again in the backward pass. Its cut of the graph around them
    gives wrong gradients where Inductor compiles it, so there is nothing to compare with."""
    if WITH.compiled:
        return
    block = region_of(lambda net, t: F.dropout(torch.tanh(net.a(t)), 0.2).sin())
    for graphs in trained("nested region that draws", block, against=WITH.saves_all):
        harness.check(len(graphs.report().graphs) == 1, "a nested region got a budget of its own")


# What changes inputs and buffers.

@case
def buffer_read_then_mutated():
    def forward(net, x):
        y = torch.sin(torch.tanh(net.a(x)) + net.seen)
        net.seen.add_(1)
        return net.b(y + net.seen).cos()
    trained("buffer read, then mutated", forward)


@case
def buffer_saved_then_mutated():
    """Eager mode raises here; the compiled step has the gradient of the value that was read."""
    def mutating(net, x):
        y = torch.tanh(net.a(x)) * net.seen.add(1)
        net.seen.add_(1)
        return net.b(y).cos()
    trained("buffer saved, then mutated", mutating)


@case
def input_mutated():
    def forward(net, x):
        x = torch.cos(x)
        y = torch.sin(net.a(x))
        net.seen.mul_(0.5).add_(y.detach().mean(0))
        z = y * net.seen.clone()
        net.seen.add_(z.detach().mean(0))
        return net.b(torch.tanh(z)).sin() + net.seen
    trained("buffer mutated twice", forward)

    def into_input(net, x):
        h = torch.sin(x * 2)
        h.mul_(net.a(x).sigmoid())
        return net.b(h).cos()
    trained("value mutated in place", into_input)


class MutatesInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, late):
        y = torch.sin(x)
        ctx.x = x
        ctx.save_for_backward(y, late)
        return y * 2

    @staticmethod
    def backward(ctx, gradient):
        y, late = ctx.saved_tensors
        late.add_(gradient.sum().reshape(1))
        return gradient * torch.cos(ctx.x) + y * 0, None


@case
def mutated_in_backward():
    trained("buffer mutated in the backward pass",
            lambda net, x: net.b(MutatesInBackward.apply(torch.tanh(net.a(x)), net.late)).cos())


# Random numbers.

@case
def random_operators():
    def strided(net, x):
        return net.b(F.dropout(torch.tanh(net.a(x)).t(), 0.3).t().sin()).cos()

    def attention(net, x):
        q, k, v = (layer(x).view(1, 2, -1, 16) for layer in (net.a, net.b, net.c))
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2).sin().cos()

    def generators(net, x):
        noisy = torch.tanh(net.a(x) + torch.randn_like(x) * 0.1) * torch.rand(x.shape)
        return net.b(noisy + torch.randint(0, 3, (WIDTH,))).cos()
    for forward in (strided, attention, generators):
        everything, least = trained(forward.__name__, forward)
        draws = ("bernoulli", "rand", "randn_like", "randint", "native_dropout")
        for graphs in (everything, least):
            harness.check(not any(graphs.count(draw, "backward") for draw in draws), f"{forward.__name__}: drawn again")


@case
def dead_draws():
    """AOTAutograd itself drops draws whose result nothing reads."""
    def forward(net, x):
        torch.rand(5)
        y = F.dropout(torch.tanh(net.a(x)), 0.2)
        torch.randn(3)
        return net.b(y).cos()
    trained("dead draws", forward, against="aot_eager")


# Sizes.

@case
def symbolic_sizes():
    def forward(net, x):
        y = torch.tanh(net.a(x))
        z = y.reshape(x.shape[0] * 2, -1).cumsum(0) / x.shape[0]
        return net.b(torch.relu(z.reshape(x.shape[0], WIDTH)) * y.shape[0]).sin()
    everything, _ = trained("dynamic", forward, rows=(64, 48), dynamic=True)
    report = everything.report()
    harness.check(len(report.graphs) == 1 and report.graphs[0].symbolic, "dynamic=True is not one symbolic graph")
    harness.check(any("no promise above" in remark for remark in report.remarks), f"dynamic: {report.remarks}")


@case
def sizes_from_data():
    def forward(net, x):
        y = torch.tanh(net.a(x))
        positive = (y > 0).sum()
        return net.b((y * positive + torch.nonzero(y.detach()[0] > 0).float().sum()) / 1000).cos()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        trained("sizes from data", forward)


# Storages.

@case
def saved_view_of_larger_base():
    """The backward pass reads a slice: what is saved, and counted, is the whole."""
    def of_results(net, x):
        wide = torch.cat([net.a(x), net.b(x), net.c(x)], 1)
        return wide[:, :WIDTH].sin()

    def of_product(net, x):
        return (x @ torch.cat([net.a.weight, net.b.weight, net.c.weight], 1))[:, :WIDTH].sin()
    for forward in of_results, of_product:
        for graphs in trained("view of a larger base", forward):
            harness.check(graphs.saved_bytes() == graphs.report().graphs[0].saved_bytes,
                          f"saved {graphs.saved_bytes()}, planned {graphs.report().graphs[0].saved_bytes}")


@case
def number_beside_a_result():
    """Cross entropy returns the loss and the weight of all targets, which the backward pass reads."""
    def forward(net, x):
        return F.cross_entropy(torch.tanh(net.a(x)), torch.arange(x.shape[0]) % WIDTH)
    for graphs in trained("number beside a result", forward):
        harness.check(graphs.saved_bytes() == graphs.report().graphs[0].saved_bytes,
                      f"saved {graphs.saved_bytes()}, planned {graphs.report().graphs[0].saved_bytes}")


@case
def results_that_alias():
    def forward(net, x):
        h = torch.tanh(net.a(x))
        return torch.cat([h, h.t().reshape(h.shape), x.view(x.shape)]).sin()
    trained("results that alias", forward)


# Settings beside ours.

@case
def other_budgets():
    def forward(net, x):
        return net.b(torch.tanh(net.a(x)))
    with torch._functorch.config.patch(activation_memory_budget=0.5):
        refused("activation_memory_budget", forward, "activation_memory_budget is 0.5")

    def in_region(net, x):
        with torch.autograd.graph.region_activation_memory_budget(0.5):
            return net.b(torch.tanh(net.a(x)))
    refused("region_activation_memory_budget", in_region, "region_activation_memory_budget")


@case
def cached_plans():
    """The same function under two budgets, without a reset between."""
    net = Net(lambda net, x: net.b(torch.sin(torch.tanh(net.a(x)).exp())).cos())
    x = torch.randn(64, WIDTH)
    with WITH.compiling():
        first = Graphs(plain(budgets.EVERYTHING), look=True)
        torch.compile(net, backend=first)(x).sum().backward()
        second = Graphs(plain(first.least_bytes))
        torch.compile(net, backend=second)(x).sum().backward()
    harness.check(second.report().graphs and second.report().graphs[0].given_bytes == first.least_bytes,
                  "the plan of another budget was used")
    harness.check(second.report().graphs[0].peak_bytes <= first.least_bytes, "the second plan needs more than its budget")


@case
def settings_of_the_account():
    """What Inductor compiles, it compiles with the settings under which it accounts for the memory of both graphs."""
    seen = []

    def compile_graph(graph, inputs, is_backward=False, compile_graph=getattr(WITH, "compile_graph", None), **facts):
        seen.append((is_backward, config.allow_buffer_reuse, config.reorder_for_peak_memory))
        return compile_graph(graph, inputs, is_backward=is_backward, **facts)
    with mock.patch.object(WITH, "compile_graph", compile_graph, create=True):
        observe(lambda net, x: net.b(torch.tanh(net.a(x))), plain(budgets.EVERYTHING), rows=(64,))
    wanted = [] if WITH.kernels == "aot_eager" else [(False, False, False), (True, False, False)]
    harness.check(seen == wanted, f"settings of Inductor's: {seen}")


def main(*names):
    kind, names = (names[0], names[1:]) if names and names[0] in kernels.KINDS else ("aot_eager", names)
    with kernels.cache(), mock.patch(f"{__name__}.WITH", kernels.KINDS[kind]):
        for name in names or CASES:
            try:
                CASES[name]()
            except Exception:
                harness.check(False, f"{name}: {traceback.format_exc(limit=-3)}")
            print(f"  {name}", flush=True)
