# SPDX-License-Identifier: Apache-2.0
"""What Inductor makes of a forward and a backward graph, without code: its lowering, fusion and order on traced tensors,
and the memory that its buffers then take by its own account."""
import contextlib
import dataclasses
import itertools

import torch
from torch import fx

from . import nodes, scratch
from ._torch import (DebugContext, ExternKernelSchedulerNode, GraphLowering, Layout, NonOwningLayout,
                     NopKernelSchedulerNode, OrderedSet, OuterLoopFusedSchedulerNode, OutputNode, SchedulerNode, V,
                     can_match_buffer_size, fake_tensor_prop, functorch_config, inductor_memory, post_grad_passes,
                     record_output_strides, shape_env_from_inputs, tree_leaves, view_to_reshape)


@dataclasses.dataclass(frozen=True)
class Buffer:
    """Bytes that one kernel makes and that are freed after another; `end` is None where it lives on. Of several results
    of an operator, the operator makes the bytes and each result frees its own."""
    name: str
    bytes: int
    freed_bytes: int
    begin: int
    end: int | None


@dataclasses.dataclass(frozen=True)
class Lowered:
    """Kernels in order, by what they compute; what they allocate and free while they run; and what lives when.
    `copied_bytes`: of inputs that the graph returns in another layout."""
    kernels: list
    scratch_bytes: list
    buffers: list
    copied_bytes: int

    def timeline(self, without=()):
        """Bytes live in each kernel, without buffers of these names."""
        change = [0] * (len(self.kernels) + 1)
        for one in self.buffers:
            if one.name not in without:
                change[one.begin] += one.bytes
            if one.name not in without and one.end is not None:
                change[one.end + 1] -= one.freed_bytes
        return [live + beside for live, beside in zip(itertools.accumulate(change), self.scratch_bytes)]

    def place(self, live):
        """What the kernel at the peak of a timeline computes, and the user's line."""
        return self.kernels[live.index(max(live))] if live else "no kernel"

    @property
    def peak_bytes(self):
        return max(self.timeline(), default=0)


def lower(module, is_backward, donated=()):
    """Under Inductor's settings of now. `module` stays as it is. Kernels may write over inputs of the names `donated`."""
    module = _copied(module)
    given = [node for node in module.graph.nodes if node.op == "placeholder"]
    inputs = [node.meta["val"] for node in given]
    with contextlib.ExitStack() as stack:
        view_to_reshape(module)
        with torch.no_grad():
            mode = fake_tensor_prop(module, inputs)
        record_output_strides(module)
        stack.enter_context(V.set_fake_mode(mode))
        stack.enter_context(V.set_debug_handler(DebugContext()))
        post_grad_passes(module, is_inference=False)
        graph = GraphLowering(module, example_inputs=inputs, shape_env=shape_env_from_inputs(inputs), graph_id=0,
                              is_inference=False, is_backward=is_backward)
        graph.bw_donated_idxs = [index for index, node in enumerate(given) if node.name in donated]
        stack.enter_context(V.set_graph_handler(graph))
        stack.enter_context(V.set_extern_kernel_nodes([]))
        graph.run(*inputs)
        graph.init_wrapper_code()
        graph._update_scheduler()
        return _buffers(graph, module)


def _copied(module):
    graph, copies = fx.Graph(), {}
    results = graph.graph_copy(module.graph, copies)
    old = next(node for node in module.graph.nodes if node.op == "output")
    graph.output(results).meta = dict(old.meta)
    for node, copy in copies.items():
        copy.meta = dict(node.meta)
    return fx.GraphModule(module, graph)


def _buffers(graph, module):
    scheduler = graph.scheduler
    outputs = OrderedSet(graph.get_output_names())
    _, freeable = inductor_memory.prepare_planning_info(
        scheduler.nodes, scheduler.name_to_buf, scheduler.name_to_fused_node,
        OrderedSet(graph.graph_inputs.keys()), outputs)
    timeline, _, _ = inductor_memory.compute_memory_timeline(scheduler.nodes, freeable, outputs)
    given = {node.name: node for node in module.graph.nodes if node.op == "placeholder"}
    buffers, groups = {}, _groups(scheduler.nodes)
    for one in timeline:
        name, made, freed = one.buffer.get_name(), one.size_alloc, one.size_free
        if name in given:
            made = freed = nodes.storage_bytes(given[name].meta["val"])
        elif _stays_inside(scheduler, name):
            continue
        begin = groups[one.start_step][0] if groups else one.start_step
        buffers[name] = Buffer(name, made, freed, begin, None if one.end_step < 0 else groups[one.end_step][1])
    for name, result in reversed(_overwritten(scheduler).items()):
        if name in buffers and result in buffers:
            buffers[name] = dataclasses.replace(buffers[name], end=buffers.pop(result).end)
    for name, owner in _parts(scheduler).items():
        if name in buffers and owner in buffers:
            part, whole = buffers.pop(name), buffers[owner]
            buffers[owner] = dataclasses.replace(whole, begin=min(whole.begin, part.begin))
    return Lowered([_what(kernel) for kernel in scheduler.nodes], [_scratch_bytes(kernel) for kernel in scheduler.nodes],
                   list(buffers.values()), _copied_bytes(graph, module))


def _parts(scheduler):
    """Buffers that are written in place as parts of another, such as of a concatenation, each with that one, which is there
    from its first part on."""
    found = {name: buffer.node.get_output_spec().view.get_name() for name, buffer in scheduler.name_to_buf.items()
             if isinstance(buffer.node.get_output_spec(), NonOwningLayout)}
    while any(owner in found for owner in found.values()):
        found = {name: found.get(owner, owner) for name, owner in found.items()}
    return found


def _groups(kernels):
    """The first and the last kernel, for each, of those that are called as one: for a CPU Inductor makes a function of all
    kernels between two that are PyTorch's own, before which all of its buffers are made, and after which they are freed."""
    groups = []
    for index, kernel in enumerate(kernels):
        device = kernel.get_device()
        alone = isinstance(kernel, ExternKernelSchedulerNode) or device is not None and device.type != "cpu"
        if alone or not groups or groups[-1][2]:
            groups.append([index, index, alone])
        else:
            groups[-1][1] = index
            groups.append(groups[-1])
    return [(first, last) for first, last, _ in groups]


def _scratch_bytes(kernel):
    """Of a kernel that is PyTorch's own."""
    if not isinstance(kernel, ExternKernelSchedulerNode):
        return 0
    operands = [one for one in kernel.node.inputs if isinstance(one.maybe_get_layout(), Layout)]
    known = [node for node in kernel.node.get_origins() if node.target in scratch.ON_CPU]
    return scratch.of_operator(known[0], list(map(_traced, operands))) if known and operands else 0


def _traced(operand):
    """A tensor of the layout that Inductor gave it, without memory."""
    hint = V.graph.sizevars.optimization_hint
    return torch.empty_strided([hint(size) for size in operand.get_size()],
                               [hint(stride) for stride in operand.get_stride()], dtype=operand.get_dtype(), device="meta")


def _what(kernel):
    origins = [node for part in kernel.get_nodes() if part.node is not None for node in part.node.get_origins()
               if node.op == "call_function"]
    lines = list(filter(None, map(nodes.user_line, origins)))
    names = list(dict.fromkeys(nodes.operator_name(node).split(".")[1] for node in origins
                               if isinstance(node.target, nodes.OpOverload)))
    shown = " ".join(sorted(names)[:4]) or kernel.get_name()
    return f"a kernel of {shown}" + (f" ({lines[-1]})" if lines else "")


def _copied_bytes(graph, module):
    returned = zip(tree_leaves(module.graph.output_node().args), graph.graph_outputs)
    copies = {result.get_name(): nodes.storage_bytes(node.meta["val"]) for node, result in returned
              if isinstance(node, fx.Node) and node.op == "placeholder" and nodes.tensors(node)}
    return sum(size for name, size in copies.items() if name not in graph.graph_inputs)


def _stays_inside(scheduler, name):
    """Only the loops that compute it read it, so it gets no memory."""
    made = scheduler.name_to_buf[name]
    kernel = scheduler.name_to_fused_node[made.defining_op_name()]
    if isinstance(kernel, OuterLoopFusedSchedulerNode):
        if _stays_in_row(kernel, made):
            return True
        kernel = next(part for part in kernel.get_outer_nodes() if made.defining_op in part.get_nodes())
    return len(kernel.get_nodes()) > 1 and scheduler.can_buffer_be_removed_through_fusion(
        name, OrderedSet(node.get_name() for node in kernel.get_nodes()))


def _stays_in_row(kernel, made):
    """Of loops that share their outer loops, on a CPU, one passes on a row to the next, by the rules of Inductor's code for
    them (codegen_outer_loop_node)."""
    node, parts = made.defining_op, kernel.get_nodes()
    if (any(len(_ranges(part)) != kernel.outer_loop_fusion_depth + 1 for part in kernel.get_outer_nodes())
            or node.is_reduction() or len(node.get_outputs()) != 1 or not made.node.get_layout().is_contiguous()
            or not all(user.node in parts for user in made.users)):
        return False
    place, stride = 0, 1
    for variable, size in reversed(node._body.var_ranges.items()):
        place, stride = place + stride * variable, stride * size
    read = [user.node._body.get_read_expr(made.get_name()) for user in made.users]
    return all(one == place for one in [node._body.get_write_expr(made.get_name()), *read])


def _ranges(part):
    """Of the loops of fused operators, those of a reduction last."""
    _, (outer, inner) = max(part.get_nodes(), key=lambda node: node.is_reduction()).group
    return [*outer, *inner]


def _overwritten(scheduler):
    """Buffers that the last kernel that reads them writes a result over, each with that result, by the rules of Inductor's
    code for them (decide_inplace_update)."""
    found, done = {}, set()
    for kernel in scheduler.nodes:
        for node in kernel.get_nodes():
            for made in node.get_outputs() if isinstance(node, SchedulerNode) else ():
                giver = _gives_memory(scheduler, node, made, done | node.ancestors, found)
                if giver is not None:
                    found[giver] = made.get_name()
        done |= {node.get_name() for node in kernel.get_nodes()}
    return found


def _gives_memory(scheduler, node, made, done, taken):
    """The name of the buffer whose memory a result of a pointwise operator takes, or None."""
    if _stays_inside(scheduler, made.get_name()) or not made.node.should_allocate() or not _is_plain(made):
        return None
    for read in node.read_writes.reads:
        name = read.name
        given = scheduler.name_to_donated_buffer.get(name)
        if given is None:
            given = scheduler.name_to_buf.get(name)
            if given is None or isinstance(given.defining_op, NopKernelSchedulerNode) or _stays_inside(scheduler, name):
                continue
        if name in taken or not _is_plain(given):
            continue
        left = [user for user in given.users if user.get_name() not in done]
        if (len(left) == 1 and left[0].node is node and left[0].can_inplace
                and can_match_buffer_size(given.node, made.node) and _reads_alike(scheduler, given, node)):
            return name
    return None


def _reads_alike(scheduler, given, node):
    """Whether all that the kernel of `node` reads of a buffer it reads in one order."""
    kernel = scheduler.get_fused_node(node)
    users = [user.node for user in given.users if not isinstance(user.node, OutputNode)]
    return len({access for user in users if scheduler.get_fused_node(user) is kernel
                for access in user.read_writes.reads_and_writes() if access.name == given.get_name()}) == 1


def _is_plain(buffer):
    """It has bytes of its own."""
    layout = buffer.node.get_output_spec()
    return (isinstance(layout, Layout) and not isinstance(layout, NonOwningLayout) and not buffer.get_aliases()
            and not buffer.get_mutations())


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Bytes of each pass at its peak, that of the backward pass without results of the forward pass; and the kernel
    there. What is kept between them, without those results; their bytes."""
    forward_peak_bytes: int
    backward_peak_bytes: int
    places: tuple
    kept_bytes: int
    results_bytes: int

    @property
    def peak_bytes(self):
        """Of both; the results are the caller's all through the backward pass."""
        return max(self.forward_peak_bytes, self.backward_peak_bytes + self.results_bytes)

    @property
    def place(self):
        return self.places[self.forward_peak_bytes < self.peak_bytes]

    @property
    def held_bytes(self):
        return self.kept_bytes + self.results_bytes


def estimate(forward, backward, forward_count):
    """What the two graphs allocate. Tangents are the autograd engine's all through the backward pass."""
    given = [node for node in forward.graph.nodes if node.op == "placeholder"]
    outputs = [node for node in tree_leaves(forward.graph.output_node().args[0]) if isinstance(node, fx.Node)]
    results = outputs[:forward_count]
    read = [node for node in backward.graph.nodes if node.op == "placeholder"]
    tangents = [node for node in read if nodes.is_tangent(node)]
    first, second = lower(forward, False), lower(backward, True, _donated(backward, read, given + results + tangents))
    elsewhere = _storages(results + tangents)
    late = second.timeline({node.name for node in read if _storages([node]) & elsewhere})
    return Estimate(first.peak_bytes, max(late, default=0) + _sizes(tangents, without=given) + first.copied_bytes,
                    (f"{first.place(first.timeline())}, forward pass", f"{second.place(late)}, backward pass"),
                    _sizes(outputs[forward_count:], without=given + results) + first.copied_bytes,
                    _sizes(results, without=given))


def _donated(backward, read, others):
    """Names of saved values that nobody reads after the backward pass, as AOTAutograd tells Inductor."""
    if not functorch_config.donated_buffer:
        return set()
    returned = [node for node in tree_leaves(backward.graph.output_node().args[0]) if isinstance(node, fx.Node)]
    elsewhere = _storages(others + returned)
    return {node.name for node in read if nodes.tensors(node) and not _storages([node]) & elsewhere}


def _storages(graph_nodes):
    return {nodes.storage(tensor) for node in graph_nodes for tensor in nodes.tensors(node)}


def _sizes(graph_nodes, without):
    """Bytes of their storages, without those of others."""
    known = _storages(without)
    return sum({nodes.storage(tensor): nodes.storage_bytes(tensor) for node in graph_nodes
                for tensor in nodes.tensors(node) if nodes.storage(tensor) not in known}.values())
