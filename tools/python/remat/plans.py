# SPDX-License-Identifier: Apache-2.0
"""Graphs of remat, their plans, and sessions that run them, in this process.

    graph = remat.Graph("model.fbs")
    plan = graph.compile(budget="60GB", target="h100-sxm")
    print(plan.report)
    session = plan.session(seed=1)
    for batch in loader:
        loss = session.step(tokens=batch, targets=batch, lr=3e-4)"""
import ctypes as c
import json
import os

from ._library import WRITE_LINE, CompiledInfo, Handle, ReportSpec, Session as Calls, sized
from .errors import Error
from .sessions import Session


class Graph:
    """A graph from a file, remat-graph's or text (docs/ir.md)."""

    def __init__(self, path):
        self._calls = Calls()
        self._handle = Handle(self._calls, "remat_graph_builder", self._calls.context, os.fsencode(path), by="read")

    def write(self, path):
        self._calls.call("remat_graph_builder_write", self._calls.context, self._handle.pointer, os.fsencode(path))

    def compile(self, **options):
        """A plan. Options are those of remat-compile, with `_` for `-`: `budget="60GB"`, `loss_chunk="auto"`, `advise=True`; one
        that repeats is a list."""
        given = Handle(self._calls, "remat_compile_options", self._calls.context)
        for name, value in options.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                text = str(one).lower() if isinstance(one, bool) else str(one)
                self._calls.call("remat_compile_options_set", given.pointer, name.replace("_", "-").encode(), text.encode())
        return Plan(Handle(self._calls, "remat_compiled", self._calls.context, self._handle.pointer, given.pointer))


class Plan:
    """What Graph.compile makes."""

    def __init__(self, handle):
        self._handle, self._calls = handle, handle.session
        found = handle.info(CompiledInfo)
        for name, *_ in CompiledInfo._fields_[2:]:
            value = getattr(found, name)
            setattr(self, name, value.decode() if isinstance(value, bytes) else value)

    @property
    def report(self):
        """The text that remat-compile prints."""
        return self._report(as_json=False)

    def json(self):
        """What the JSON of remat-compile says."""
        return json.loads(self._report(as_json=True))

    def _report(self, as_json):
        lines = []
        write = WRITE_LINE(lambda user, line, prose: lines.append(line.decode(errors="replace")))
        spec = sized(ReportSpec, json=as_json)
        self._calls.call("remat_compiled_report", self._calls.context, self._handle.pointer, c.byref(spec), write, None)
        return "\n".join(lines)

    def write(self, path):
        self._calls.call("remat_compiled_write", self._calls.context, self._handle.pointer, os.fsencode(path))

    def bytes(self):
        """The plan's file."""
        data, count = c.c_void_p(), c.c_size_t()
        self._calls.call("remat_compiled_data", self._calls.context, self._handle.pointer, c.byref(data), c.byref(count))
        return c.string_at(data, count.value)

    def session(self, device=None, threads=0, seed=0):
        """Memory to run it in, with initial values of the seed. device: "cpu", "cuda"; None: as libremat chooses."""
        if self.ranks > 1:
            raise Error(f"the plan is for {self.ranks} ranks, and a session of Python has one")
        return Session(self.bytes(), device, threads, seed)
