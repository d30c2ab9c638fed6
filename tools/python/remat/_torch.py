# SPDX-License-Identifier: Apache-2.0
"""Every name of PyTorch's that is not public, in one place and checked at import."""
import torch

WORKS = ("2.14", "2.15")
WORKS_WITH_INDUCTOR = ("2.15",)  # its guard against fusions that raise the peak


def _unsupported(why):
    return ImportError(f"remat works with PyTorch {' and '.join(WORKS)}; this is {torch.__version__}: {why}")


def is_one_of(versions):
    return ".".join(torch.__version__.split(".")[:2]) in versions


if not is_one_of(WORKS):
    raise _unsupported("another version")

try:
    from torch._C import _current_graph_task_id as current_graph_task_id
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._dynamo.exc import BackendCompilerFailed
    from torch._functorch import config as functorch_config
    from torch._functorch.compile_utils import fx_graph_cse
    from torch._functorch.partitioners import (
        _extract_fwd_bwd_modules as extract_modules,
        _is_assert_only_symbool as is_assert_only_symbool,
        _must_be_in_backward as must_be_in_backward,
        _must_be_in_forward as must_be_in_forward,
        default_partition,
        force_save_effectful_ops,
        is_opaque_node,
        is_rng_op,
        is_sym_node,
        min_cut_rematerialization_partition as min_cut_partition,
        thread_graphsafe_rng_from_hops,
    )
    from torch._guards import TracingContext, tracing
    from torch._higher_order_ops.effects import with_effects
    from torch._inductor import config as inductor_config, list_mode_options, memory as inductor_memory
    from torch._inductor.compile_fx import (
        _recursive_post_grad_passes as post_grad_passes,
        _recursive_record_original_output_strides as record_output_strides,
        compile_fx,
        compile_fx_inner,
        fake_tensor_prop,
        shape_env_from_inputs,
        view_to_reshape,
    )
    from torch._inductor.custom_graph_pass import CustomPartitionerFn
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.codegen.cpp import OuterLoopFusedSchedulerNode
    from torch._inductor.codegen.wrapper import can_match_buffer_size
    from torch._inductor.ir import Layout, NonOwningLayout
    from torch._inductor.scheduler import ExternKernelSchedulerNode, NopKernelSchedulerNode, OutputNode, SchedulerNode
    from torch._inductor.virtualized import V
    from torch._ops import HigherOrderOperator, OpOverload
    from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.amp.autocast_mode import _enter_autocast as enter_autocast
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor
    from torch.fx._lazy_graph_module import _make_graph_module as make_graph_module, _use_lazy_graph_module
    from torch.fx.experimental.symbolic_shapes import optimization_hint
    from torch.fx.traceback import _get_memory_budget_annotation as memory_budget_annotation
    from torch.utils._ordered_set import OrderedSet
    from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
    from torch.utils._pytree import tree_leaves, tree_map
    from torch.utils.checkpoint import CheckpointPolicy
    from torch.utils.flop_counter import flop_registry
except ImportError as missing:
    raise _unsupported(str(missing)) from missing


def lazy_modules():
    """In this context modules of graphs are compiled when they are first run, as in Inductor."""
    return _use_lazy_graph_module(True)


__all__ = [
    "BackendCompilerFailed", "CheckpointPolicy", "CustomPartitionerFn", "DTensor", "DebugContext",
    "ExternKernelSchedulerNode", "FSDPModule", "FakeTensor", "FakeTensorMode", "GraphLowering", "HigherOrderOperator",
    "Layout", "NonOwningLayout", "NopKernelSchedulerNode", "OpOverload", "OrderedSet", "OuterLoopFusedSchedulerNode",
    "OutputNode", "SchedulerNode", "TracingContext", "V", "WORKS_WITH_INDUCTOR",
    "aot_autograd", "boxed_nop", "can_match_buffer_size", "compile_fx", "compile_fx_inner", "current_graph_task_id",
    "default_partition", "disable_current_modes", "enter_autocast", "extract_modules", "fake_tensor_prop",
    "flop_registry", "force_save_effectful_ops", "functorch_config", "fx_graph_cse", "inductor_config",
    "inductor_memory", "is_assert_only_symbool", "is_one_of", "is_opaque_node", "is_rng_op", "is_sym_node",
    "lazy_modules", "list_mode_options", "make_graph_module", "memory_budget_annotation", "min_cut_partition",
    "must_be_in_backward", "must_be_in_forward",
    "optimization_hint", "post_grad_passes", "record_output_strides", "run_and_save_rng_state", "run_with_rng_state",
    "shape_env_from_inputs", "thread_graphsafe_rng_from_hops", "tracing", "tree_leaves", "tree_map",
    "view_to_reshape", "with_effects",
]
