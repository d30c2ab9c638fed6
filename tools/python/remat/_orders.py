# SPDX-License-Identifier: Apache-2.0
"""Graphs of foreign nodes (docs/ir.md) and their orders, by libremat-compiler."""
import ctypes as c
import json
import pathlib
import tempfile

from ._library import (Attribute, Failure, Handle, NodeSpec, OrderInfo, OrderRun, Session, TradePoint, ValueSpec, array,
                       sized)

INFEASIBLE = 3  # remat_status
RANK_MAX = 6
FREE = 1e18  # of what takes no time


class Graph:
    """A graph to add to, then to finish. Values and nodes are numbers; sizes are in elements of so many bits."""

    def __init__(self, name):
        self.session = Session()
        self.handle = Handle(self.session, "remat_graph_builder", self.session.context, name.encode())
        self.node_count = 0

    def input(self, name, bits, shape):
        found = c.c_uint32()
        self.session.call("remat_graph_builder_add_input", self.handle.pointer,
                          c.byref(_value((name, bits, shape, None))), c.byref(found))
        return found.value

    def node(self, op, inputs, results, phase, **attributes):
        """`results`: (name, bits, shape, pin) each. Returns the number of the first."""
        found = c.c_uint32()
        stated = [sized(Attribute, key=key.encode(), number=0 if isinstance(one, list) else one,
                        integers=array(c.c_int64, one) if isinstance(one, list) else None,
                        integer_count=len(one) if isinstance(one, list) else 0) for key, one in attributes.items()]
        spec = sized(NodeSpec, op=f"foreign_{op}".encode(), phase=phase.encode(), input_count=len(inputs),
                     output_count=len(results), attribute_count=len(stated), inputs=array(c.c_uint32, inputs),
                     outputs=array(ValueSpec, map(_value, results)), attributes=array(Attribute, stated))
        self.session.call("remat_graph_builder_add_node", self.handle.pointer, c.byref(spec), c.byref(found))
        self.node_count += 1
        return found.value

    def finish(self, outputs):
        for value in outputs:
            self.session.call("remat_graph_builder_add_output", self.handle.pointer, c.c_uint32(value))
        self.session.call("remat_graph_builder_finish", self.handle.pointer)

    def order(self, device, budget_bytes=None):
        """(OrderInfo, runs) of the fastest order within the budget, of all memory, or None."""
        with _options(self.session, device, budget_bytes) as options:
            try:
                order = Handle(self.session, "remat_order", self.session.context, self.handle.pointer, options.pointer)
            except Failure as failure:
                if failure.status != INFEASIBLE:
                    raise
                return None
            return order.info(OrderInfo), order.list("runs", OrderRun)

    def smallest_bytes(self, device):
        """The smallest peak of any order found."""
        with _options(self.session, device, None) as options:
            trade = Handle(self.session, "remat_trade", self.session.context, self.handle.pointer, options.pointer, None)
            return trade.list("points", TradePoint)[-1].peak_bytes


def _value(given):
    name, bits, shape, pin = given
    return sized(ValueSpec, name=name.encode(), dtype=f"b{bits}".encode(), rank=len(shape),
                 shape=(c.c_int64 * RANK_MAX)(*shape), pin=pin.encode() if pin else None)


class _options:
    """Options of the library, for one call: a device is a file."""

    def __init__(self, session, device, budget_bytes):
        self.session, self.device, self.budget_bytes = session, device, budget_bytes

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name) / "device.json"
        path.write_text(json.dumps(self.device))
        options = Handle(self.session, "remat_compile_options", self.session.context)
        given = {"target": path, "reserve": 0} | ({} if self.budget_bytes is None else {"budget": max(self.budget_bytes, 1)})
        for name, value in given.items():
            self.session.call("remat_compile_options_set", options.pointer, name.encode(), str(value).encode())
        return options

    def __exit__(self, *_):
        self.folder.cleanup()


def device(costs):
    """A device description with the rates of these costs; pointwise arithmetic is free, since memory bounds it."""
    rates = getattr(costs, "described", costs)
    products = {f"{kind}_flops_per_s": rates.matmul_flops_per_s for kind in ("fp32", "tf32", "bf16", "fp16")}
    return {"name": "costs", "source": costs.name, "capacity_bytes": 10**15, "reserve_bytes": 0,
            "launch_ns": rates.launch_ns,
            "memory": {"peak_bytes_per_s": rates.bytes_per_s, "efficiency": 1.0},
            "pointwise": {"peak_flops_per_s": FREE, "efficiency": 1.0},
            "matmul": {**products,
                       "efficiency": 1.0, "processors": 100, "tile_rows": 1, "tile_columns": 1},
            "attention": {"forward_efficiency": 1.0, "forward_half_keys": 0, "backward_efficiency": 1.0,
                          "backward_half_keys": 0, "half_width": 0}}
