# SPDX-License-Identifier: Apache-2.0
"""libremat-compiler and libremat by ctypes: their structs as in remat/compile.h, solve.h and remat.h, and how they are found."""
import ctypes as c
import functools
import os
import pathlib
import shutil
import weakref

from .errors import Error

VERSION = "0.1.0-202a5b56fd8a9c98"  # remat_compiler_version() of the headers that this file was written for
NAME = "libremat-compiler.so.0"
RUNTIME, RUNTIME_VERSION = "libremat.so.0", 4  # REMAT_API_VERSION of the remat.h that this file was written for


class Problem(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("node_count", c.c_uint32), ("mode_count", c.c_uint32),
                ("names", c.POINTER(c.c_char_p)), ("time", c.POINTER(c.c_double)), ("bytes", c.POINTER(c.c_uint64)),
                ("input_begin", c.POINTER(c.c_uint32)), ("inputs", c.POINTER(c.c_uint32)),
                ("workspace_bytes", c.POINTER(c.c_uint64)), ("lasting_bytes", c.POINTER(c.c_uint64)),
                ("once", c.POINTER(c.c_bool)), ("alias", c.POINTER(c.c_uint32)), ("modes", c.c_void_p),
                ("fused", c.POINTER(c.c_uint32)), ("static_bytes", c.c_uint64)]


class SolveSettings(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("budget_bytes", c.c_uint64), ("effort", c.c_double),
                ("is_cancelled", c.c_void_p), ("user", c.c_void_p)]


class SolvedInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("fits", c.c_bool), ("impossible", c.c_bool), ("cancelled", c.c_bool),
                ("peak_bytes", c.c_uint64), ("floor_bytes", c.c_uint64), ("floor_node", c.c_uint32),
                ("given_peak_bytes", c.c_uint64), ("time", c.c_double), ("given_time", c.c_double),
                ("lower_bound", c.c_double)]


class ValueSpec(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_char_p), ("rank", c.c_uint32),
                ("shape", c.c_int64 * 6), ("pin", c.c_char_p)]


class Attribute(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("key", c.c_char_p), ("number", c.c_double),
                ("integers", c.POINTER(c.c_int64)), ("integer_count", c.c_uint32)]


class NodeSpec(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("op", c.c_char_p), ("phase", c.c_char_p), ("scope", c.c_char_p),
                ("input_count", c.c_uint32), ("output_count", c.c_uint32), ("attribute_count", c.c_uint32),
                ("inputs", c.POINTER(c.c_uint32)), ("outputs", c.POINTER(ValueSpec)),
                ("attributes", c.POINTER(Attribute))]


class OrderInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("policy", c.c_char_p)] + [
        (name, c.c_uint64) for name in ("arena_bytes", "peak_bytes", "static_bytes", "reserve_bytes", "step_ns",
                                        "base_step_ns", "bound_step_ns", "floor_bytes")] + [("cut_short", c.c_bool)]


class OrderRun(c.Structure):
    _fields_ = [("node", c.c_uint32), ("round", c.c_uint32), ("kernel", c.c_uint32), ("stored", c.c_bool)]


class TradePoint(c.Structure):
    _fields_ = [("peak_bytes", c.c_uint64), ("step_ns", c.c_uint64), ("bound_step_ns", c.c_uint64), ("policy", c.c_char_p)]


class CompiledInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("planned", c.c_bool), ("policy", c.c_char_p), ("foreign", c.c_char_p)] + [
        (name, c.c_uint64) for name in ("budget_bytes", "reserve_bytes", "arena_bytes", "peak_bytes", "static_bytes", "step_ns",
                                        "base_step_ns", "bound_step_ns", "floor_bytes")] + [
            ("microbatches", c.c_uint32), ("ranks", c.c_uint32), ("bindings", c.c_char_p)]


class ReportSpec(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("json", c.c_bool), ("plan_path", c.c_char_p), ("trade", c.c_void_p),
                ("trade_path", c.c_char_p)]


WRITE_LINE = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_bool)


class Division(c.Structure):
    _fields_ = [("count", c.c_uint32), ("rank_stride", c.c_uint32), ("run", c.c_uint64)]


class Parts(c.Structure):
    _fields_ = [("count", c.c_uint32), ("divisions", Division * 2)]


class TensorInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("element", c.c_int), ("role", c.c_int), ("rank", c.c_uint32),
                ("shape", c.c_int64 * 6), ("bytes", c.c_uint64), ("index_bound", c.c_uint32), ("index_ignored", c.c_int32),
                ("parts", Parts), ("whole_rank", c.c_uint32), ("whole_shape", c.c_int64 * 6), ("unpadded_rows", c.c_int64)]


class TraceValue(c.Structure):
    _fields_ = [("name", c.c_char_p), ("role", c.c_int), ("element", c.c_int), ("instance", c.c_uint32), ("data", c.c_void_p),
                ("bytes", c.c_uint64), ("parts", Parts)]


class TraceEvent(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("command", c.c_uint32), ("name", c.c_char_p), ("scope", c.c_char_p),
                ("layer", c.c_int32), ("phase", c.c_char_p), ("instance", c.c_uint32), ("kernel", c.c_char_p)] + [
        (name, c.c_uint64) for name in ("start_ns", "duration_ns", "live_bytes", "flops", "moved_bytes", "predicted_ns")] + [
            ("value_count", c.c_uint32), ("values", c.POINTER(TraceValue)), ("stream", c.c_uint32)]


TRACE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(TraceEvent))


class SessionParams(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("device", c.c_char_p), ("threads", c.c_uint32), ("seed", c.c_uint64),
                ("memory", c.c_void_p), ("memory_bytes", c.c_uint64), ("trace", c.c_void_p), ("trace_user", c.c_void_p),
                ("trace_copies", c.c_uint32), ("ordinal", c.c_uint32), ("cuda_libraries", c.c_char_p), ("gemm_table", c.c_char_p),
                ("stream", c.c_void_p), ("engine", c.c_void_p), ("transfer_timeout_ns", c.c_uint64), ("ungrouped", c.c_int),
                ("cubin_cache", c.c_char_p), ("cuda_graph_ranks", c.c_int)]


def sized(kind, **fields):
    return kind(struct_size=c.sizeof(kind), **fields)


def array(kind, values):
    values = list(values)
    return (kind * len(values))(*values)


class Failure(Error):
    """What a call of the library returned; `status` is a remat_status."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Handle:
    """An object of the library, destroyed with this one; it keeps the context that it was made with."""

    def __init__(self, session, kind, *arguments, by="create"):
        self.session, self.kind, self.pointer = session, kind, c.c_void_p()
        session.call(f"{kind}_{by}", *arguments, c.byref(self.pointer))
        weakref.finalize(self, _destroy, session, kind, self.pointer)

    def info(self, kind):
        found = sized(kind)
        getattr(self.session.so, f"{self.kind}_get_info")(self.pointer, c.byref(found))
        return found

    def list(self, what, kind):
        count = c.c_uint32()
        items = getattr(self.session.so, f"{self.kind}_{what}")(self.pointer, c.byref(count))
        return list((kind * count.value).from_buffer_copy(c.string_at(items, count.value * c.sizeof(kind))))


def _destroy(session, kind, pointer):
    """The session is given, so that it outlives what was made with it, at the end of the process too."""
    getattr(session.so, f"{kind}_destroy")(c.byref(pointer))


class Session:
    """A context of the library, and calls with it."""

    def __init__(self, so=None):
        self.so = so or load()
        self.context = c.c_void_p(self.so.remat_context_create(None, None))

    def __del__(self):
        if getattr(self, "context", None):
            self.so.remat_context_destroy(c.byref(self.context))

    def call(self, name, *arguments):
        status = getattr(self.so, name)(*arguments)
        if status:
            raise Failure(status, self.so.remat_context_message(self.context).decode())


@functools.lru_cache(maxsize=None)
def load():
    """The library of the version that this package was written for."""
    path = find()
    so = c.CDLL(str(path))
    so.remat_compiler_version.restype = c.c_char_p
    version = so.remat_compiler_version().decode()
    if version != VERSION:
        raise Error(f"{path} is of version {version}, this package needs {VERSION}: install both from one release")
    so.remat_context_message.restype = c.c_char_p
    for name in ("remat_context_create", "remat_order_runs", "remat_solved_runs", "remat_trade_points"):
        getattr(so, name).restype = c.c_void_p
    return so


@functools.lru_cache(maxsize=None)
def load_runtime():
    """libremat, of the same place."""
    path = find(RUNTIME)
    so = c.CDLL(str(path))
    if so.remat_api_version() != RUNTIME_VERSION:
        raise Error(f"{path} has version {so.remat_api_version()} of its interface, this package needs {RUNTIME_VERSION}")
    so.remat_context_create.restype = c.c_void_p
    for name in ("remat_context_message", "remat_session_device", "remat_plan_entry_name"):
        getattr(so, name).restype = c.c_char_p
    return so


def find(name=NAME):
    """In lib of REMAT_PREFIX; else beside this file, as in a wheel (tools/wheel.sh); else in lib of the folder that
    remat-compile on PATH is installed in, or in its build tree."""
    prefix, tool = os.environ.get("REMAT_PREFIX"), shutil.which("remat-compile")
    own = pathlib.Path(__file__).with_name(name)
    if not prefix and own.is_file():
        return own
    if not prefix and not tool:
        raise Error(f"remat-compile is not on PATH: install remat {VERSION.split('-', maxsplit=1)[0]} "
                    "(docs/install.md), or set REMAT_PREFIX to where it is")
    root = pathlib.Path(prefix) if prefix else pathlib.Path(tool).resolve().parents[1]
    for folder in (*root.glob("lib*"), *root.glob("lib/*-linux-gnu"), root / "compiler/library", root / "runtime/exec"):
        if (folder / name).is_file():
            return folder / name
    raise Error(f"{name} is in no lib of {root}: install remat {VERSION.split('-', maxsplit=1)[0]} (docs/install.md)")
