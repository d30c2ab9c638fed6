# SPDX-License-Identifier: Apache-2.0
"""The time of an operator run by PyTorch's own kernels: launch, flops and bytes at the rates of a device description.
Only the ranking matters to a plan, and its percentages."""
import dataclasses
import functools
import json
import pathlib

import torch

from . import measured, nodes
from ._torch import flop_registry, tree_map
from .errors import Error
from .nodes import aten, hint, moved_bytes, tensors, value

MEASURED = "measured"  # costs of the device at hand, timed there
DEVICES = pathlib.Path(__file__).parent / "devices"
# They read as many bytes of their first operand as they write, wherever those lie.
GATHERS = (aten.embedding.default, aten.index.Tensor, aten.gather.default, aten.index_select.default)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Rates of a device, in elements' dtypes that matter: products run at `matmul_flops_per_s`."""
    name: str
    matmul_flops_per_s: float
    bytes_per_s: float
    launch_ns: float

    def time_ns(self, node):
        """Nanoseconds of one run of `node`."""
        read = {(nodes.storage(tensor), *map(hint, tensor.shape), *map(hint, tensor.stride())): moved_bytes(tensor)
                for operand in node.all_input_nodes for tensor in tensors(operand)}
        written = sum(moved_bytes(tensor) for tensor in tensors(node))
        moved = written + (written if node.target in GATHERS else sum(read.values()))
        return self.launch_ns + 1e9 * (flops(node) / self.matmul_flops_per_s + moved / self.bytes_per_s)


def flops(node):
    """By PyTorch's formulas: those of products, convolutions and attention; of other operators 0."""
    formula = flop_registry.get(getattr(node.target, "_overloadpacket", None))
    if formula is None:
        return 0

    def operand(argument):
        return value(argument) if isinstance(argument, torch.fx.Node) else argument
    return hint(formula(*tree_map(operand, node.args), **tree_map(operand, dict(node.kwargs)), out_val=value(node)))


@functools.lru_cache(maxsize=None)
def described(name):
    """The description of a device by its name: h100-sxm, cpu, ..."""
    path = DEVICES / f"{name}.json"
    if not path.is_file():
        known = sorted(entry.stem for entry in DEVICES.glob("*.json") if "." not in entry.stem)
        raise Error(f"costs '{name}' is neither '{MEASURED}' nor a device that remat knows: {', '.join(known)}")
    return json.loads(path.read_text())


def of_description(name, dtype):
    """The costs of a described device for products of `dtype`."""
    device = described(name)
    matmul = device["matmul"]
    rate = {torch.bfloat16: "bf16_flops_per_s", torch.float16: "fp16_flops_per_s"}.get(dtype, "fp32_flops_per_s")
    return Costs(f"{name} ({rate.split('_')[0]})", (matmul[rate] or matmul["fp32_flops_per_s"]) * matmul["efficiency"],
                 device["memory"]["peak_bytes_per_s"] * device["memory"]["efficiency"], device["launch_ns"])


def at_hand(device):
    """The name of the description for the device that tensors of a graph lie on, else of one that stands in for it."""
    return _own_description(device) or ("h100-sxm" if device.type == "cuda" else "cpu")


def _own_description(device):
    if device.type == "cuda":
        gpu = torch.cuda.get_device_name(device)
        for path in sorted(DEVICES.glob("*.json")):
            if "." not in path.stem and gpu in described(path.stem).get("cuda", {}).get("gpus", ()):
                return path.stem
    return "cpu" if device.type == "cpu" else None


def stand_in(costs, module):
    """What to tell the user if the costs of a graph are those of another device, or None."""
    device = device_of(module)
    if costs is not None or _own_description(device):
        return None
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return (f"there is no description of the device {name}: costs are those of {at_hand(device)}; name a nearer one in "
            'costs=, or pass costs="measured" or remat.Costs')


def device_of(module):
    """That of what a graph computes."""
    results = (tensor for node in module.graph.nodes if node.op == "call_function" for tensor in tensors(node))
    return next((tensor.device for tensor in results), torch.device("cpu"))


def facts(costs, inputs):
    """What the costs of a graph with these inputs are a function of, beside its operators."""
    if isinstance(costs, Costs):
        return dataclasses.asdict(costs)
    devices = {one.device for one in inputs if isinstance(one, torch.Tensor)}
    if costs == MEASURED:
        return measured.facts(sorted(devices, key=str))
    return [[name, described(name)] for name in ([costs] if costs else sorted(map(at_hand, devices)))]


def resolve(costs, module):
    """The costs for a joint graph: what the user gave, or the description of the device at hand."""
    if isinstance(costs, Costs):
        return costs
    products = [tensor for node in module.graph.nodes if node.op == "call_function" and flops(node)
                for tensor in tensors(node)[:1]]
    device = device_of(module)
    dtype = products[0].dtype if products else torch.float32
    if costs == MEASURED:
        return measured.of_graph(module, device, of_description(at_hand(device), dtype))
    return of_description(costs or at_hand(device), dtype)
