# SPDX-License-Identifier: Apache-2.0
"""Many graphs under one budget: graph breaks, blocks compiled one by one, two models of one backend. Bits are those of
eager mode in the recorded step and in planned ones, and the peak that the allocator sees in a planned step is the
planned one within 2 %.

    main([KIND,] CASE...)   or all; KIND of kernels.py, for cases of use(), aot_eager unless told: with Inductor's
    kernels gradients are within 1e-5 of the largest of those with everything saved"""
import dataclasses
import itertools
import random
import types
from unittest import mock

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import budgets
import harness
import kernels
import peaks
import remat
from remat import calls, choice, fronts, proposals, steps as steps_of, variants
from remat.bare_problem import BORDER, MARK, Row

TOLERANCE = 0.02
WIDTH, ROWS = 64, 1024
CASES = {}


def case(check):
    CASES[check.__name__] = check
    return check


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(0.1),
                                  nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.body(x)


class Breaks(nn.Module):
    """Four graphs."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        x = self.blocks[0](x)
        torch._dynamo.graph_break()
        x = self.blocks[1](x)
        torch._dynamo.graph_break()
        x = self.blocks[2](x)
        torch._dynamo.graph_break()
        return self.blocks[3](x)


class Blocks(nn.Module):
    """Twelve calls of two graphs, when each block is compiled: the input of the first needs no gradient."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(12))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def whole(model, backend):
    return torch.compile(model, backend=backend)


def by_block(model, backend):
    for block in model.blocks:
        block.compile(backend=backend)
    return model


def batch(seed=1):
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))


def trained(model, f, x, steps):
    """Losses and gradients of each step, and the generator's state."""
    torch.manual_seed(5)
    seen = []
    for _ in range(steps):
        model.zero_grad()
        loss = f(x).square().mean()
        loss.backward()
        seen += [loss.detach(), *(one.grad for one in model.parameters())]
    model.zero_grad()
    return seen + [torch.get_rng_state()]


def outside_bytes(model, x):
    return sum(one.numel() * one.element_size() for one in [*model.parameters(), x])


def compare(name, make, compiled, budget):
    """A recorded step and two planned ones give eager mode's bits; a fourth is measured. Returns the report."""
    seen = []
    for backend in (None, remat.backend):
        torch.compiler.reset()
        torch.manual_seed(0)
        model, x = make(), batch()
        if backend is not None:
            backend = backend(budget, model=model, kernels="aot_eager", margin=0)
        f = compiled(model, backend) if backend else model
        seen.append(trained(model, f, x, 3))
    harness.check(budgets.equal(*seen), f"{name}: bits differ from eager mode's")
    report = backend.report()
    measured, running = peaks.measure(lambda: f(x).square().mean().backward())
    measured += outside_bytes(model, x)
    harness.check(report.step is not None and report.planned_peak_bytes <= report.budget_bytes,
                  f"{name}: {report.planned_peak_bytes} of {report.budget_bytes} bytes planned")
    harness.check(abs(measured / report.planned_peak_bytes - 1) <= TOLERANCE,
                  f"{name}: measured {measured}, planned {report.planned_peak_bytes}; running {running}")
    harness.check(any(call.overhead > 0 for call in report.step.calls), f"{name}: nothing is recomputed")
    print(f"  {name:20} measured {measured / report.planned_peak_bytes:.4f} of what is planned, {report.step.line()}",
          flush=True)
    return report


@case
def three_breaks():
    report = compare("three breaks", Breaks, whole, "8MB")
    harness.check(len(report.step.calls) == 4 and len(report.graphs) == 4, f"three breaks: {report}")


@case
def twelve_blocks():
    report = compare("twelve blocks", Blocks, by_block, "14MB")
    harness.check(len(report.step.calls) == 12 and len(report.graphs) == 2, f"twelve blocks: {report}")
    harness.check([call.layer for call in report.step.calls] == [f"blocks.{index}.body.0" for index in range(12)],
                  f"twelve blocks: layers {[call.layer for call in report.step.calls]}")
    variants = {(call.graph, call.variant) for call in report.step.calls}
    harness.check(len(variants) <= 8, f"twelve blocks: variants {variants}")


# As people use them: bits of eager mode, whatever the calls of a step are.

BUDGETS = {"aot_eager": "9MB", "inductor": "5.5MB"}
KIND = [kernels.KINDS["aot_eager"]]  # of the kernels that use() tries


class Few(Blocks):
    def __init__(self):
        super().__init__()
        self.blocks = self.blocks[:4]


class Loop(Few):
    """A break in a loop: Dynamo leaves the frame to Python and compiles each block's."""

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            torch._dynamo.graph_break()
        return x


class Shared(Few):
    """One module many times, as in ALBERT."""

    def __init__(self):
        super().__init__()
        self.blocks = self.blocks[:1]

    def forward(self, x):
        for _ in range(4):
            x = self.blocks[0](x)
        return x


class Twice(Few):
    """Two inputs go through the same blocks in one step."""

    def forward(self, x):
        return super().forward(x) * super().forward(x.flip(0))


class Checkpointed(Few):
    reentrant = False

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


class Reentrant(Checkpointed):
    reentrant = True


def step(f, x):
    f(x).square().mean().backward()


def use(name, make, run, compiled=by_block, budget=BUDGETS, planned=True, **settings):
    """run(model, f) as often as it takes, with the results of eager mode, or of Inductor with everything saved. Returns
    the backend."""
    seen, kind = [], KIND[0]
    for used in (kind.everything_saved, remat.backend):
        torch.compiler.reset()
        torch.manual_seed(0)
        model = make()
        if used is remat.backend:
            used = backend = remat.backend(budget[kind.kernels], model=model, kernels=kind.kernels, margin=0,
                                           **settings)
        f = compiled(model, used) if used else model
        torch.manual_seed(5)
        results = run(model, f) or []
        seen.append([*results, *(one.grad for one in model.parameters() if one.grad is not None),
                     torch.get_rng_state()])
    off = kernels.off(seen[1], seen[0])
    harness.check(off <= kind.tolerance and (kind.tolerance or budgets.equal(*seen)),
                  f"{name}: {off} of the largest gradient off, or bits differ, or the generator is left otherwise")
    report = backend.report()
    harness.check((report.step is not None) == planned, f"{name}: planned together is {report.step is not None}")
    if planned:
        harness.check(any(call.overhead > 0 for call in report.step.calls), f"{name}: nothing is recomputed")
    print(f"  {name:40} {off:.1e} of the largest gradient off; {report.step.line() if planned else 'no plan'}", flush=True)
    return backend


def steps(count, x=None):
    def run(model, f):
        for _ in range(count):
            model.zero_grad()
            step(f, batch() if x is None else x)
    return run


def whole_and_blocks(name, make, run, **settings):
    for compiled in (by_block, whole):
        use(f"{name}, {compiled.__name__}", make, run, compiled, **settings)


@case
def break_in_a_loop():
    backend = use("a break in a loop", Loop, steps(3), whole)
    harness.check(len(backend.report().step.calls) == 4, f"a break in a loop: {backend.report()}")


@case
def one_backend_for_each_block():
    """Equal arguments and the same model: one budget."""
    made = []

    def compiled(model, backend):
        for block in model.blocks:
            if isinstance(backend, remat._backend.Backend):
                backend = remat.backend(BUDGETS[KIND[0].kernels], model=model, kernels=KIND[0].kernels, margin=0)
                made.append(backend)
            block.compile(backend=backend)
        return model
    backend = use("a backend for each block", Few, steps(3), compiled)
    harness.check(all(one is backend for one in made), "equal arguments make different backends")
    harness.check(remat.backend("8MB", model=backend.model, kernels=KIND[0].kernels, margin=0) is not backend,
                  "different budgets make one backend")


@case
def as_torchtitan_compiles():
    """Each block is replaced by torch.compile(block, fullgraph=True)."""
    def compiled(model, backend):
        for name, block in model.blocks.named_children():
            model.blocks.register_module(name, torch.compile(block, backend=backend, fullgraph=True))
        return model
    report = use("as torchtitan compiles", Few, steps(3), compiled).report()
    harness.check(len(report.step.calls) == 4 and len(report.graphs) == 2,
                  f"as torchtitan compiles: {report}")


@case
def one_module_many_times():
    backend = use("one module many times", Shared, steps(3))
    harness.check(len(backend.report().step.calls) == 4, f"one module many times: {backend.report()}")


@case
def blocks_twice_in_a_step():
    backend = use("blocks twice", Twice, steps(3), budget={"aot_eager": "14MB", "inductor": "9MB"})
    harness.check(len(backend.report().step.calls) == 8, f"blocks twice: {backend.report()}")


@case
def accumulation():
    def run(model, f):
        for _ in range(3):
            model.zero_grad()
            for seed in range(3):
                step(f, batch(seed))
    budget = {"aot_eager": "9MB", "inductor": "6.5MB"}
    use("accumulation", Few, run, budget=budget, accumulate=True)
    use("accumulation, as found", Few, run, budget=budget)


@case
def exception_in_a_step():
    """In the recorded step, and in a planned one."""
    def run(model, f):
        def fails(*_):
            raise KeyError("in the middle")
        for _ in range(3):
            model.zero_grad()
            try:
                with model.blocks[2].register_forward_pre_hook(fails):
                    f(batch())
            except KeyError:
                pass
            step(f, batch())
    use("an exception in a step", Few, run)


@case
def other_calls_between():
    """Evaluation, without a gradient and with one that nobody asks for; another batch size; two losses at once."""
    def run(model, f):
        kept = []
        for rows in (ROWS, ROWS, ROWS // 2, ROWS // 2, ROWS, ROWS // 2):
            model.zero_grad()
            x = batch()[:rows]
            loss = f(x).square().mean()
            model.eval()
            with torch.no_grad():
                kept.append(f(x))
            model.train()
            loss.backward()
            kept.append(f(x).detach())
        one, two = f(batch()).square().mean(), f(batch(2)).square().mean()
        again = KIND[0].kernels == "aot_eager"  # Inductor's kernels may write into what is saved
        one.backward(retain_graph=again)
        two.backward()
        if again:
            one.backward()
        return kept
    use("other calls between", Few, run, budget={"aot_eager": "7MB", "inductor": "5MB"})


@case
def inside_checkpoint():
    for make in (Checkpointed, Reentrant):
        x = batch().requires_grad_()
        backend = use(f"inside a checkpoint, {make.__name__}", make, steps(3, x), planned=make is Checkpointed)
        harness.check(any("its plan does not hold" in remark for remark in backend.report().remarks),
                      f"inside a checkpoint: remarks {backend.report().remarks}")


@case
def reentrant_checkpoint_measured():
    """The plan that the report says does not hold does not: the peak is above it."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model, x = Reentrant(), batch().requires_grad_()
    f = by_block(model, backend := remat.backend(BUDGETS["aot_eager"], model=model, kernels="aot_eager", margin=0))
    steps(2, x)(model, f)
    model.zero_grad()
    x.grad = None
    measured, running = peaks.measure(lambda: step(f, x))
    measured += outside_bytes(model, x)
    report = backend.report()
    harness.check(measured > report.planned_peak_bytes * (1 + TOLERANCE),
                  f"measured {measured}, planned {report.planned_peak_bytes}; running {running}")


@case
def first_graph_without_model():
    """It is planned for all of the budget; the report names it, and then all graphs are planned together."""
    torch.compiler.reset()
    backend = remat.backend("8MB", kernels="aot_eager", margin=0)
    model = Breaks()
    steps(3)(model, whole(model, backend))
    report = backend.report()
    harness.check(any("graph 1 was planned for all of the budget before graph 2 was seen: pass model=" in remark
                      for remark in report.remarks), f"without a model: {report.remarks}")
    harness.check(report.step is not None and len(report.step.calls) == 4, f"without a model: {report}")


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Few(), Few()

    def forward(self, x):
        return self.two(self.one(x))


def by_model(model, backend):
    model.one.compile(backend=backend)
    model.two.compile(backend=backend)
    return model


@case
def two_models():
    report = compare("two models", Pair, by_model, "11MB")
    harness.check(len(report.step.calls) == 2, f"two models: {report}")


class Ends(Few):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.head(super().forward(x))


@case
def module_outside():
    """It is named, and the peak of the graphs holds."""
    backend = use("a module outside", Ends, steps(3))
    harness.check(any("head" in remark for remark in backend.report().remarks), f"{backend.report().remarks}")


def planned(make, compiled, budget):
    """The report after a recorded step and a planned one."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model = make()
    backend = remat.backend(budget, model=model, kernels="aot_eager", margin=0)
    steps(2)(model, compiled(model, backend))
    return backend.report()


@case
def infeasible_budget():
    """The error has a budget that is enough, and a floor below which none is."""
    try:
        planned(Few, by_block, "5MB")
    except remat.InfeasibleBudget as error:
        found = error
    else:
        harness.check(False, "5MB are enough")
        return
    harness.check("all 4 calls" in str(found) and found.floor_bytes <= found.smallest_bytes, str(found))
    harness.check(planned(Few, by_block, found.smallest_bytes).step is not None, "the smallest budget has no plan")


def plan_of(compiled, budget, kernels):
    """The report once twelve blocks, or one graph of them, have a plan, which nothing has run; None: nothing fits."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model = Blocks()
    backend = remat.backend(budget, model=model, kernels=kernels, margin=0)
    try:
        step(compiled(model, backend), batch())
        backend.calls._begin_step()
    except Exception as raised:
        if "no plan fits" not in str(raised):
            raise
        return None
    return backend.report()


@case
def against_one_graph(kernels="aot_eager", shares=10):
    """Twelve blocks against the same model as one graph, at budgets from the floor of the blocks and a tenth to
    everything saved: overhead % and bound % of each. Where both have a plan the blocks' is at most 5 % slower."""
    most = plan_of(by_block, budgets.EVERYTHING, kernels)
    one = plan_of(whole, budgets.EVERYTHING, kernels)
    beside = most.outside.step_bytes
    floor, most = most.step.floor_bytes + beside, beside + most.step.fastest_bytes
    graph = one.graphs[0]
    print(f"  floors: blocks {floor}, one graph {graph.floor_bytes + graph.input_bytes + beside}; blocks without a budget "
          f"{most}", flush=True)
    for share in range(shares):
        budget = int(1.1 * floor + (most - 1.1 * floor) * share / (shares - 1))
        found = [plan_of(compiled, budget, kernels) for compiled in (by_block, whole)]
        blocks, one = (report and (report.step or report.graphs[0]) for report in found)
        print(f"  {budget}: " + "; ".join(
            f"{100 * each.overhead:.2f} % of at least {100 * each.bound:.2f} %" if each else "no plan"
            for each in (blocks, one)), flush=True)
        harness.check(one is None or blocks is not None and blocks.overhead <= one.overhead + 0.05,
                      f"{budget}: blocks are more than 5 % slower than one graph")


@case
def variant_that_needs_guards():
    """It does not run, log and report say so, and a step later its calls have a plan without it."""
    guards = itertools.count()
    with mock.patch.object(variants.Graph, "_guards", lambda graph: next(guards)):
        backend = use("a variant that needs guards", Few, steps(5), budget={"aot_eager": "10MB", "inductor": "6MB"})
    report = backend.report()
    harness.check(any("guards" in remark for remark in report.remarks), f"no guards in {report.remarks}")
    harness.check({call.variant for call in report.step.calls} == {1}, f"a variant that does not run: {report}")


@case
def exhaustive_search():
    """Of 6 nested calls with 4 options each, against all choices."""
    draw = random.Random(1)
    for trial in range(20):
        calls = []
        for index in range(6):
            options = [choice.Option(draw.randint(10, 40), draw.randint(0, 9), draw.randint(3, 20), draw.randint(3, 20))
                       for _ in range(4)]
            earlier = frozenset(range(index))
            calls.append(choice.Call(tuple(options), choice.Moment(draw.randint(30, 45), earlier),
                                     choice.Moment(draw.randint(30, 45), earlier)))
        times = [sum(call.options[index].time_ns for call, index in zip(calls, picks))
                 for picks in itertools.product(range(4), repeat=6) if fits(calls, picks)]
        found = choice.choose(calls)
        least = min(times, default=None)
        harness.check((found and found[0]) == least, f"trial {trial}: {found}, not {least}")
        harness.check(not found or fits(calls, found[1]), f"trial {trial}: {found} does not fit")


@case
def bounds_of_a_graph():
    """Of random graphs of 7 values, all ways to keep them and an input: none is better in each respect than what bounds
    them all."""
    draw = random.Random(1)
    for trial in range(4):
        facts = random_facts(draw)
        graph = types.SimpleNamespace(part=fronts.Part(facts), compiled=[], account=lambda one: one)
        front = fronts.Front(graph, 10 ** 6, (), fronts.Owned({1}, {0}))
        for count in range(facts.border):
            for kept in itertools.combinations(range(facts.border), count):
                found = with_owned(fronts.variant(facts, proposals.keeping("", facts.rows, set(kept)).sequence), 1)
                harness.check(any(no_worse(bound, found) for bound in front.bounds),
                              f"trial {trial}: {found} is better than each of {front.bounds}")


def with_owned(found, index):
    """What a variant keeps and takes, the input and the result included."""
    read = found.facts.input_bytes[index] if index in found.kept_inputs else 0
    result = found.facts.results_bytes if found.kept_results else 0
    return dataclasses.replace(found.option, kept_bytes=found.option.kept_bytes + read,
                               backward_peak_bytes=found.option.backward_peak_bytes + read + result)


class Listed:
    """A part of a step with these variants and no others."""
    levels_of_bound, peaks_of_bound, kept_floor_bytes, peak_floor_bytes, least_ns = 1, 0, 0, 0, 0
    facts = types.SimpleNamespace(results={}, results_bytes=0, tangents_bytes=0, surely_read=frozenset(),
                                  input_bytes={}, everything_saved_ns=1)

    def __init__(self, options):
        self.all = [self.variant(option) for option in options]
        self.fastest = min(self.all, key=lambda one: one.option.time_ns)

    def variant(self, option):
        return fronts.Variant(self.facts, (), option, frozenset(), frozenset(), (), option)

    def least_kept(self):
        return min(self.all, key=lambda one: one.option.kept_bytes)

    def within(self, kept_bytes, peak_bytes, _):
        found = [one for one in self.all if one.option.kept_bytes <= kept_bytes and one.option.peak_bytes <= peak_bytes]
        return min(found, key=lambda one: one.option.time_ns, default=None)

    def bound(self, kept_bytes, late_bytes, _):
        return fronts.Bound(0, None, 1)


@case
def variants_of_a_graph_are_few():
    """Up to four that are there already count, though others beat them: some compiled, some chosen for calls of another
    step."""
    draw, mixed = random.Random(1), 0
    for trial in range(40):
        part = Listed([choice.Option(200 - 9 * level - draw.randint(0, 8), 10 * level, 50, 50) for level in range(12)])
        there = [part.variant(choice.Option(250, 10 * level + 1, 50, 50))
                 for level in range(draw.randint(1, variants.MOST))]
        graph = variants.Graph.__new__(variants.Graph)
        graph.part, graph.refused = part, []
        compiled = draw.randint(1, len(there))
        graph.compiled, graph.chosen = dict.fromkeys(there[:compiled]), dict(enumerate(there[compiled:], 100))
        made = [calls.Call(graph, index, ()) for index in range(6)]
        for index, call in enumerate(made):
            call.forward, call.backward = index, 2 * len(made) - 1 - index
        record = types.SimpleNamespace(calls=made, values={}, live=lambda kept: [0] * 2 * len(made))
        found = steps_of.plan(record, 50 + draw.randint(20, 500)).variants
        mixed += len({*found}) > 1
        harness.check(len({*there, *found}) <= variants.MOST,
                      f"trial {trial}: {len(there)} variants were there, now {len({*there, *found})}")
    harness.check(mixed > 10, f"only {mixed} of the plans have several variants")


def random_facts(draw):
    """A chain with skips, its result, and a backward pass in which each value is read."""
    count = 7
    rows = [Row(f"f{index}", MARK, sorted({draw.randrange(index) for _ in range(2)} | {index - 1}) if index else [],
                draw.randint(1, 9), draw.randint(1, 9), draw.randint(0, 3), once="once" if draw.random() < 0.2 else "")
            for index in range(count)]
    rows[-1].once = "a result of the graph"
    rows.append(Row("border", BORDER, [count - 1], once="border"))
    rows.append(Row("begin", MARK, [count], lasting=2, once="begin"))
    for index in reversed(range(count)):
        rows.append(Row(f"b{index}", MARK, sorted({len(rows) - 1, count + 1, index, draw.randrange(count)}),
                        draw.randint(1, 9), draw.randint(1, 9)))
    kept = frozenset(source for row in rows[count + 2:] for source in row.inputs
                     if source < count - 1 and rows[source].once)
    reads = tuple(frozenset({0} if index == 0 else {1} if index < 3 else ()) for index in range(len(rows)))
    return fronts.Facts(tuple(rows), count, {count - 1: {0}}, reads, frozenset(), kept, {0: 3, 1: draw.randint(1, 9)},
                        "random", sum(row.time_ns for row in rows))


def no_worse(one, other):
    return all(a <= b for a, b in zip(dataclasses.astuple(one), dataclasses.astuple(other)))


def fits(calls, picks):
    chosen = [call.options[index] for call, index in zip(calls, picks)]
    return all(sum(chosen[other].kept_bytes for other in moment.holders) + own <= moment.room_bytes
               for call, option in zip(calls, chosen)
               for moment, own in ((call.forward, option.forward_peak_bytes),
                                   (call.backward, option.backward_peak_bytes)))


def main(*arguments):
    kind, *names = arguments if arguments and arguments[0] in kernels.KINDS else ("aot_eager", *arguments)
    KIND[0] = kernels.KINDS[kind]
    with kernels.cache(), KIND[0].compiling():
        for name in names or CASES:
            CASES[name]()
            print(f"  {name}", flush=True)
