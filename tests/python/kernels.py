# SPDX-License-Identifier: Apache-2.0
"""What runs the plans of a test, and what each kind is compared with: KINDS by their names."""
import contextlib
import functools
import os
import tempfile
from unittest import mock

import torch
from torch import fx
from torch._functorch.partitioners import default_partition
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.compile_fx import compile_fx, compile_fx_inner, view_to_reshape
from torch._inductor.custom_graph_pass import CustomPartitionerFn

import budgets
import remat.inductor


class Eager:
    """PyTorch's eager kernels: the bits of eager mode. `everything_saved`: the backend that they are compared with, or None
    for eager mode."""
    kernels, everything_saved, saves_all, compiled, tolerance = "aot_eager", None, None, False, 0

    def compiling(self):
        return contextlib.nullcontext()

    def differ(self, seen, expected):
        return off(seen, expected) > self.tolerance


class Inductor(Eager):
    """Inductor's kernels. With `eager_random`, its setting fallback_random, they are compared with eager mode, else with
    themselves under PyTorch's own cut that saves all."""
    kernels, tolerance = "inductor", 1e-5

    def __init__(self, eager_random, compile_graph=compile_fx_inner):
        self.compile_graph, self.compiled = compile_graph, compile_graph is compile_fx_inner
        self.settings = {"fallback_random": eager_random, "fx_graph_cache": False}
        self.everything_saved = None if eager_random else self.saves_all

    @contextlib.contextmanager
    def compiling(self):
        with config.patch(self.settings), mock.patch.object(remat.inductor, "compile_fx_inner", self.compile_graph):
            yield

    def saves_all(self, module, inputs, **_):
        return compile_fx(module, inputs, inner_compile=self.compile_graph,
                          config_patches={"custom_partitioner_fn": SavesAll()})


class WithoutLoops(Inductor):
    """What Inductor writes allocates, calls PyTorch's kernels and frees as ever; its own loops, which allocate nothing on a
    CPU, are not compiled and do nothing. So results mean nothing, and peaks are those of Inductor's kernels."""

    def __init__(self):
        super().__init__(False)
        self.settings["cpp.vec_isa_ok"] = True  # else it compiles a file for each set of instructions

    @contextlib.contextmanager
    def compiling(self):
        with super().compiling(), mock.patch.object(AsyncCompile, "cpp_pybinding", lambda *_: lambda *arguments: None):
            yield


@contextlib.contextmanager
def cache():
    """Code that Inductor makes is compiled once, and headers too: Inductor looks for those where it first put them."""
    with mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder().name}):
        yield


@functools.cache
def folder():
    return tempfile.TemporaryDirectory()


class SavesAll(CustomPartitionerFn):
    def __call__(self, joint_module, joint_inputs, compiler=None, **facts):
        for node in joint_module.graph.nodes:
            node.meta.pop("recompute", None)
        return default_partition(joint_module, joint_inputs, **facts)

    def uuid(self):
        return "saves all"


def interpreted(module, *_, **__):
    """A graph of Inductor's, run by eager kernels: that takes less time than to compile it."""
    view_to_reshape(module)

    def interpret(arguments):
        given = list(arguments)
        arguments.clear()
        return Interpreter(module).run(*given)

    def run(arguments):
        return run.current_callable(arguments)
    run.current_callable, run._boxed_call = interpret, True
    return run


class Interpreter(fx.Interpreter):
    """In eager mode Inductor's random numbers do not depend on their seed."""

    def call_function(self, target, arguments, named):
        if target not in (torch.ops.prims.inductor_random.default, torch.ops.prims.inductor_randint.default):
            return super().call_function(target, arguments, named)
        seed = next(one for one in arguments if isinstance(one, torch.Tensor))
        with torch.random.fork_rng():
            torch.manual_seed(int(seed))
            return super().call_function(target, arguments, named)


def off(seen, expected):
    """The largest difference of floating-point numbers as a part of the largest of them; infinite where others differ."""
    floats = [(one, other) for one, other in zip(seen, expected) if one.is_floating_point()]
    others = [(one, other) for one, other in zip(seen, expected) if not one.is_floating_point()]
    if len(seen) != len(expected) or not all(torch.equal(*pair) for pair in others):
        return float("inf")
    largest = max(float(other.abs().max()) for _, other in floats)
    return max(float((one - other).abs().max()) for one, other in floats) / (largest or 1)


KINDS = {"aot_eager": Eager(), "inductor": Inductor(False), "inductor-eager-random": Inductor(True),
         "without-loops": WithoutLoops(),
         "interpreted": Inductor(False, interpreted), "interpreted-eager-random": Inductor(True, interpreted)}
