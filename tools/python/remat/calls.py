# SPDX-License-Identifier: Apache-2.0
"""The calls of planned graphs in a step, by what they run on, and the record of one step: the order of passes and the
storages that cross from one call to another.

A call is known by its graph, by the first parameter among its inputs, and by its number among such calls of the step. A
step ends where a forward pass begins while no call waits for its backward pass, or after the backward pass of the
step's first call. How long a storage lives is observed where the record was made; how long it must live under other
variants follows from what those keep."""
import itertools
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import outside
from ._torch import FakeTensor, current_graph_task_id, tree_leaves


def in_backward_pass():
    return current_graph_task_id() != -1


def parameter_module(model, arguments):
    """The module of the first parameter of a model among the arguments of a call."""
    return next((name.rpartition(".")[0] for name in _parameters(model, arguments)), "")


def _parameters(model, arguments):
    names = {} if model is None else {id(one): name for name, one in model.named_parameters()}
    return [names[id(one)] for one in arguments if id(one) in names]


def named(layer, call, number=None):
    """A call, for messages; `number` is that of its graph, where it is not the report's."""
    return f"{layer or 'a call'} (graph {number or call.graph.planning.graph.number}, call {call.key[1] + 1} of it)"


class Value:
    """A storage: it is there after the start of the event `born`, and was last seen at the start of `last_seen`.
    `inputs_of` and `results_of` are pairs of a call and an index."""

    def __init__(self, tensor, rounding, born):
        self.storage = StorageWeakRef(tensor.untyped_storage())
        self.bytes = -(-tensor.untyped_storage().nbytes() // rounding) * rounding
        self.born = self.last_seen = born
        self.inputs_of, self.results_of = [], []

    def ends(self, kept):
        """The last event at whose start it lives, where kept(call) has the inputs and results that wait for a call's
        backward pass."""
        read = max((call.forward for call, _ in self.inputs_of), default=self.born)
        explained = max([read, *self._waits(lambda call: call.variant)])
        held = self.last_seen if self.last_seen > explained else read
        return max([held, *self._waits(kept)])

    def _waits(self, kept):
        return [call.backward for call, index in self.inputs_of if index in kept(call).kept_inputs] + [
            call.backward for call, index in self.results_of if index in kept(call).kept_results]


class Call:
    """`forward` and `backward` are events of the record; `tangents` are values that its backward pass is given."""

    def __init__(self, graph, key, arguments):
        self.graph, self.key, self.variant, self.function = graph, key, None, None
        self.forward = self.backward = None
        self.layer = ""  # the module of the first parameter
        self.tangents, self.done, self._node = set(), False, lambda: None
        self.given = {StorageWeakRef(one.untyped_storage()) for one in arguments if isinstance(one, torch.Tensor)}

    @property
    def node(self):
        """Of autograd; None once nothing can run its backward pass."""
        return self._node()

    def follow(self, node):
        self._node = weakref.ref(node)


class Record:
    """Of one step: passes are events, numbered in their order. `parameters` are names of those that graphs are
    given; the `reason` says why it is made."""

    def __init__(self, model=None, reason=""):
        self.reason = reason
        self.model, self.calls, self.count, self.values, self.parameters = model, [], 0, {}, set()

    def add(self, call, arguments):
        call.forward = self.begin()
        self.calls.append(call)
        call.layer = parameter_module(self.model, arguments)
        self.parameters |= set(_parameters(self.model, arguments))

    def begin(self):
        """A pass begins: its event."""
        for one in outside.local_gradients(self.model) if self.model is not None else ():
            self.value(one, 1, self.count - 1)  # made between two passes, as FSDP2 does
        for value in self.values.values():
            if not value.storage.expired():
                value.last_seen = self.count
        self.count += 1
        return self.count - 1

    def value(self, tensor, rounding, born):
        reference = StorageWeakRef(tensor.untyped_storage())
        if reference not in self.values:
            self.values[reference] = Value(tensor, rounding, born)
        return self.values[reference]

    def known(self, tensor):
        return self.values.get(StorageWeakRef(tensor.untyped_storage()))

    def finish(self):
        """Without calls whose backward pass never ran."""
        self.calls = [call for call in self.calls if call.done]
        finished = set(self.calls)
        for value in self.values.values():
            value.inputs_of = [one for one in value.inputs_of if one[0] in finished]
            value.results_of = [one for one in value.results_of if one[0] in finished]

    def forget(self, tensors):
        """What is counted elsewhere."""
        for one in tensors:
            self.values.pop(StorageWeakRef(one.untyped_storage()), None)

    def live(self, kept):
        """Bytes of values at the start of each event; what a backward pass is given is in its own peak."""
        change = [0] * (self.count + 1)
        ends = {value: value.ends(kept) for value in self.values.values()}
        for value, end in ends.items():
            if end > value.born:
                change[value.born + 1] += value.bytes
                change[end + 1] -= value.bytes
        live = list(itertools.accumulate(change))
        for call in self.calls:
            live[call.backward] -= sum(value.bytes for value in call.tangents
                                       if value.born < call.backward <= ends[value])
        return live


class Calls:
    """Of one backend. `variant_of(graph, key)` is what runs for a call, or None for one that no plan knows;
    `finished(record)` is told of a recorded step before the next one begins, `remark` of what no plan can hold to. With
    a model inputs of calls count wherever they come from. `wishes`: of many ranks, which record the same steps."""

    def __init__(self, variant_of, finished, remark, model, wishes=None):
        self.variant_of, self.finished, self.remark, self.model = variant_of, finished, remark, model
        self.wishes, self.fresh = wishes, True
        self.waiting, self.numbers, self.first, self.record, self.current = [], {}, None, None, None
        self.wanted = ""  # why the next step is to be recorded, if it is

    def want_record(self, reason):
        """Of the next step, unless one is being made."""
        if self.record is None:
            self.wanted = self.wanted or reason

    def begun(self):
        """Whether calls of the step wait for their backward pass."""
        self.waiting = [call for call in self.waiting if not call.done and call.node is not None]
        return bool(self.waiting)

    def run(self, graph, arguments):
        """A call of a graph of Dynamo's."""
        if any(isinstance(one, FakeTensor) for one in arguments):  # as DistributedDataParallel's optimizer compiles
            return graph.run(None)[1](*arguments)
        if in_backward_pass():
            return self._run_again(graph, arguments)
        if not self.begun() or self.first.done:
            self._begin_step()
        call = self._call(graph, arguments)
        self.first = self.first or call
        if self.record is not None:
            self.record.add(call, arguments)
        self.current = call
        try:
            results = call.function(*arguments)
        finally:
            self.current = None
        self._follow(call, results)
        return results

    def _begin_step(self):
        record, trained = self.record, self.first is not None and self.first.done
        self.record, self.first, self.numbers = None, None, {}
        if record is not None:
            record.finish()
            self.finished(record)
        if self._is_to_be_recorded(trained):
            self.wanted, self.record = "", Record(self.model, self.wanted or "another rank wanted it")

    def _is_to_be_recorded(self, trained):
        """Many ranks record the same steps: the first one, and later ones that any of them wants; they tell each other
        after steps that `trained`."""
        fresh, self.fresh = self.fresh, False
        if self.wishes is None or fresh:
            return bool(self.wanted)
        return trained and self.wishes.exchange(bool(self.wanted))

    def _call(self, graph, arguments):
        parameter = next((id(one) for one in arguments if isinstance(one, torch.nn.Parameter)), None)
        number = self.numbers.get((graph, parameter), 0)
        self.numbers[graph, parameter] = number + 1
        call = Call(graph, (parameter, number), arguments)
        variant = self.variant_of(graph, call.key)
        if variant is None and (self.waiting or not graph.whole):
            self.want_record(f"no plan knew {self._name(call, arguments)}")
        call.variant, call.function = graph.run(variant)
        if variant is not None and call.variant is not variant:
            self.want_record(f"{self._name(call, arguments)} needs another variant")
            self.remark(f"graph {graph.planning.graph.number}: a variant that was planned needs guards that Dynamo has "
                        "not checked, so another one runs until a plan without it is made")
        return call

    def _name(self, call, arguments):
        return named(parameter_module(self.model, arguments), call)

    def _run_again(self, graph, arguments):
        """Within a backward pass, as the user's own checkpoint does: by the variant that ran before."""
        self.remark("a planned graph is called inside the user's own checkpoint, which runs it again in the backward "
                    "pass: its plan does not hold; remove the checkpoint")
        given = Call(graph, None, arguments).given
        before = [call for call in self.waiting if call.graph is graph]
        variant = max(before, key=lambda call: len(call.given & given)).variant if before else None
        return graph.run(variant)[1](*arguments)

    def _follow(self, call, results):
        node = self._node(results)
        if node is None:
            return
        record = self.record
        call.follow(node)
        self.waiting.append(call)

        def before(tangents):
            if record is not None and call.backward is None:
                call.backward = record.begin()
                known = [record.known(one) for one in tangents if one is not None]
                call.tangents = {value for value in known if value is not None}

        def after(gradients, _):
            if record is not None and not call.done:
                for one in gradients:
                    if one is not None:
                        record.value(one, call.graph.rounding, call.backward)
            call.done = True
        node.register_prehook(before)
        node.register_hook(after)

    def _node(self, results):
        """The autograd node of the call that just ran; results may be views of what it made, or of its inputs."""
        known = {id(call.node) for call in self.waiting}
        for result in tree_leaves(results):
            node = result.grad_fn if isinstance(result, torch.Tensor) else None
            while node is not None and not isinstance(node, torch.autograd.function.BackwardCFunction):
                node = next((one for one, _ in node.next_functions if one is not None), None)
            if node is not None and id(node) not in known:
                return node
        return None

    def watched(self, graph, run):
        """The forward pass of a graph, which notes the storages that it is given and that it leaves."""
        def forward(arguments):
            call, record = self.current, self.record
            if record is None or call is None or call.graph is not graph:
                return run(arguments)
            for index, one in enumerate(arguments):
                if isinstance(one, torch.Tensor) and index not in graph.static and self._counts(one):
                    record.value(one, graph.rounding, call.forward - 1).inputs_of.append((call, index))
            results = run(arguments)
            for index, one in enumerate(results[:graph.planning.result_count]):
                if isinstance(one, torch.Tensor):
                    record.value(one, graph.rounding, call.forward).results_of.append((call, index))
            return results
        forward._boxed_call = True
        return forward

    def _counts(self, tensor):
        return self.model is not None or tensor.grad_fn is not None or self.record.known(tensor) is not None
