# SPDX-License-Identifier: Apache-2.0
"""What a plan must respect: operators that run once, an order that some of them keep, tags of the user, and what is
refused by name."""
from . import nodes
from ._torch import (CheckpointPolicy, OpOverload, functorch_config, memory_budget_annotation, must_be_in_backward,
                     must_be_in_forward)
from .errors import Refused

PURE_NAMESPACES = ("aten", "prims", "quantized_decomposed")


def has_budget(module, joint_inputs):
    """A graph with a backward pass; not a region within another graph, which is traced without inputs."""
    return bool(joint_inputs) and any(map(nodes.is_tangent, module.graph.nodes))


def tag(node):
    return node.meta.get("recompute")


def once_reason(joint, node, recomputable=()):
    """Why a scheduled node never runs again, or None. `recomputable` are names of custom operators, as mine::op."""
    if nodes.is_getitem(node):
        return "small part"
    if nodes.is_number(node):
        return "number"
    if must_be_in_forward(node) or must_be_in_backward(node):
        return "mutates"
    if nodes.is_random(node) or nodes.keeps_state(node):
        return "random"
    if any(tag(value) is CheckpointPolicy.MUST_SAVE for value in [node, *joint.derived.get(node, ())]):
        return "MUST_SAVE"
    if nodes.is_collective(node):
        return "collective"
    if nodes.is_replayed(node):
        return "reads what is mutated" if joint.reads_mutated(node) else None
    if nodes.is_higher_order(node) or not isinstance(node.target, OpOverload):
        return "higher-order operator"
    if node.target.namespace not in PURE_NAMESPACES and node.target._schema.name not in recomputable:
        return "custom operator"
    if joint.reads_mutated(node):
        return "reads what is mutated"
    return None


def keeps_order(reason):
    """Whether it runs in the order of the trace among all such nodes: it draws, communicates or has effects."""
    return reason in ("random", "collective", "higher-order operator", "custom operator", "mutates")


def check_settings():
    if functorch_config.activation_memory_budget != 1:
        raise Refused(f"torch._functorch.config.activation_memory_budget is {functorch_config.activation_memory_budget}"
                      " beside remat's budget: two planners for one graph; leave it at 1")
    if functorch_config.enable_activation_offloading:
        raise Refused("torch._functorch.config.enable_activation_offloading beside remat's budget: leave it off")


def check_graph(module):
    """Refuses what a plan cannot hold to. Messages name the operator and the user's line."""
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        line = nodes.user_line(node)
        where = f" ({line})" if line else ""
        if memory_budget_annotation(node) is not None or isinstance(node.meta.get("memory_budget"), float):
            raise Refused(f"{node.name}: region_activation_memory_budget beside remat's budget: remove it{where}")
        if tag(node) in (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD):
            raise Refused(f"{node.name}: {tag(node).name} asks for a copy in host memory, which remat does not plan "
                          f"here: use MUST_SAVE or PREFER_RECOMPUTE{where}")
        if tag(node) is CheckpointPolicy.MUST_RECOMPUTE and not _may_recompute(node):
            raise Refused(f"{node.name}: MUST_RECOMPUTE for {nodes.operator_name(node)}, which may not run twice: "
                          f"tag it PREFER_RECOMPUTE or MUST_SAVE{where}")


def _may_recompute(node):
    return (nodes.is_getitem(node) or not nodes.tensors(node) or
            isinstance(node.target, OpOverload) and node.target.namespace in PURE_NAMESPACES
            and not nodes.is_random(node) and not node.target._schema.is_mutable)


def count_tags(module):
    """Tags in the graph by name, of operators that make tensors."""
    counts = {}
    for node in module.graph.nodes:
        if node.op == "call_function" and not nodes.is_getitem(node) and isinstance(tag(node), CheckpointPolicy):
            counts[tag(node).name] = counts.get(tag(node).name, 0) + 1
    return counts
