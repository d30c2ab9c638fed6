# SPDX-License-Identifier: Apache-2.0
"""Sessions of libremat: steps of a plan, its tensors by name.

What is written comes by DLPack from the host's memory and is copied once, into the session's own; what is read is a new
torch.Tensor. After an error the session goes on as if the call had not been made, unless a step had begun."""
import ctypes as c
import math

import torch

from ._library import TRACE, Failure, Handle, Session as Calls, SessionParams, TensorInfo, load_runtime, sized
from .errors import Error

DTYPES = {1: torch.float32, 2: torch.float16, 3: torch.bfloat16, 4: torch.int32}  # by remat_element
PARAMETER, GRADIENT, STATE = 1, 2, 3  # remat_tensor_role
SUFFIX = ".grad"


class Tensor:
    """One of the plan's, as the session has it."""

    def __init__(self, info):
        self.name, self.role, self.bytes = info.name.decode(), info.role, info.bytes
        self.dtype, self.shape = DTYPES[info.element], tuple(info.shape[:info.rank])

    def __str__(self):
        return f"{self.dtype} {list(self.shape)}"


class Session:
    """Made by Plan.session. `steps`: done so far; `finite`: whether loss and gradients of the last one were."""

    def __init__(self, plan, device, threads, seed):
        self._calls = Calls(load_runtime())
        so, context = self._calls.so, self._calls.context
        self._plan = Handle(self._calls, "remat_plan", context, b"plan", plan, c.c_size_t(len(plan)), by="load_memory")
        params = sized(SessionParams)
        so.remat_session_params_init(c.byref(params))
        params.device, params.threads, params.seed = device.encode() if device else None, threads, seed
        params.trace_copies = 1 << GRADIENT
        self._session = Handle(self._calls, "remat_session", context, self._plan.pointer, c.byref(params))
        self._session.plan = self._plan  # which outlives it
        self.tensors, info, index = {}, sized(TensorInfo), 0
        while so.remat_plan_get_tensor(self._plan.pointer, c.c_uint32(index), c.byref(info)):
            self.tensors[info.name.decode()] = Tensor(info)
            index += 1
        self.seed, self.steps, self.finite = seed, 0, True
        self._run("init")

    @property
    def device(self):
        return self._calls.so.remat_session_device(self._session.pointer).decode()

    def _run(self, entry):
        self._calls.call("remat_session_run", self._session.pointer, entry.encode())

    def _find(self, name):
        if name not in self.tensors:
            raise Error(f"the plan has no tensor {name!r} (it has {', '.join(self.tensors)})")
        return self.tensors[name]

    def _take(self, name, value):
        """The value where it lies, as a tensor."""
        to = self._find(name)
        found = value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)
        if found.device.type != "cpu":
            raise Error(f"{name}: it is on {found.device}, and sessions take the host's memory: .cpu() copies it")
        if found.dtype != to.dtype or tuple(found.shape) != to.shape:
            raise Error(f"{name}: {found.dtype} {list(found.shape)}, the plan's is {to}")
        if not found.is_contiguous():
            raise Error(f"{name}: its rows do not lie one after the other: .contiguous() copies it")
        return found.detach()

    def write(self, name, value):
        """A tensor by name, from anything with __dlpack__."""
        self._write({name: self._take(name, value)})

    def _write(self, taken):
        for name, found in taken.items():
            self._calls.call("remat_session_write", self._session.pointer, name.encode(), c.c_void_p(found.data_ptr()),
                             c.c_uint64(self.tensors[name].bytes))

    def read(self, name):
        tensor = self._find(name)
        out = torch.empty(tensor.shape, dtype=tensor.dtype)
        self._calls.call("remat_session_read", self._session.pointer, name.encode(), c.c_void_p(out.data_ptr()),
                         c.c_uint64(tensor.bytes))
        return out

    def _inputs(self, step, lr, given):
        """What a step reads besides what is given, as remat-run writes it."""
        words = [self.seed & 0xffffffff, self.seed >> 32, step & 0xffffffff, 0]
        own = {"rng": torch.tensor([word - (1 << 32) * (word >> 31) for word in words], dtype=torch.int32),
               "lr": torch.tensor([lr], dtype=torch.float32), "step": torch.tensor([step], dtype=torch.int32)}
        return {name: value.reshape(self.tensors[name].shape) for name, value in own.items()
                if name in self.tensors and name not in given}

    def step(self, *, lr=0.0, gradients=None, **inputs):
        """The loss of a training step. `gradients`: a dict that gets them, by the names of their parameters."""
        taken = {name: self._take(name, value) for name, value in inputs.items()}
        self._write({**taken, **self._inputs(self.steps + 1, lr, taken)})
        if gradients is None:
            self._run("train")
        else:
            self._trace(gradients)
        self.steps += 1
        loss = self.read("loss").item()
        self.finite = math.isfinite(loss) and not ("not_finite" in self.tensors and self.read("not_finite").item())
        return loss

    def evaluate(self, **inputs):
        """The loss without dropout; nothing is trained."""
        taken = {name: self._take(name, value) for name, value in inputs.items()}
        self._write({**taken, **self._inputs(self.steps + 1, 0.0, taken)})
        self._run("eval")
        return self.read("loss").item()

    def _trace(self, out):
        """Gradients as they are written; those that several microbatches add up are tensors of the plan, and read in the end."""
        failed = []

        def keep(_, event):
            try:
                for value in event.contents.values[:event.contents.value_count]:
                    name = value.name.decode()
                    if value.role == GRADIENT and name not in self.tensors:
                        of = name.removesuffix(SUFFIX)
                        data = torch.frombuffer(bytearray(c.string_at(value.data, value.bytes)), dtype=DTYPES[value.element])
                        out[of] = data.reshape(self._find(of).shape)
                return 0
            except Exception as error:
                failed.append(error)
                return 1

        trace = TRACE(keep)
        self._calls.so.remat_session_set_trace(self._session.pointer, trace, None)
        try:
            self._run("train")
        except Failure:
            if failed:
                raise failed[0] from None
            raise
        finally:
            self._calls.so.remat_session_set_trace(self._session.pointer, None, None)
        for name, tensor in self.tensors.items():
            if tensor.role == GRADIENT:
                out[name.removesuffix(SUFFIX)] = self.read(name)

    def state(self):
        """All that the next steps depend on: parameters and states of the optimizer by name, and in "steps" their number. Any
        session of the same graph that restores it goes on with the same bits."""
        last = {name: self.read(name) for name, tensor in self.tensors.items() if tensor.role in (PARAMETER, STATE)}
        return {"steps": self.steps, "seed": self.seed, "tensors": last}

    def restore(self, state):
        names = {name for name, tensor in self.tensors.items() if tensor.role in (PARAMETER, STATE)}
        if names != set(state["tensors"]):
            raise Error(f"the state is of another model: {', '.join(sorted(names ^ set(state['tensors'])))} is on one side alone")
        taken = {name: self._take(name, value) for name, value in state["tensors"].items()}
        self._write(taken)
        self.steps, self.seed = state["steps"], state["seed"]
