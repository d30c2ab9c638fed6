# SPDX-License-Identifier: Apache-2.0
"""libremat-compiler by ctypes, as another language sees it: its structs and calls, laid out by hand from the headers."""
import array
import ctypes as c


class Value(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_char_p), ("rank", c.c_uint32),
                ("shape", c.c_int64 * 6), ("pin", c.c_char_p), ("role", c.c_char_p), ("initializer", c.c_char_p),
                ("init_mean", c.c_double), ("init_std", c.c_double), ("trainable", c.c_bool), ("no_decay", c.c_bool),
                ("unpadded_rows", c.c_int64), ("layout_axis", c.c_char_p), ("layout_dimension", c.c_uint32),
                ("layout_blocks", c.c_int64)]


class Optimizer(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kind", c.c_char_p)] + [
        (name, c.c_double) for name in ("beta1", "beta2", "epsilon", "weight_decay", "clip_norm")] + [
            ("no_master", c.c_bool), ("bf16_moments", c.c_bool)]


class Attribute(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("key", c.c_char_p), ("number", c.c_double),
                ("integers", c.POINTER(c.c_int64)), ("integer_count", c.c_uint32)]


class Node(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("op", c.c_char_p), ("phase", c.c_char_p), ("scope", c.c_char_p),
                ("input_count", c.c_uint32), ("output_count", c.c_uint32), ("attribute_count", c.c_uint32),
                ("inputs", c.POINTER(c.c_uint32)), ("outputs", c.POINTER(Value)),
                ("attributes", c.POINTER(Attribute))]


class OrderInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("policy", c.c_char_p)] + [
        (name, c.c_uint64) for name in ("arena_bytes", "peak_bytes", "static_bytes", "reserve_bytes", "step_ns",
                                        "base_step_ns", "bound_step_ns", "floor_bytes")] + [("cut_short", c.c_bool)]


class Run(c.Structure):
    _fields_ = [("node", c.c_uint32), ("round", c.c_uint32), ("kernel", c.c_uint32), ("stored", c.c_bool)]


class OrderValue(c.Structure):
    _fields_ = [("name", c.c_char_p), ("scope", c.c_char_p), ("action", c.c_char_p), ("reason", c.c_char_p),
                ("bytes", c.c_uint64), ("recomputable", c.c_bool), ("recompute_extra_ns", c.c_int64)]


class Point(c.Structure):
    _fields_ = [("peak_bytes", c.c_uint64), ("step_ns", c.c_uint64), ("bound_step_ns", c.c_uint64), ("policy", c.c_char_p)]


class Progress(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("best_ns", c.c_uint64), ("bound_ns", c.c_uint64), ("seen_count", c.c_uint32),
                ("to_see_count", c.c_uint32), ("least_bytes", c.c_uint64), ("attempt", c.c_char_p),
                ("attempt_count", c.c_uint32), ("planned_count", c.c_uint32), ("to_attempt_count", c.c_uint32),
                ("best_attempt", c.c_char_p), ("best_attempt_ns", c.c_uint64), ("divisions", c.c_bool), ("settled", c.c_bool),
                ("abandons", c.c_bool)]


class CompiledInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("planned", c.c_bool), ("policy", c.c_char_p), ("foreign", c.c_char_p)] + [
        (name, c.c_uint64) for name in ("budget_bytes", "reserve_bytes", "arena_bytes", "peak_bytes", "static_bytes", "step_ns",
                                        "base_step_ns", "bound_step_ns", "floor_bytes")] + [
            ("microbatches", c.c_uint32), ("ranks", c.c_uint32), ("bindings", c.c_char_p)]


class ReportSpec(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("json", c.c_bool), ("plan_path", c.c_char_p), ("trade", c.c_void_p),
                ("trade_path", c.c_char_p)]


class Mode(c.Structure):
    _fields_ = [("node", c.c_uint32), ("fused_begin", c.c_uint32), ("fused_end", c.c_uint32),
                ("workspace_bytes", c.c_uint64), ("time", c.c_double)]


class Problem(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("node_count", c.c_uint32), ("mode_count", c.c_uint32),
                ("names", c.POINTER(c.c_char_p)), ("time", c.POINTER(c.c_double)), ("bytes", c.POINTER(c.c_uint64)),
                ("input_begin", c.POINTER(c.c_uint32)), ("inputs", c.POINTER(c.c_uint32)),
                ("workspace_bytes", c.POINTER(c.c_uint64)), ("lasting_bytes", c.POINTER(c.c_uint64)),
                ("once", c.POINTER(c.c_bool)), ("alias", c.POINTER(c.c_uint32)), ("modes", c.POINTER(Mode)),
                ("fused", c.POINTER(c.c_uint32)), ("static_bytes", c.c_uint64)]


class SolvedInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("fits", c.c_bool), ("impossible", c.c_bool), ("cancelled", c.c_bool),
                ("peak_bytes", c.c_uint64), ("floor_bytes", c.c_uint64), ("floor_node", c.c_uint32),
                ("given_peak_bytes", c.c_uint64), ("time", c.c_double), ("given_time", c.c_double),
                ("lower_bound", c.c_double)]


class SolverInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("floor_bytes", c.c_uint64), ("given_peak_bytes", c.c_uint64),
                ("floor_node", c.c_uint32), ("cancelled", c.c_bool), ("given_time", c.c_double),
                ("least_time", c.c_double)]


IS_CANCELLED = c.CFUNCTYPE(c.c_bool, c.c_void_p)
PROGRESS = c.CFUNCTYPE(None, c.c_void_p, c.c_uint32, c.POINTER(SolvedInfo))


class SolveSettings(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("budget_bytes", c.c_uint64), ("effort", c.c_double),
                ("is_cancelled", IS_CANCELLED), ("user", c.c_void_p), ("seconds", c.c_double),
                ("progress", PROGRESS)]


def sized(kind, **fields):
    return kind(struct_size=c.sizeof(kind), **fields)


class Library:
    """A context and what is made with it. Failures raise Failure, with status and message."""

    def __init__(self, path):
        self.so = c.CDLL(path)
        self.so.remat_compiler_version.restype = c.c_char_p
        self.so.remat_context_create.restype = c.c_void_p
        self.so.remat_context_message.restype = c.c_char_p
        for name in ("remat_order_runs", "remat_order_values", "remat_trade_points", "remat_solved_runs"):
            getattr(self.so, name).restype = c.c_void_p
        self.context = c.c_void_p(self.so.remat_context_create(None, None))

    def call(self, name, *arguments):
        status = getattr(self.so, name)(*arguments)
        if status:
            raise Failure(status, self.so.remat_context_message(self.context).decode())

    def make(self, name, *arguments):
        handle = c.c_void_p()
        self.call(name, *arguments, c.byref(handle))
        return handle

    def list(self, name, handle, kind):
        count = c.c_uint32()
        items = getattr(self.so, name)(handle, c.byref(count))
        return list((kind * count.value).from_address(items)) if count.value else []


class Failure(Exception):
    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class Graph:
    def __init__(self, library, name="step"):
        self.library, self.values, self.nodes = library, {}, []
        self.handle = library.make("remat_graph_builder_create", library.context, name.encode())

    def value(self, name, dtype, shape, pin=None):
        return sized(Value, name=name.encode(), dtype=dtype.encode(), rank=len(shape),
                     shape=(c.c_int64 * 6)(*shape[:6]), pin=pin.encode() if pin else None)

    def input(self, name, dtype, shape):
        value = c.c_uint32()
        self.library.call("remat_graph_builder_add_input", self.handle, c.byref(self.value(name, dtype, shape)),
                          c.byref(value))
        self.values[name] = value.value

    def constant(self, name, dtype, shape, numbers):
        number, data = c.c_uint32(), array.array("f" if dtype == "f32" else "i", numbers).tobytes()
        self.library.call("remat_graph_builder_add_constant", self.handle, c.byref(self.value(name, dtype, shape)), data,
                          c.c_size_t(len(data)), c.byref(number))
        self.values[name] = number.value
        return number.value

    def node(self, op, inputs, outputs, phase="forward", scope=None, **attributes):
        """`outputs`: (name, dtype, shape) each."""
        given = [sized(Attribute, key=key.encode(), number=0 if isinstance(value, list) else value,
                       integers=(c.c_int64 * len(value))(*value) if isinstance(value, list) else None,
                       integer_count=len(value) if isinstance(value, list) else 0)
                 for key, value in attributes.items()]
        first = c.c_uint32()
        node = sized(Node, op=op.encode(), phase=phase.encode(), scope=scope.encode() if scope else None,
                     input_count=len(inputs), output_count=len(outputs), attribute_count=len(given),
                     inputs=(c.c_uint32 * len(inputs))(*(self.values.get(name, 1 << 31) for name in inputs)),
                     outputs=(Value * len(outputs))(*(self.value(*output) for output in outputs)),
                     attributes=(Attribute * len(given))(*given))
        self.library.call("remat_graph_builder_add_node", self.handle, c.byref(node), c.byref(first))
        for k, output in enumerate(outputs):
            self.values[output[0]] = first.value + k
        self.nodes.append(outputs[0][0])

    def finish(self, outputs):
        for name in outputs:
            self.library.call("remat_graph_builder_add_output", self.handle, self.values[name])
        self.library.call("remat_graph_builder_finish", self.handle)
