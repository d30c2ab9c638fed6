# SPDX-License-Identifier: Apache-2.0
"""Many ranks that train one model, under DistributedDataParallel or FSDP2: rank 0's costs and decisions are
everybody's, so that plans are equal where measured times differ. A rank whose graph is another is an error.

Ranks agree at the beginning of a step, never within one, where a rank may compile a graph that others do not."""
import contextlib
import datetime
import itertools

import torch
import torch.distributed as distributed

from ._torch import DTensor, FSDPModule, disable_current_modes
from .errors import Error, InfeasibleBudget, Refused

TIMEOUT = datetime.timedelta(minutes=10)  # of ranks that wait for one another: rank 0 plans meanwhile
SAME = ("name", "bytes", "inputs", "workspace", "lasting", "once")


def group_of(model):
    """A group of the ranks that a model is wrapped for, or None. It is not the group that trains the model: what ranks
    agree on must never be taken for a gradient where one of them asks alone."""
    wrapped = _wrapped_for(model)
    return wrapped and distributed.new_group(distributed.get_process_group_ranks(wrapped), TIMEOUT, "gloo",
                                             use_local_synchronization=True)


def _wrapped_for(model):
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return model.process_group
    if not any(isinstance(module, FSDPModule) for module in (model.modules() if model is not None else ())):
        return None
    meshes = {one.device_mesh for one in model.parameters() if isinstance(one, DTensor)}
    if len(meshes) != 1 or next(iter(meshes)).ndim != 1:
        raise Refused(f"FSDP2 over {len(meshes)} meshes, or one of several dimensions: only one of one dimension is "
                      "planned for")
    return next(iter(meshes)).get_group()


def told(group, value, what):
    """Rank 0's value. `what` says what a rank asks for, where others do not answer."""
    if group is None:
        return value
    held = [value]
    with _answered(group, what):
        distributed.broadcast_object_list(held, src=distributed.get_global_rank(group, 0), group=group)
    return held[0]


def decided(group, decide, what, speak=lambda found: found, hear=lambda spoken: spoken):
    """What rank 0 decides, which others hear as it is spoken of, or the InfeasibleBudget that deciding raises."""
    if group is None:
        return decide()
    if group.rank():
        spoken = told(group, None, what)
        if isinstance(spoken, InfeasibleBudget):
            raise spoken
        return hear(spoken)
    try:
        found = decide()
    except InfeasibleBudget as error:
        told(group, error, what)
        raise
    told(group, speak(found), what)
    return found


def agree(group, rows, layer):
    """Rows of a graph with rank 0's times; an error names the first node that differs from rank 0's."""
    if group is None:
        return rows
    what = f"asks for the costs of a graph for {layer or 'a call without parameters'}"
    plain = [row.plain() for row in rows]
    first = told(group, plain, what)
    differs = next((index for index, pair in enumerate(zip(plain, first))
                    if any(pair[0].get(key) != pair[1].get(key) for key in SAME)),
                   min(len(plain), len(first)) if len(plain) != len(first) else None)
    fault = "" if differs is None else _difference(plain, first, differs)
    _check_all(group, fault, "compile different graphs", what)
    for row, other in zip(rows, first):
        row.time_ns = other["time"]
    return rows


def agree_on_calls(group, calls, reason):
    """Descriptions of the calls of a step are rank 0's, or an error on all ranks names the first that differs. The step
    was recorded for a `reason`."""
    if group is None:
        return
    what = f"recorded a step, since {reason}"
    first = told(group, calls, what)
    differs = next((index for index, pair in enumerate(itertools.zip_longest(calls, first)) if pair[0] != pair[1]), None)
    here, there = ("" if differs is None else one[differs] if differs < len(one) else "nothing" for one in (calls, first))
    fault = here and f"call {differs + 1} of the step is {here}, on rank 0 {there}"
    _check_all(group, fault, "make different calls", what)


class Wishes:
    """Whether any rank wants a step to be recorded. Each says so when a step begins and hears the others when the next
    one does, so that none waits for another in between."""

    def __init__(self, group):
        self.group, self.said = group, None

    def exchange(self, wanted):
        found = self.said is not None and self._heard()
        flag = torch.tensor(int(wanted and not found), device="cpu")
        with disable_current_modes():
            self.said = flag, distributed.all_reduce(flag, distributed.ReduceOp.MAX, self.group, async_op=True)
        return found

    def _heard(self):
        flag, work = self.said
        with _answered(self.group, "begins a step"):
            work.wait()
            return bool(flag)


def _difference(rows, first, index):
    here, there = (f"{one[index]['name']} of {one[index]['bytes']} bytes" if index < len(one) else "no node"
                   for one in (rows, first))
    return f"{here}, on rank 0 {there}"


def _check_all(group, fault, differ, what):
    """Every rank fails if one does, so that none waits for another."""
    found = [None] * distributed.get_world_size(group)
    with _answered(group, what):
        distributed.all_gather_object(found, fault, group=group)
    faults = [f"rank {rank}: {text}" for rank, text in enumerate(found) if text]
    if faults:
        raise Error(f"ranks {differ}: {'; '.join(faults)}")


@contextlib.contextmanager
def _answered(group, what):
    try:
        with disable_current_modes():
            yield
    except RuntimeError as error:
        raise Error(f"rank {group.rank()} {what}; other ranks did not, or failed: within {TIMEOUT.total_seconds():g} s "
                    f"there was no answer ({str(error).splitlines()[0]})") from error
