# SPDX-License-Identifier: Apache-2.0
"""Mistakes planted in the package, each of which must turn a test of this folder red."""
import contextlib
import dataclasses
import json
from unittest import mock

import torch
from torch.utils.checkpoint import CheckpointPolicy

import bits
import compiled
import draws
import foreign_nodes
import harness
import kernels
import keys
import peaks
import peaks_inductor
import proposals
import ranks
import remat._backend
import remat.draws
import remat.proposals
import remat.unroll
import respects
import several
import several_compiled
from remat import (_planner, bare_problem, calls, classes, foreign, fronts, fused, joint, lowered, nodes, prepare, rules,
                   scratch, steps, variants)

MISTAKES = {}
ACCOUNTED = "gated", 45_000_000  # a model and a budget in which mistakes of the account show


def mistake(*tests):
    """A function that makes the patches; `tests` must notice."""
    def register(patches):
        MISTAKES[patches.__name__] = patches, tests
        return patches
    return register


def case(name):
    return lambda: respects.main(name)


def with_inductor(name):
    return lambda: respects.main("interpreted-eager-random", name)


def not_a_view(node, is_view=nodes.is_view):
    return is_view(node) and "slice" not in nodes.operator_name(node)


@mistake(case("saved_view_of_larger_base"))
def an_alias_freed():
    """A slice passes for a value of its own, so its base is taken for dead."""
    return [mock.patch.object(module, "is_view", not_a_view) for module in (nodes, joint)]


@mistake(case("saved_view_of_larger_base"))
def a_saved_view_counted_small():
    def visible(graph, node, results=bare_problem._results):
        views = [tensor for view in graph.derived.get(node, ()) for tensor in nodes.tensors(view)]
        read, unread = results(graph, node)
        return min([read, *(tensor.numel() * tensor.element_size() for tensor in views)]), unread
    return [mock.patch.object(bare_problem, "_results", visible)]


def without(reason):
    """Operators that run once for that reason may run again, in any order."""
    def patched(*arguments, once_reason=rules.once_reason):
        found = once_reason(*arguments)
        return None if found == reason else found
    return [mock.patch.object(rules, "once_reason", patched)]


@mistake(lambda: bits.main("encoder"))
def a_random_operator_recomputed_without_its_state():
    return without("random")


@mistake(lambda: draws.main("dropout"))
def a_random_operator_recomputed_with_another_state():
    def anew(state, operator, *arguments, **settings):
        return operator(*arguments, **settings)
    return [mock.patch.object(module, "run_with_rng_state", anew) for module in (nodes, remat.draws)]


@mistake(case("random_operators"))
def a_mask_of_another_layout():
    def contiguous(graph, node, operand, mask, probability, draw=prepare._draw_mask):
        return draw(graph, node, operand, torch.empty_like(mask, memory_format=torch.contiguous_format), probability)
    return [mock.patch.object(prepare, "_draw_mask", contiguous)]


@mistake(case("buffer_read_then_mutated"), case("input_mutated"))
def an_input_mutated_between():
    return [mock.patch.object(joint.Joint, "reads_mutated", lambda self, node: False)]


@mistake(case("collectives"))
def a_collective_recomputed():
    def told(node, tag=rules.tag):
        return CheckpointPolicy.MUST_RECOMPUTE if nodes.is_collective(node) else tag(node)
    return [mock.patch.object(rules, "tag", told), mock.patch.object(rules, "check_graph", lambda module: None)]


@mistake(case("must_save"))
def a_tag_ignored():
    return [mock.patch.object(rules, "tag", lambda node: None)]


@mistake(case("must_recompute"))
def another_tag_ignored():
    return [mock.patch.object(rules, "tag", lambda node: None)]


@mistake(case("cached_plans"))
def a_cached_plan_of_another_budget_returned():
    plans = {}

    def solve(rows, budget_bytes, *effort, solve=_planner.solve):
        key = json.dumps(rows)
        if key not in plans:
            plans[key] = solve(rows, budget_bytes, *effort)
        return plans[key]
    return [mock.patch.object(remat._backend._planner, "solve", solve)]


for fact in ("torch", "planner", "kernels", "left", "counted", "sizes", "whole", "costs", "recomputable",
             "random"):
    MISTAKES[f"a_key_without_{fact}"] = lambda: [], [lambda fact=fact: keys.main(fact)]


# With plans for Inductor's kernels.

@mistake(with_inductor("random_operators"))
def a_random_operator_recomputed_with_inductor():
    return without("random")


@mistake(with_inductor("buffer_read_then_mutated"))
def an_input_mutated_between_with_inductor():
    return an_input_mutated_between()


@mistake(with_inductor("collectives"))
def a_collective_recomputed_with_inductor():
    return a_collective_recomputed()


@mistake(with_inductor("must_save"))
def a_tag_ignored_with_inductor():
    return a_tag_ignored()


@mistake(with_inductor("must_recompute"))
def another_tag_ignored_with_inductor():
    """Only what is made of tangents passes for the backward pass."""
    def all_else(graph, _):
        after = joint.after_border(graph.nodes)
        return {node for node in graph.nodes if node not in after}
    return [mock.patch.object(prepare, "_of_forward_pass", all_else)]


@mistake(with_inductor("cached_plans"))
def a_cached_plan_of_another_budget_with_inductor():
    fits = []

    def fit(*arguments, fit=fused.fit):
        fits.append(fit(*arguments))
        return fits[0]
    return [mock.patch.object(fused, "fit", fit)]


@mistake(with_inductor("settings_of_the_account"))
def other_settings_than_those_of_the_account():
    """Inductor keeps freed buffers, and runs kernels in another order than the plan."""
    return [mock.patch.object(fused, "AS_PLANNED", {})]


@mistake(with_inductor("settings_of_the_account"))
def a_guard_that_is_not_set():
    def fit(*arguments, fit=fused.fit):
        return dataclasses.replace(fit(*arguments), settings={})
    return [mock.patch.object(fused, "fit", fit)]


@mistake(lambda: peaks.convolution_kernels())
def scratch_of_convolutions_forgotten():
    return [mock.patch.dict(scratch.ON_CPU, {torch.ops.aten.convolution.default: lambda operands, results: 0})]


@mistake(foreign_nodes.main)
def a_class_mistaken():
    def of(node, of=classes.of):
        return classes.POINTWISE if of(node) == classes.REDUCTION else of(node)
    return [mock.patch.object(classes, "of", of)]


@mistake(foreign_nodes.main)
def a_view_that_has_bytes_of_its_own():
    return [mock.patch.object(module, "is_view", not_a_view) for module in (nodes, joint, foreign)]


@mistake(foreign_nodes.main)
def bytes_of_values_halved():
    return [mock.patch.object(foreign, "bits", lambda tensor: 4 * tensor.element_size())]


@mistake(foreign_nodes.main)
def an_operand_forgotten():
    def read(self, node, read=foreign.Foreign._read):
        return read(self, node)[:1]
    return [mock.patch.object(foreign.Foreign, "_read", read)]


def account():
    with kernels.cache(), kernels.KINDS["without-loops"].compiling():
        peaks_inductor.compare(*ACCOUNTED)


@mistake(account)
def buffers_that_get_no_memory():
    return [mock.patch.object(lowered, "_stays_inside", lambda scheduler, name: True)]


# Of many graphs.

def breaks():
    several.main("three_breaks")


def blocks():
    several.main("twelve_blocks")


@mistake(blocks)
def a_variant_given_to_the_wrong_call():
    """The first block's calls get what was chosen for the last one."""
    def wrong(self, graph, key, variant_of=remat._backend.Backend._variant_of):
        mine = [*graph.chosen]
        return variant_of(self, graph, mine[-1 - mine.index(key)]) if key in mine else None
    return [mock.patch.object(remat._backend.Backend, "_variant_of", wrong)]


@mistake(blocks)
def a_call_counted_twice():
    def plan(record, room_bytes, plan=steps.plan):
        record.calls.insert(1, record.calls[1])
        return plan(record, room_bytes)
    return [mock.patch.object(steps, "plan", plan)]


@mistake(breaks)
def a_graph_forgotten():
    def plan(record, room_bytes, plan=steps.plan):
        forgotten = record.calls[1].graph
        record.calls = [call for call in record.calls if call.graph is not forgotten]
        record.finish()
        return plan(record, room_bytes)
    return [mock.patch.object(steps, "plan", plan)]


@mistake(breaks)
def a_shared_input_counted_twice():
    """As a result of one call and as an input of the next."""
    def value(self, tensor, rounding, born):
        return self.values.setdefault(object(), calls.Value(tensor, rounding, born))
    return [mock.patch.object(calls.Record, "value", value), mock.patch.object(calls.Record, "known", lambda *_: None)]


def compiled_blocks():
    several_compiled.main("four_blocks")


@mistake(compiled_blocks)
def a_compiled_variant_given_to_the_wrong_call():
    return a_variant_given_to_the_wrong_call()


@mistake(compiled_blocks)
def an_account_of_half_of_what_is_kept():
    def half(one, found, accounted=fused.accounted):
        return accounted(one, dataclasses.replace(found, kept_bytes=found.kept_bytes // 2,
                                                  backward_peak_bytes=found.backward_peak_bytes // 2))
    return [mock.patch.object(fused, "accounted", half)]


@mistake(compiled_blocks)
def what_was_planned_taken_for_an_account():
    def planned(one, _):
        return dataclasses.replace(one, accounted=True, option=dataclasses.replace(
            one.planned, backward_peak_bytes=one.planned.backward_peak_bytes // 2))
    return [mock.patch.object(fused, "accounted", planned)]


@mistake(lambda: several.main("variant_that_needs_guards"))
def a_variant_that_needs_guards_run():
    def again(graph, variant):
        graph.compiled[variant] = graph._compile(variant, variants._copied(graph.module), graph.fakes)
    return [mock.patch.object(variants.Graph, "_compile_again", again)]


@mistake(lambda: several.main("bounds_of_a_graph"))
def a_bound_of_less_memory():
    """That of half of what may be kept."""
    def bound(part, kept_bytes, *limits, bound=fronts.Part.bound):
        return bound(part, kept_bytes // 2, *limits)
    return [mock.patch.object(fronts.Part, "bound", bound)]


@mistake(lambda: several.main("bounds_of_a_graph"))
def a_kept_input_counted_twice():
    """In the bound of a graph."""
    def limited(facts, *limits, limited=fronts.Facts.limited_late):
        rows = limited(facts, *limits)
        return [row | ({"bytes": 2 * row["bytes"]} if row["name"].startswith("input") else {}) for row in rows]
    return [mock.patch.object(fronts.Facts, "limited_late", limited)]


@mistake(lambda: several.main("variants_of_a_graph_are_few"))
def variants_that_are_there_not_counted():
    return [mock.patch.object(steps, "held", lambda record: {call.graph: [] for call in record.calls})]


@mistake(proposals.of_fused_kernels)
def plans_of_others_left_out():
    return [mock.patch.object(remat.proposals, "cuts", lambda *_: ())]


@mistake(lambda: proposals.of_fused_kernels(proposals.CHECKPOINTS))
def what_no_tangent_leads_to_run_at_once():
    return [mock.patch.object(remat.proposals, "_late", lambda rows, border: set(range(len(rows))))]


@mistake(lambda: proposals.of_fused_kernels(proposals.CHECKPOINTS))
def small_parts_kept_though_their_operator_runs_again():
    return [mock.patch.object(remat.fused, "Unrolled", lambda *given, parts_again: remat.unroll.Unrolled(*given))]


@mistake(lambda: ranks.main("views"))
def a_plan_of_another_rank():
    return [mock.patch.object(ranks, "trains", ranks.trains_deaf)]


@mistake(lambda: ranks.main("interpreted", "views"))
def a_plan_of_another_rank_with_inductor():
    return a_plan_of_another_rank()


def red(patches, test):
    """Whether `test` notes a failure under the patches."""
    kept, harness.faults = harness.faults, []
    try:
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            test()
        return bool(harness.faults)
    except Exception:
        return True
    finally:
        harness.faults = kept
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def main(*names):
    for name in names or MISTAKES:
        patches, tests = MISTAKES[name]
        noticed = [red(patches(), test) for test in tests]
        harness.check(any(noticed), f"planted and not noticed: {name.replace('_', ' ')}")
        print(f"  {name}: noticed {noticed}", flush=True)
