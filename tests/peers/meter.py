# SPDX-License-Identifier: Apache-2.0
"""What Inductor makes of a graph of ATen operators: the kernels that its scheduler forms, with the bytes that each
moves, the flops of products, and the peak of memory by Inductor's own estimate.

Its passes after the partitioner, its lowering and its scheduler run on fake tensors; no code is made and nothing runs.
A graph on CUDA is lowered as for an H100, whose properties are patched in, so neither a driver nor Triton is needed.

Bytes are Inductor's count: each buffer once for each kernel, and at most its size. In a fused kernel Inductor counts a
buffer that is gathered or scattered as a whole, which makes 1 GB of a lookup of 8192 rows; here it counts as what the
largest of the kernel's own nodes reads or writes of it. The peak counts what the graph allocates and the inputs that it
may free (in a backward graph what was saved, and tangents), not parameters. Buffers that only their own kernel reads
get no memory; Inductor's estimate has them, this one does not. It takes an input for as large as what kernels read of
it, a broadcast one for every copy; here it has the bytes of its storage."""
import contextlib
import copy
import dataclasses
import json
import pathlib
import sys
from unittest import mock

import torch
from torch import fx
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import compile_fx, config, ir, memory, scheduler
from torch._inductor.debug import DebugContext
from torch._inductor.dependencies import MemoryDep
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module as make_graph_module
from torch.utils._ordered_set import OrderedSet
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry

H100 = json.loads((pathlib.Path(__file__).resolve().parents[2] / "schemas/devices/h100-sxm.json").read_text())
LAUNCH_S = H100["launch_ns"] / 1e9
BYTES_PER_S = H100["memory"]["peak_bytes_per_s"] * H100["memory"]["efficiency"]
FLOPS_PER_S = H100["matmul"]["bf16_flops_per_s"] * H100["matmul"]["efficiency"]


class Properties:
    """Of an H100, as torch.cuda.get_device_properties() gives them."""
    name, gcnArchName = "NVIDIA H100 80GB HBM3", ""
    major, minor, multi_processor_count, warp_size = 9, 0, 132, 32
    max_threads_per_multi_processor, max_threads_per_block, regs_per_multiprocessor = 2048, 1024, 65536
    total_memory, L2_cache_size = H100["capacity_bytes"], 50 << 20
    shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor = 49152, 232448, 233472


@dataclasses.dataclass(frozen=True)
class Kernel:
    name: str
    is_extern: bool
    bytes: int
    flops: int
    operators: tuple  # names of the graph's nodes that it computes

    @property
    def seconds(self):
        return LAUNCH_S + self.bytes / BYTES_PER_S + self.flops / FLOPS_PER_S


@dataclasses.dataclass(frozen=True)
class Lowered:
    """Kernels of one graph, or of several that run one after the other."""
    kernels: tuple
    peak_bytes: int

    @property
    def bytes(self):
        return sum(kernel.bytes for kernel in self.kernels)

    @property
    def flops(self):
        return sum(kernel.flops for kernel in self.kernels)

    @property
    def seconds(self):
        return sum(kernel.seconds for kernel in self.kernels)

    def then(self, other):
        return Lowered(self.kernels + other.kernels, max(self.peak_bytes, other.peak_bytes))


@contextlib.contextmanager
def pretended_h100():
    interface = {"get_device_properties": lambda *_: Properties, "get_compute_capability": lambda *_: 90,
                 "get_multi_processor_count": lambda *_: Properties.multi_processor_count, "is_available": lambda: True}
    cuda = {"get_device_properties": lambda *_: Properties, "get_device_capability": lambda *_: (9, 0),
            "current_device": lambda: 0, "device_count": lambda: 1, "is_available": lambda: True,
            "is_bf16_supported": lambda *_, **__: True, "_lazy_init": lambda: None}
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(scheduler, "has_triton", lambda *_: True))
        for name, replacement in cuda.items():
            patches.enter_context(mock.patch.object(torch.cuda, name, replacement))
        for name, replacement in interface.items():
            patches.enter_context(mock.patch.object(CudaInterface, name, staticmethod(replacement), create=True))
        DeviceProperties.create.cache_clear()
        patches.callback(DeviceProperties.create.cache_clear)
        yield


def copied(module):
    """A copy that Inductor may change; values are shared."""
    graph, copies = fx.Graph(), {}
    results = graph.graph_copy(module.graph, copies)
    output = graph.output(results)
    for node, made in [*copies.items(), (next(iter(reversed(module.graph.nodes))), output)]:
        made.meta = copy.copy(node.meta)
    return make_graph_module(module, graph)


def on_cuda(module):
    """A copy of a graph whose values are fake tensors on a GPU."""
    module, gpu = copied(module), torch.device("cuda", 0)

    def moved(value):
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=gpu)

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            setattr(module, name, moved(tensor))
        for node in module.graph.nodes:
            node.args, node.kwargs = tree_map(lambda one: gpu if isinstance(one, torch.device) else one,
                                              (node.args, dict(node.kwargs)))
            node.meta.pop("tensor_meta", None)
        inputs = [moved(node.meta["val"]) for node in module.graph.nodes if node.op == "placeholder"]
        module.recompile()
        _Values(module, mode).run(*inputs)
    return module


class _Values(fx.Interpreter):
    """Writes the value of each node into its meta."""

    def __init__(self, module, mode):
        super().__init__(module)
        self.mode = mode

    def run_node(self, n):
        value = super().run_node(n)
        if n.op == "get_attr" and isinstance(value, torch.Tensor) and not hasattr(value, "fake_mode"):
            value = self.mode.from_tensor(value)
        if n.op != "output":
            n.meta["val"] = value
        return value


def lower(module, is_backward=False):
    """The kernels of a graph whose values are fake tensors on one device."""
    module = copied(module)
    inputs = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    is_cuda = any(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10000))
    with contextlib.ExitStack() as settings:
        settings.enter_context(config.patch(fx_graph_cache=False))
        settings.enter_context(pretended_h100() if is_cuda else contextlib.nullcontext())
        compile_fx.view_to_reshape(module)
        with torch.no_grad():
            settings.enter_context(V.set_fake_mode(compile_fx.fake_tensor_prop(module, inputs)))
        settings.enter_context(V.set_debug_handler(DebugContext()))
        compile_fx._recursive_record_original_output_strides(module)
        compile_fx._recursive_post_grad_passes(module, is_inference=False)
        graph = GraphLowering(module, example_inputs=inputs, shape_env=compile_fx.shape_env_from_inputs(inputs),
                              graph_id=0, is_inference=False, is_backward=is_backward)
        settings.enter_context(V.set_graph_handler(graph))
        settings.enter_context(V.set_extern_kernel_nodes([]))
        graph.run(*inputs)
        graph.init_wrapper_code()
        graph._update_scheduler()
        kernels = tuple(_kernel(node) for node in graph.scheduler.nodes if _launches(node))
        return Lowered(kernels, _peak_bytes(graph, module))


def measure(forward, backward):
    return lower(forward).then(lower(backward, is_backward=True))


def _launches(node):
    return not (isinstance(node, scheduler.NopKernelSchedulerNode) or
                isinstance(node, scheduler.ExternKernelSchedulerNode) and isinstance(node.node, ir.MultiOutput))


def _kernel(node):
    is_extern = isinstance(node, scheduler.ExternKernelSchedulerNode)
    operators = dict.fromkeys(origin.name for part in node.get_nodes() if part.node is not None
                              for origin in part.node.get_origins())
    return Kernel(node.get_name(), is_extern, sum(_accesses(node).values()), _flops(node) if is_extern else 0,
                  tuple(operators))


def _accesses(node):
    """Bytes by buffer that a kernel reads and writes."""
    accesses = dict(node.get_read_write_buffer_accesses(True, True))
    if isinstance(node, scheduler.FusedSchedulerNode):
        parts = [part.get_read_write_buffer_accesses(True, True) for part in node.snodes]
        for dependency in node.read_writes.reads | node.read_writes.writes:
            is_whole = not isinstance(dependency, MemoryDep) or dependency.is_indirect()
            if is_whole and dependency.name in accesses:
                largest = max(part.get(dependency.name, 0) for part in parts)
                accesses[dependency.name] = min(accesses[dependency.name], largest)
    return accesses


def _peak_bytes(graph, module):
    nodes, outputs = graph.scheduler.nodes, OrderedSet(graph.get_output_names())
    _, freeable = memory.prepare_planning_info(nodes, graph.scheduler.name_to_buf, graph.scheduler.name_to_fused_node,
                                               OrderedSet(graph.graph_inputs), outputs)
    for node in module.graph.nodes:
        if node.op == "placeholder" and node.name in freeable:
            freeable[node.name].mpi_buffer.size_free = node.meta["val"].untyped_storage().nbytes()
    for kernel in nodes:
        for buffer in kernel.get_outputs():
            if all(user.node in kernel.get_nodes() for user in buffer.users):
                buffer.mpi_buffer.size_alloc = buffer.mpi_buffer.size_free = 0
    peak_bytes, _ = memory.estimate_peak_memory(nodes, freeable, outputs)
    return peak_bytes


def _flops(node):
    """Of an extern kernel, by PyTorch's formula for the operator that it came from."""
    return max(map(_operator_flops, node.node.get_origins()), default=0)


def _operator_flops(origin):
    formula = flop_registry.get(getattr(origin.target, "_overloadpacket", None))
    if formula is None:
        return 0
    arguments, keywords = tree_map(lambda one: one.meta["val"] if isinstance(one, fx.Node) else one,
                                   (origin.args, dict(origin.kwargs)))
    return int(formula(*arguments, **keywords, out_val=origin.meta.get("val")))
