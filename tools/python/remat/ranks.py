# SPDX-License-Identifier: Apache-2.0
"""Many ranks that train one model, under DistributedDataParallel or FSDP2: rank 0's costs and decisions are
everybody's, so that plans are equal where measured times differ. A rank whose graph is another is an error."""
import contextlib
import datetime
import itertools

import torch
import torch.distributed as distributed

from ._torch import DTensor, FSDPModule, disable_current_modes
from .errors import Error, Refused

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


def agree(group, rows, layer):
    """Rows of a graph with rank 0's times; an error names the first node that differs from rank 0's."""
    if group is None:
        return rows
    what = f"compiles a graph for {layer or 'a call without parameters'}"
    first = told(group, [row.plain() for row in rows], what)
    differs = next((index for index, (row, other) in enumerate(zip(rows, first))
                    if any(row.plain().get(key) != other.get(key) for key in SAME)),
                   min(len(rows), len(first)) if len(rows) != len(first) else None)
    fault = "" if differs is None else _difference(rows, first, differs)
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


def _difference(rows, first, index):
    here, there = (one[index]["name"] if index < len(one) else "no node"
                   for one in ([row.plain() for row in rows], first))
    sizes = [one[index]["bytes"] if index < len(one) else 0 for one in ([row.plain() for row in rows], first)]
    return f"{here} of {sizes[0]} bytes, on rank 0 {there} of {sizes[1]} bytes"


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
