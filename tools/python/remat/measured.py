# SPDX-License-Identifier: Apache-2.0
"""Times of operators on the device at hand, each timed once and kept in the user's cache folder.

A file for each device and version of PyTorch, which is replaced as a whole: a reader finds the old one or the new one.
The key of a time has the operator, shapes, strides and dtypes of its operands, and all other arguments."""
import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import tempfile
import time
import uuid

import torch
from torch import fx

from . import nodes
from ._torch import OpOverload, disable_current_modes, tree_map
from .errors import Refused
from .nodes import hint, tensors, value

RUNS, ENOUGH_NS = 10, 20_000_000  # of one operator, whichever comes first


@dataclasses.dataclass(frozen=True)
class Measured:
    """`described` are the costs of what cannot be timed."""
    name: str
    described: object
    times_ns: dict

    def time_ns(self, node):
        found = self.times_ns.get(signature(node)) if can_be_timed(node) else None
        return self.described.time_ns(node) if found is None else found


def of_graph(module, device, described):
    """The costs of the operators of a graph; those not yet known are timed."""
    path = cache_file(device)
    known = read(path)
    missing = {signature(node): node for node in module.graph.nodes if can_be_timed(node)}
    found = {key: time_operator(node) for key, node in missing.items() if key not in known}
    if found:
        known = read(path) | found  # another process may have written meanwhile
        write(path, known)
    return Measured(f"measured on {device_name(device)}", described, known)


def facts(devices):
    """The names of what was measured; what was not yet is like nothing else."""
    return [[device_name(device), _digest(cache_file(device))] for device in devices]


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else str(uuid.uuid4())


def device_name(device):
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} of {platform.node()} with {torch.get_num_threads()} threads"


def cache_file(device):
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    name = f"{device_name(device)} torch {torch.__version__}".replace(" ", "-").replace("/", "-")
    return folder / "remat" / f"{name}.json"


def read(path):
    """The times of a file; one that is missing or damaged has none."""
    try:
        found = json.loads(path.read_text())
        return {key: None if time_ns is None else float(time_ns) for key, time_ns in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def write(path, times_ns):
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(times_ns, file, indent=0, sort_keys=True)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def can_be_timed(node):
    """An operator of PyTorch's own that changes nothing, communicates nothing, and makes tensors."""
    return (node.op == "call_function" and isinstance(node.target, OpOverload)
            and node.target.namespace in ("aten", "prims") and not nodes.is_mutable(node) and not nodes.is_view(node)
            and bool(tensors(node)))


def signature(node):
    def told(argument):
        if isinstance(argument, fx.Node):
            argument = value(argument)
        if isinstance(argument, torch.Tensor):
            return f"{argument.dtype}{_sizes(argument.shape)}{_sizes(argument.stride())}"
        return str(hint(argument)) if isinstance(argument, torch.SymInt) else repr(argument)
    return f"{node.target}({tree_map(told, node.args)}, {tree_map(told, dict(node.kwargs))})"


def _sizes(sizes):
    return [hint(size) for size in sizes]


def time_operator(node):
    """Nanoseconds of the fastest of some runs, or None where the operator does not run on such operands. Random numbers
    are drawn from a generator that is put back."""
    device = tensors(node)[0].device
    cuda = [device] if device.type == "cuda" else []
    plain = torch.autocast(device.type, enabled=False)
    with disable_current_modes(), torch.random.fork_rng(cuda), torch.no_grad(), plain:
        try:
            args, kwargs = tree_map(_real, node.args), tree_map(_real, dict(node.kwargs))
            node.target(*args, **kwargs)
            return _fastest(lambda: node.target(*args, **kwargs), _clock(device))
        except (RuntimeError, IndexError, TypeError, ValueError, Refused):
            return None


def _fastest(run, clock):
    best, begin = float("inf"), time.perf_counter_ns()
    for _ in range(RUNS):
        best = min(best, clock(run))
        if time.perf_counter_ns() - begin > ENOUGH_NS:
            break
    return best


def _clock(device):
    def on_host(run):
        begin = time.perf_counter_ns()
        run()
        return time.perf_counter_ns() - begin

    def on_gpu(run):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        begin.record()
        run()
        end.record()
        end.synchronize()
        return 1e6 * begin.elapsed_time(end)
    return on_gpu if device.type == "cuda" else on_host


def _real(argument):
    """An operand like the traced one: numbers from a normal distribution, indices 0."""
    if isinstance(argument, fx.Node):
        argument = value(argument)
    if isinstance(argument, torch.SymInt):
        return hint(argument)
    if not isinstance(argument, torch.Tensor):
        return argument
    shape, strides = _sizes(argument.shape), _sizes(argument.stride())
    count = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1 if 0 not in shape else 0
    whole = torch.zeros(count, dtype=argument.dtype, device=argument.device)
    if argument.dtype.is_floating_point and argument.element_size() > 1:
        whole.normal_()
    return whole.as_strided(shape, strides)
