# SPDX-License-Identifier: Apache-2.0
"""Graphs and plans through ctypes. Models of remat-graph, read in their text form and built call by call, are byte for byte
its files. Plans and reports are those of remat-compile, whatever is left to be chosen, and outlive graph and options. What
is called out of order, of another graph or cannot be written has a message, and leaves no file.

    test_compiled.py BUILD"""
import pathlib
import re
import sys

from library import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from harness import check

SMALL = "--width 32 --heads 2 --vocab 97 --context 32 --layers 2 --batch 4".split()
MODELS = {"gpt2": [*SMALL, "--dropout", "0.1", "--make-vocab-size-divisible-by", "8"],
          "llama": [*SMALL, "--dtype", "bf16", "--lora", "2", "--kv-heads", "1"],
          "bert": [*SMALL, "--moments", "bf16", "--dtype", "bf16"],
          "mlp": "--layers 2 --width 16 --vocab 11 --batch 4 --optimizer sgd".split()}
MIDDLE = "--width 256 --heads 4 --vocab 512 --context 128 --layers 4 --batch 8".split()
LINES = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_bool)
TYPE = r"(?P<dtype>\w+)\[(?P<shape>[^]]*)\]"


class Text:
    """A graph's text form (docs/ir.md), rebuilt by calls."""

    def __init__(self, so, text):
        self.so, self.lengths = so, {}
        name = re.match(r'graph "(.*)"', text)[1]
        self.graph = Graph(so, name)
        for line in text.splitlines()[1:]:
            word = line.partition(" ")[0]
            if word:
                getattr(self, f"add_{word}", self.add_node)(line)
        so.call("remat_graph_builder_finish", self.graph.handle)

    def number(self, word):
        return self.lengths[word] if word in self.lengths else int(word)

    def shape(self, words):
        return [self.number(word) for word in words.split(",") if word]

    def add_symbol(self, line):
        _, name, _, value = line.split()
        length = c.c_int64()
        self.so.call("remat_graph_builder_add_symbol", self.graph.handle, name.encode(), c.c_int64(int(value)), c.byref(length))
        self.lengths[name] = length.value

    def add_config(self, line):
        config = re.sub(r"\\(.)", r"\1", line[len('config "'):-1])
        self.so.call("remat_graph_builder_describe", self.graph.handle, config.encode(), None)

    def add_optimizer(self, line):
        settings = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}  # of sgd, too, which does not have them in its text
        settings |= {key: float(value) for key, value in re.findall(r"(\w+) = ([^,} ]+)", line)}
        end = line.partition("}")[2]
        optimizer = sized(Optimizer, no_master="no_master" in end, bf16_moments="bf16_moments" in end, **settings)
        optimizer.kind = line.split()[1].encode()
        self.so.call("remat_graph_builder_set_optimizer", self.graph.handle, c.byref(optimizer))

    def add_source(self, line):
        role, name, rest = re.match(r"(\w+) %(\S+) : (.*)", line).groups()
        parts = re.match(TYPE, rest)
        value = self.graph.value(name, parts["dtype"], self.shape(parts["shape"]))
        initial = re.search(r"= (normal|constant)\(([^)]*)\)", rest)
        if initial:
            numbers = [float(number) for number in initial[2].split(", ")] + [0.0]
            value.initializer, value.init_mean, value.init_std = initial[1].encode(), numbers[0], numbers[1]
        value.role = role.encode()
        value.trainable = role == "parameter" and " frozen" not in rest
        value.no_decay = " no_decay" in rest
        value.unpadded_rows = int((re.search(r" unpadded (\d+)", rest) or [0, 0])[1])
        number = c.c_uint32()
        self.so.call("remat_graph_builder_add_input", self.graph.handle, c.byref(value), c.byref(number))
        self.graph.values[name] = number.value

    add_input = add_parameter = add_state = add_source

    def add_output(self, line):
        self.so.call("remat_graph_builder_add_output", self.graph.handle, self.graph.values[line.split("%")[1]])

    def attribute(self, key, text):
        if text.startswith("[") or text in self.lengths:
            words = text.strip("[]").replace(" ", "").split(",")
            numbers = [self.number(word) for word in words if word]
            return sized(Attribute, key=key.encode(), integers=(c.c_int64 * len(numbers))(*numbers), integer_count=len(numbers))
        return sized(Attribute, key=key.encode(), number=float(text))

    def add_node(self, line):
        results, _, call = line.partition(" = ")
        call, _, end = call.partition(" phase ")
        words, _, attributes = call.partition(" { ")
        op, *inputs = words.split()
        outputs = []
        for result in re.finditer(r"%(?P<name>\S+) : " + TYPE + r"(?P<role> [a-z]\w*)?", results):
            value = self.graph.value(result["name"], result["dtype"], self.shape(result["shape"]))
            value.role = result["role"].strip().encode() if result["role"] else None
            outputs.append(value)
        given = [self.attribute(key, text) for key, text in re.findall(r"(\w+) = (\[[^]]*\]|[^,} ]+)", attributes)]
        scope = re.search(r'scope "(.*)"', end)
        first = c.c_uint32()
        node = sized(Node, op=op.encode(), phase=end.split()[0].encode(), scope=scope[1].encode() if scope else None,
                     input_count=len(inputs), output_count=len(outputs), attribute_count=len(given),
                     inputs=(c.c_uint32 * len(inputs))(*(self.graph.values[name[1:]] for name in inputs)),
                     outputs=(Value * len(outputs))(*outputs), attributes=(Attribute * len(given))(*given))
        self.so.call("remat_graph_builder_add_node", self.graph.handle, c.byref(node), c.byref(first))
        for k, value in enumerate(outputs):
            self.graph.values[value.name.decode()] = first.value + k


def test_graphs(so, tools, folder):
    for name, options in MODELS.items():
        tools.must("graph", name, *options, "-o", folder / f"{name}.fbs")
        text = tools.must("graph", name, *options, "--text").stdout
        written = (folder / f"{name}.fbs").read_bytes()
        built = Text(so, text).graph.handle
        so.call("remat_graph_builder_write", so.context, built, str(folder / "built.fbs").encode())
        check((folder / "built.fbs").read_bytes() == written, f"{name}: another file")
        read = so.make("remat_graph_builder_read", so.context, str(folder / f"{name}.fbs").encode())
        so.call("remat_graph_builder_write", so.context, read, str(folder / "read.fbs").encode())
        check((folder / "read.fbs").read_bytes() == written, f"{name}: another file once it is read")
        for graph in (built, read):
            so.so.remat_graph_builder_destroy(c.byref(graph))


def test_constants(so, tools, folder):
    """Constants by calls and as text make one file; equal ones are one, and the plan has them though the graph is gone."""
    text = ["constant %k : f32[2,2] = [1.5, -inf, 0.1, -0.0]", "constant %more : f32[2,2] = [1.5, -inf, 0.1, 0.0]",
            "constant %ids : i32[2,2] = [-2147483648, 2147483647, 0, 1]"]
    numbers = [1.5, float("-inf"), .1, -.0]
    graph = Graph(so, "k")
    for name, value in (("k", numbers), ("more", [*numbers[:3], 0.])):
        graph.constant(name, "f32", [2, 2], value)
    graph.constant("ids", "i32", [2, 2], [-2**31, 2**31 - 1, 0, 1])
    check(graph.constant("again", "f32", [2, 2], numbers) == graph.values["k"], "equal constants are two")
    check(graph.constant("flat", "f32", [4], numbers) == graph.values["k"] + 3, "constants of other shapes are one")
    for what, message, arguments in (("few", "more or fewer than its elements", ("f32", [3], numbers)),
                                     ("nan", "is not a number", ("f32", [1], [float("nan")])),
                                     ("none", "no data", ("f32", [1], [])), ("bf16", "not f32 or i32", ("bf16", [1], [1]))):
        fails(what, 4, message, graph.constant, what, *arguments)
    graph.node("maximum", ["k", "more"], [("y", "f32", [2, 2])])
    graph.finish(["y"])
    so.call("remat_graph_builder_write", so.context, graph.handle, str(folder / "k.fbs").encode())
    source = ['graph "k"', *text, "constant %flat : f32[4] = [1.5, -inf, 0.1, -0.0]",
              "%y : f32[2,2] = maximum %k %more phase forward", "output %y"]
    (folder / "k.txt").write_text("\n".join(source))
    read = so.make("remat_graph_builder_read", so.context, str(folder / "k.txt").encode())
    so.call("remat_graph_builder_write", so.context, read, str(folder / "read.fbs").encode())
    check((folder / "read.fbs").read_bytes() == (folder / "k.fbs").read_bytes(), "constants: another file")
    made = Plan(so, folder / "k.txt")
    so.call("remat_compiled_write", so.context, made.compiled, str(folder / "own.plan").encode())
    tools.must("compile", folder / "k.txt", "-o", folder / "tool.plan")
    check((folder / "own.plan").read_bytes() == (folder / "tool.plan").read_bytes(), "constants: another plan")


class Plan:
    """One by options as of remat-compile; `failed`: its status."""

    def __init__(self, so, path, *words):
        self.so, self.compiled, self.failed = so, c.c_void_p(), 0
        graph = so.make("remat_graph_builder_read", so.context, str(path).encode())
        options = so.make("remat_compile_options_create", so.context)
        pairs = list(zip(words, [*words[1:], "--"]))
        for name, value in pairs:
            if name.startswith("--"):
                given = "true" if value.startswith("--") else str(value)
                so.call("remat_compile_options_set", options, name[2:].encode(), given.encode())
        try:
            so.call("remat_compiled_create", so.context, graph, options, c.byref(self.compiled))
        except Failure as failure:
            self.failed, self.message = failure.status, failure.message
        so.so.remat_compile_options_destroy(c.byref(options))
        so.so.remat_graph_builder_destroy(c.byref(graph))
        self.info = sized(CompiledInfo)
        if self.compiled:
            so.so.remat_compiled_get_info(self.compiled, c.byref(self.info))

    def report(self, json, path):
        lines = []
        write = LINES(lambda user, line, prose: lines.append(line.decode()))
        spec = sized(ReportSpec, json=json, plan_path=path.encode())
        self.so.call("remat_compiled_report", self.so.context, self.compiled, c.byref(spec), write, None)
        return "".join(line + "\n" for line in lines)

    def destroy(self):
        self.so.so.remat_compiled_destroy(c.byref(self.compiled))


def test_plans(so, tools, folder):
    tools.must("graph", "gpt2", *MIDDLE, "-o", folder / "model.fbs")
    near = ["--reserve", "1MB", "--budget"]
    for options in (["--recompute-granularity", "full", "--recompute-method", "uniform"], [*near, "64MB"],
                    [*near, "64MB", "--save", "h.0/attn/core"], [*near, "66MB", "--bind", "batch=auto:1..12"],
                    [*near, "45MB", "--ranks", "4", "--mesh", "dp=4"], [*near, "68MB", "--microbatches", "auto"],
                    [*near, "40MB", "--mesh", "dp=2,tp=2", "--sequence-parallel", "--zero", "1"]):
        made = Plan(so, folder / "model.fbs", *options, "--advise")
        check(not made.failed and made.info.planned, f"{options}: {made.failed}")
        so.call("remat_compiled_write", so.context, made.compiled, str(folder / "own.plan").encode())
        for json in (False, True):
            said = tools.must("compile", folder / "model.fbs", *options, "--format", "json" if json else "text",
                              "-o", folder / "tool.plan").stdout
            own = made.report(json, str(folder / "tool.plan"))
            check(own == said, f"{options}: another report:\n{own}\n{said}")
        check((folder / "own.plan").read_bytes() == (folder / "tool.plan").read_bytes(), f"{options}: another plan")
        if "--budget" not in options:
            tools.must("run", folder / "own.plan", "--ids", "zipf", "--steps", "1")
        made.destroy()


def test_refusals(so, tools, folder):
    options = ["--reserve", "1MB", "--budget", "50MB"]
    made = Plan(so, folder / "model.fbs", *options, "--advise")
    tool = tools("compile", folder / "model.fbs", *options, "--format", "json", "-o", folder / "none.plan")
    check(made.failed == 3 and f"error: {made.message}\n" in tool.stderr, f"{made.failed}: {made.message}")
    check(made.report(True, "") == tool.stdout and made.report(False, "") in tool.stderr, "another refusal")
    fails("bytes of no plan", 2, "there is no plan", so.call, "remat_compiled_write", so.context, made.compiled, b"none.plan")
    made.destroy()


def fails(what, status, message, *call):
    try:
        call[0](*call[1:])
        check(False, f"{what}: not refused")
    except Failure as failure:
        check(failure.status == status and message in failure.message, f"{what}: {failure}")


def wrong_shape(so):
    graph = Graph(so)
    graph.input("x", "f32", [4, 8])
    graph.node("neg", ["x"], [("y", "f32", [8, 4])])
    graph.finish(["y"])


def test_objects(so, folder):
    """Destroyed ones, those of another kind and none at all. This build has asserts."""
    graph = so.make("remat_graph_builder_read", so.context, str(folder / "mlp.fbs").encode())
    options = so.make("remat_compile_options_create", so.context)
    plan = so.make("remat_compiled_create", so.context, graph, options)
    trade = so.make("remat_trade_create", so.context, graph, options, plan)
    write = LINES(lambda *_: None)
    calls = {"graph": lambda it: so.call("remat_graph_builder_write", so.context, it, str(folder / "x.fbs").encode()),
             "options": lambda it: so.call("remat_compile_options_set", it, b"reserve", b"1MB"),
             "plan": lambda it: so.call("remat_compiled_write", so.context, it, str(folder / "x.plan").encode()),
             "curve": lambda it: so.call("remat_compiled_report", so.context, plan, c.byref(sized(ReportSpec, trade=it)), write, None)}
    objects = {"graph": graph, "options": options, "plan": plan, "curve": trade}
    for what, call in calls.items():
        for other, it in objects.items():
            if other == what:
                call(it)
            else:
                fails(f"{what}: {other}", 2, f"a {other} in place of a {what}", call, it)
    for what, call in calls.items():
        if what in ("graph", "plan"):
            fails("NULL", 2, f"there is no {what}: NULL", call, None)
    for what, kind in (("curve", "trade"), ("plan", "compiled"), ("options", "compile_options"), ("graph", "graph_builder")):
        copy = c.c_void_p(objects[what].value)
        getattr(so.so, f"remat_{kind}_destroy")(c.byref(objects[what]))
        check(not objects[what], f"{what}: destroyed, and not NULL")
        fails(what, 2, f"the {what} is destroyed", calls[what], copy)
        if what == "options":
            fails(what, 2, f"the {what} is destroyed", so.make, "remat_compiled_create", so.context, graph, copy)
        getattr(so.so, f"remat_{kind}_destroy")(c.byref(copy))


def test_misuse(so, folder):
    def read(path):
        return so.make("remat_graph_builder_read", so.context, str(path).encode())

    def parse(data):
        return so.make("remat_graph_builder_parse", so.context, b"given", data, len(data))
    options = so.make("remat_compile_options_create", so.context)
    fails("no file", 5, "none.fbs: No such file", read, folder / "none.fbs")
    fails("no graph", 4, "given:", parse, b"nothing")
    fails("a graph that ends", 4, "given:", parse, (folder / "mlp.fbs").read_bytes()[:200])
    graph = Graph(so)
    graph.input("x", "f32", [4, 8])
    fails("a plan too early", 2, "is not finished", so.make, "remat_compiled_create", so.context, graph.handle, options)
    fails("a file too early", 2, "is not finished", so.call, "remat_graph_builder_write", so.context, graph.handle, b"x.fbs")
    other, mine = Graph(so), graph.values["x"]
    other.input("x", "f32", [4, 8])
    k = other.constant("k", "f32", [1], [2.])
    for what, value, message in (("later", mine + 9, "no value so far"), ("another's", other.values["x"], "a value of another graph"),
                                 ("another's constant", k, "a value of another graph"), ("absent", 2**32 - 1, "no value")):
        value = c.c_uint32(value)
        fails(f"{what}: output", 4, f"the output is {message}", so.call, "remat_graph_builder_add_output", graph.handle, value)
        fails(f"{what}: state", 4, f"the state is {message}", so.call, "remat_graph_builder_add_update", graph.handle, value, mine)
        fails(f"{what}: update", 4, f"the new version is {message}", so.call, "remat_graph_builder_add_update", graph.handle, mine, value)
        graph.values[what] = value.value
        if what != "absent":
            fails(f"{what}: input", 4, f'node "y": input 1 is {message}', graph.node, "add", ["x", what], [("y", "f32", [4, 8])])
    fails("another shape", 4, "", wrong_shape, so)
    fails("an optimizer", 4, "accepted: none, adamw, sgd", so.call, "remat_graph_builder_set_optimizer", graph.handle,
          c.byref(sized(Optimizer)))
    for field, value, message in (("role", b"king", "role is unknown"), ("initializer", b"zero", "initializer is neither")):
        spec, number = graph.value("y", "f32", [4]), c.c_uint32()
        setattr(spec, field, value)
        fails(field, 4, message, so.call, "remat_graph_builder_add_input", graph.handle, c.byref(spec), c.byref(number))
    fails("a symbol", 4, "", so.call, "remat_graph_builder_add_symbol", graph.handle, b"a b", c.c_int64(4), c.byref(c.c_int64()))
    whole = read(folder / "mlp.fbs")
    fails("a symbol too late", 2, "takes nothing more", so.call, "remat_graph_builder_add_symbol", whole, b"n", c.c_int64(4),
          c.byref(c.c_int64()))
    made = so.make("remat_compiled_create", so.context, whole, options)
    fails("a folder that is none", 5, "none/x.plan", so.call, "remat_compiled_write", so.context, made, b"none/x.plan")
    so.call("remat_compiled_data", so.context, made, c.byref(c.c_void_p()), c.byref(c.c_size_t()))
    fails("cubins too late", 2, "before the plan's bytes", so.call, "remat_compiled_make_cubins", so.context, made,
          (c.c_char * 128)(128))
    so.so.remat_compiled_destroy(c.byref(made))
    so.so.remat_compiled_destroy(c.byref(made))
    check(not list(folder.glob("*remat-tmp*")), "temporary files are left")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    so, tools = Library(str(build / "compiler/library/libremat-compiler.so")), harness.Tools(build)
    with harness.scratch() as folder:
        folder = pathlib.Path(folder)
        test_graphs(so, tools, folder)
        test_constants(so, tools, folder)
        test_plans(so, tools, folder)
        test_refusals(so, tools, folder)
        test_misuse(so, folder)
        test_objects(so, folder)
    harness.finish()


main()
