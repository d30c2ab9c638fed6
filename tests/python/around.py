# SPDX-License-Identifier: Apache-2.0
"""What lies around the plan: bytes outside the graphs against those that a real step leaves, messages, the report, the
backend by its name, and the package as pip installs it."""
import contextlib
import json
import logging
import os
import pathlib
import shutil
import sys
import tempfile
from unittest import mock

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import harness
import peaks
import remat
from remat import _library, costs, named, outside, sizes

CASES = {}
PACKAGE = harness.ROOT / "tools/python"


def case(check):
    CASES[check.__name__] = check
    return check


class Network(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.inner, self.middle, self.outer = nn.Linear(width, 4 * width), nn.Tanh(), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.outer(self.middle(self.inner(x)))


def network():
    torch.manual_seed(0)
    return Network()


def trained(model):
    model(torch.randn(8, 256)).square().mean().backward()


def tensor_bytes(values):
    return sum(one.numel() * one.element_size() for one in values if isinstance(one, torch.Tensor) and one.dim())


@case
def optimizer_states():
    """Before a step as many bytes are counted as there are after it."""
    makers = {"AdamW": lambda p: torch.optim.AdamW(p), "amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
              "Adam": lambda p: torch.optim.Adam(p), "SGD": lambda p: torch.optim.SGD(p, 0.1),
              "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
              "Adafactor": lambda p: torch.optim.Adafactor(p)}
    for name, make in makers.items():
        model = network()
        model.inner.bias.requires_grad_(False)
        optimizer = make(model.parameters())
        counted = outside.of_optimizer(optimizer)
        trained(model)
        optimizer.step()
        actual = tensor_bytes(value for state in optimizer.state.values() for value in state.values())
        harness.check(counted.state_bytes == actual, f"{name}: {counted.state_bytes} bytes counted, {actual} there")
        harness.check(outside.of_optimizer(optimizer).state_bytes == actual, f"{name}: other bytes after the step")
    unknown = outside.of_optimizer(torch.optim.RMSprop(network().parameters()))
    harness.check(unknown.unknown, "RMSprop: its class passes for known")
    said = str(remat.backend("1GB", model=model, optimizer=torch.optim.RMSprop(model.parameters()),
                             kernels="aot_eager").report())
    harness.check("RMSprop, whose states are counted once they exist" in said, f"RMSprop: {said}")


@case
def update_temporaries():
    """What an update allocates for itself is counted, within a tenth of a parameter of the real peak."""
    makers = {"AdamW": lambda p: torch.optim.AdamW(p), "AdamW foreach": lambda p: torch.optim.AdamW(p, foreach=True),
              "AdamW fused": lambda p: torch.optim.AdamW(p, fused=True),
              "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
              "SGD foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
              "SGD decay": lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)}
    for name, make in makers.items():
        model = network()
        optimizer = make(model.parameters())
        trained(model)
        optimizer.step()
        counted = outside.of_optimizer(optimizer).update_bytes
        measured, running = peaks.measure(optimizer.step)
        largest = max(tensor_bytes([one]) for one in model.parameters())
        harness.check(abs(counted - measured) <= largest / 10, f"{name}: {counted} counted, {measured}, {running}")


@case
def bytes_of_a_step():
    """Parameters, buffers, states and inputs are taken off; the peak of the whole step is the planned one."""
    model = nn.Sequential(network(), nn.BatchNorm1d(256))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(512, 256)
    backend = remat.backend("1GB", model=model, optimizer=optimizer, kernels="aot_eager")
    torch.compiler.reset()
    compiled = torch.compile(lambda x: model(x).square().mean(), backend=backend)

    def step():
        compiled(x).backward()
        optimizer.step()
        optimizer.zero_grad()
    step()
    report = backend.report()
    parameters = tensor_bytes(model.parameters())
    count = report.outside
    harness.check(count.parameter_bytes == parameters and count.optimizer.state_bytes == 2 * parameters,
                  f"parameters {count.parameter_bytes} and states {count.optimizer.state_bytes} of {parameters}")
    harness.check(report.graphs[0].input_bytes == tensor_bytes([x]), f"inputs: {report.graphs[0].input_bytes}")
    harness.check(report.margin_bytes == 50_000_000, f"margin: {report.margin_bytes}")
    above, running = peaks.measure(step)
    measured = above + 3 * parameters + tensor_bytes(model.buffers()) + tensor_bytes([x])
    harness.check(abs(measured / report.planned_peak_bytes - 1) < 0.02,
                  f"a step: measured {measured}, planned {report.planned_peak_bytes}: {running}")


@case
def earlier_gradients():
    model = network()
    count = outside.count(model, None, True)
    harness.check(count.gradient_bytes == count.parameter_bytes, f"accumulate=True: {count.gradient_bytes}")
    backend = remat.backend("1GB", model=model, kernels="aot_eager")
    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend)
    for _ in range(2):
        trained(compiled)
    harness.check(any("accumulate=True" in remark for remark in backend.report().remarks),
                  f"gradients of earlier microbatches: {backend.report().remarks}")
    harness.check(outside.count(model, None, None).gradient_bytes == count.gradient_bytes, "those there: not counted")


@case
def update_above_the_budget():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    wanted(lambda: plan(model, budget="10MB", model=model, optimizer=optimizer), remat.InfeasibleBudget,
           "the update alone", "fused=True")


def plan(module, budget, **settings):
    torch.compiler.reset()
    backend = remat.backend(budget, kernels="aot_eager", **settings)
    trained(torch.compile(module, backend=backend))
    return backend


def wanted(run, kind, *words):
    """`run` fails with that error, directly or within Dynamo's, and its message has the words."""
    try:
        run()
    except Exception as raised:
        inner = getattr(raised, "inner_exception", raised)
        harness.check(isinstance(inner, kind) and all(word in str(inner) for word in words),
                      f"{type(inner).__name__}: {inner}, not {kind.__name__} with {words}")
        return inner
    harness.check(False, f"no {kind.__name__} with {words}")
    return None


@case
def infeasible_budget():
    """The message has the smallest budget for which there is a plan, the floor, the operator and the user's line; that
    budget has a plan, and none exists below the floor."""
    model = network()
    error = wanted(lambda: plan(model, "50kB"), remat.InfeasibleBudget, "no plan fits the budget of 50.00 kB", "aten.",
                   "around.py:")
    harness.check(plan(model, error.smallest_bytes).report().planned_peak_bytes <= error.smallest_bytes,
                  "the smallest budget has no plan")
    harness.check(error.floor_bytes <= error.smallest_bytes, "the floor is above the smallest budget")
    wanted(lambda: plan(model, int(error.floor_bytes * 0.99)), remat.InfeasibleBudget, "none exists below")


@case
def arguments_of_another_type():
    """The error names the argument and its value."""
    for name, value in (("margin", "0.05"), ("margin", None), ("margin", True), ("options", ["recomputable"]),
                        ("optimizer", 3), ("model", "gpt2"), ("accumulate", 4), ("costs", ["h100-sxm"]),
                        ("kernels", ["inductor"])):
        settings = {"model": network(), "kernels": "aot_eager"} | {name: value}
        wanted(lambda settings=settings: remat.backend("1GB", **settings), remat.Error, f"{name} {value!r}")
    for name, value, shown in (("recomputable", ["mine::op"], "'mine::op'"), ("recomputable", [4], "4"),
                               ("recomputable", "sin", "'sin'"), ("recomputable", 3, "3"), ("replay_random", "no", "'no'")):
        wanted(lambda options={name: value}: remat.backend("1GB", kernels="aot_eager", options=options), remat.Error,
               f"option '{name}'", shown)
    for name, arguments in (("model", (3, None)), ("optimizer", (network(), 3))):
        wanted(lambda given=arguments: remat.problem(given[0], torch.randn(8, 256), lambda f, x: f(x).sum(), given[1]),
               remat.Error, f"{name} 3")


@case
def devices_without_a_description():
    """One line in log and report says whose rates they have; none if the user names one, or remat knows the device."""
    with mock.patch.object(torch.cuda, "get_device_name", lambda _: "Some GPU"):
        for device, words in (("cuda", ("Some GPU", "h100-sxm")), ("mps", ("mps", "cpu")), ("xpu", ("xpu", "cpu"))):
            with mock.patch.object(costs, "device_of", lambda _, device=device: torch.device(device)), \
                    logged() as lines:
                remarks = plan(network(), "1GB").report().remarks
                named = plan(network(), "1GB", costs="l4").report().remarks
            said = [one for one in remarks if "no description of the device" in one]
            harness.check(len(said) == 1 and all(word in said[0] for word in words), f"{device}: {remarks}")
            harness.check([one for one in lines if "no description" in one] == said, f"{device}: logged {lines}")
            harness.check(not any("no description" in one for one in named), f"{device}: costs are named: {named}")
    harness.check(not any("no description" in one for one in plan(network(), "1GB").report().remarks), "a CPU is unknown")


@contextlib.contextmanager
def logged():
    """Lines of remat's log."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log = logging.getLogger("remat")
    log.addHandler(handler)
    try:
        yield lines
    finally:
        log.removeHandler(handler)


@case
def settings_that_are_wrong():
    wanted(lambda: sizes.parse_bytes("80G"), remat.Error, "80GB or 80GiB?")
    wanted(lambda: remat.backend("much", kernels="aot_eager"), remat.Error, "'much' is not a number of bytes")
    wanted(lambda: remat.backend("1GB", kernels="triton"), remat.Error, "inductor, aot_eager")
    wanted(lambda: remat.backend("1GB", options={"max_autotun": True}), remat.Error, "'max_autotun'", "_inductor.config")
    for name in "triton.cudagraphs", "allow_buffer_reuse", "reorder_for_peak_memory":
        wanted(lambda name=name: remat.backend("1GB", options={name: True}), remat.Refused, name)
    for mode in ("reduce-overhead", "max-autotune"):
        wanted(lambda: torch.compile(network(), backend=remat.backend("1GB"), mode=mode)(torch.randn(8, 256)),
               remat.Refused, f"mode '{mode}' makes CUDA graphs")
    wanted(lambda: torch.compile(network(), backend=remat.backend("1GB", kernels="aot_eager"), options={"x": 1})(
        torch.randn(8, 256)), remat.Error, "option 'x' of torch.compile is of Inductor")
    harness.check(remat.backend("1GB", kernels="aot_eager", options={"recomputable": "aten::sin"}).recomputable ==
                  ("aten::sin",), "one name is taken for its letters")
    with mock.patch.object(torch, "__version__", "2.14.1"):
        wanted(lambda: remat.backend("1GB"), remat.Error, "2.15; this is 2.14.1", "aot_eager")
    wanted(lambda: remat.backend("1GB", kernels="aot_eager", margin=1.5), remat.Error, "margin 1.5")
    wanted(lambda: remat.backend("1GB", kernels="aot_eager", options={"recompute": 1}), remat.Error, "recomputable")
    wanted(lambda: plan(network(), "1GB", costs="h101"), remat.Error, "costs 'h101'", "h100-sxm")
    wanted(lambda: remat.backend("1GB", kernels="aot_eager", optimizer=torch.optim.SGD(network().parameters(), 1.0)),
           remat.Error, "without model=")
    harness.check((sizes.parse_bytes("80GB"), sizes.parse_bytes("1.5GiB"), sizes.parse_bytes(7)) ==
                  (80 * 10**9, 3 * 2**29, 7), "sizes are read wrongly")


class Folded(nn.Module):
    """A sum over one row, and a permutation of seven axes."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64)

    def forward(self, x):
        y = self.a(x)
        z = y.view(-1, *6 * (2,))
        return (z.permute(0, 3, 1, 2, 6, 5, 4) + z).softmax(3).sum((1, 2)).flatten() + y.sum(0, True).sin().sum()


def unlowered(module, x, budget="1kB"):
    """The error of a budget that Inductor's kernels cannot have; nothing is compiled."""
    torch.compiler.reset()
    compiled = torch.compile(module, backend=remat.backend(budget, margin=0))
    return wanted(lambda: compiled(x), remat.InfeasibleBudget, "no plan fits", "by its own account")


@case
def shapes_at_the_edge():
    """With Inductor's kernels: batches of one and of none, and more axes than a node of ours has."""
    for name, module, x in (("one row", network(), torch.randn(1, 256)), ("no row", network(), torch.randn(0, 256)),
                            ("one row, folded", Folded(), torch.randn(1, 64)),
                            ("folded", Folded(), torch.randn(32, 64))):
        error = unlowered(module, x)
        harness.check(error is not None and error.floor_bytes <= error.smallest_bytes, f"{name}: {error}")


@case
def peak_by_inductor():
    """Where Inductor's kernels take other bytes than are planned, the figures of the error and of the report agree."""
    x = torch.randn(8, 3, 16, 16)
    module = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(True), nn.Conv2d(16, 16, 3),
                           nn.BatchNorm2d(16), nn.ReLU(True), nn.MaxPool2d(2))
    error = unlowered(module, x)
    harness.check(error.floor_bytes <= error.smallest_bytes, f"floor above the smallest budget: {error}")
    torch.compiler.reset()
    backend = remat.backend(error.smallest_bytes, margin=0)
    torch.compile(module, backend=backend)(x)
    report = backend.report()
    harness.check(report.graphs[0].planned_peak_bytes != report.planned_peak_bytes, "the case shows nothing")
    harness.check(report.planned_peak_bytes <= error.smallest_bytes, f"a peak above the budget: {report}")


@case
def calls_that_no_plan_knows():
    """A step that calls a graph twice within a budget for one call, or within the user's checkpoint: log and report say
    so, not of one call at a time."""
    model, x = network(), torch.randn(64, 256)
    budget = "1GB"
    for name, step, words in (
            ("one at a time", lambda f: f(x).sum(), None),
            ("two forward passes", lambda f: f(x).sum() + f(2 * x).sum(), "calls that no plan knew"),
            ("a checkpoint", lambda f: checkpoint(f, x, use_reentrant=False).sum(), "the user's own checkpoint")):
        torch.compiler.reset()
        backend = remat.backend(budget, margin=0, kernels="aot_eager")
        compiled = torch.compile(model, backend=backend)
        logged = []
        with mock.patch.object(remat._backend.LOG, "warning", lambda text, *given: logged.append(text % given)):
            for _ in range(2):
                step(compiled).backward()
        remarks = backend.report().remarks
        for seen in (remarks, logged):
            harness.check(any(words in one for one in seen) if words else not seen, f"{name}: {seen}")
        budget = backend.report().planned_peak_bytes if words is None else budget


@case
def models_alike():
    """By name, models that look alike have backends of their own."""
    models = [network(), network()]
    options = {"budget": "1GB", "kernels": "aot_eager"}
    found = [named.NAMED.current(options | {"model": one}) for one in models]
    harness.check([one.model for one in found] == models, "a model is planned by another's backend")
    harness.check(named.NAMED.current(options | {"model": models[0]}) is found[0], "equal settings, another backend")
    wanted(lambda: named.NAMED.current({"max_autotune": True}), remat.Error, "'max_autotune'", "budget")
    failed = remat.backend("1GB", models[0], kernels="aot_eager")
    failed.failure = remat.Error("too small")
    harness.check(remat.backend("1GB", models[0], kernels="aot_eager") is not failed, "what failed once fails for good")


@case
def planner_that_is_missing():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "bin").mkdir()
        (path / "bin/remat-compile").write_text("#!/bin/sh\n")
        (path / "bin/remat-compile").chmod(0o755)
        for variable, value, words in (("PATH", folder, ["not on PATH", "0.1.0"]),
                                       ("PATH", f"{folder}/bin", [_library.NAME, folder, "0.1.0"]),
                                       ("REMAT_PREFIX", folder, [_library.NAME, folder])):
            with mock.patch.dict(os.environ, {"REMAT_PREFIX": "", variable: value}):
                wanted(_library.find, remat.Error, *words)
    _library.load.cache_clear()
    with mock.patch.object(_library, "VERSION", "0.1.0-0"):
        wanted(_library.load, remat.Error, "0.1.0-0", "of version 0.1.0-")
    _library.load.cache_clear()


@case
def report():
    backend = plan(network(), "1GB")
    text, fields = str(backend.report()), json.loads(backend.report().json())
    for word in ("budget", "planned peak", "measured", "overhead", "saved", "margin", "not counted"):
        harness.check(word in text, f"the report lacks '{word}': {text}")
    harness.check(fields["planned_peak_bytes"] == backend.report().planned_peak_bytes and
                  fields["graphs"][0]["modules"], f"JSON: {fields}")
    paths = {module["path"] for module in fields["graphs"][0]["modules"]}
    harness.check("middle" in paths, f"the report's modules: {paths}")


@case
def installed():
    """What pip makes of tools/python has the descriptions of devices, and PyTorch finds the backend by its name."""
    program = """
import os, torch, remat
from torch import nn
assert "remat" in torch.compiler.list_backends()
remat.costs.described("h100-sxm")
model = nn.Linear(8, 8)
x = torch.randn(4, 8)
def step(**settings):
    torch.compile(model, backend="remat", **settings)(x).sum().backward()
try:
    step()
except Exception as error:
    assert "needs a budget" in str(error), error
step(options={"budget": "1GB", "kernels": "aot_eager"})
os.environ["REMAT_BUDGET"] = "2GB"
torch.compiler.reset()
step()
backend = remat.defaults(budget="3GB", model=model, kernels="aot_eager")
try:
    step()
except Exception as error:
    assert "have changed" in str(error), error
else:
    raise AssertionError("the plan of another budget ran")
torch.compiler.reset()
step()
assert len(backend.report().graphs) == 1 and backend.report().budget_bytes == 3 * 10**9
print(remat.__file__)
"""
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder) / "source", pathlib.Path(folder) / "target"
        shutil.copytree(PACKAGE, source)  # pip leaves files beside what it installs
        done = harness.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
                            "--no-index", "--disable-pip-version-check", "--target", target, source])
        harness.check(done.returncode == 0, "pip install tools/python")
        done = harness.run([sys.executable, "-c", program], env={"PYTHONPATH": str(target)}, cwd=folder)
        harness.check(done.returncode == 0 and str(target) in done.stdout, "the installed package")


def main(*names):
    for name in names or CASES:
        CASES[name]()
        print(f"  {name}", flush=True)
