# SPDX-License-Identifier: Apache-2.0
"""Bytes of a training step that no graph shows: parameters, buffers, gradients of earlier microbatches, optimizer
states, inputs; and what the update allocates for itself."""
import dataclasses

import torch

from . import nodes
from ._torch import DTensor, FSDPModule
from .errors import Error


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Bytes of states and of temporaries during an update; `unknown` names a class whose bytes are not known."""
    name: str = "none"
    state_bytes: int = 0
    update_bytes: int = 0
    foreach: bool = False
    unknown: bool = False


@dataclasses.dataclass(frozen=True)
class Outside:
    """All bytes that live through the whole step, by kind. `counted` is false without a model. `bucket_bytes`:
    gradients in the buckets of DistributedDataParallel. `gathered_bytes`: of FSDP2, parameters of the blocks that are
    gathered at one time."""
    counted: bool
    parameter_bytes: int = 0
    buffer_bytes: int = 0
    gradient_bytes: int = 0
    trained_bytes: int = 0
    optimizer: Optimizer = Optimizer()
    bucket_bytes: int = 0
    gathered_bytes: int = 0

    @property
    def step_bytes(self):
        return (self.parameter_bytes + self.buffer_bytes + self.gradient_bytes + self.optimizer.state_bytes
                + self.bucket_bytes + self.gathered_bytes)

    @property
    def update_peak_bytes(self):
        """While the optimizer updates: one gradient of each trained parameter lives."""
        return (self.parameter_bytes + self.buffer_bytes + self.optimizer.state_bytes + self.optimizer.update_bytes
                + max(self.trained_bytes, self.bucket_bytes))


def count(model, optimizer, accumulate):
    """`accumulate`: whether gradients of earlier microbatches live when the step begins; None: if there are any now."""
    if model is None:
        if optimizer is not None:
            raise Error("optimizer= without model=: the bytes of its states are only part of what lives outside")
        return Outside(False)
    if any(isinstance(module, FSDPModule) for module in model.modules()):
        return _of_shards(model, optimizer, accumulate)
    parameters = list(model.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    present = tensor_bytes(local_gradients(model))
    gradients = tensor_bytes(trained) if accumulate else 0 if accumulate is False else present
    buckets = 0
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        buckets = tensor_bytes(trained)
        gradients = 0 if model.gradient_as_bucket_view else gradients
    return Outside(True, tensor_bytes(parameters), tensor_bytes(model.buffers()), gradients, tensor_bytes(trained),
                   of_optimizer(optimizer), buckets)


def _of_shards(model, optimizer, accumulate):
    """Under FSDP2, counted at any time: a gathered parameter stands for its shard. Gathered at one time are the
    parameters of the root and of two blocks, the next of which is fetched."""
    units, mesh = {}, None
    for name, one in model.named_parameters():
        unit = _unit(model, name)
        units[unit] = units.get(unit, 0) + one.numel() * one.element_size()
        mesh = one.device_mesh if isinstance(one, DTensor) else mesh
    ranks = mesh.size() if mesh is not None else 1
    root = units.pop("", 0)
    gathered = root + sum(sorted(units.values())[-2:])
    shards = sum(-(-one.numel() // ranks) * one.element_size() for one in model.parameters())
    trained = sum(-(-one.numel() // ranks) * one.element_size() for one in model.parameters() if one.requires_grad)
    present = tensor_bytes(local_gradients(model))
    gradients = trained if accumulate else 0 if accumulate is False else present
    return Outside(True, shards, tensor_bytes(model.buffers()), gradients, trained, of_optimizer(optimizer), 0,
                   gathered)


def local_gradients(model):
    """Of parameters, or of their shards on this rank."""
    found = [one.grad for one in model.parameters() if one.grad is not None]
    return [one.to_local() if isinstance(one, DTensor) else one for one in found]


def _unit(model, name):
    """The module that gathers a parameter."""
    path = name.split(".")[:-1]
    while path and not isinstance(model.get_submodule(".".join(path)), FSDPModule):
        path.pop()
    return ".".join(path)


def tensor_bytes(values):
    return sum({nodes.storage(value): value.untyped_storage().nbytes() for value in values}.values())


def of_optimizer(optimizer):
    """States that exist after the first step, from the class and its settings; of another class those of now."""
    if optimizer is None:
        return Optimizer()
    name = type(optimizer).__name__
    groups = [(group, [one for one in group["params"] if one.requires_grad]) for group in optimizer.param_groups]
    rule = RULES.get(type(optimizer))
    known = sum(value.numel() * value.element_size() for state in optimizer.state.values()
                for value in state.values() if isinstance(value, torch.Tensor) and value.dim())
    if rule is None:
        return Optimizer(name, known, 0, unknown=True)
    states = sum(rule[0](group, one) for group, ones in groups for one in ones)
    update = max((_update(rule[1], group, ones) for group, ones in groups), default=0)
    return Optimizer(name, max(states, known), update, any(_foreach(group, ones) for group, ones in groups))


def _size(parameter):
    parameter = parameter.to_local() if isinstance(parameter, DTensor) else parameter
    return parameter.numel() * parameter.element_size()


def _adam(group, parameter):
    return (3 if group.get("amsgrad") else 2) * _size(parameter)


def _sgd(group, parameter):
    return _size(parameter) if group["momentum"] else 0


def _adafactor(group, parameter):
    if parameter.dim() < 2:
        return _size(parameter)
    rows = parameter.numel() // parameter.shape[-1]
    columns = parameter.numel() // parameter.shape[-2]
    return (rows + columns) * parameter.element_size()


def _adam_copies(group, foreach):
    """Roots of the second moments, which the foreach form divides in place; a decayed gradient."""
    return (1 if foreach else 2) + bool(group["weight_decay"] and not group.get("decoupled_weight_decay"))


def _sgd_copies(group, _):
    return int(bool(group["weight_decay"]))


# How many bytes of state a parameter has, and how many values of a parameter's size its update holds at once.
RULES = {
    torch.optim.AdamW: (_adam, _adam_copies),
    torch.optim.Adam: (_adam, _adam_copies),
    torch.optim.SGD: (_sgd, _sgd_copies),
    torch.optim.Adafactor: (_adafactor, lambda group, foreach: 2),
}


def _foreach(group, parameters):
    """PyTorch's default: all parameters at once where they are on an accelerator."""
    if group.get("fused"):
        return False
    if group.get("foreach") is not None:
        return group["foreach"]
    return bool(parameters) and all(one.device.type != "cpu" for one in parameters)


def _update(copies, group, parameters):
    if group.get("fused") or not parameters:
        return 0
    sizes = [_size(one) for one in parameters]
    foreach = _foreach(group, parameters)
    return copies(group, foreach) * (sum(sizes) if foreach else max(sizes))


def input_bytes(joint_inputs, static_inputs):
    """Bytes of the inputs of a graph that are neither parameters nor buffers."""
    static = set(static_inputs)
    primals = joint_inputs[0] if isinstance(joint_inputs, tuple) else joint_inputs
    sizes = {}
    for index, value in enumerate(primals):
        if isinstance(value, torch.Tensor) and index not in static:
            sizes[nodes.storage(value)] = nodes.storage_bytes(value)
    return sum(sizes.values())
