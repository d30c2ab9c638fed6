# SPDX-License-Identifier: Apache-2.0
"""PyTorch's eager kernels: each operator is one, and what is planned is what is allocated."""
from . import _planner, bare_problem, costs as costs_of, fronts
from ._torch import TracingContext, aot_autograd, boxed_nop, functorch_config
from .errors import Error
from .joint import Joint, rounding
from .prepare import prepare
from .replay import replay
from .unroll import Unrolled, split


class Eager:
    """The kernels of one graph of Dynamo's: of its joint graph they make a part to plan, of a variant the two graphs that
    run, and compile them."""

    def __init__(self, backend, mode=None, options=None, **_):
        self.backend, self.layer = backend, ""
        if mode:
            raise Error(f"mode '{mode}' is of Inductor: kernels=\"aot_eager\" takes none")
        if options:
            raise Error(f"option '{min(options)}' of torch.compile is of Inductor: kernels=\"aot_eager\" takes none; "
                        "give remat's own to remat.backend(options=...)")

    def joint(self, module, forward_count):
        prepare(module, forward_count, self.backend.replay_random)
        return Joint(module, forward_count, rounding(module), self.backend.recomputable)

    def facts(self, joint):
        costs = costs_of.resolve(self.backend.costs, joint.module)
        return fronts.of_joint(joint, bare_problem.build(joint, costs), costs.name)

    def whole(self, joint, input_bytes, tags, forward_count, static):
        """Of a graph that is all of a step: the part, its first variant, what the report says, and its graphs."""
        planning, sequence, rows = self.backend.plan(joint, input_bytes, tags, forward_count, self.layer)
        facts = fronts.of_joint(joint, rows, planning.costs)
        first = fronts.variant(facts, facts.lifted(sequence))
        return fronts.Part(facts), first, planning, self.graphs(joint, facts, first, forward_count, static)

    def smallest(self, joint, input_bytes, tags, forward_count, static):
        """Of any other graph: its first variant has the smallest peak, in which it must fit alone."""
        backend, facts = self.backend, self.facts(joint)
        decision = _planner.smallest(facts.plain(), fronts.EFFORT)
        memory = replay(facts.rows, decision.sequence)
        left, beside, _ = backend.room(input_bytes, alone=True)
        if memory.peak_bytes > left:
            raise backend.no_plan(facts.rows, decision, beside, 0)
        first = fronts.variant(facts, decision.sequence)
        planning = backend.planning(joint, facts.rows, decision, memory, left, input_bytes, 0, tags, facts.costs)
        return fronts.Part(facts), first, planning, self.graphs(joint, facts, first, forward_count, static)

    def graphs(self, joint, facts, variant, forward_count, static):
        return split(Unrolled(joint, facts.rows, variant.sequence), forward_count, static)

    def compile(self, module, inputs, partition, watched, _):
        def forward_compiler(graph, inputs):
            context = TracingContext.try_get()
            if context is not None and context.fw_metadata is not None:
                context.fw_metadata.bw_donated_idxs = []  # else "unknown" forbids retain_graph after a step
            return watched(boxed_nop(graph, inputs))
        # Eager kernels never write into saved values, and without donated buffers retain_graph works.
        with functorch_config.patch(donated_buffer=False):
            return aot_autograd(fw_compiler=forward_compiler, bw_compiler=boxed_nop, inference_compiler=boxed_nop,
                                partition_fn=partition, keep_inference_input_mutations=True)(module, inputs)
